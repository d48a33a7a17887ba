"""Memory for arrays that clients put, used again: to touch fresh memory costs several times what it takes to fill it.

The runtime takes such memory as an array's own and lets go of it with the array; then it is kept for the next one, for a few
seconds and up to a bound. What an array held is overwritten before another has it: whoever takes memory fills all of it.
"""

from __future__ import annotations

import mmap
import threading
import time
import weakref
from collections import deque
from contextlib import suppress
from typing import Any

import numpy as np

KEPT_BYTES_MAX = 1 << 30
KEPT_S = 5.0
_HUGE_PAGES = getattr(mmap, "MADV_HUGEPAGE", None)


class RecycledMemory:
    """May be used from any thread."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX, kept_s: float = KEPT_S) -> None:
        self._kept_bytes_max = kept_bytes_max
        self._kept_s = kept_s
        # An array may die, and give its memory back, in the middle of anything this thread does.
        self._lock = threading.RLock()
        self._kept: deque[tuple[float, mmap.mmap]] = deque()
        self._sweeping = False

    @property
    def kept_bytes(self) -> int:
        """Without use."""
        with self._lock:
            return sum(len(block) for _, block in self._kept)

    def take(self, size_bytes: int) -> np.ndarray[Any, Any]:
        """So many bytes, aligned to a page and with whatever was in them; they come back when the last view is gone."""
        block = self._found(size_bytes) or self._fresh(size_bytes)
        whole = np.frombuffer(block, np.uint8, size_bytes)
        weakref.finalize(whole, self._give_back, block).atexit = False
        return whole

    def _found(self, size_bytes: int) -> mmap.mmap | None:
        with self._lock:
            fitting = [kept for kept in self._kept if size_bytes <= len(kept[1]) <= size_bytes + size_bytes // 4]
            if not fitting:
                return None
            best = min(fitting, key=lambda kept: len(kept[1]))
            self._kept.remove(best)
            return best[1]

    def _fresh(self, size_bytes: int) -> mmap.mmap:
        block = mmap.mmap(-1, max(size_bytes, 1))
        if _HUGE_PAGES is not None:
            with suppress(OSError):  # a kernel without them
                block.madvise(_HUGE_PAGES)
        return block

    def _give_back(self, block: mmap.mmap) -> None:
        with self._lock:
            self._kept.append((time.monotonic(), block))
            while self._kept and self.kept_bytes > self._kept_bytes_max:
                self._kept.popleft()
            if self._kept and not self._sweeping:
                self._sweeping = True
                threading.Thread(target=self._sweep, name="recycled memory", daemon=True).start()

    def _sweep(self) -> None:
        """Until nothing is kept."""
        while True:
            time.sleep(self._kept_s / 2)
            with self._lock:
                while self._kept and self._kept[0][0] < time.monotonic() - self._kept_s:
                    self._kept.popleft()
                if not self._kept:
                    self._sweeping = False
                    return
