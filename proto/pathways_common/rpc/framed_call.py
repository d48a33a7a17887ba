"""The dialling end of a framed connection to the controller, in the shape of a gRPC call: read, write, cancel.

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

from pathways_common.model.bounds import HELLO_TIMEOUT_NS
from pathways_common.model.failure import Failure
from pathways_common.process.logs import fields
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.framed import FramedProtocol, preface

_LOG = logging.getLogger(__name__)
_ORDERLY = "the stream ended"


class FramedCall(FramedProtocol):
    """One connection. `read` and `write` are for one task each; once it is over, they raise ConnectionError with the reason."""

    def __init__(self) -> None:
        super().__init__()
        self.trust()
        self._frames: deque[bytes] = deque()
        self._reading: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._reason = ""

    async def read(self) -> Any:
        """The next frame; EOF when the controller has ended the stream."""
        while not self._frames:
            if self._reason == _ORDERLY:
                return grpc.aio.EOF
            if self._reason:
                raise ConnectionError(self._reason)
            self._reading = asyncio.get_running_loop().create_future()
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

    def cancel(self) -> None:
        """Ends it from this side."""
        self.abort(_ORDERLY)

    def on_frame(self, data: bytes) -> None:
        """For `read`."""
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

    def on_end(self, reason: str) -> None:
        """Whoever waits goes on."""
        self._reason = reason
        self._room.set()
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


async def dial(address: str, port: int, service: str, secret: str | None, tls: SSLContext | None = None) -> FramedCall | None:
    """A connection to the port, on the controller's address, with its preface on the way; None if it cannot be reached."""
    authorization = dict(bearer(secret)).get("authorization", "")
    host = address.rpartition(":")[0].strip("[]")
    try:
        async with asyncio.timeout(HELLO_TIMEOUT_NS / 1e9):
            _, call = await asyncio.get_running_loop().create_connection(FramedCall, host, port, ssl=tls)
    except OSError as error:  # a TimeoutError is one
        _LOG.warning("link port not reached; using gRPC", extra=fields(host=host, port=port, cause=str(error) or "no answer"))
        return None
    call.put(preface(service, authorization))
    return call
