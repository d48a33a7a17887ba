"""What carries the door's services and its session streams, behind one interface: gRPC's own, or the framed one of ours.

Handlers are written for grpc.aio and run on both. Only the two streams that carry every dispatch, the IFRT session's and the one
to the controller, have an interface of their own: `Stream`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

import grpc
import grpc.aio
from pathways_common.http2.client import FramedChannel
from pathways_common.http2.duplex import Conversation, Duplex
from pathways_common.http2.server import FramedServer, opened
from pathways_common.model.bounds import DOOR_STREAM_WINDOW_BYTES
from pathways_common.rpc.channels import open_channel, server_options

_STREAM_WINDOW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", DOOR_STREAM_WINDOW_BYTES))
# What a client may send ahead of a host buffer's reader, which never waits for anything.
_BULK_WINDOW_BYTES = 1 << 22


class TransportName(StrEnum):
    """The transports, as the command line says them."""

    GRPC = "grpc"
    FRAMED = "framed"


class Channel(Protocol):
    """Makes calls to the controller; grpc.aio's channel is one, too."""

    def stream_stream(self, method: str) -> Callable[..., Any]:
        """What begins calls of a method with two streams of bytes."""

    async def close(self) -> None:
        """Ends what still runs."""


class Stream(Protocol):
    """A stream of messages and its conversation."""

    async def converse(self, talk: Conversation) -> None:
        """Gives every message to `talk` in order and sends what it says; returns when the other end has ended its side."""

    def answered(self, awaited: bool = True) -> None:
        """The conversation has something to say; what is not awaited may leave a moment later, with something that is."""


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
    return GrpcTransport() if name is TransportName.GRPC else FramedTransport()


def channel_of(name: TransportName, address: str) -> Channel:
    """What dials the controller, by its name."""
    if name is TransportName.FRAMED:
        return FramedChannel(address)
    channel: Channel = open_channel(address)
    return channel


def stream_over(call: Any) -> Stream:
    """The stream of a call that was made by a channel."""
    return call if isinstance(call, Duplex) else _GrpcStream(call)


class FramedTransport:
    """Our own server: one thread, and one send for all answers of a loop turn."""

    def __init__(self) -> None:
        self._server = FramedServer()

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
        return _GrpcStream(context)

    def widen(self, context: Any) -> None:
        """gRPC has one window for all."""

    async def stop(self) -> None:
        """See Transport."""
        await self._server.stop(0)


class _GrpcStream:
    """A conversation over a servicer context or a call of grpc.aio, which have the same names."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._woken = asyncio.Event()

    def answered(self, awaited: bool = True) -> None:
        self._woken.set()

    async def converse(self, talk: Conversation) -> None:
        writer = asyncio.get_running_loop().create_task(self._write(talk), name="stream-writer")
        try:
            while (raw := await self._call.read()) is not grpc.aio.EOF:
                talk.handle(raw)
                if talk.crowded:
                    await talk.room()
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write(self, talk: Conversation) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while said := talk.take():
                for message in said:
                    await self._call.write(message)
