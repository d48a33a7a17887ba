"""Where the bytes of spilled buffers are: blocks of memory, and files of a folder that is this worker's alone and ends with it.

Memory is plain and private: the bytes come through a socket, so shared memory would save no copy, and what the kernel gave for
one block goes back to it with the block. A file's pieces have checksums, which are compared when they are read. The folder is
locked while its worker lives, so that the next one tells what a killed worker left behind from what another still uses.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import shutil
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

PIECE_BYTES = 1 << 20
# Below this a block is not worth pages of its own.
_PAGES_FROM_BYTES = 1 << 20
# Others live on this disk, too.
LEFT_FREE_BYTES = 256 << 20


class Broken(Exception):
    """The bytes of a file are not those that were written, or cannot be read; says what and where."""


class MemoryBlock:
    """Takes as many bytes as it was made for, in order."""

    def __init__(self, size_bytes: int) -> None:
        self._memory = mmap.mmap(-1, size_bytes) if size_bytes >= _PAGES_FROM_BYTES else bytearray(size_bytes)
        self.size_bytes = size_bytes
        self.filled_bytes = 0

    def write(self, data: bytes | memoryview) -> None:
        """Adds bytes; ValueError if they are too many."""
        if self.filled_bytes + len(data) > self.size_bytes:
            raise ValueError(f"more than the {self.size_bytes} bytes that were announced")
        self._memory[self.filled_bytes : self.filled_bytes + len(data)] = data
        self.filled_bytes += len(data)

    def pieces(self) -> Iterator[bytes]:
        """All bytes, in order; never waits."""
        for start in range(0, self.size_bytes, PIECE_BYTES):
            yield bytes(self._memory[start : start + PIECE_BYTES])


class FileBlock:
    """The same on disk; whatever it does may wait for the disk and raises OSError. ValueError as above."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._file = -1
        free_bytes = shutil.disk_usage(path.parent).free
        if free_bytes < size_bytes + LEFT_FREE_BYTES:
            raise OSError(f"{free_bytes} bytes are free there, of which {LEFT_FREE_BYTES} are left to others")
        self._path = path
        self._file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._sums: list[tuple[int, int]] = []
        self.size_bytes = size_bytes
        self.filled_bytes = 0

    def write(self, data: bytes | memoryview) -> None:
        """Adds bytes."""
        if self.filled_bytes + len(data) > self.size_bytes:
            raise ValueError(f"more than the {self.size_bytes} bytes that were announced")
        self._sums.append((len(data), zlib.crc32(data)))
        view = memoryview(data)
        while view:
            count = os.pwrite(self._file, view, self.filled_bytes)
            self.filled_bytes += count
            view = view[count:]

    def pieces(self) -> Iterator[bytes]:
        """All bytes, in order; raises Broken."""
        start = 0
        for size_bytes, checksum in self._sums:
            try:
                data = os.pread(self._file, size_bytes, start)
            except OSError as error:
                raise Broken(f"{self._path} cannot be read at byte {start} ({error.strerror})") from error
            if len(data) != size_bytes or zlib.crc32(data) != checksum:
                raise Broken(f"{self._path} does not hold at byte {start} what was written there")
            yield data
            start += size_bytes

    def remove(self) -> None:
        """Removes the file; its room on disk is free when no thread is at work on it any more."""
        self._path.unlink(missing_ok=True)

    def __del__(self) -> None:
        # Not in `remove`: a write on another thread would go to whatever file gets the number next.
        if self._file >= 0:
            os.close(self._file)


class SpillFolder:
    """The folder of one worker below `parent`; it is made with its first file."""

    def __init__(self, parent: Path, host: str) -> None:
        self._parent = parent
        self._host = host
        self.path = parent / f"{host}-{os.getpid()}"
        self._lock = -1
        # Files are made on several threads.
        self._making = threading.Lock()

    def clean(self) -> None:
        """Removes what killed workers of this host left behind."""
        named = re.compile(re.escape(self._host) + r"-\d+")
        for folder in sorted(self._parent.glob(f"{self._host}-*")) if self._parent.is_dir() else ():
            if named.fullmatch(folder.name) and _unused(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def file(self, number: int, size_bytes: int) -> FileBlock:
        """A new file; raises OSError."""
        with self._making:
            if self._lock < 0:
                self._parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.path.mkdir(mode=0o700)
                self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return FileBlock(self.path / str(number), size_bytes)

    def remove(self) -> None:
        """Nothing stays."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def _unused(folder: Path) -> bool:
    """Whether nobody holds the folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
