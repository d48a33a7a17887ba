"""What serves the door's client, behind one interface: gRPC's server, or an HTTP/2 server of our own that speaks gRPC.

Handlers are written for grpc.aio and run on both. Only the stream that carries every dispatch has an interface of its own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

import grpc
import grpc.aio
from pathways_common.http2.server import Http2Server, opened
from pathways_common.model.bounds import DOOR_STREAM_WINDOW_BYTES
from pathways_common.rpc.channels import server_options
from pathways_common.rpc.conversation import Stream

from pathways_door.grpc_stream import GrpcStream

_STREAM_WINDOW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", DOOR_STREAM_WINDOW_BYTES))
# What a client may send ahead of a host buffer's reader, which never waits for anything.
_BULK_WINDOW_BYTES = 1 << 22


class TransportName(StrEnum):
    """The transports, as the command line says them."""

    GRPC = "grpc"
    HTTP2 = "http2"


class Transport(Protocol):
    """Add handlers, then `listen`; end it with `stop`."""

    def add(self, handler: grpc.GenericRpcHandler) -> None:
        """Serves the methods of a handler."""

    async def listen(self, address: str) -> int:
        """Listens on HOST:PORT and returns the port; 0 if it cannot."""

    def stream(self, context: Any) -> Stream:
        """The session stream behind the context that a handler was given."""

    def widen(self, context: Any) -> None:
        """The call carries bulk data that is read at once."""

    async def stop(self) -> None:
        """Ends every call."""


def transport_of(name: TransportName) -> Transport:
    """What serves clients, by its name."""
    return GrpcTransport() if name is TransportName.GRPC else Http2Transport()


class Http2Transport:
    """Our own server: one thread, and one send for all answers of a loop turn."""

    def __init__(self) -> None:
        self._server = Http2Server()

    def add(self, handler: grpc.GenericRpcHandler) -> None:
        """See Transport."""
        self._server.add(handler)

    async def listen(self, address: str) -> int:
        """See Transport."""
        host, _, port = address.rpartition(":")
        try:
            return await self._server.listen(host, int(port))
        except OSError:
            return 0

    def stream(self, context: Any) -> Stream:
        """See Transport."""
        return opened(context)

    def widen(self, context: Any) -> None:
        """See Transport."""
        opened(context).widen(_BULK_WINDOW_BYTES)

    async def stop(self) -> None:
        """See Transport."""
        await self._server.stop()


class GrpcTransport:
    """grpc.aio's server."""

    def __init__(self) -> None:
        self._server = grpc.aio.server(options=[*server_options(), *_STREAM_WINDOW])

    def add(self, handler: grpc.GenericRpcHandler) -> None:
        """See Transport."""
        self._server.add_generic_rpc_handlers((handler,))

    async def listen(self, address: str) -> int:
        """See Transport."""
        try:
            port = int(self._server.add_insecure_port(address))
        except RuntimeError:
            return 0
        if port:
            await self._server.start()
        return port

    def stream(self, context: Any) -> Stream:
        """See Transport."""
        return GrpcStream(context)

    def widen(self, context: Any) -> None:
        """gRPC has one window for all."""

    async def stop(self) -> None:
        """See Transport."""
        await self._server.stop(0)
