"""The call behind a session stream: a framed connection where the controller offers one, else Sessions.Connect over gRPC.

Both carry the same messages and look alike from here: what a gRPC call says by its status, a framed connection says by a refusal,
by its last words, or by the reason for which it broke.
"""

from __future__ import annotations

from typing import Any, Protocol

import grpc
import grpc.aio
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import parse_address
from pathways_common.rpc.conversation import Conversation, Stream
from pathways_common.rpc.framed_call import FramedCall, dial, offered_port
from pathways_proto.v1 import sessions_pb2

from pathways_door.grpc_stream import GrpcStream

_CONNECT = "/pathways.v1.Sessions/Connect"


class SessionCall(Protocol):
    """What a session stream needs of its call, in bytes; grpc.aio's call is one."""

    async def read(self) -> Any:
        """The next frame; EOF when the controller has ended the stream."""

    async def write(self, frame: bytes) -> None:
        """Sends a frame when the controller takes it."""

    async def done_writing(self) -> None:
        """Nothing more will be sent."""

    def done(self) -> bool:
        """Whether it has ended."""

    async def code(self) -> grpc.StatusCode:
        """How it ended."""

    async def details(self) -> str:
        """Why it ended."""

    def cancel(self) -> Any:
        """Ends it from this side."""


class FramedSession:
    """A framed connection as a SessionCall and a Stream."""

    def __init__(self, call: FramedCall) -> None:
        self._call = call

    async def read(self) -> Any:
        """The next frame; EOF when the connection has ended, however it did."""
        try:
            return await self._call.read()
        except ConnectionError:
            return grpc.aio.EOF

    async def write(self, frame: bytes) -> None:
        """Sends a frame; that the connection has ended, the reader hears."""
        try:
            await self._call.write(frame)
        except ConnectionError:
            return

    async def converse(self, talk: Conversation) -> None:
        """See Stream."""
        await self._call.converse(talk)

    def answered(self, awaited: bool = True) -> None:
        """See Stream."""
        self._call.answered(awaited)

    async def done_writing(self) -> None:
        """A goodbye has said it."""

    def done(self) -> bool:
        """Whether it has ended."""
        return bool(self._call.reason)

    async def code(self) -> grpc.StatusCode:
        """OK if the controller ended it, UNAVAILABLE if it broke."""
        return await self._call.code()

    async def details(self) -> str:
        """Why it ended."""
        return await self._call.details()

    def cancel(self) -> None:
        """Ends it from this side."""
        self._call.cancel()


class Dialler:
    """Opens calls to one controller, again and again; `address` is the channel's, `hello` what the session began with."""

    def __init__(self, channel: grpc.aio.Channel, address: str, token: str | None, hello: sessions_pb2.Hello) -> None:
        self.hello = hello
        self._channel = channel
        self._address = parse_address(address)
        self._token = token
        self._port = 0

    async def open(self) -> SessionCall:
        """A call whose first frame is to be the hello. Raises AioRpcError if nothing answers there."""
        framed = await self._framed(quiet=True) if self._port else None
        if framed is None:
            self._port = await offered_port(self._channel)
            framed = await self._framed() if self._port else None
        if framed is not None:
            return FramedSession(framed)
        call: SessionCall = self._channel.stream_stream(_CONNECT)(metadata=bearer(self._token))
        return call

    async def _framed(self, quiet: bool = False) -> FramedCall | None:
        return await dial(self._address, self._port, "Sessions", self._token, quiet=quiet)


def stream_over(call: SessionCall) -> Stream:
    """The stream of an open call."""
    return call if isinstance(call, FramedSession) else GrpcStream(call)
