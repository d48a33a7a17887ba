"""How a stream lives and ends: one task reads, one writes, the first to end ends the other; no task outlives the call.

A malformed message ends the stream with its sentence, after the peer was told by its last words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import grpc.aio
from pathways_common.model.bounds import HELLO_TIMEOUT_NS, STOP_GRACE_NS
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.model.link import Verdict

from pathways_server.rpc.form import bad
from pathways_server.shell.peer import Peer


async def read_first(context: Any, what: str) -> bytes:
    """The first frame of a stream; raises PathwaysError if it does not come in time."""
    try:
        data = await asyncio.wait_for(context.read(), HELLO_TIMEOUT_NS / 1e9)
    except TimeoutError:
        raise fail(Reason.TIMED_OUT, f"the {what} sent no hello within {HELLO_TIMEOUT_NS // 10**9} s") from None
    if data is grpc.aio.EOF:
        raise bad("the stream ended before its hello", "nothing sent")
    return bytes(data)


def acknowledge(peer: Peer, sequence: int, acknowledged: int, item_count: int) -> bool:
    """Takes what a frame acknowledges; True if it may hold items. Raises PathwaysError if the numbers cannot be."""
    try:
        peer.link.acknowledge(acknowledged)
    except ValueError as error:
        raise bad("an acknowledgement of what was not sent", error) from error
    if sequence == 0:
        if item_count:
            raise bad("a frame with items has sequence 0", item_count)
        return False
    return True


def accept(peer: Peer, sequence: int, acknowledged: int, item_count: int) -> bool:
    """Takes the numbers of a frame; True if its items are new. Raises PathwaysError if the numbers cannot be."""
    if not acknowledge(peer, sequence, acknowledged, item_count):
        return False
    verdict = peer.link.accept(sequence)
    if verdict is Verdict.GAP:
        raise bad(f"frame {peer.link.received + 1} is missing before frame", sequence)
    return verdict is Verdict.NEW


class _Writes:
    """Writes to a stream, none of which is cancelled: gRPC cannot end a call whose write is still with it."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._current: asyncio.Future[None] | None = None

    async def write(self, data: bytes) -> None:
        """Returns when the stream has taken the message."""
        current = self._current = asyncio.ensure_future(self._context.write(data))
        # So that nobody is told of one that fails after its writer was cancelled.
        current.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(current)

    async def settled(self) -> None:
        """The last write has ended, or its peer takes nothing any more."""
        if self._current is not None and not self._current.done():
            await asyncio.wait({self._current}, timeout=STOP_GRACE_NS / 1e9)


async def run_stream(
    context: Any,
    peer: Peer,
    reading: Coroutine[Any, Any, None],
    severed: asyncio.Event,
    last_words: Callable[[Failure], object] | None = None,
) -> str:
    """Runs both directions until one ends, or it is severed; returns why. Raises PathwaysError for a malformed message."""
    writes = _Writes(context)
    reader = asyncio.create_task(reading, name="stream reader")
    writer = asyncio.create_task(peer.send_to(writes.write), name="stream writer")
    ending = asyncio.create_task(severed.wait(), name="stream severed")
    try:
        await asyncio.wait({reader, writer, ending}, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            return "another connection took its place"
        if writer.done():
            return "ended by the controller" if writer.exception() is None else "the connection broke"
        error = reader.exception()
        if error is None:
            return "the stream ended"
        if not isinstance(error, PathwaysError):
            raise error
        if last_words is not None:
            last_words(error.failure)
        peer.finish(None)
        await asyncio.wait({writer}, timeout=STOP_GRACE_NS / 1e9)
        raise error
    finally:
        for task in (reader, writer, ending):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(reader, writer, ending, return_exceptions=True)
        await writes.settled()
