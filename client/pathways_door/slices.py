"""The door's service for virtual slices: calls of the client process that travel on its session stream.

An add is answered once, with the slice or with the controller's own failure. Whoever stops waiting gives the slice back, so
none is held by nobody. While a call waits, the controller's first sentence about it goes to the client at once, as metadata.
A release is sent right behind the client's fence.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from typing import Any

import grpc
import grpc.aio
from pathways_common.model.bounds import FENCE_TIMEOUT_NS, SLICE_ANSWER_NS, SLICE_CHANGE_NS
from pathways_common.model.failure import Failure, Reason
from pathways_common.process.logs import fields
from pathways_common.rpc.convert import failure_to_proto
from pathways_proto.v1 import door_pb2, sessions_pb2

from pathways_door.callbacks import SECRET_KEY
from pathways_door.upstream import Upstream

_LOG = logging.getLogger(__name__)
WAITING_KEY = "pathways-slice-waiting-bin"


class _Wait:
    """One add under way: its answer, and what the controller said it waits for."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[tuple[Any, Failure | None]] = asyncio.get_running_loop().create_future()
        self.said = asyncio.Event()
        self.text = ""

    def done(self, message: Any, failure: Failure | None) -> None:
        if not self.answered.done():
            self.answered.set_result((message, failure))


