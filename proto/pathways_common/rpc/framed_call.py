"""The dialling end of a framed connection to the controller, in the shape of a gRPC call (read, write, cancel) or as a Stream.

The controller says in GetVersion whether it offers one and where; if it does not, or the port cannot be reached, Connect of the
service does the same over gRPC.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from ssl import SSLContext
from typing import Any

import grpc
import grpc.aio
from pathways_proto.v1 import cluster_pb2

from pathways_common.model.bounds import HELLO_TIMEOUT_NS, LINK_DIAL_NS
from pathways_common.model.failure import Failure
from pathways_common.process.logs import fields
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.conversation import Conversation
from pathways_common.rpc.framed import FramedProtocol, preface
from pathways_common.rpc.moment import Moment

_LOG = logging.getLogger(__name__)
_ORDERLY = "the stream ended"


class FramedCall(FramedProtocol):
    """One connection. `read` and `write` are for one task each; once it is over, they raise ConnectionError with the reason."""

    def __init__(self) -> None:
        super().__init__()
        self.trust()
        # Kept: to ask which loop runs is a system call.
        self._loop = asyncio.get_running_loop()
        self._frames: deque[bytes] = deque()
        self._reading: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._reason = ""
        self._over = asyncio.Event()
        self._talk: Conversation | None = None
        self._saying = False
        self._moment = Moment(self._say)

    async def read(self) -> Any:
        """The next frame; EOF when the controller has ended the stream."""
        while not self._frames:
            if self._reason == _ORDERLY:
                return grpc.aio.EOF
            if self._reason:
                raise ConnectionError(self._reason)
            self._reading = self._loop.create_future()
            await self._reading
        return self._frames.popleft()

    async def write(self, frame: bytes) -> None:
        """Writes a frame, when the controller takes what was written before."""
        if not self.ready:
            await self._room.wait()
        if self._reason:
            raise ConnectionError(self._reason)
        self.put(frame)

    @property
    def reason(self) -> str:
        """Why it is over; empty while it is not."""
        return self._reason

    @property
    def orderly(self) -> bool:
        """Whether it was ended and did not break."""
        return self._reason == _ORDERLY

    async def code(self) -> grpc.StatusCode:
        """How it ended, as of a gRPC call: OK if it was ended, UNAVAILABLE if it broke."""
        return grpc.StatusCode.OK if self.orderly else grpc.StatusCode.UNAVAILABLE

    async def details(self) -> str:
        """Why it ended; nothing if it was ended."""
        return "" if self.orderly else self._reason

    def cancel(self) -> None:
        """Ends it from this side."""
        self.abort(_ORDERLY)

    async def converse(self, talk: Conversation) -> None:
        """See Stream; for a conversation that is never crowded."""
        self._talk = talk
        while self._frames:
            talk.handle(self._frames.popleft())
        self.answered()
        await self._over.wait()

    def answered(self, awaited: bool = True) -> None:
        """See Stream; what is said in one turn of the event loop leaves together."""
        if self._saying:
            return
        if awaited:
            self._saying = True
            self._loop.call_soon(self._say)
        else:
            self._moment.begin()

    def _say(self) -> None:
        self._saying = False
        self._moment.end()
        if self._talk is not None and self.ready:
            for message in self._talk.take():
                self.put(message)

    def on_frame(self, data: bytes) -> None:
        """For `read`, or for the conversation."""
        if self._talk is not None:
            self._talk.handle(data)
            return
        self._frames.append(data)
        self._wake()

    def on_malformed(self, failure: Failure) -> None:
        """The controller is broken."""
        self.abort(failure.message)

    def pause_writing(self) -> None:
        """The controller does not take what was written."""
        super().pause_writing()
        self._room.clear()

    def on_room(self) -> None:
        """It does again."""
        self._room.set()
        self.answered()

    def on_end(self, reason: str) -> None:
        """Whoever waits goes on."""
        self._reason = reason
        self._room.set()
        self._over.set()
        self._wake()

    def _wake(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)


async def offered_port(channel: grpc.aio.Channel) -> int:
    """Where the controller takes framed connections; 0 = nowhere. Raises AioRpcError if there is no controller to ask."""
    ask = channel.unary_unary(
        "/pathways.v1.Clusters/GetVersion",
        request_serializer=cluster_pb2.GetVersionRequest.SerializeToString,
        response_deserializer=cluster_pb2.GetVersionResponse.FromString,
    )
    try:
        answer = await ask(cluster_pb2.GetVersionRequest(), timeout=HELLO_TIMEOUT_NS / 1e9)
    except grpc.aio.AioRpcError as error:
        if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            raise
        return 0  # what it is, Connect tells
    return int(answer.link_port)


async def dial(
    address: str, port: int, service: str, secret: str | None, tls: SSLContext | None = None, quiet: bool = False
) -> FramedCall | None:
    """A connection to the port, on the controller's address, with its preface on the way; None if it cannot be reached.

    `quiet`: whoever asks tries again and tells.
    """
    authorization = dict(bearer(secret)).get("authorization", "")
    host = address.rpartition(":")[0].strip("[]")
    try:
        async with asyncio.timeout(LINK_DIAL_NS / 1e9):
            _, call = await asyncio.get_running_loop().create_connection(FramedCall, host, port, ssl=tls)
    except OSError as error:  # a TimeoutError is one
        level = logging.DEBUG if quiet else logging.WARNING
        _LOG.log(level, "link port not reached; using gRPC", extra=fields(host=host, port=port, cause=str(error) or "no answer"))
        return None
    call.put(preface(service, authorization))
    return call
