"""Tickets of reads are good until they are used, or until the controller takes them back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pathways_common.model.failure import KEPT, Failure, PathwaysError, Reason
from pathways_common.rpc.data_calls import Spent
from pathways_proto.v1 import sessions_pb2

from pathways_door.pending import Pending

Result = TypeVar("Result")
# Tickets for one read: each may be used up by a call that broke at its very end.
ASKED_MAX = 4
_LOSSES = (Reason.BUFFER_LOST, Reason.SLICE_LOST)
_WITHDRAWN = Failure(Reason.INTERNAL, "the controller took the ticket of a read back without saying why; report this")


class Stopped(Exception):
    """Nobody wants any more what was done."""


async def unless(stop: asyncio.Future[Any], work: Coroutine[Any, Any, Result]) -> Result:
    """What `work` gives; raises Stopped if `stop` is done before that. A host that is lost may never answer."""
    if stop.done():
        work.close()
        raise Stopped
    task = asyncio.ensure_future(work)
    stop.add_done_callback(lambda _: task.cancel())
    try:
        return await task
    except asyncio.CancelledError:
        if stop.done():
            raise Stopped from None
        raise


def helps_to_ask_again(error: PathwaysError) -> bool:
    """Of a loss the host knows only its own part; the controller names the cause, if it knows one. What is KEPT comes back."""
    return isinstance(error, Spent) or error.failure.reason in _LOSSES or KEPT in error.failure.metadata


class ReadTicket:
    """Made where the ticket is heard, since it may be taken back in the same breath; used once, or closed."""

    def __init__(self, pending: Pending, message: sessions_pb2.FetchTicket) -> None:
        self.source = message.source
        self.size_bytes = message.size_bytes
        self._pending = pending
        self._number = message.fetch_id
        self._taken: asyncio.Future[Failure] = asyncio.get_running_loop().create_future()
        pending.expect("fetched", self._number, lambda _, failure: self._taken.set_result(failure or _WITHDRAWN))

    def close(self) -> None:
        """Nothing more is to be heard of it."""
        self._pending.forget("fetched", self._number)

    async def while_good(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What `work` gives under the ticket; raises PathwaysError in the controller's words if that takes it back."""
        try:
            return await unless(self._taken, work)
        except Stopped:
            raise PathwaysError(self._taken.result()) from None
        finally:
            self.close()