class SliceHub:
    """The slices of one client process; they belong to its newest session."""

    def __init__(self, secret: str | None) -> None:
        self._secret = secret
        self._upstream: Upstream | None = None
        self._waits: dict[int, _Wait] = {}

    def attach(self, upstream: Upstream) -> None:
        """Takes this session for the calls from now on."""
        self._upstream = upstream
        waits = self._waits = {}
        upstream.listeners["slice_waiting"] = lambda message: _waiting(waits, message)

    def handler(self) -> grpc.GenericRpcHandler:
        """Serves pathways.v1.Slices."""
        add = grpc.unary_unary_rpc_method_handler(
            self._add,
            request_deserializer=sessions_pb2.AddSlice.FromString,
            response_serializer=sessions_pb2.SliceAdded.SerializeToString,
        )
        release = grpc.unary_unary_rpc_method_handler(
            self._release,
            request_deserializer=door_pb2.ReleaseSliceRequest.FromString,
            response_serializer=door_pb2.ReleaseSliceResponse.SerializeToString,
        )
        suspend = grpc.unary_unary_rpc_method_handler(
            self._suspend,
            request_deserializer=door_pb2.ChangeSliceRequest.FromString,
            response_serializer=sessions_pb2.SliceSuspended.SerializeToString,
        )
        resume = grpc.unary_unary_rpc_method_handler(
            self._resume,
            request_deserializer=door_pb2.ChangeSliceRequest.FromString,
            response_serializer=sessions_pb2.SliceResumed.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(
            "pathways.v1.Slices", {"Add": add, "Release": release, "Suspend": suspend, "Resume": resume}
        )

    async def _session(self, context: Any) -> Upstream:
        sent = dict(context.invocation_metadata() or ()).get(SECRET_KEY, "")
        if self._secret is not None and not hmac.compare_digest(str(sent).encode(), self._secret.encode()):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"metadata {SECRET_KEY} does not match this door's secret")
        if self._upstream is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "this door has no session to add a slice to")
            raise AssertionError("abort returned")
        return self._upstream

    # ---- adding -----------------------------------------------------------------------------------------------------

    async def _add(self, request: sessions_pb2.AddSlice, context: Any) -> sessions_pb2.SliceAdded:
        upstream, waits = await self._session(context), self._waits
        slice_id = request.slice_id = upstream.pending.number("slice_added")
        wait = waits[slice_id] = _Wait()
        teller = asyncio.get_running_loop().create_task(_tell(wait, context), name=f"slice-waiting-{slice_id}")
        upstream.ask("slice_added", slice_id, sessions_pb2.ClientOperation(add_slice=request), wait.done)
        limit_ns = SLICE_ANSWER_NS + (max(0, request.timeout_ns) if request.wait else 0)
        try:
            message, failure = await asyncio.wait_for(wait.answered, limit_ns / 1e9)
        except TimeoutError:
            _give_back(upstream, slice_id)
            needs = f" ({wait.text})" if wait.text else ""
            sentence = f"the controller did not say within {limit_ns / 1e9:g} s whether there is a slice{needs}; ask again later"
            message, failure = None, Failure(Reason.TIMED_OUT, sentence, retryable=True)
        except asyncio.CancelledError:
            _give_back(upstream, slice_id)
            raise
        finally:
            waits.pop(slice_id, None)
            if not wait.said.is_set():
                teller.cancel()
        if wait.said.is_set():
            # Metadata that is being sent must get there before the answer; cut short, it would take the whole call along.
            await teller
        if failure is None:
            return sessions_pb2.SliceAdded.FromString(message.SerializeToString())
        return sessions_pb2.SliceAdded(slice_id=slice_id, failure=failure_to_proto(failure))

    # ---- releasing --------------------------------------------------------------------------------------------------

    async def _release(self, request: door_pb2.ReleaseSliceRequest, context: Any) -> door_pb2.ReleaseSliceResponse:
        upstream = await self._session(context)
        sent = asyncio.Event()

        def act() -> None:
            _give_back(upstream, request.slice_id)
            sent.set()

        if not request.fence:
            act()
            return door_pb2.ReleaseSliceResponse()
        upstream.fences.after(request.fence, act)
        try:
            await asyncio.wait_for(sent.wait(), FENCE_TIMEOUT_NS / 1e9)
        except TimeoutError:
            sentence = (
                f"the work before the release of slice {request.slice_id} did not reach the door within "
                f"{FENCE_TIMEOUT_NS // 10**9} s; release it again when the cluster has caught up"
            )
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, sentence)
        finally:
            upstream.fences.withdraw(request.fence)
        return door_pb2.ReleaseSliceResponse()

    # ---- suspending and resuming ------------------------------------------------------------------------------------

    async def _suspend(self, request: door_pb2.ChangeSliceRequest, context: Any) -> Any:
        operation = sessions_pb2.ClientOperation(suspend_slice=sessions_pb2.SuspendSlice(slice_id=request.slice_id))
        return await self._change(request, context, "slice_suspended", operation, sessions_pb2.SliceSuspended)

    async def _resume(self, request: door_pb2.ChangeSliceRequest, context: Any) -> Any:
        operation = sessions_pb2.ClientOperation(resume_slice=sessions_pb2.ResumeSlice(slice_id=request.slice_id))
        return await self._change(request, context, "slice_resumed", operation, sessions_pb2.SliceResumed)

    async def _change(self, request: door_pb2.ChangeSliceRequest, context: Any, kind: str, operation: Any, answer: Any) -> Any:
        """Asks the controller behind the client's fence, and hands its answer over."""
        upstream, wait = await self._session(context), _Wait()

        def act() -> None:
            upstream.ask(kind, request.slice_id, operation, wait.done)

        if request.fence:
            upstream.fences.after(request.fence, act)
        else:
            act()
        try:
            message, failure = await asyncio.wait_for(wait.answered, (SLICE_CHANGE_NS + FENCE_TIMEOUT_NS) / 1e9)
        except TimeoutError:
            sentence = f"the controller did not answer about slice {request.slice_id} in time; ask again when it has caught up"
            message, failure = None, Failure(Reason.TIMED_OUT, sentence, retryable=True)
        finally:
            upstream.fences.withdraw(request.fence)
        if failure is None:
            return answer.FromString(message.SerializeToString())
        return answer(slice_id=request.slice_id, failure=failure_to_proto(failure))


def _give_back(upstream: Upstream, slice_id: int) -> None:
    upstream.push(sessions_pb2.ClientOperation(release_slice=sessions_pb2.ReleaseSlice(slice_id=slice_id)))


def _waiting(waits: dict[int, _Wait], message: sessions_pb2.SliceWaiting) -> None:
    wait = waits.get(message.slice_id)
    if wait is None:
        return
    if not wait.said.is_set():
        _LOG.info("a slice waits", extra=fields(slice=message.slice_id, text=message.text))
    wait.text = message.text
    wait.said.set()


async def _tell(wait: _Wait, context: Any) -> None:
    await wait.said.wait()
    await context.send_initial_metadata(((WAITING_KEY, wait.text.encode()),))
