"""One call of a client, as its handler sees it: the part of gRPC's servicer context that handlers here use, and `converse`.

A call ends once: with its handler's status, with its deadline, or because the client left, and then the handler is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NoReturn

import grpc
import grpc.aio

from pathways_common.http2.duplex import INTERNAL, Duplex
from pathways_common.http2.headers import Header, Metadata, encode, metadata_headers, percent_encoded
from pathways_common.http2.wire import Wire
from pathways_common.process.logs import fields

_LOG = logging.getLogger(__name__)
_HEADERS: list[Header] = [(b":status", b"200"), (b"content-type", b"application/grpc")]
_OK, _CANCELLED, _UNKNOWN, _DEADLINE_EXCEEDED = 0, 1, 2, 4


class Aborted(Exception):
    """A handler ended its call with a status."""

    def __init__(self, code: int, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


class ServerCall(Duplex):
    """Made when the headers are there; `start` runs its handler."""

    def __init__(self, wire: Wire, stream_id: int, method: str, metadata: Metadata) -> None:
        super().__init__()
        self.method = method
        self.task: asyncio.Task[None] | None = None
        self._connected = wire
        self._wire = wire
        self._stream_id = stream_id
        self._metadata = metadata
        self._greeted = False
        self._handler: Any = None
        self._timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """The client left."""
        self.finished = True
        self._stop()

    def refuse(self, code: int, text: str) -> None:
        """Ends the call with a status and cancels its handler."""
        self.finish(code, text)
        self._stop()

    def _fail(self, code: int, text: str) -> None:
        self.refuse(code, text)

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
                raise Aborted(INTERNAL, f"{self.method} takes one message and got none")
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
        self._connected.connection.end(self._stream_id, encode(trailers))
        self._connected.wake()

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
        message = await self.next_message()
        if message is None:
            return grpc.aio.EOF
        deserializer = self._handler.request_deserializer
        return message if deserializer is None else deserializer(message)

    async def write(self, message: Any) -> None:
        """Sends a message; waits only for a client that is far behind."""
        serializer = self._handler.response_serializer
        self._send(message if serializer is None else serializer(message))
        await self._until_writable()

    def _greet(self, metadata: Sequence[tuple[str, str | bytes]] = ()) -> None:
        if not self._greeted and not self.finished:
            self._greeted = True
            self._connected.connection.headers(self._stream_id, encode([*_HEADERS, *metadata_headers(metadata)]))
            self._connected.wake()

    def _send(self, *messages: bytes) -> None:
        self._greet()
        super()._send(*messages)
