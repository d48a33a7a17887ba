"""Calls of tools that ask for leaks: each has a number, a deadline and one answer, as the calls for traces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from pathways_common.model.bounds import LEAKS_TIMEOUT_NS
from pathways_common.model.failure import Reason, fail

from pathways_server.core import effects, events


class LeakCalls:
    """Lives in the event loop's thread. `post` gives events to the core."""

    def __init__(self, post: Callable[[Sequence[events.Event]], None], numbers_from: int = 0) -> None:
        self._post = post
        self._last_number = numbers_from
        self._waiting: dict[int, asyncio.Future[effects.LeaksFound]] = {}

    async def find(self) -> effects.LeaksFound:
        """What every host and the core say; raises PathwaysError (TIMED_OUT)."""
        self._last_number += 1
        number = self._last_number
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._post((events.LeaksRequested(number),))
            return await asyncio.wait_for(future, LEAKS_TIMEOUT_NS / 1e9)
        except TimeoutError:
            seconds = LEAKS_TIMEOUT_NS // 10**9
            sentence = f"the question for leaks was not answered within {seconds} s; the controller is busy, ask again"
            raise fail(Reason.TIMED_OUT, sentence, wait="leaks", retryable=True) from None
        finally:
            del self._waiting[number]

    def answer(self, effect: effects.LeaksFound) -> None:
        """The core has it; a caller that left is no matter."""
        future = self._waiting.get(effect.request_id)
        if future is not None and not future.done():
            future.set_result(effect)
