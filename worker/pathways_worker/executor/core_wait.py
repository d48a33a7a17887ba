"""How long a thread was ready to run and had to wait for a core, as the kernel counts it.

What a thread notes when it wakes is late by that. A kernel that does not count, or a system that hides it, says nothing: then
nobody is taken to be late.
"""

from __future__ import annotations

import os

# Of the thread that opens it, whoever reads it: time on a core, time waited for one (nanoseconds), turns.
FIGURES = "/proc/thread-self/schedstat"
_SIZE_BYTES = 96


class CoreWait:
    """Of the thread that makes it."""

    __slots__ = ("_descriptor",)

    def __init__(self, figures: str = FIGURES) -> None:
        try:
            self._descriptor = os.open(figures, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = -1

    def so_far(self) -> tuple[int, int]:
        """How long it has waited since it began, and in how many turns on a core it has run; zeros if nobody counts."""
        if self._descriptor < 0:
            return 0, 0
        figures = os.pread(self._descriptor, _SIZE_BYTES, 0).split()
        return (int(figures[1]), int(figures[2])) if len(figures) == 3 else (0, 0)

    def close(self) -> None:
        """The figures are not asked for any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
