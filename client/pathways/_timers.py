"""Threads that only look now and then may be woken late: JAX's proxy client has one that looks 8,000 times a second.

It sends on releases that nothing else has taken along, and costs 2 % of a core in each idle client, which many clients of one
machine take from one another. The kernel's timer slack is inherited by the threads that a thread starts.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# As long as the door holds releases back for company.
_SLACK_NS = 2_000_000
_SET, _GET = 29, 30  # PR_SET_TIMERSLACK, PR_GET_TIMERSLACK


@contextmanager
def lazy_timers() -> Iterator[None]:
    """Threads started within sleep up to 2 ms longer than they ask to, for good. The calling thread gets its own slack back."""
    if not sys.platform.startswith("linux"):
        yield
        return
    prctl = ctypes.CDLL(None).prctl
    before_ns = prctl(_GET, 0, 0, 0, 0)
    prctl(_SET, ctypes.c_ulong(_SLACK_NS), 0, 0, 0)
    try:
        yield
    finally:
        if before_ns > 0:
            prctl(_SET, ctypes.c_ulong(before_ns), 0, 0, 0)
