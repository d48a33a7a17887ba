"""One clock for everything an executor says about time: the wall clock when the process started, and even from there.

Moments are kept in nanoseconds of the monotonic clock, and become wall time when they are told. A wall clock that is set while a
launch is in flight would book the difference to whoever launched it.
"""

from __future__ import annotations

import time

_OFFSET_NS = time.time_ns() - time.monotonic_ns()

now_ns = time.monotonic_ns


def wall_ns(moment_ns: int) -> int:
    """A moment as it is told; 0 stays "not yet"."""
    return moment_ns + _OFFSET_NS if moment_ns else 0
