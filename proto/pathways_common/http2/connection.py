"""One HTTP/2 connection without its socket (RFC 9113), as far as gRPC uses it: bytes in, events out; bytes to send on demand.

Server and client side; no priorities, no push. `receive` never raises: a peer that breaks the protocol gets a GOAWAY, and
`failed` says why. Every table and queue has a bound, or grows only by what our own side sends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from pathways_common.http2 import frames
from pathways_common.http2.frames import Fault, Frame
from pathways_common.http2.headers import HEADER_BYTES_MAX, Header, HeaderDecoder

# Streams a peer may have open at once; more are refused, and a gRPC client waits for a free one.
STREAMS_MAX = 1024
# Larger frames than HTTP/2's 16 KiB make bulk cheaper; a frame is held whole until its last byte is there.
FRAME_BYTES_MAX = 1 << 16
# What a peer may send over all streams before it hears from us; repaid as it arrives, so it only hides the round trip.
CONNECTION_WINDOW_BYTES = 1 << 24
# Pieces of one header block. An empty piece costs its sender almost nothing.
HEADER_PIECES_MAX = 64


class HeadersReceived(NamedTuple):
    """A stream began (server), or its headers or trailers arrived (client)."""

    stream_id: int
    headers: list[Header]
    ended: bool


class DataReceived(NamedTuple):
    """Data of a stream; `size_bytes` is what `consumed` gives back, padding included."""

    stream_id: int
    data: bytes
    size_bytes: int
    ended: bool


class StreamReset(NamedTuple):
    """A stream ended at once, by the peer or because the peer broke the protocol on it."""

    stream_id: int
    code: int


class GoawayReceived(NamedTuple):
    """The peer takes no streams above `last_stream_id`."""

    last_stream_id: int
    code: int
    text: str


class PingAnswered(NamedTuple):
    """The peer is alive."""


Event = HeadersReceived | DataReceived | StreamReset | GoawayReceived | PingAnswered


class _Stream:
    """`credit`: what the peer may still send; `held`: what it sent and nobody consumed; `end`: trailers, or b"" for none."""

    __slots__ = ("credit", "end", "held", "pending", "pending_bytes", "remote_ended", "send_window", "stream_id", "target")

    def __init__(self, stream_id: int, send_window: int) -> None:
        self.stream_id = stream_id
        self.send_window = send_window
        self.credit = self.target = frames.WINDOW_AT_FIRST
        self.held = 0
        self.pending: deque[bytes | memoryview] = deque()
        self.pending_bytes = 0
        self.end: bytes | None = None
        self.remote_ended = False


class Connection:
    """Call `receive` with what the socket gives and `take` for what it shall send."""

    def __init__(self, server: bool) -> None:
        self.failed: Fault | None = None
        self._server = server
        self._buffer = frames.FrameBuffer(FRAME_BYTES_MAX, frames.PREFACE if server else b"")
        self._decoder = HeaderDecoder()
        self._streams: dict[int, _Stream] = {}
        self._sending: dict[int, _Stream] = {}
        # The highest stream that the client side opened.
        self._last_id = 0
        self._block: tuple[Frame, list[bytes]] | None = None
        self._send_window = frames.WINDOW_AT_FIRST
        self._credit = CONNECTION_WINDOW_BYTES
        self._peer_window = frames.WINDOW_AT_FIRST
        self._peer_frame_bytes = frames.FRAME_BYTES_AT_FIRST
        self._settled = False
        self._leaving = False
        said = {frames.SET_FRAME_BYTES_MAX: FRAME_BYTES_MAX, frames.SET_HEADER_BYTES_MAX: HEADER_BYTES_MAX}
        said |= {frames.SET_STREAMS_MAX: STREAMS_MAX} if server else {frames.SET_ENABLE_PUSH: 0}
        self._control = [b"" if server else frames.PREFACE, frames.settings_frame(said)]
        self._control.append(frames.window_update(0, CONNECTION_WINDOW_BYTES - frames.WINDOW_AT_FIRST))
        self._handlers: dict[int, Callable[[Frame, list[Event]], None]] = {
            frames.DATA: self._on_data,
            frames.HEADERS: self._on_headers,
            frames.PRIORITY: self._on_priority,
            frames.RST_STREAM: self._on_reset,
            frames.SETTINGS: self._on_settings,
            frames.PUSH_PROMISE: self._on_push,
            frames.PING: self._on_ping,
            frames.GOAWAY: self._on_goaway,
            frames.WINDOW_UPDATE: self._on_window,
            frames.CONTINUATION: self._on_continuation,
        }

    # ---- from the peer ----------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Event]:
        """What these bytes say; nothing any more once the connection has failed."""
        events: list[Event] = []
        if self.failed is not None:
            return events
        try:
            for got in self._buffer.feed(data):
                self._handle(got, events)
        except Fault as fault:
            self.failed = fault
            self._control.append(frames.goaway(self._last_id if self._server else 0, fault.code, fault.text))
            self._streams.clear()
            self._sending.clear()
        return events

    def _handle(self, got: Frame, events: list[Event]) -> None:
        if self._block is not None and (got.kind != frames.CONTINUATION or got.stream_id != self._block[0].stream_id):
            raise Fault(frames.PROTOCOL_ERROR, "another frame in the middle of a header block")
        if not self._settled and got.kind != frames.SETTINGS:
            raise Fault(frames.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        handler = self._handlers.get(got.kind)
        if handler is None:
            return
        try:
            handler(got, events)
        except Fault as fault:
            if not fault.stream_id:
                raise
            self.reset(fault.stream_id, fault.code)
            events.append(StreamReset(fault.stream_id, fault.code))

    def _on_data(self, got: Frame, events: list[Event]) -> None:
        size = len(got.payload)
        self._credit -= size
        if self._credit < 0:
            raise Fault(frames.FLOW_CONTROL_ERROR, "more data than the connection's window allows")
        if self._credit <= CONNECTION_WINDOW_BYTES // 2:
            self._control.append(frames.window_update(0, CONNECTION_WINDOW_BYTES - self._credit))
            self._credit = CONNECTION_WINDOW_BYTES
        stream_id = got.stream_id
        data = frames.without_padding(got)
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_not_idle(stream_id)
            return
        if stream.remote_ended:
            raise Fault(frames.STREAM_CLOSED, "data behind the end of a stream", stream_id)
        stream.credit -= size
        if stream.credit < 0:
            raise Fault(frames.FLOW_CONTROL_ERROR, "more data than the stream's window allows", stream_id)
        stream.held += size
        ended = bool(got.flags & frames.END_STREAM)
        events.append(DataReceived(stream_id, data, size, ended))
        if ended:
            self._end_remote(stream)

    def _check_not_idle(self, stream_id: int) -> None:
        if stream_id % 2 == 0 or stream_id > self._last_id:
            raise Fault(frames.PROTOCOL_ERROR, f"a frame for stream {stream_id}, which nobody opened")

    def _end_remote(self, stream: _Stream) -> None:
        stream.remote_ended = True
        if stream.end is not None and stream.stream_id not in self._sending:
            self._streams.pop(stream.stream_id, None)

    def _on_headers(self, got: Frame, events: list[Event]) -> None:
        block = frames.without_padding(got)
        if got.flags & frames.HAS_PRIORITY:
            if len(block) < 5:
                raise Fault(frames.FRAME_SIZE_ERROR, "HEADERS are too short for their priority")
            block = block[5:]
        if got.flags & frames.END_HEADERS:
            self._headers(got, block, events)
        else:
            self._block = got, [block]

    def _on_continuation(self, got: Frame, events: list[Event]) -> None:
        if self._block is None:
            raise Fault(frames.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        first, pieces = self._block
        pieces.append(got.payload)
        if len(pieces) > HEADER_PIECES_MAX or sum(map(len, pieces)) > HEADER_BYTES_MAX:
            raise Fault(frames.ENHANCE_YOUR_CALM, "a header block is too long")
        if got.flags & frames.END_HEADERS:
            self._block = None
            self._headers(first, b"".join(pieces), events)

    def _headers(self, got: Frame, block: bytes, events: list[Event]) -> None:
        """Every block is decoded, because the next ones build on it."""
        headers = self._decoder.decode(block)
        stream_id, ended = got.stream_id, bool(got.flags & frames.END_STREAM)
        stream = self._streams.get(stream_id)
        if stream is None and self._server:
            self._open_remote(stream_id, headers, ended, events)
            return
        if stream is None:
            self._check_not_idle(stream_id)
            return
        if stream.remote_ended:
            raise Fault(frames.STREAM_CLOSED, "headers behind the end of a stream", stream_id)
        if not self._server:
            events.append(HeadersReceived(stream_id, headers, ended))
        elif ended:
            events.append(DataReceived(stream_id, b"", 0, True))
        else:
            raise Fault(frames.PROTOCOL_ERROR, "trailers that do not end their stream", stream_id)
        if ended:
            self._end_remote(stream)

    def _open_remote(self, stream_id: int, headers: list[Header], ended: bool, events: list[Event]) -> None:
        if stream_id % 2 == 0:
            raise Fault(frames.PROTOCOL_ERROR, f"a client opened stream {stream_id}")
        if stream_id <= self._last_id:
            raise Fault(frames.STREAM_CLOSED, f"headers for stream {stream_id}, which has ended")
        self._last_id = stream_id
        if self._leaving or len(self._streams) >= STREAMS_MAX:
            self._control.append(frames.rst_stream(stream_id, frames.REFUSED_STREAM))
            return
        stream = self._streams[stream_id] = _Stream(stream_id, self._peer_window)
        stream.remote_ended = ended
        events.append(HeadersReceived(stream_id, headers, ended))

    def _on_priority(self, got: Frame, _events: list[Event]) -> None:
        if not got.stream_id:
            raise Fault(frames.PROTOCOL_ERROR, "PRIORITY without a stream")
        if len(got.payload) != 5:
            raise Fault(frames.FRAME_SIZE_ERROR, f"PRIORITY of {len(got.payload)} bytes", got.stream_id)

    def _on_reset(self, got: Frame, events: list[Event]) -> None:
        if len(got.payload) != 4:
            raise Fault(frames.FRAME_SIZE_ERROR, f"RST_STREAM of {len(got.payload)} bytes")
        self._check_not_idle(got.stream_id)
        if self._forget(got.stream_id):
            events.append(StreamReset(got.stream_id, int.from_bytes(got.payload, "big")))

    def _on_settings(self, got: Frame, _events: list[Event]) -> None:
        if got.stream_id:
            raise Fault(frames.PROTOCOL_ERROR, "SETTINGS on a stream")
        if got.flags & frames.ACK:
            if got.payload:
                raise Fault(frames.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS with settings")
            return
        self._settled = True
        for name, value in frames.read_settings(got.payload):
            if name == frames.SET_INITIAL_WINDOW:
                self._resize_windows(value - self._peer_window)
                self._peer_window = value
            elif name == frames.SET_FRAME_BYTES_MAX:
                self._peer_frame_bytes = value
        self._control.append(frames.frame(frames.SETTINGS, frames.ACK, 0))

    def _resize_windows(self, delta: int) -> None:
        for stream in self._streams.values():
            stream.send_window += delta
            if stream.send_window > frames.WINDOW_MAX:
                raise Fault(frames.FLOW_CONTROL_ERROR, "an initial window overflows a stream's window")
            self._mark(stream)

    def _on_push(self, _got: Frame, _events: list[Event]) -> None:
        raise Fault(frames.PROTOCOL_ERROR, "PUSH_PROMISE was not allowed")

    def _on_ping(self, got: Frame, events: list[Event]) -> None:
        if got.stream_id:
            raise Fault(frames.PROTOCOL_ERROR, "PING on a stream")
        if len(got.payload) != 8:
            raise Fault(frames.FRAME_SIZE_ERROR, f"PING of {len(got.payload)} bytes")
        if got.flags & frames.ACK:
            events.append(PingAnswered())
        else:
            self._control.append(frames.frame(frames.PING, frames.ACK, 0, got.payload))

    def _on_goaway(self, got: Frame, events: list[Event]) -> None:
        if got.stream_id:
            raise Fault(frames.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(got.payload) < 8:
            raise Fault(frames.FRAME_SIZE_ERROR, f"GOAWAY of {len(got.payload)} bytes")
        last, code = int.from_bytes(got.payload[:4], "big") & 0x7FFFFFFF, int.from_bytes(got.payload[4:8], "big")
        events.append(GoawayReceived(last, code, got.payload[8:].decode(errors="replace")))

    def _on_window(self, got: Frame, _events: list[Event]) -> None:
        if len(got.payload) != 4:
            raise Fault(frames.FRAME_SIZE_ERROR, f"WINDOW_UPDATE of {len(got.payload)} bytes")
        increment = int.from_bytes(got.payload, "big") & frames.WINDOW_MAX
        stream_id = got.stream_id
        if not increment:
            raise Fault(frames.PROTOCOL_ERROR, "WINDOW_UPDATE of nothing", stream_id)
        if not stream_id:
            self._send_window += increment
            if self._send_window > frames.WINDOW_MAX:
                raise Fault(frames.FLOW_CONTROL_ERROR, "the connection's window overflows")
            return
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_not_idle(stream_id)
            return
        stream.send_window += increment
        if stream.send_window > frames.WINDOW_MAX:
            raise Fault(frames.FLOW_CONTROL_ERROR, "the stream's window overflows", stream_id)
        self._mark(stream)

    # ---- to the peer ------------------------------------------------------------------------------------------------

    def open(self, block: bytes) -> int:
        """Opens a stream with this header block (client)."""
        stream_id = self._last_id = self._last_id + 2 if self._last_id else 1
        self._streams[stream_id] = _Stream(stream_id, self._peer_window)
        self.headers(stream_id, block)
        return stream_id

    def headers(self, stream_id: int, block: bytes) -> None:
        """Headers that do not end their stream."""
        if stream_id in self._streams:
            self._control += _header_frames(stream_id, block, 0, self._peer_frame_bytes)

    def data(self, stream_id: int, chunk: bytes | memoryview) -> None:
        """Queues data; it leaves as the peer's windows allow. Dropped if the stream has ended."""
        stream = self._streams.get(stream_id)
        if stream is not None and stream.end is None:
            stream.pending.append(chunk)
            stream.pending_bytes += len(chunk)
            self._mark(stream)

    def end(self, stream_id: int, trailers: bytes = b"") -> None:
        """Ends our side behind the data queued so far, with a block of trailers if given."""
        stream = self._streams.get(stream_id)
        if stream is not None and stream.end is None:
            stream.end = trailers
            self._mark(stream)

    def reset(self, stream_id: int, code: int) -> None:
        """Ends a stream at once; what is queued on it is dropped."""
        if self._forget(stream_id):
            self._control.append(frames.rst_stream(stream_id, code))

    def _forget(self, stream_id: int) -> bool:
        self._sending.pop(stream_id, None)
        return self._streams.pop(stream_id, None) is not None

    def consumed(self, stream_id: int, size_bytes: int) -> None:
        """Data was taken in: the peer may send so much more."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.held -= size_bytes
            self._lend(stream, stream.target - stream.held - stream.credit, stream.target // 2)

    def widen(self, stream_id: int, target_bytes: int) -> None:
        """Lets the peer run ahead by so much on this stream from now on."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.target = target_bytes
            self._lend(stream, target_bytes - stream.held - stream.credit, 1)

    def expect(self, stream_id: int, size_bytes: int) -> None:
        """Lets the peer send so much once, whatever the stream's window is."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._lend(stream, size_bytes - stream.credit, 1)

    def _lend(self, stream: _Stream, size_bytes: int, least: int) -> None:
        if size_bytes >= least and not stream.remote_ended:
            stream.credit += size_bytes
            self._control.append(frames.window_update(stream.stream_id, size_bytes))

    def ping(self) -> None:
        """Asks whether the peer is alive."""
        self._control.append(frames.frame(frames.PING, 0, 0, bytes(8)))

    def leave(self, text: str) -> None:
        """Takes no new streams."""
        self._leaving = True
        self._control.append(frames.goaway(self._last_id if self._server else 0, frames.NO_ERROR, text))

    def pending_bytes(self, stream_id: int) -> int:
        """Data queued on a stream that has not left."""
        stream = self._streams.get(stream_id)
        return stream.pending_bytes if stream is not None else 0

    @property
    def control_bytes(self) -> int:
        """What waits to be sent apart from data; it grows when a peer asks without reading the answers."""
        return sum(map(len, self._control))

    def _mark(self, stream: _Stream) -> None:
        if stream.pending_bytes or stream.end is not None:
            self._sending[stream.stream_id] = stream

    def take(self, data_bytes_max: int) -> list[bytes | memoryview]:
        """What the socket shall send now: all that is not data, and about so much data, a frame per stream in turns."""
        out: list[bytes | memoryview] = list(self._control)
        self._control.clear()
        while self._sending and data_bytes_max > 0:
            before = data_bytes_max
            for stream in list(self._sending.values()):
                data_bytes_max -= self._send(stream, out)
                if data_bytes_max <= 0:
                    break
            if data_bytes_max == before:
                break
        return out

    def _send(self, stream: _Stream, out: list[bytes | memoryview]) -> int:
        """Sends one frame of a stream; how much of the budget that took."""
        stream_id, size = stream.stream_id, 0
        if stream.pending_bytes:
            size = min(stream.pending_bytes, stream.send_window, self._send_window, self._peer_frame_bytes)
        if size <= 0 < stream.pending_bytes:
            if stream.send_window <= 0:
                del self._sending[stream_id]  # until its window opens
            return 0
        last = stream.end is not None and size == stream.pending_bytes
        if size or not stream.end:
            flags = frames.END_STREAM if last and not stream.end else 0
            out.append((size << 8).to_bytes(4, "big") + (flags << 32 | stream_id).to_bytes(5, "big"))
            _cut(stream.pending, size, out)
            stream.pending_bytes -= size
            stream.send_window -= size
            self._send_window -= size
        if last:
            self._finish(stream, out)
        elif not stream.pending_bytes:
            del self._sending[stream_id]
        return size + frames.HEAD_BYTES

    def _finish(self, stream: _Stream, out: list[bytes | memoryview]) -> None:
        stream_id = stream.stream_id
        del self._sending[stream_id]
        if stream.end:
            out.extend(_header_frames(stream_id, stream.end, frames.END_STREAM, self._peer_frame_bytes))
        if stream.remote_ended:
            del self._streams[stream_id]
        elif self._server:
            # The answer is complete: the client need not send the rest.
            del self._streams[stream_id]
            out.append(frames.rst_stream(stream_id, frames.NO_ERROR))


def _header_frames(stream_id: int, block: bytes, flags: int, frame_bytes_max: int) -> list[bytes]:
    pieces = [block[at : at + frame_bytes_max] for at in range(0, max(1, len(block)), frame_bytes_max)]
    last = len(pieces) - 1
    return [
        frames.frame(
            frames.CONTINUATION if index else frames.HEADERS,
            (0 if index else flags) | (frames.END_HEADERS if index == last else 0),
            stream_id,
            piece,
        )
        for index, piece in enumerate(pieces)
    ]


def _cut(pending: deque[bytes | memoryview], size: int, out: list[bytes | memoryview]) -> None:
    """Moves so many bytes from a queue to what is sent."""
    while size:
        chunk = pending[0]
        if len(chunk) <= size:
            out.append(chunk)
            size -= len(chunk)
            pending.popleft()
        else:
            view = memoryview(chunk)
            out.append(view[:size])
            pending[0] = view[size:]
            size = 0
