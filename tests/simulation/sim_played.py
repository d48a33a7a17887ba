"""Plays many seeds in several processes, each when the first test asks for it; a test that fails early leaves the rest alone.

PATHWAYS_SIMULATION_PROCESSES sets in how many (default: one for each core, at most 8), PATHWAYS_SIMULATION_FIRST which seeds
come before the others.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

PROCESSES = int(os.environ.get("PATHWAYS_SIMULATION_PROCESSES") or min(os.cpu_count() or 1, 8))
_FIRST = [int(seed) for seed in os.environ.get("PATHWAYS_SIMULATION_FIRST", "").split(",") if seed]
_AHEAD = 128
_Outcome = TypeVar("_Outcome")


def seeds_in_order(count: int) -> list[int]:
    """All below `count`, behind those that are to come first."""
    return [*_FIRST, *(seed for seed in range(count) if seed not in _FIRST)]


class Played(Generic[_Outcome]):
    """What came of the seeds, in their order; `play` is a function that another process can import."""

    def __init__(self, play: Callable[[int], _Outcome], order: list[int]) -> None:
        self._play = play
        self._order = order
        self._played: list[_Outcome] = []
        self._under_way: deque[Future[_Outcome]] = deque()
        # Not forked: a seed begins in an interpreter of its own, whatever other tests did in this one.
        self._pool = ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) if PROCESSES > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[_Outcome]:
        for place in range(len(self._order)):
            if place == len(self._played):
                self._played.append(self._next(place))
            yield self._played[place]

    def _next(self, place: int) -> _Outcome:
        if self._pool is None:
            return self._play(self._order[place])
        # Enough wait behind those that run that no process is idle while a long one is waited for: some take as long as fifty.
        ahead = self._order[place + len(self._under_way) : place + _AHEAD * PROCESSES]
        self._under_way.extend(self._pool.submit(self._play, seed) for seed in ahead)
        return self._under_way.popleft().result()
