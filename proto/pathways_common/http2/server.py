"""A gRPC server of our own for handlers written for grpc.aio: bytes, no TLS, no compression, coroutines that use the context.

Everything is in one thread and answers of one loop turn leave together, which is what makes it fast. A client that breaks the
protocol loses its connection, or only the call, and nobody else notices.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from pathways_common.http2 import frames
from pathways_common.http2.call import ServerCall
from pathways_common.http2.connection import DataReceived, Event, GoawayReceived, HeadersReceived, StreamReset
from pathways_common.http2.headers import Header, Metadata, encode, metadata_of, percent_encoded, timeout_ns
from pathways_common.http2.wire import Wire
from pathways_common.model.bounds import STOP_GRACE_NS
from pathways_common.process.logs import fields

_LOG = logging.getLogger(__name__)
# A host's name may stand for addresses that this machine does not have, as localhost does for ::1.
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_INTERNAL, _UNIMPLEMENTED = b"13", b"12"

Find = Callable[[str], "grpc.RpcMethodHandler | None"]


class _Details(NamedTuple):
    """What a generic handler is asked with."""

    method: str
    invocation_metadata: Metadata = ()


class Http2Server:
    """Add handlers, then `listen`; end it with `stop`."""

    def __init__(self) -> None:
        self._generic: list[grpc.GenericRpcHandler] = []
        self._methods: dict[str, grpc.RpcMethodHandler] = {}
        self._servers: list[asyncio.Server] = []
        self._connections: set[_ServerConnection] = set()

    def add(self, handler: grpc.GenericRpcHandler) -> None:
        """Serves the methods of a handler."""
        self._generic.append(handler)

    async def listen(self, host: str, port: int) -> int:
        """Listens, on all addresses of the host that this machine has, and returns the port; raises OSError if it cannot."""
        loop = asyncio.get_running_loop()
        bare = host[1:-1] if host.startswith("[") else host
        found = await loop.getaddrinfo(bare, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        missing: OSError | None = None
        for family, _, _, _, place in dict.fromkeys(found):
            try:
                listener = _bound(family, (place[0], port, *place[2:]))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
                continue
            port = int(listener.getsockname()[1])
            self._servers.append(await loop.create_server(self._connected, sock=listener, backlog=1024))
        if not self._servers and missing is not None:
            raise missing
        return port

    def _connected(self) -> asyncio.Protocol:
        connection = _ServerConnection(self._find, self._connections)
        return connection.wire

    def _find(self, method: str) -> grpc.RpcMethodHandler | None:
        handler = self._methods.get(method)
        if handler is None:
            details = _Details(method)
            handler = next((found for generic in self._generic if (found := generic.service(details)) is not None), None)
            if handler is not None:
                self._methods[method] = handler
        return handler

    async def stop(self) -> None:
        """Ends every call and connection, handlers within the stop grace."""
        for server in self._servers:
            server.close()
        tasks = [task for connection in list(self._connections) for task in connection.leave("the server stops")]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_GRACE_NS / 1e9)


def _bound(family: int, place: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
    except BaseException:
        listener.close()
        raise
    return listener


class _ServerConnection:
    """One client's connection and its calls."""

    def __init__(self, find: Find, connections: set[_ServerConnection]) -> None:
        self.wire = Wire(True, self._on_event, self._on_lost)
        self._find = find
        self._connections = connections
        self._calls: dict[int, ServerCall] = {}
        connections.add(self)

    def _on_event(self, event: Event) -> None:
        match event:
            case DataReceived():
                call = self._calls.get(event.stream_id)
                if call is not None:
                    call.feed(event)
            case HeadersReceived():
                self._begin(event)
            case StreamReset():
                call = self._calls.pop(event.stream_id, None)
                if call is not None:
                    call.cancel()
            case GoawayReceived() if event.code != frames.NO_ERROR:
                _LOG.warning("a client ended its connection", extra=fields(code=event.code, text=event.text))
            case _:
                pass

    def _on_lost(self, why: str) -> None:
        if self.wire.connection.failed is not None:
            _LOG.warning("a client broke the protocol", extra=fields(cause=why))
        self._connections.discard(self)
        calls = list(self._calls.values())
        self._calls.clear()
        for call in calls:
            call.cancel()

    def leave(self, text: str) -> list[asyncio.Task[None]]:
        """Cancels the calls, ends the connection and returns what still runs."""
        calls = list(self._calls.values())
        self.wire.connection.leave(text)
        for call in calls:
            call.refuse(int(grpc.StatusCode.UNAVAILABLE.value[0]), text)
        self.wire.flush()
        self.wire.close(text)
        return [call.task for call in calls if call.task is not None]

    # ---- new calls --------------------------------------------------------------------------------------------------

    def _begin(self, event: HeadersReceived) -> None:
        stream_id = event.stream_id
        known: dict[bytes, bytes] = dict(event.headers)
        if known.get(b":method") != b"POST" or not known.get(b":path", b"").startswith(b"/"):
            self.wire.connection.reset(stream_id, frames.PROTOCOL_ERROR)
            return
        if not known.get(b"content-type", b"").startswith(b"application/grpc"):
            self.wire.connection.end(stream_id, encode([(b":status", b"415")]))
            return
        try:
            method = known[b":path"].decode("ascii")
            metadata = metadata_of(event.headers)
            limit_ns = timeout_ns(known[b"grpc-timeout"]) if b"grpc-timeout" in known else None
        except ValueError as error:
            self._refuse(stream_id, _INTERNAL, f"the headers of the call make no sense: {error}")
            return
        handler = self._find(method)
        if handler is None:
            self._refuse(stream_id, _UNIMPLEMENTED, f"there is no method {method} here")
            return
        call = self._calls[stream_id] = ServerCall(self.wire, stream_id, method, metadata)
        call.start(handler, limit_ns)
        assert call.task is not None
        call.task.add_done_callback(lambda _task: self._calls.pop(stream_id, None))
        if event.ended:
            call.feed(DataReceived(stream_id, b"", 0, True))

    def _refuse(self, stream_id: int, code: bytes, text: str) -> None:
        trailers: list[Header] = [(b":status", b"200"), (b"content-type", b"application/grpc"), (b"grpc-status", code)]
        self.wire.connection.end(stream_id, encode([*trailers, (b"grpc-message", percent_encoded(text))]))


def opened(call: Any) -> ServerCall:
    """The call behind a context that a handler of this server was given."""
    assert isinstance(call, ServerCall)
    return call
