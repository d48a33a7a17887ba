"""Frames of HTTP/2 as bytes (RFC 9113, sections 4 and 6): nine bytes of head, then at most so many bytes as we said we take.

What breaks the protocol raises `Fault`, which ends the connection with a GOAWAY of that code, or only one stream if it names one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9

# Kinds of frames.
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
# Flags.
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20
# Error codes.
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0x0, 0x1, 0x2, 0x3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL = 0x5, 0x6, 0x7, 0x8
COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 0x9, 0xB
# Settings.
SET_HEADER_TABLE_SIZE, SET_ENABLE_PUSH, SET_STREAMS_MAX, SET_INITIAL_WINDOW, SET_FRAME_BYTES_MAX, SET_HEADER_BYTES_MAX = range(
    1, 7
)

WINDOW_AT_FIRST = 65535
WINDOW_MAX = (1 << 31) - 1
FRAME_BYTES_AT_FIRST = 16384
FRAME_BYTES_LIMIT = (1 << 24) - 1


class Fault(Exception):
    """The peer broke the protocol; `stream_id` 0 means that the connection cannot go on."""

    def __init__(self, code: int, text: str, stream_id: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.stream_id = stream_id


class Frame(NamedTuple):
    """One frame as it arrived."""

    kind: int
    flags: int
    stream_id: int
    payload: bytes


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """The bytes of one frame."""
    return (len(payload) << 8 | kind).to_bytes(4, "big") + (flags << 32 | stream_id).to_bytes(5, "big") + payload


def settings_frame(values: dict[int, int]) -> bytes:
    """A SETTINGS frame with these values."""
    payload = b"".join(name.to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in values.items())
    return frame(SETTINGS, 0, 0, payload)


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Names and values in order; raises Fault for values that the protocol forbids."""
    if len(payload) % 6:
        raise Fault(FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes")
    pairs = [
        (int.from_bytes(payload[at : at + 2], "big"), int.from_bytes(payload[at + 2 : at + 6], "big"))
        for at in range(0, len(payload), 6)
    ]
    for name, value in pairs:
        if name == SET_INITIAL_WINDOW and value > WINDOW_MAX:
            raise Fault(FLOW_CONTROL_ERROR, f"an initial window of {value} bytes")
        if name == SET_FRAME_BYTES_MAX and not FRAME_BYTES_AT_FIRST <= value <= FRAME_BYTES_LIMIT:
            raise Fault(PROTOCOL_ERROR, f"a frame size of {value} bytes")
        if name == SET_ENABLE_PUSH and value > 1:
            raise Fault(PROTOCOL_ERROR, f"ENABLE_PUSH is {value}")
    return pairs


def window_update(stream_id: int, increment: int) -> bytes:
    """A WINDOW_UPDATE frame."""
    return frame(WINDOW_UPDATE, 0, stream_id, increment.to_bytes(4, "big"))


def rst_stream(stream_id: int, code: int) -> bytes:
    """An RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream_id, code.to_bytes(4, "big"))


def goaway(last_stream_id: int, code: int, text: str) -> bytes:
    """A GOAWAY frame; the text is for people."""
    return frame(GOAWAY, 0, 0, last_stream_id.to_bytes(4, "big") + code.to_bytes(4, "big") + text.encode()[:200])


def without_padding(got: Frame) -> bytes:
    """The payload of a DATA or HEADERS frame without its padding; raises Fault if there is more padding than payload."""
    payload = got.payload
    if not got.flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Fault(PROTOCOL_ERROR, "a frame has more padding than payload")
    return payload[1 : len(payload) - payload[0]]


class FrameBuffer:
    """Cuts a stream of bytes into frames, however it arrives. Holds at most one frame and what came with its last byte."""

    __slots__ = ("_bytes_max", "_chunks", "_held", "_needed", "_preface")

    def __init__(self, frame_bytes_max: int, preface: bytes) -> None:
        self._bytes_max = frame_bytes_max
        self._preface = preface
        self._chunks: list[bytes] = []
        self._held = 0
        self._needed = len(preface) or HEAD_BYTES

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Complete frames, in order; raises Fault at a frame that is too long, or a beginning that is not HTTP/2."""
        self._chunks.append(data)
        self._held += len(data)
        if self._preface:
            self._check_preface()
        if self._held < self._needed:
            return
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        at, end = len(self._preface), len(data)
        self._preface = b""
        needed = HEAD_BYTES
        while end - at >= HEAD_BYTES:
            length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            if length > self._bytes_max:
                raise Fault(FRAME_SIZE_ERROR, f"a frame of {length} bytes; at most {self._bytes_max} are taken")
            needed = HEAD_BYTES + length
            if end - at < needed:
                break
            stream_id = int.from_bytes(data[at + 5 : at + 9], "big") & 0x7FFFFFFF
            yield Frame(data[at + 3], data[at + 4], stream_id, data[at + 9 : at + needed])
            at += needed
            needed = HEAD_BYTES
        self._chunks = [data[at:]] if at < end else []
        self._held = end - at
        self._needed = needed

    def _check_preface(self) -> None:
        data = b"".join(self._chunks)
        self._chunks = [data]
        count = min(len(data), len(self._preface))
        if data[:count] != self._preface[:count]:
            raise Fault(PROTOCOL_ERROR, "this is not HTTP/2")
