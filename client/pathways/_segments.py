"""Shared memory into which arrays are read. What is free is kept for the next read: fresh memory costs more than the bytes.

An array that lies in a segment keeps it; when the last view of the array is gone, the segment is free. So much of that is kept,
and the rest goes back to the system, as all of it does when the connection ends.

Segments are shared only with who fills them. At a fork those in use become private to both processes, as all memory of arrays is,
and are not used again.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from typing import Any

import numpy as np
from pathways_common.process.segments import make_segment

# Without use; of the last that became free.
KEPT_BYTES_MAX = 2 << 30
_PAGE_BYTES = mmap.PAGESIZE
# madvise(2): has all pages mapped at once, which is a tenth of what the faults would cost one by one.
_POPULATE_WRITE = 23
_MAP_FIXED = 0x10


def plain_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """As which elements are copied: a type that NumPy does not know by itself would be copied one by one, by calls."""
    size = dtype.itemsize
    return np.dtype(f"u{size}" if size in (1, 2, 4, 8) else dtype)


class Segment:
    """A descriptor and the memory behind it, mapped here. Kernels before 5.14 map page by page."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.descriptor = make_segment(size_bytes)
        self.is_private = False
        try:
            self.memory = mmap.mmap(self.descriptor, size_bytes)
        except BaseException:
            os.close(self.descriptor)
            raise
        _LIVING.add(self)

    def populate(self) -> None:
        """Maps all pages, after their first use by somebody else."""
        try:
            self.memory.madvise(_POPULATE_WRITE)
        except OSError:
            return

    def make_private(self) -> None:
        """Others have what is in it now, and see nothing of what comes."""
        if self.is_private or self.descriptor < 0:
            return
        self.is_private = True
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        access, how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _MAP_FIXED
        if libc.mmap(address, self.size_bytes, access, how, self.descriptor, 0) != address:
            raise OSError(ctypes.get_errno(), "a segment cannot be made private before a fork")

    def close(self) -> None:
        """Gives the memory back, when no array lies in it any more."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


_LIVING: weakref.WeakSet[Segment] = weakref.WeakSet()


def _before_fork() -> None:
    for segment in list(_LIVING):
        segment.make_private()


os.register_at_fork(before=_before_fork)


class Segments:
    """Those of one connection. May be used from any thread."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._kept_bytes_max = kept_bytes_max
        # An array may die, and give its segment back, in the middle of anything this thread does.
        self._lock = threading.RLock()
        self._kept: list[Segment] = []
        self._closed = False

    @property
    def kept_bytes(self) -> int:
        """Of segments without use."""
        return sum(segment.size_bytes for segment in self._kept)

    def take(self, size_bytes: int) -> Segment:
        """A segment of so many bytes, or a little more; OSError if there is no memory for it."""
        size_bytes = -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES
        with self._lock:
            for segment in [kept for kept in self._kept if kept.is_private]:
                self._kept.remove(segment)
                segment.close()
            fitting = [kept for kept in self._kept if size_bytes <= kept.size_bytes <= size_bytes + size_bytes // 4]
            if fitting:
                best = min(fitting, key=lambda kept: kept.size_bytes)
                self._kept.remove(best)
                return best
        try:
            return Segment(size_bytes)
        except OSError:
            self._let_go(0)
            return Segment(size_bytes)

    def give_back(self, segment: Segment) -> None:
        """Nothing lies in it any more."""
        with self._lock:
            if self._closed or segment.is_private:
                segment.close()
                return
            self._kept.append(segment)
            self._let_go(self._kept_bytes_max)

    def array(self, segment: Segment, size_bytes: int) -> np.ndarray[Any, Any]:
        """The first bytes of a segment; it comes back when the last view of them is gone."""
        whole = np.frombuffer(segment.memory, np.uint8, size_bytes)
        weakref.finalize(whole, self.give_back, segment).atexit = False
        return whole

    def _let_go(self, kept_bytes_max: int) -> None:
        with self._lock:
            while self._kept and self.kept_bytes > kept_bytes_max:
                self._kept.pop(0).close()

    def close(self) -> None:
        """Keeps nothing from now on; arrays that lie in segments keep theirs."""
        with self._lock:
            self._closed = True
            self._let_go(0)
