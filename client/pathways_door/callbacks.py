"""Host callbacks of the client process.

Requests come down the session stream and go on to the client, results go back ahead of everything else. A request always gets
a result: when no client serves callbacks, or it goes away meanwhile, a failure.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import sys
from typing import Any

import grpc
import grpc.aio
from pathways_common.model.colocated import PRINT_CALLBACK_ID, PRINTED
from pathways_common.model.failure import Failure, Reason
from pathways_common.process.logs import fields
from pathways_common.rpc.convert import failure_to_proto
from pathways_proto.v1 import sessions_pb2, types_pb2

from pathways_door.upstream import Upstream

_LOG = logging.getLogger(__name__)
SECRET_KEY = "pathways-door-secret"
_NOBODY = Failure(Reason.UNSUPPORTED, "the client process serves no host callbacks; start it with `pathways run` or pw.connect")


class CallbackHub:
    """One client process's callbacks; the last stream it opened serves them."""

    def __init__(self, secret: str | None) -> None:
        self._secret = secret
        self._calls: dict[int, Upstream] = {}
        self._queue: asyncio.Queue[sessions_pb2.CallbackRequest] | None = None

    def attach(self, upstream: Upstream) -> None:
        """Takes the callback requests of this session."""
        upstream.listeners["callback_request"] = lambda message: self._requested(upstream, message)
        upstream.listeners["callback_cancelled"] = self._cancelled

    def _requested(self, upstream: Upstream, message: sessions_pb2.CallbackRequest) -> None:
        self._calls[message.call_id] = upstream
        if message.callback_id == PRINT_CALLBACK_ID:
            for operand in message.operands.arrays:
                print(PRINTED + operand.data.decode(errors="replace"), file=sys.stderr, flush=True)
            self._result(sessions_pb2.CallbackResult(call_id=message.call_id, results=types_pb2.CallbackArrays()))
            return
        if self._queue is None:
            self._fail(message.call_id, _NOBODY)
        else:
            self._queue.put_nowait(message)

    def _cancelled(self, message: sessions_pb2.CallbackCancelled) -> None:
        self._calls.pop(message.call_id, None)

    def _fail(self, call_id: int, failure: Failure) -> None:
        self._result(sessions_pb2.CallbackResult(call_id=call_id, failure=failure_to_proto(failure)))

    def _result(self, result: sessions_pb2.CallbackResult) -> None:
        upstream = self._calls.pop(result.call_id, None)
        if upstream is not None:
            upstream.push(sessions_pb2.ClientOperation(callback_result=result), urgent=True)

    def handler(self) -> grpc.GenericRpcHandler:
        """Serves pathways.v1.Callbacks."""
        serve = grpc.stream_stream_rpc_method_handler(
            self._serve,
            request_deserializer=sessions_pb2.CallbackResult.FromString,
            response_serializer=sessions_pb2.CallbackRequest.SerializeToString,
        )
        return grpc.method_handlers_generic_handler("pathways.v1.Callbacks", {"Serve": serve})

    async def _serve(self, _requests: Any, context: Any) -> None:
        sent = dict(context.invocation_metadata() or ()).get(SECRET_KEY, "")
        if self._secret is not None and not hmac.compare_digest(str(sent).encode(), self._secret.encode()):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"metadata {SECRET_KEY} does not match this door's secret")
        queue: asyncio.Queue[sessions_pb2.CallbackRequest] = asyncio.Queue()
        self._queue = queue
        # Tells the client that requests will now reach it.
        await context.send_initial_metadata(())
        writer = asyncio.get_running_loop().create_task(_forward(queue, context), name="callback-requests")
        try:
            while (result := await context.read()) is not grpc.aio.EOF:
                self._result(result)
        finally:
            writer.cancel()
            if self._queue is queue:
                self._queue = None
                for call_id in list(self._calls):
                    self._fail(call_id, Failure(Reason.CANCELLED, "the client process stopped serving its host callbacks"))
            _LOG.info("callback stream ended", extra=fields(calls=len(self._calls)))


async def _forward(queue: asyncio.Queue[sessions_pb2.CallbackRequest], context: Any) -> None:
    while True:
        await context.write(await queue.get())
