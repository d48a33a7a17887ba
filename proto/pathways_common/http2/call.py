"""One call of a client, as its handler sees it: the part of gRPC's servicer context that handlers here use, and `converse`.

A call ends once: with its handler's status, with its deadline, or because the client left, and then the handler is cancelled.
What a client sends ahead of its handler is bounded by the stream's window.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import grpc
import grpc.aio

from pathways_common.http2 import frames
from pathways_common.http2.connection import DataReceived
from pathways_common.http2.headers import Header, Metadata, encode, metadata_headers, percent_encoded
from pathways_common.http2.messages import MessageBuffer, MessageError, prefix_of, prefixed
from pathways_common.http2.wire import Wire
from pathways_common.process.logs import fields

_LOG = logging.getLogger(__name__)
# A handler that writes more than this ahead of its client waits.
_AHEAD_BYTES_MAX = 1 << 20
# A message under way is let in by pieces of at most this, whatever the stream's window is.
_LARGE_BYTES = 1 << 22
_HEADERS: list[Header] = [(b":status", b"200"), (b"content-type", b"application/grpc")]
_OK, _CANCELLED, _UNKNOWN, _DEADLINE_EXCEEDED, _INTERNAL = 0, 1, 2, 4, 13


class Conversation(Protocol):
    """Who takes messages as they come and answers some time later."""

    @property
    def outbox(self) -> list[bytes]:
        """Answers to be sent; emptied by who sends them."""

    def handle(self, raw: bytes) -> None:
        """Takes one message; never waits and never raises. Answers appear in `outbox`."""

    @property
    def crowded(self) -> bool:
        """Whether nothing more should be given to it for now."""

    async def room(self) -> None:
        """Waits until it is not crowded."""


class Aborted(Exception):
    """A handler ended its call with a status."""

    def __init__(self, code: int, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


class ServerCall:
    """Made when the headers are there; `run` is the life of it."""

    def __init__(self, wire: Wire, stream_id: int, method: str, metadata: Metadata) -> None:
        self.method = method
        self.task: asyncio.Task[None] | None = None
        self.finished = False
        self._wire = wire
        self._stream_id = stream_id
        self._metadata = metadata
        self._incoming = MessageBuffer()
        self._messages: deque[bytes] = deque()
        self._owed_bytes = 0
        self._ended = False
        self._greeted = False
        self._handler: Any = None
        self._talk: Conversation | None = None
        self._halted = False
        self._dirty = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    # ---- from the connection ----------------------------------------------------------------------------------------

    def feed(self, event: DataReceived) -> None:
        """Data of the client."""
        if self.finished:
            return
        self._owed_bytes += event.size_bytes
        try:
            messages = self._incoming.feed(event.data)
            if event.ended and self._incoming.partial:
                raise MessageError(_INTERNAL, "the client ended its stream in the middle of a message")
        except MessageError as error:
            self.refuse(error.code, error.text)
            return
        self._ended = self._ended or event.ended
        self._messages.extend(messages)
        if self._talk is not None:
            self._deliver(self._talk)
        if self._messages or self._ended:
            self._readable.set()
        if not self._messages:
            self._give_back()

    def _give_back(self) -> None:
        """Everything is taken in: the client may send more."""
        if self._ended:
            return
        if self._owed_bytes:
            self._wire.connection.consumed(self._stream_id, self._owed_bytes)
            self._owed_bytes = 0
        missing = self._incoming.missing_bytes
        if missing > frames.WINDOW_AT_FIRST:
            self._wire.connection.expect(self._stream_id, min(missing, _LARGE_BYTES))
        self._wire.wake()

    def sent(self) -> None:
        """Data has left the connection, perhaps of this call."""
        if not self._writable.is_set() and self._room_to_write():
            self._writable.set()

    def cancel(self) -> None:
        """The client left."""
        self.finished = True
        self._stop()

    def refuse(self, code: int, text: str) -> None:
        """Ends the call with a status and cancels its handler."""
        self.finish(code, text)
        self._stop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.task is not None:
            self.task.cancel()

    # ---- the life of a call -----------------------------------------------------------------------------------------

    def start(self, handler: grpc.RpcMethodHandler, timeout_ns: int | None) -> None:
        """Runs the handler in a task of its own."""
        loop = asyncio.get_running_loop()
        self._handler = handler
        if timeout_ns is not None:
            self._timer = loop.call_later(timeout_ns / 1e9, self.refuse, _DEADLINE_EXCEEDED, "the deadline passed")
        self.task = loop.create_task(self._run(handler), name=f"call-{self.method}")

    async def _run(self, handler: Any) -> None:
        try:
            await self._serve(handler)
            self.finish(_OK)
        except Aborted as aborted:
            self.finish(aborted.code, aborted.details)
        except asyncio.CancelledError:
            self.finish(_CANCELLED, "the call was cancelled")
            raise
        except Exception:
            _LOG.exception("call failed", extra=fields(method=self.method))
            self.finish(_UNKNOWN, "the server failed on this call; its log says why")
        finally:
            if self._timer is not None:
                self._timer.cancel()

    async def _serve(self, handler: Any) -> None:
        request: Any = self
        if not handler.request_streaming:
            request = await self.read()
            if request is grpc.aio.EOF:
                raise Aborted(_INTERNAL, f"{self.method} takes one message and got none")
        if handler.request_streaming and handler.response_streaming:
            await handler.stream_stream(request, self)
        elif handler.response_streaming:
            await handler.unary_stream(request, self)
        elif handler.request_streaming:
            await self.write(await handler.stream_unary(request, self))
        else:
            await self.write(await handler.unary_unary(request, self))

    def finish(self, code: int, details: str = "") -> None:
        """Ends the call with a status behind what was written; later ends are ignored."""
        if self.finished:
            return
        self._collect()
        self.finished = True
        trailers: list[Header] = [] if self._greeted else list(_HEADERS)
        trailers.append((b"grpc-status", b"%d" % code))
        if details:
            trailers.append((b"grpc-message", percent_encoded(details)))
        self._wire.connection.end(self._stream_id, encode(trailers))
        self._wire.wake()

    # ---- what handlers use, by gRPC's names -------------------------------------------------------------------------

    def invocation_metadata(self) -> Metadata:
        """What the client sent along; values of keys that end in `-bin` are bytes."""
        return self._metadata

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        """Ends the call with a status; raises."""
        raise Aborted(code.value[0], details)

    async def send_initial_metadata(self, metadata: Sequence[tuple[str, str | bytes]]) -> None:
        """Sends headers before the first message."""
        self._greet(metadata)

    async def read(self) -> Any:
        """The next message, or grpc.aio.EOF behind the last one."""
        while not self._messages:
            if self._ended:
                return grpc.aio.EOF
            self._readable.clear()
            await self._readable.wait()
        message = self._messages.popleft()
        if not self._messages:
            self._give_back()
        deserializer = self._handler.request_deserializer
        return message if deserializer is None else deserializer(message)

    async def write(self, message: Any) -> None:
        """Sends a message; waits only for a client that is far behind."""
        serializer = self._handler.response_serializer
        self._send(message if serializer is None else serializer(message))
        await self._until_writable()

    # ---- conversations ----------------------------------------------------------------------------------------------

    async def converse(self, talk: Conversation) -> None:
        """Gives every message to `talk` as it comes and sends its answers; returns when the client has ended its side."""
        self._talk = talk
        self._deliver(talk)
        while self._halted or self._messages or not self._ended:
            if self._halted:
                await talk.room()
                await self._until_writable()
                self._halted = False
                self._deliver(talk)
                if not self._messages:
                    self._give_back()
            else:
                self._readable.clear()
                await self._readable.wait()
        self._collect()

    def answered(self) -> None:
        """There is something in the outbox of the conversation; it leaves in this loop turn."""
        if not self._dirty:
            self._dirty = True
            self._wire.dirty(self._collect)

    def widen(self, window_bytes: int) -> None:
        """Lets the client run further ahead than gRPC's first window."""
        self._wire.connection.widen(self._stream_id, window_bytes)
        self._wire.wake()

    def _deliver(self, talk: Conversation) -> None:
        messages = self._messages
        while messages and not self._halted:
            talk.handle(messages.popleft())
            if talk.crowded or not self._room_to_write():
                self._halted = True
                self._readable.set()

    def _collect(self) -> None:
        self._dirty = False
        if self._talk is None or self.finished or not self._talk.outbox:
            return
        answers = self._talk.outbox[:]
        self._talk.outbox.clear()
        self._send(*answers)

    def _greet(self, metadata: Sequence[tuple[str, str | bytes]] = ()) -> None:
        if not self._greeted and not self.finished:
            self._greeted = True
            self._wire.connection.headers(self._stream_id, encode([*_HEADERS, *metadata_headers(metadata)]))
            self._wire.wake()

    def _send(self, *messages: bytes) -> None:
        if self.finished:
            return
        self._greet()
        if len(messages) == 1:
            self._wire.connection.data(self._stream_id, prefix_of(messages[0]))
            self._wire.connection.data(self._stream_id, messages[0])
        else:
            self._wire.connection.data(self._stream_id, b"".join(map(prefixed, messages)))
        self._wire.wake()

    def _room_to_write(self) -> bool:
        return self._wire.connection.pending_bytes(self._stream_id) <= _AHEAD_BYTES_MAX

    async def _until_writable(self) -> None:
        while not self._room_to_write():
            self._writable.clear()
            await self._writable.wait()
