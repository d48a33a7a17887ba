"""What a child prints is kept per host: in a log file of bounded size, and its last words in memory for the report of its death.

gloo prints a line per rank on stdout that says nothing; those lines stay in the file and never reach a user.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from pathlib import Path

from pathways_common.process.logs import fields

_LOG = logging.getLogger(__name__)
# The file is renamed to *.1 when it reaches this, so that a host keeps twice as much at most.
FILE_BYTES_MAX = 8 << 20
# What travels with the report of a death; a traceback fits.
TAIL_BYTES_MAX = 4096
_READ_BYTES = 65536
_NOISE = (b"[Gloo] Rank",)


class OutputLog:
    """The file of one host; several processes, one after the other, write to it through `copy`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size_bytes = path.stat().st_size if path.exists() else 0

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._path

    def write(self, data: bytes) -> None:
        """Appends; a full disk costs the log and nothing else."""
        try:
            if self._size_bytes + len(data) > FILE_BYTES_MAX:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                self._size_bytes = 0
            with self._path.open("ab") as stream:
                stream.write(data)
            self._size_bytes += len(data)
        except OSError as error:
            _LOG.warning("log not written", extra=fields(path=self._path, cause=error.strerror))

    async def copy(self, stream: asyncio.StreamReader, tail: Tail) -> None:
        """Copies a child's output until it ends."""
        while data := await stream.read(_READ_BYTES):
            self.write(data)
            tail.add(data)


class Tail:
    """The last words of one process."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size_bytes = 0

    def add(self, data: bytes) -> None:
        """Keeps the end of what was added so far, a little more than is shown."""
        self._pieces.append(data)
        self._size_bytes += len(data)
        while self._size_bytes - len(self._pieces[0]) >= 2 * TAIL_BYTES_MAX:
            self._size_bytes -= len(self._pieces.popleft())

    def text(self) -> str:
        """The end, without what is noise."""
        lines = [line for line in b"".join(self._pieces).splitlines() if not line.startswith(_NOISE)]
        return b"\n".join(lines)[-TAIL_BYTES_MAX:].decode(errors="replace")
