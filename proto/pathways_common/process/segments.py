"""Shared memory that changes hands as a descriptor, on sockets that only this machine has.

A segment is anonymous memory, sealed against shrinking; whoever is given one looks at the seal, writes and reads it by calls,
and maps it only if it is its own. So nobody is hurt by what its owner does, nothing of it is a file, and it goes with the last
process that has it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
from contextlib import suppress

from pathways_common.model.failure import Reason, fail


def make_segment(size_bytes: int) -> int:
    """The descriptor of a new one with all of its memory; OSError if there is not so much."""
    descriptor = os.memfd_create("pathways-segment", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def connect(name: str) -> socket.socket | None:
    """Connects to a listener of this machine, of this user or root; None if there is none of that name, or no room now."""
    try:
        end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError:
        return None
    try:
        end.setblocking(False)
        end.connect(f"\0{name}")
        # The name of a process that has ended may be taken by anybody.
        if _user_of(end) in (0, os.geteuid()):
            return end
    except OSError:
        pass
    end.close()
    return None


def _user_of(end: socket.socket) -> int:
    """Who listens at the other end."""
    size = struct.calcsize("iII")
    return int(struct.unpack("iII", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1])


def check_segment(descriptor: int, size_bytes: int) -> None:
    """Raises PathwaysError unless this is memory that stays at least so large whatever its owner does."""
    try:
        sealed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    except OSError:
        sealed = 0  # a file, a pipe: whoever writes there may have to wait for its owner
    if not sealed or os.fstat(descriptor).st_size < size_bytes:
        sentence = f"a segment has to be memory of at least {size_bytes} bytes that is sealed against shrinking (memfd_create)"
        raise fail(Reason.INVALID_ARGUMENT, sentence, size_bytes=size_bytes)


def write_at(descriptor: int, data: memoryview, offset: int) -> None:
    """Writes all bytes; OSError if there is no memory for them. A write asks for room and fails, where a mapping would kill."""
    while len(data):
        count = os.pwrite(descriptor, data, offset)
        data, offset = data[count:], offset + count


def read_at(descriptor: int, data: memoryview, offset: int) -> None:
    """Fills `data`; OSError if there are too few bytes."""
    while len(data):
        count = os.preadv(descriptor, [data], offset)
        if not count:
            raise OSError("the segment ended early")
        data, offset = data[count:], offset + count


async def write_aside(descriptor: int, data: memoryview, offset: int) -> None:
    """`write_at` on a thread. If it is cancelled the thread goes on, with a descriptor of its own."""
    mine = [os.dup(descriptor)]

    def write() -> None:
        own = mine.pop()
        try:
            write_at(own, data, offset)
        finally:
            os.close(own)

    try:
        await asyncio.to_thread(write)
    finally:
        with suppress(IndexError):  # the thread has taken it, and closes it
            os.close(mine.pop())
