"""Keeps the thread that launches and gloo's thread on different CPUs: of those allowed, each gets one half.

After every all-reduce the launching thread spins until gloo's lets go of a reference; on one CPU the spin holds up the very
thread that it waits for. Halves and not two single CPUs: the executors of one machine then still have several to launch on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class NotPlaced(Exception):
    """Why the threads stay as they were, in one sentence."""


def started_by(make: Callable[[], T]) -> tuple[T, list[int]]:
    """What `make` returns, and the ids of the threads of this process that there are since."""
    before = set(_threads())
    made = make()
    return made, sorted(set(_threads()) - before)


def _threads() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/task")]


def place_apart(gloo_threads: Sequence[int]) -> str:
    """Gives this thread one half of its CPUs and gloo's thread the other; what was done, as a line for a log.

    Threads that this one starts later stay in its half; those it has already started may still run anywhere. Raises
    NotPlaced, and then nothing has changed.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise NotPlaced(f"threads not placed: this executor may use {len(cpus)} CPU, and a split needs two")
    if len(gloo_threads) != 1:
        raise NotPlaced(f"threads not placed: gloo started {len(gloo_threads)} threads, and a split is for one")
    (gloo_thread,), middle = gloo_threads, len(cpus) // 2
    own, of_gloo = cpus[:middle], cpus[middle:]
    try:
        os.sched_setaffinity(gloo_thread, of_gloo)
        os.sched_setaffinity(0, own)
    except OSError as error:
        with suppress(OSError):
            os.sched_setaffinity(gloo_thread, cpus)
        raise NotPlaced(f"threads not placed: the system refused it ({error.strerror})") from error
    return f"threads placed: the dispatcher on CPUs {_words(own)}, gloo on {_words(of_gloo)}"


def _words(cpus: Sequence[int]) -> str:
    return ", ".join(map(str, cpus))
