"""Frames over a plain byte stream: 4 bytes of length, little-endian, then so many bytes. What is in them is not looked at here.

Cheaper than a gRPC stream, which costs the controller 0.1 ms per message and host. An empty frame says that the sender is
alive; both ends send one when they had nothing else to say for a while, and whoever hears nothing at all for the keep-alive time
gives the connection up. What is written waits in one bounded buffer per connection: above its mark
`ready` is false and nothing more is taken from the sender until it has drained.

The first frame of the dialling end is the preface: which service it wants, and what a gRPC call would carry as `authorization`.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import Protocol, cast

from pathways_common.model.bounds import (
    LINK_BUFFER_BYTES,
    LINK_FRAME_BYTES_MAX,
    LINK_HELLO_BYTES_MAX,
)
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.rpc.keepalive import keepalive_ns
from pathways_common.rpc.version import PROTOCOL_VERSION

_LENGTH = struct.Struct("<I")
_ALIVE = _LENGTH.pack(0)
# Looked at this often. Silence is counted in looks, so that an end which was stopped itself does not blame the other; the first
# of them comes up to a whole interval after the last byte.
SILENT_LOOKS_MAX = 4
_LOOK_NS = keepalive_ns() // SILENT_LOOKS_MAX


class FrameCutter:
    """Cuts a byte stream into its frames. `bytes_max` holds for the next frame and may be changed between two."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._rest = bytearray()
        # Bytes of `_rest` without which there is no frame.
        self._wanted = _LENGTH.size

    def whole(self, data: bytes) -> bytes | None:
        """The frame, if `data` is just one; this is how most come. None: use `cut`."""
        length = len(data) - _LENGTH.size
        if self._rest or not 0 <= length <= self.bytes_max or _LENGTH.unpack_from(data)[0] != length:
            return None
        return data[_LENGTH.size :]

    def cut(self, data: bytes) -> Iterator[bytes]:
        """The frames that are complete with `data`; raises PathwaysError (INVALID_ARGUMENT) for one that is too large.

        Take all of them before the next call.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return
            data = bytes(self._rest)
            self._rest = bytearray()
        position, size = 0, len(data)
        self._wanted = _LENGTH.size
        while size - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, position)
            if length > self.bytes_max:
                sentence = f"malformed message: a frame of {length} bytes; here it may have {self.bytes_max}"
                raise fail(Reason.INVALID_ARGUMENT, sentence, length=length, bytes_max=self.bytes_max)
            begin = position + _LENGTH.size
            if size - begin < length:
                self._wanted = _LENGTH.size + length
                break
            position = begin + length
            yield data[begin:position]
        if position < size:
            self._rest += data[position:]


class _Transport(Protocol):
    """What is used of an asyncio transport."""

    def write(self, data: bytes) -> None: ...
    def can_write_eof(self) -> bool: ...
    def write_eof(self) -> None: ...
    def is_closing(self) -> bool: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def set_write_buffer_limits(self, high: int) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class FramedProtocol(asyncio.Protocol):
    """One end of a connection. Whoever extends it says what happens to frames, at the end, and when it may write again."""

    def __init__(self) -> None:
        self._cutter = FrameCutter(LINK_HELLO_BYTES_MAX)
        self._transport: _Transport | None = None
        self._look: asyncio.TimerHandle | None = None
        self._full = self._broken = self._ending = self._held = False
        self._heard = self._said = True
        self._silent_looks = 0

    # ---- for whoever extends it -------------------------------------------------------------------------------------

    def on_frame(self, data: bytes) -> None:
        """A frame has come. Raises PathwaysError if it is malformed."""
        raise NotImplementedError

    def on_sign_of_life(self) -> None:
        """The other end has nothing to say, and lives."""

    def on_malformed(self, failure: Failure) -> None:
        """What came is no frame, or none that may come now; nothing more will be read."""
        raise NotImplementedError

    def on_room(self) -> None:
        """There is room in the buffer again."""

    def on_end(self, reason: str) -> None:
        """The connection is gone; told once."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        """Whether the buffer has room for frames."""
        return self._transport is not None and not self._full

    def put(self, frame: bytes) -> None:
        """Sends a frame; what is written in one turn of the event loop leaves together."""
        if self._transport is not None and not self._ending:
            self._said = True
            self._transport.write(_LENGTH.pack(len(frame)) + frame)

    def hold(self, held: bool) -> None:
        """Nothing more is taken from the network until it is called again: the other end's writes wait there."""
        if held != self._held and self._transport is not None and not self._transport.is_closing():
            self._held = held
            if held:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def trust(self) -> None:
        """The other end is who it should be: its frames may be large."""
        self._cutter.bytes_max = LINK_FRAME_BYTES_MAX

    def close(self) -> None:
        """Nothing more is said; the connection ends when the other end has heard all of it and ends its side.

        Until then what it sends is still taken from the network: to close with anything unread resets the connection, and an
        end that writes into that may never read the last words.
        """
        transport = self._transport
        if transport is None or self._ending or transport.is_closing():
            return
        self.hold(False)
        self._ending = True
        try:
            if transport.can_write_eof():
                transport.write_eof()
                return
        except OSError:
            pass  # the other end is gone, which is heard of a moment later
        transport.close()

    def abort(self, reason: str) -> None:
        """Ends the connection now."""
        transport = self._transport
        self._ended(reason)
        if transport is not None:
            transport.abort()

    # ---- what asyncio calls -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        self._transport = cast("_Transport", transport)
        self._transport.set_write_buffer_limits(high=LINK_BUFFER_BYTES)
        self._look_later()

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        self._heard = True
        if self._transport is None or self._broken or self._ending:
            return
        try:
            whole = self._cutter.whole(data)
            if whole is not None:
                if whole:
                    self.on_frame(whole)
                else:
                    self.on_sign_of_life()
                return
            for frame in self._cutter.cut(data):
                if not frame:
                    self.on_sign_of_life()
                elif not self._ending:
                    self.on_frame(frame)
        except PathwaysError as error:
            self._broken = True
            self.on_malformed(error.failure)

    def pause_writing(self) -> None:
        """The other end does not read as fast as we write."""
        self._full = True

    def resume_writing(self) -> None:
        """It has caught up."""
        self._full = False
        self.on_room()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self._ended("the stream ended" if error is None else "the connection broke")

    def _ended(self, reason: str) -> None:
        if self._look is not None:
            self._look.cancel()
        if self._transport is not None:
            self._transport = None
            self.on_end(reason)

    # ---- life -------------------------------------------------------------------------------------------------------

    def _look_later(self) -> None:
        self._look = asyncio.get_running_loop().call_later(_LOOK_NS / 1e9, self.look)

    def look(self) -> None:
        """Now and then: says that this end lives, and gives up one that does not."""
        self._silent_looks = 0 if self._heard or self._held else self._silent_looks + 1
        if self._silent_looks >= SILENT_LOOKS_MAX:
            self.abort("nothing was heard of it any more")
            return
        if not self._said and self._transport is not None and not self._ending:
            self._transport.write(_ALIVE)
        self._heard = self._said = False
        self._look_later()


def preface(service: str, authorization: str) -> bytes:
    """The first frame of the dialling end; `service`: "Workers" or "Sessions"."""
    return f"{PROTOCOL_VERSION}.{service} {authorization}".encode()


def read_preface(first: bytes) -> tuple[str, str]:
    """Service and authorization; raises PathwaysError (INVALID_ARGUMENT) if the frame is no preface."""
    name, _, authorization = first.decode(errors="replace").partition(" ")
    version, _, service = name.rpartition(".")
    if version != PROTOCOL_VERSION:
        raise fail(Reason.INVALID_ARGUMENT, f"malformed message: the first frame does not begin with {PROTOCOL_VERSION!r}")
    return service, authorization
