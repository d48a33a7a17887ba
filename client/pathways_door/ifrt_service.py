"""The face towards the client: versions, the session stream, and the host buffers beside it, as raw bytes.

Versions outside the client's offer abort it, so there is an error instead. A session's host buffers are named by its id,
which is random.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from pathways_common.model.bounds import CHUNK_BYTES
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.model.jaxlibs import SERVED
from pathways_common.process.logs import fields
from pathways_proto.ifrt import grpc_service_pb2, session_pb2

from pathways_door.bulk import Bulk
from pathways_door.envelope import Envelope, serialized
from pathways_door.errors import status_of
from pathways_door.hostbuffers import Data
from pathways_door.ifrt_session import IfrtSession
from pathways_door.transport import Transport
from pathways_door.upstream import Upstream

_LOG = logging.getLogger(__name__)
_SESSION_KEY = "ifrt-proxy-grpc-ifrt-session-metadata-bin"
_STORE_KEY = "ifrt-proxy-grpc-host-buffer-store-metadata-bin"
SECRET_KEY = "pathways_door_secret"
# The protocol numbers this door speaks, from jaxlib 0.8.0 on; the serialization number is always the client's own highest.
PROTOCOL_MIN, PROTOCOL_MAX = 19, 25


class IfrtService:
    """`open_upstream` gives every IFRT session its session stream; `close_upstream` gets it back with a reason."""

    def __init__(
        self,
        open_upstream: Callable[[], Awaitable[Upstream]],
        close_upstream: Callable[[Upstream, str], None],
        bulk: Bulk,
        secret: str | None,
        transport: Transport,
    ) -> None:
        self._open_upstream = open_upstream
        self._close_upstream = close_upstream
        self._bulk = bulk
        self._secret = secret
        self._transport = transport
        self._sessions: dict[int, IfrtSession] = {}

    def handler(self) -> grpc.GenericRpcHandler:
        """Serves xla.ifrt.proxy.GrpcIfrtService without (de)serializers: everything is bytes."""
        return grpc.method_handlers_generic_handler(
            "xla.ifrt.proxy.GrpcIfrtService",
            {
                "GetVersion": grpc.unary_unary_rpc_method_handler(self._get_version),
                "IfrtSession": grpc.stream_stream_rpc_method_handler(self._session),
                "HostBufferStore": grpc.stream_unary_rpc_method_handler(self._store),
                "HostBufferLookup": grpc.unary_stream_rpc_method_handler(self._lookup),
                "HostBufferDelete": grpc.unary_unary_rpc_method_handler(self._delete),
            },
        )

    async def _get_version(self, raw: bytes, context: Any) -> bytes:
        request = grpc_service_pb2.GrpcGetVersionRequest.FromString(raw)
        low, high = request.min_version.protocol_version, request.max_version.protocol_version
        chosen = min(high, PROTOCOL_MAX)
        if chosen < max(low, PROTOCOL_MIN):
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"the client speaks IFRT proxy protocol {low} to {high}, this door {PROTOCOL_MIN} to {PROTOCOL_MAX}; "
                f"install jaxlib {SERVED} where the client runs",
            )
        version = grpc_service_pb2.IfrtProxyVersion(
            protocol_version=chosen, ifrt_serdes_version_number=request.max_version.ifrt_serdes_version_number
        )
        return serialized(grpc_service_pb2.GrpcGetVersionResponse(version=version))

    # ---- the session stream -----------------------------------------------------------------------------------------

    async def _session(self, _requests: Any, context: Any) -> None:
        if not self._admitted(context):
            sentence = (
                f"initialization data {SECRET_KEY} does not match this door's secret; connect with pw.connect or `pathways run`"
            )
            await _refuse_first(context, Failure(Reason.UNAUTHENTICATED, sentence))
            return
        try:
            upstream = await self._open_upstream()
        except PathwaysError as error:
            await _refuse_first(context, error.failure)
            return
        session_id = secrets.randbits(62) | 1
        stream = self._transport.stream(context)
        session = self._sessions[session_id] = IfrtSession(session_id, upstream, self._bulk, stream.answered)
        _LOG.info("client connected", extra=fields(session=upstream.welcome.session_number))
        try:
            await stream.converse(session)
        finally:
            session.close()
            del self._sessions[session_id]
            _LOG.info("client gone", extra=fields(session=upstream.welcome.session_number))
            self._close_upstream(upstream, "the client disconnected")

    def _admitted(self, context: Any) -> bool:
        if self._secret is None:
            return True
        data = dict(context.invocation_metadata() or ()).get(_SESSION_KEY, b"")
        attributes = grpc_service_pb2.GrpcIfrtSessionMetadata.FromString(data).initialization_data.attributes
        sent = attributes[SECRET_KEY].string_value if SECRET_KEY in attributes else b""
        return hmac.compare_digest(sent, self._secret.encode())

    # ---- host buffers -----------------------------------------------------------------------------------------------

    async def _find(self, session_id: int, context: Any) -> IfrtSession:
        session = self._sessions.get(session_id)
        if session is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the session of this host buffer has ended")
            raise AssertionError("abort returned")
        return session

    async def _store(self, _requests: Any, context: Any) -> bytes:
        raw = dict(context.invocation_metadata() or ()).get(_STORE_KEY, b"")
        metadata = grpc_service_pb2.GrpcHostBufferStoreMetadata.FromString(raw)
        session = await self._find(metadata.session_id, context)
        self._transport.widen(context)
        data: Data = b""
        while (chunk := await context.read()) is not grpc.aio.EOF:
            part = grpc_service_pb2.GrpcHostBufferStoreRequest.FromString(chunk).data
            if not data:
                data = part
            else:
                data = data if isinstance(data, bytearray) else bytearray(data)
                data += part
            if len(data) > metadata.buffer_size:
                break
        if len(data) != metadata.buffer_size:
            came = "more" if len(data) > metadata.buffer_size else len(data)
            sentence = f"host buffer {metadata.handle} has {came} bytes instead of the {metadata.buffer_size} that it announced"
            await context.abort(grpc.StatusCode.DATA_LOSS, sentence)
        session.context.buffers.put(metadata.handle, data)
        return b""

    async def _lookup(self, raw: bytes, context: Any) -> None:
        request = grpc_service_pb2.GrpcHostBufferLookupRequest.FromString(raw)
        session = await self._find(request.session_id, context)
        data = session.context.buffers.read(request.handle)
        if data is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no host buffer {request.handle}")
            return
        view = memoryview(data)
        for start in range(0, max(1, len(view)), CHUNK_BYTES):
            chunk = grpc_service_pb2.GrpcHostBufferLookupResponse(data=bytes(view[start : start + CHUNK_BYTES]))
            await context.write(chunk.SerializeToString())

    async def _delete(self, raw: bytes, context: Any) -> bytes:
        request = grpc_service_pb2.GrpcHostBufferDeleteRequest.FromString(raw)
        session = await self._find(request.session_id, context)
        session.context.buffers.delete(request.handle)
        return b""


async def _refuse_first(context: Any, failure: Failure) -> None:
    """Answers the client's init with a failure, which JAX shows; there is no session."""
    raw = await context.read()
    if raw is not grpc.aio.EOF:
        metadata = session_pb2.IfrtRequest.FromString(raw).request_metadata
        await context.write(Envelope().refuse(metadata.op_id, metadata.user_context_id, status_of(failure)))
        # The client ends the stream when it has read this.
        await context.read()
