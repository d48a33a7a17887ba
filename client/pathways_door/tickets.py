"""Tickets of reads are good until they are used, or until the controller takes them back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_proto.v1 import sessions_pb2

from pathways_door.pending import Pending

Result = TypeVar("Result")
_WITHDRAWN = Failure(Reason.INTERNAL, "the controller took the ticket of a read back without saying why; report this")


class ReadTicket:
    """Made where the ticket is heard, since it may be taken back in the same breath; used once, or closed."""

    def __init__(self, pending: Pending, message: sessions_pb2.FetchTicket) -> None:
        self.source = message.source
        self.size_bytes = message.size_bytes
        self._pending = pending
        self._number = message.fetch_id
        self._taken: Failure | None = None
        self._work: asyncio.Future[Any] | None = None
        pending.expect("fetched", self._number, self._taken_back)

    def _taken_back(self, _message: Any, failure: Failure | None) -> None:
        self._taken = failure or _WITHDRAWN
        if self._work is not None:
            self._work.cancel()

    def close(self) -> None:
        """Nothing more is to be heard of it."""
        self._pending.forget("fetched", self._number)

    async def while_good(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What `work` gives under the ticket; raises PathwaysError in the controller's words if that takes it back.

        A host that is lost may never have heard of the read, and answers nothing then.
        """
        self._work = asyncio.ensure_future(work)
        if self._taken is not None:
            self._work.cancel()
        try:
            return await self._work  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            if self._taken is not None:
                raise PathwaysError(self._taken) from None
            raise
        finally:
            self.close()
