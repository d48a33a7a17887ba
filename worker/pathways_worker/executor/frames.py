"""Frames on a socket pair: a 4-byte little-endian length, then that many bytes.

A writer sends length and payload in one call, so that frames of several threads under one lock never mix.
"""

from __future__ import annotations

import select
import socket
import struct

import numpy as np

_LENGTH = struct.Struct("<I")
# One read takes a whole batch of small commands; larger frames are read in place.
_READ_BYTES = 1 << 18


def write_frame(channel: socket.socket, payload: bytes) -> None:
    """Sends one frame; OSError if the other end is gone."""
    channel.sendall(_LENGTH.pack(len(payload)) + payload)


class FrameReader:
    """Reads frames from a blocking socket. Not for several threads."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._buffer = bytearray()
        self._descriptor = channel.fileno()
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def complete(self) -> bool:
        """Whether a read will find a whole frame without the channel."""
        if len(self._buffer) < 4:
            return False
        return len(self._buffer) >= 4 + int(_LENGTH.unpack_from(self._buffer)[0])

    def wake_by(self, descriptor: int) -> None:
        """`ready` also comes back when this becomes readable."""
        self._poll.register(descriptor, select.POLLIN)

    def ready(self, timeout_s: float) -> bool:
        """Whether a read will find at least the beginning of a frame, or the end of the stream, within `timeout_s`."""
        return self.complete() or any(found == self._descriptor for found, _ in self._poll.poll(timeout_s * 1000))

    def read(self) -> bytes | None:
        """The next frame; None when the other end closed the channel."""
        while not self.complete():
            try:
                piece = self._channel.recv(_READ_BYTES)
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self._buffer += piece
        length = int(_LENGTH.unpack_from(self._buffer)[0])
        payload = bytes(memoryview(self._buffer)[4 : 4 + length])
        del self._buffer[: 4 + length]
        return payload

    def read_exactly(self, size_bytes: int) -> memoryview | None:
        """That many raw bytes behind the last frame; None when the channel closed before.

        Into memory that nobody has written: to clear 64 MiB first would stop every thread of the interpreter for 40 ms.
        """
        view = np.empty(size_bytes, np.uint8).data
        buffered = min(size_bytes, len(self._buffer))
        view[:buffered] = self._buffer[:buffered]
        del self._buffer[:buffered]
        filled = buffered
        while filled < size_bytes:
            try:
                count = self._channel.recv_into(view[filled:])
            except ConnectionResetError:
                return None
            if count == 0:
                return None
            filled += count
        return view
