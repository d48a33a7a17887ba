"""One IFRT session: requests in the client's order, each given to its handler, which sees to exactly one answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_proto.ifrt import session_pb2

from pathways_door.arrays import Arrays
from pathways_door.bulk import Bulk
from pathways_door.context import Context, Handler, Operation, failure_in
from pathways_door.devices import init_response
from pathways_door.makearrays import MakeArrays
from pathways_door.programs import Programs
from pathways_door.reshard import Reshards
from pathways_door.upstream import Upstream
from pathways_door.waits import Waits

_LOG = logging.getLogger(__name__)


class IfrtSession:
    """`handle` takes one serialized IfrtRequest; `wake` is called when there are answers to `take`, in any order."""

    def __init__(self, session_id: int, upstream: Upstream, bulk: Bulk, wake: Callable[[bool], None]) -> None:
        self.session_id = session_id
        self.upstream = upstream
        self.context = Context(upstream, bulk, wake)
        self._handlers: dict[str, Handler] = {"init_request": self._init}
        for group in (Arrays, MakeArrays, Programs, Reshards, Waits):
            self._handlers.update(group(self.context).handlers())

    def take(self) -> list[bytes]:
        """Answers not sent yet."""
        outbox = self.context.outbox
        answers = outbox[:]
        outbox.clear()
        return answers

    @property
    def crowded(self) -> bool:
        """Whether the controller is behind with what this client has sent."""
        return self.upstream.behind

    async def room(self) -> None:
        """Waits until the controller has caught up."""
        await self.upstream.caught_up()

    def handle(self, raw: bytes) -> None:
        """Handles one request; never waits, and raises only for bytes that are no request."""
        request = session_pb2.IfrtRequest.FromString(raw)
        metadata = request.request_metadata
        operation = Operation(metadata.op_id, metadata.user_context_id)
        member = request.WhichOneof("request")
        handler = self._handlers.get(member) if member is not None else None
        if handler is None or member is None:
            what = member or "a request this door does not know"
            self.context.refuse(operation, Failure(Reason.UNSUPPORTED, f"{what} is not supported by the Pathways door"))
            return
        try:
            handler(operation, getattr(request, member))
        except Exception as error:
            if not isinstance(error, PathwaysError):
                _LOG.exception("request failed", extra={"fields": {"request": member}})
            self.context.refuse(operation, failure_in(error))

    def _init(self, operation: Operation, _request: Any) -> None:
        self.context.reply_with(operation, counted=False, init_response=init_response(self.upstream.welcome, self.session_id))

    def close(self) -> None:
        """Cancels what still runs for this session."""
        self.context.close()
