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


async def while_good(pending: Pending, ticket: sessions_pb2.FetchTicket, work: Coroutine[Any, Any, Result]) -> Result:
    """What `work` gives under a ticket; raises PathwaysError in the controller's words if it takes the ticket back.

    A host that is lost may never have heard of the read, and answers nothing then.
    """
    task = asyncio.ensure_future(work)
    taken: list[Failure] = []

    def withdrawn(_message: Any, failure: Failure | None) -> None:
        taken.append(failure or _WITHDRAWN)
        task.cancel()

    pending.expect("fetched", ticket.fetch_id, withdrawn)
    try:
        return await task
    except asyncio.CancelledError:
        if taken:
            raise PathwaysError(taken[0]) from None
        raise
    finally:
        pending.forget("fetched", ticket.fetch_id)
