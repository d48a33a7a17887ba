"""How far an executor has come is read from memory that outlives it, so its death never leaves a launch in doubt.

Little-endian 64-bit numbers (their order and meaning are those of executor/progress.py), each of which the executor writes in one
store before it says the same in a report. They are read when the process is gone, and while it runs when it is asked how far it
is: a process that is stopped, or whose interpreter is held, cannot answer for itself.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple

_SIGNS = struct.Struct("<QQQQQQQ")


class Progress(NamedTuple):
    """The last island sequences of an executor, and the id of the executable that it is loading; 0 if none."""

    launched_through: int = 0
    finished_through: int = 0
    entered_through: int = 0
    loading: int = 0


class Signs(NamedTuple):
    """What a living executor has written; moments are of the monotonic clock, 0 = never."""

    launched_through: int
    finished_through: int
    entered_through: int
    entered_ns: int
    beat_ns: int
    waits_for: int
    loading: int


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

    def look(self) -> Signs:
        """What the process has written so far."""
        return Signs(*_SIGNS.unpack_from(self._memory))

    def read(self) -> Progress:
        """What the process has written so far; nothing once it was taken."""
        if self._memory.closed:
            return Progress()
        signs = self.look()
        entered_through = max(signs.entered_through, signs.launched_through)
        return Progress(signs.launched_through, signs.finished_through, entered_through, signs.loading)

    def take(self) -> Progress:
        """What the process, now gone, had written; the page goes with it."""
        self.handed_over()
        progress = self.read()
        self._memory.close()
        return progress
