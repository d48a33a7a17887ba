"""Virtual time and the trace of the simulation.

Everything that happens is a callback at a virtual time, drawn from one seeded generator; equal seeds give equal traces.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable

MILLISECOND_NS = 1_000_000
STEPS_MAX = 400_000


class World:
    """`tracing`: keep digest and story, which costs as much as a tenth of everything else."""

    def __init__(self, seed: int, tracing: bool = False) -> None:
        self.seed = seed
        self.tracing = tracing
        self.random = random.Random(seed)
        self.now_ns = 0
        self.still_ns = 0  # for how long everything stood still, so far
        self.steps = 0
        self.violations: list[tuple[str, str]] = []
        self.looks: dict[str, int] = {}
        self.trace = hashlib.blake2b(digest_size=16)
        self.story: list[str] = []
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._counter = 0

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        self._counter += 1
        heapq.heappush(self._heap, (self.now_ns + delay_ns, self._counter, action))

    def soon(self, action: Callable[[], None], low_ms: float = 0.02, high_ms: float = 2.0) -> None:
        self.after(self.delay(low_ms, high_ms), action)

    def delay(self, low_ms: float, high_ms: float) -> int:
        return int(self.random.uniform(low_ms, high_ms) * MILLISECOND_NS)

    def stand_still(self, duration_ns: int) -> None:
        """Everything stops for so long, and all clocks go on."""
        self.now_ns += duration_ns
        self.still_ns += duration_ns
        self._heap[:] = [(at_ns + duration_ns, counter, action) for at_ns, counter, action in self._heap]

    def run_until(self, done: Callable[[], bool], limit_ns: int) -> bool:
        """Runs until `done` holds, give or take a few steps; False if virtual time or the steps ran out first."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= limit_ns and self.steps < STEPS_MAX and not self.violations:
            self.steps += 1
            if self.steps % 8 == 0 and done():
                return True
            self.now_ns, _, action = pop(heap)
            action()
        return done()

    @property
    def broken(self) -> bool:
        return bool(self.violations)

    def violate(self, checker: str, text: str) -> None:
        self.violations.append((checker, f"at {self.now_ns / 1e9:.6f} s: {text}"))

    def look(self, checker: str) -> None:
        """Counts that a rule was applied."""
        self.looks[checker] = self.looks.get(checker, 0) + 1

    def record(self, text: str) -> None:
        """Into the digest, and the end of it into the story that a failure prints. Only while tracing."""
        self.trace.update(f"{self.now_ns} {text}\n".encode())
        self.story.append(f"{self.now_ns / 1e6:10.3f} ms {text}")
        if len(self.story) > 4000:
            del self.story[:2000]
