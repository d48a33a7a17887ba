"""Two links over a connection that breaks at any time and loses what is under way: everything arrives once and in order.

Checkers: `once` (no item twice), `order` (within urgent and ordinary), `window` (never more in flight than allowed) and
`progress` (after the channel heals all arrives). Each has a mutant of the link that it must catch.
"""

from __future__ import annotations

import random
from collections import deque

import pytest
from pathways_common.model.link import Frame, Link, Verdict

Item = tuple[bool, int]
_STEPS = 400


class CheckFailed(Exception):
    """Names the checker that fired."""


class End:
    """One end: what it pushed, what it got, and frames and acknowledgements on their way to the other end."""

    def __init__(self, link: Link[Item]) -> None:
        self.link = link
        self.pushed: dict[bool, int] = {False: 0, True: 0}
        self.got: list[Item] = []
        self.wire: deque[tuple[Frame[Item] | None, int]] = deque()
        self.frames_sent = 0

    def push(self, urgent: bool) -> None:
        self.link.push((urgent, self.pushed[urgent]), urgent)
        self.pushed[urgent] += 1

    def send(self, window: int) -> None:
        while (frame := self.link.take()) is not None:
            self.wire.append((frame, self.link.received))
            self.frames_sent += 1
            in_flight = sum(not each.urgent for each in self.link.replay())
            if in_flight > window:
                raise CheckFailed("window")
        self.wire.append((None, self.link.received))

    def handle(self, frame: Frame[Item] | None, received: int) -> None:
        self.link.acknowledge(received)
        if frame is None:
            return
        verdict = self.link.accept(frame.sequence)
        if verdict is Verdict.GAP:
            raise CheckFailed("progress")
        if verdict is Verdict.NEW:
            self.got.extend(frame.items)


def reconnect(ends: tuple[End, End], informed: bool) -> None:
    """Everything under way is lost; each end repeats what it does not know to be received, after being told or not."""
    for end in ends:
        end.wire.clear()
    for end, other in (ends, ends[::-1]):
        if informed:
            end.link.acknowledge(other.link.received)
        end.wire.extend((frame, end.link.received) for frame in end.link.replay())


def simulate(seed: int, kind: type[Link[Item]] = Link) -> tuple[int, int]:
    """Runs one seed; returns reconnects and frames. Raises CheckFailed."""
    choose = random.Random(seed)
    window = choose.choice((1, 2, 3))
    ends = (End(kind(window, choose.choice((1, 5, 4096)))), End(kind(window, 4096)))
    breaks = choose.choice((0.0, 0.01, 0.1))
    reconnects = 0
    for _ in range(_STEPS):
        end = choose.choice(ends)
        other = ends[1] if end is ends[0] else ends[0]
        action = choose.random()
        if action < breaks:
            reconnects += 1
            reconnect(ends, informed=choose.random() < 0.5)
        elif action < 0.5:
            end.push(urgent=choose.random() < 0.2)
        elif action < 0.7:
            end.send(window)
        elif other.wire:
            end.handle(*other.wire.popleft())
    reconnect(ends, informed=True)
    for _ in range(2 * _STEPS):
        for end, other in (ends, ends[::-1]):
            end.send(window)
            while end.wire:
                other.handle(*end.wire.popleft())
    for end, other in (ends, ends[::-1]):
        check(end, other)
    return reconnects, ends[0].frames_sent + ends[1].frames_sent


def check(sender: End, receiver: End) -> None:
    if len(set(receiver.got)) != len(receiver.got):
        raise CheckFailed("once")
    for urgent in (False, True):
        numbers = [number for kind, number in receiver.got if kind is urgent]
        if numbers != sorted(numbers):
            raise CheckFailed("order")
        if len(numbers) != sender.pushed[urgent]:
            raise CheckFailed("progress")


def test_everything_arrives_once_and_in_order_over_a_breaking_connection() -> None:
    figures = [simulate(seed) for seed in range(150)]
    assert sum(reconnects > 0 for reconnects, _ in figures) > 50
    assert sum(frames for _, frames in figures) > 150 * 50


class TakesDuplicates(Link[Item]):
    """Handles a repeated frame again."""

    def accept(self, sequence: int) -> Verdict:
        verdict = super().accept(sequence)
        return Verdict.NEW if verdict is Verdict.DUPLICATE else verdict


class SendsNewestFirst(Link[Item]):
    """Empties its queue from the wrong end when it is longer than one frame."""

    def take(self) -> Frame[Item] | None:
        self._pending.reverse()
        return super().take()


class IgnoresWindow(Link[Item]):
    """Sends whatever there is."""

    def take(self) -> Frame[Item] | None:
        self._ordinary_in_flight = 0
        return super().take()


class ForgetsUrgentFrames(Link[Item]):
    """Repeats ordinary frames only."""

    def replay(self) -> list[Frame[Item]]:
        return [frame for frame in super().replay() if not frame.urgent]


class CountsUrgentFrames(Link[Item]):
    """Lets urgent frames use up the window for good."""

    def take(self) -> Frame[Item] | None:
        frame = super().take()
        if frame is not None and frame.urgent:
            self._ordinary_in_flight += 1
        return frame


@pytest.mark.parametrize(
    ("mutant", "checker"),
    [
        (TakesDuplicates, "once"),
        (SendsNewestFirst, "order"),
        (IgnoresWindow, "window"),
        (ForgetsUrgentFrames, "progress"),
        (CountsUrgentFrames, "progress"),
    ],
)
def test_each_mutant_is_caught_by_its_checker(mutant: type[Link[Item]], checker: str) -> None:
    caught = set()
    for seed in range(60):
        try:
            simulate(seed, mutant)
        except CheckFailed as failure:
            caught.add(str(failure))
    assert checker in caught
