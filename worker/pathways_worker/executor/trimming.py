"""Memory that arrays leave goes back to the system: the C library keeps what they had in its heaps until it is told.

It is told by a thread of its own, at most once per look at the figures, and only when the process holds much that is no array:
telling costs milliseconds. What is still held after that is the runtime's own.
"""

from __future__ import annotations

import ctypes
import resource

from pathways_worker.executor.completion import Lane

# Less is not worth the time.
TRIM_BYTES = 64 << 20
_PAGE_BYTES = resource.getpagesize()


class Trimmer:
    """Looks at the bytes of live arrays as they are reported."""

    def __init__(self) -> None:
        # What the process held besides arrays when that was least, or when it was trimmed last, less what that gave back.
        self._spare_bytes: int | None = None
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._lane = Lane("trim")

    def observe(self, live_bytes: int) -> None:
        """Trims if the process holds much more besides arrays than it did."""
        spare_bytes = resident_bytes() - live_bytes
        if self._spare_bytes is None or spare_bytes < self._spare_bytes:
            self._spare_bytes = spare_bytes
        elif self._trim is not None and spare_bytes - self._spare_bytes >= TRIM_BYTES:
            self._spare_bytes = spare_bytes  # one at a time; the trim itself says what is left
            self._lane.put(lambda: self._give_back(spare_bytes))

    def _give_back(self, spare_bytes: int) -> None:
        """Later than the look that found so much, and beside the dispatcher: what grew meanwhile may be arrays, and is not held
        against later looks."""
        assert self._trim is not None
        assert self._spare_bytes is not None
        before_bytes = resident_bytes()
        self._trim(0)
        self._spare_bytes = min(self._spare_bytes, spare_bytes - (before_bytes - resident_bytes()))


def resident_bytes() -> int:
    """Memory of this process that is not paged out."""
    with open("/proc/self/statm", "rb") as figures:
        return int(figures.read().split()[1]) * _PAGE_BYTES
