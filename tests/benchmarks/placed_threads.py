"""Gang steps with the threads of both sides placed apart, by the same function: lines of their own, never part of another.

The launching thread of a process and gloo's run on different CPUs then, which makes plain JAX faster, too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import jax
from jaxlib import _jax
from pathways_worker.executor.thread_placement import NotPlaced, place_apart, started_by

# Before the name of everything that was measured so.
MARK = "threads placed"
# A cluster that is started with it splits the threads of its executors; a peer that is told of it, its own.
CLUSTER = {"PATHWAYS_WORKER_THREAD_PLACEMENT": "split"}
PEER_WORD = "split-threads"


def possible() -> bool:
    """Whether there are CPUs to place threads apart on."""
    return len(os.sched_getaffinity(0)) >= 2


def place_peer() -> None:
    """Makes JAX's devices in this process of a group, and then places its threads; SystemExit if that fails."""
    threads: list[int] = []
    original = _jax.make_gloo_tcp_collectives

    def watched(**options: Any) -> Any:
        collectives, started = started_by(lambda: original(**options))
        threads.extend(started)
        return collectives

    _jax.make_gloo_tcp_collectives = watched
    try:
        jax.devices()
    finally:
        _jax.make_gloo_tcp_collectives = original
    try:
        place_apart(threads)
    except NotPlaced as refusal:
        raise SystemExit(str(refusal)) from refusal


def check_one(executors: Sequence[int]) -> None:
    """SystemExit unless one of a host's executors, by pid, has placed its threads; the other, a spare, has none of gloo."""
    if sum(_apart(pid) for pid in executors) != 1:
        raise SystemExit("an executor has not placed its threads; its host's log says why")


def _apart(pid: int) -> bool:
    """Whether the first thread of a process and some other have no CPU in common."""
    own = os.sched_getaffinity(pid)
    return any(own.isdisjoint(os.sched_getaffinity(int(name))) for name in os.listdir(f"/proc/{pid}/task"))
