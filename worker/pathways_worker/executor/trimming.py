"""Memory that large arrays leave goes back to the system: the C library keeps what they had in its heaps until it is told.

It is told by a thread of its own, at most once per look at the figures, and only when much has gone: telling costs milliseconds.
"""

from __future__ import annotations

import ctypes
from functools import partial

from pathways_worker.executor.completion import Lane

# Less is not worth the time.
TRIM_BYTES = 64 << 20


class Trimmer:
    """Looks at the bytes of live arrays as they are reported."""

    def __init__(self) -> None:
        self._highest_bytes = 0
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._lane = Lane("trim")

    def observe(self, live_bytes: int) -> None:
        """Trims if much less is live than was since the last time."""
        if self._highest_bytes - live_bytes < TRIM_BYTES:
            self._highest_bytes = max(self._highest_bytes, live_bytes)
            return
        self._highest_bytes = live_bytes
        if self._trim is not None:
            self._lane.put(partial(self._trim, 0))
