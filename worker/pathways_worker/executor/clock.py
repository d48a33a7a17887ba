"""One clock for everything an executor says about time: the wall clock when the process started, and even from there.

A wall clock that is set while a launch is in flight would book the difference to whoever launched it.
"""

from __future__ import annotations

import time

_OFFSET_NS = time.time_ns() - time.monotonic_ns()


def now_ns() -> int:
    """Nanoseconds of the wall clock; never goes back."""
    return time.monotonic_ns() + _OFFSET_NS
