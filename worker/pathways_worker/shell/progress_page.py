"""How far an executor had come is read from memory that outlives it, so its death never leaves a launch in doubt.

Two little-endian 64-bit numbers, launched and finished: the executor writes them (each in one store) before it says the same in
a report; the daemon reads them when the process is gone, and when somebody asks how far it is.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple

_PROGRESS = struct.Struct("<QQ")


class Progress(NamedTuple):
    """The last island sequences of an executor; 0 if none."""

    launched_through: int = 0
    finished_through: int = 0


class ProgressPage:
    """The page of one executor process; `descriptor` is what the process inherits."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("pathways-progress")
        os.ftruncate(self.descriptor, mmap.PAGESIZE)
        self._open = True
        self._memory = mmap.mmap(self.descriptor, mmap.PAGESIZE, access=mmap.ACCESS_READ)

    def handed_over(self) -> None:
        """The process has its own descriptor now, or will not come to be."""
        if self._open:
            self._open = False
            os.close(self.descriptor)

    def read(self) -> Progress:
        """What the process has written so far; nothing once it was taken."""
        return Progress() if self._memory.closed else Progress(*_PROGRESS.unpack_from(self._memory))

    def take(self) -> Progress:
        """What the process, now gone, had written; the page goes with it."""
        self.handed_over()
        progress = self.read()
        self._memory.close()
        return progress
