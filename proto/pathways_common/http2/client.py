"""A gRPC client of our own for streams of messages: one connection per stream, bytes, no TLS, no compression.

A call has the names that grpc.aio's calls have. It dials when it is made; what is written before the connection stands leaves
with it. It ends once, with a status: the server's, or UNAVAILABLE with what went wrong with the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import grpc
import grpc.aio

from pathways_common.http2 import frames
from pathways_common.http2.connection import DataReceived, Event, GoawayReceived, HeadersReceived, StreamReset
from pathways_common.http2.duplex import Duplex
from pathways_common.http2.headers import Header, encode, metadata_headers, percent_decoded
from pathways_common.http2.wire import Wire
from pathways_common.rpc.channels import parse_address

_STATUSES = {int(code.value[0]): code for code in grpc.StatusCode}
_OF_RESET = {frames.CANCEL: grpc.StatusCode.CANCELLED, frames.REFUSED_STREAM: grpc.StatusCode.UNAVAILABLE}

Metadata = Sequence[tuple[str, str | bytes]]


class FramedChannel:
    """Makes calls to one address, each with a connection of its own."""

    def __init__(self, address: str) -> None:
        self._address = parse_address(address)
        self._calls: set[ClientCall] = set()

    def stream_stream(self, method: str) -> Callable[..., ClientCall]:
        """What begins calls of a method with two streams of bytes."""

        def begin(metadata: Metadata = ()) -> ClientCall:
            call = ClientCall(self._address, method, metadata, self._calls.discard)
            self._calls.add(call)
            return call

        return begin

    async def close(self) -> None:
        """Ends what still runs."""
        for call in list(self._calls):
            call.cancel()


class ClientCall(Duplex):
    """One call."""

    def __init__(self, address: str, method: str, metadata: Metadata, gone: Callable[[ClientCall], None]) -> None:
        super().__init__()
        self._gone = gone
        self._early: list[bytes] = []
        self._half_closed = False
        self._status: tuple[grpc.StatusCode, str] | None = None
        self._closed = asyncio.Event()
        self._dialling = asyncio.get_running_loop().create_task(self._dial(address, method, metadata), name=f"dial-{address}")

    async def _dial(self, address: str, method: str, metadata: Metadata) -> None:
        host, _, port = address.rpartition(":")
        wire = Wire(False, self._on_event, self._on_lost)
        try:
            await asyncio.get_running_loop().create_connection(lambda: wire, host.strip("[]"), int(port))
        except OSError as error:
            self._end(grpc.StatusCode.UNAVAILABLE, f"no connection to {address}: {error.strerror or error}")
            return
        headers: list[Header] = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", method.encode())]
        headers += [(b":authority", address.encode()), (b"te", b"trailers"), (b"content-type", b"application/grpc")]
        self._wire = wire
        self._stream_id = wire.connection.open(encode([*headers, *metadata_headers(metadata)]))
        early, self._early = self._early, []
        if early:
            self._send(*early)
        if self._half_closed:
            wire.connection.end(self._stream_id)
        if self._talk is not None:
            self.answered()
        wire.wake()

    # ---- from the connection ----------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        match event:
            case DataReceived():
                self.feed(event)
                if event.ended:
                    self._end(grpc.StatusCode.UNKNOWN, "the server ended the stream without a status")
            case HeadersReceived():
                self._on_headers(dict(event.headers), event.ended)
            case StreamReset():
                code = _OF_RESET.get(event.code, grpc.StatusCode.INTERNAL)
                self._end(code, f"the server reset the stream with code {event.code}")
            case GoawayReceived() if event.last_stream_id < self._stream_id or event.code != frames.NO_ERROR:
                self._end(
                    grpc.StatusCode.UNAVAILABLE, f"the server ended the connection with code {event.code} {event.text}".strip()
                )
            case _:
                pass

    def _on_headers(self, headers: dict[bytes, bytes], ended: bool) -> None:
        status = headers.get(b":status", b"200")
        if status != b"200":
            self._end(grpc.StatusCode.UNAVAILABLE, f"the server answered with HTTP status {status.decode(errors='replace')}")
        elif ended:
            said = headers.get(b"grpc-status", b"2")
            code = _STATUSES.get(int(said), grpc.StatusCode.UNKNOWN) if said.isdigit() else grpc.StatusCode.UNKNOWN
            self._end(code, percent_decoded(headers.get(b"grpc-message", b"")))

    def _on_lost(self, why: str) -> None:
        self._end(grpc.StatusCode.UNAVAILABLE, why)

    def _fail(self, code: int, text: str) -> None:
        self._end(_STATUSES[code], text)

    def _end(self, code: grpc.StatusCode, details: str) -> None:
        if self._status is not None:
            return
        self._status = code, details
        self.finished = self._ended = True
        self._gone(self)
        self._dialling.cancel()
        if self._wire is not None:
            self._wire.connection.reset(self._stream_id, frames.CANCEL)
            self._wire.flush()
            self._wire.close(details)
        self._closed.set()
        self._readable.set()
        self._writable.set()

    # ---- by the names of grpc.aio -----------------------------------------------------------------------------------

    async def read(self) -> bytes | grpc.aio.EOF:
        """The next message, or grpc.aio.EOF when the call has ended."""
        message = await self.next_message()
        return grpc.aio.EOF if message is None else message

    async def write(self, message: bytes) -> None:
        """Sends a message; raises asyncio.InvalidStateError if the call has ended."""
        if self.finished:
            raise asyncio.InvalidStateError("the call has ended")
        if self._wire is None:
            self._early.append(message)
        else:
            self._send(message)
            await self._until_writable()

    async def done_writing(self) -> None:
        """Nothing more will be written."""
        self._half_closed = True
        if self._wire is not None:
            self._collect()
            self._wire.connection.end(self._stream_id)
            self._wire.wake()

    async def code(self) -> grpc.StatusCode:
        """How the call ended, when it has."""
        await self._closed.wait()
        assert self._status is not None
        return self._status[0]

    async def details(self) -> str:
        """The words to it."""
        await self._closed.wait()
        assert self._status is not None
        return self._status[1]

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._status is not None

    def cancel(self) -> None:
        """Ends the call now."""
        self._end(grpc.StatusCode.CANCELLED, "the call was cancelled")
