"""Questions to all hosts at once how they are, past everything that waits: urgent frames and one deadline.

The core has no part in it: it would only ask in its order, and this has to work while that stands still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from pathways_common.model.ids import HostName

from pathways_server.shell.peer import HostPeer


class DiagnosisCalls:
    """Lives in the event loop's thread."""

    def __init__(self, push: Callable[[HostPeer, bytes], None], numbers_from: int = 0) -> None:
        self._push = push
        self._last_number = numbers_from
        self._waiting: dict[tuple[HostName, int], asyncio.Future[Any]] = {}

    async def ask(self, peers: Iterable[HostPeer], item: Callable[[int], bytes], timeout_s: float) -> dict[HostName, Any]:
        """What each host said; those are missing that did not answer within the time."""
        self._last_number += 1
        number = self._last_number
        question, running = item(number), asyncio.get_running_loop()
        futures: dict[HostName, asyncio.Future[Any]] = {}
        for peer in peers:
            futures[peer.name] = self._waiting[peer.name, number] = running.create_future()
            self._push(peer, question)
        try:
            if futures:
                await asyncio.wait(futures.values(), timeout=timeout_s)
            return {host: future.result() for host, future in futures.items() if future.done()}
        finally:
            for host in futures:
                del self._waiting[host, number]

    def answer(self, host: HostName, number: int, said: Any) -> None:
        """A host has answered; late answers are no matter."""
        future = self._waiting.get((host, number))
        if future is not None and not future.done():
            future.set_result(said)
