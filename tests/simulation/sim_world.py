"""Virtual time, the trace and the pipes of the simulation.

Everything that happens is a callback at a virtual time, drawn from one seeded generator; equal seeds give equal traces.
A pipe is one connection with the project's own `Link` at both ends: frames of one direction stay in order, different
connections overtake each other, and acknowledgements come back late.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable
from typing import Any

from pathways_common.model.link import Link, Verdict

MILLISECOND_NS = 1_000_000


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_ns = 0
        self.steps = 0
        self.violations: list[tuple[str, str]] = []
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

    def run_until(self, done: Callable[[], bool], limit_ns: int) -> bool:
        """Runs until `done` holds; False if virtual time or the steps ran out first."""
        while self._heap and self._heap[0][0] <= limit_ns and self.steps < 400_000 and not self.broken:
            if done():
                return True
            self.now_ns, _, action = heapq.heappop(self._heap)
            self.steps += 1
            action()
        return done()

    @property
    def broken(self) -> bool:
        return bool(self.violations)

    def violate(self, checker: str, text: str) -> None:
        self.violations.append((checker, f"at {self.now_ns / 1e9:.6f} s: {text}"))

    def record(self, text: str) -> None:
        """Into the digest, and the end of it into the story that a failure prints."""
        self.trace.update(f"{self.now_ns} {text}\n".encode())
        self.story.append(f"{self.now_ns / 1e6:10.3f} ms {text}")
        if len(self.story) > 4000:
            del self.story[:2000]


class End:
    """One end of a pipe: pushes items, hands over the items of incoming frames."""

    def __init__(self, world: World, receive: Callable[[tuple[Any, ...]], None], slow: Callable[[], float]) -> None:
        self.world = world
        self.link: Link[Any] = Link()
        self.receive = receive
        self.slow = slow
        self.peer: End
        self.open = True
        self._arrival_ns = 0

    def push(self, item: Any, urgent: bool = False) -> None:
        self.link.push(item, urgent)

    def flush(self) -> None:
        while self.open and (frame := self.link.take()) is not None:
            self._send(frame.sequence, frame.items)

    def _send(self, sequence: int, items: tuple[Any, ...]) -> None:
        world = self.world
        arrival = world.now_ns + int(world.delay(0.05, 1.5) * self.slow())
        self._arrival_ns = max(self._arrival_ns + 1, arrival)
        world.after(self._arrival_ns - world.now_ns, lambda: self.peer.arrive(sequence, items))

    def arrive(self, sequence: int, items: tuple[Any, ...]) -> None:
        if not self.open:
            return
        if self.link.accept(sequence) is not Verdict.NEW:
            self.world.violate("links", f"frame {sequence} arrived out of order")
            return
        self.receive(items)
        self.world.soon(lambda: self.peer.acknowledged(sequence))

    def acknowledged(self, sequence: int) -> None:
        if self.open:
            self.link.acknowledge(sequence)
            self.flush()

    def close(self) -> None:
        self.open = False
        self.peer.open = False


def connect(
    world: World, left: Callable[[tuple[Any, ...]], None], right: Callable[[tuple[Any, ...]], None], slow: Callable[[], float]
) -> tuple[End, End]:
    """Both ends of a new connection; `left` and `right` receive what the other end pushes."""
    first, second = End(world, left, slow), End(world, right, slow)
    first.peer, second.peer = second, first
    return first, second
