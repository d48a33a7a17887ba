"""The launch rule under a hostile link, seeded: delays, repetitions, adjacent swaps, losses, cancels, epochs that end early.

Two phases per seed: faults and safety, then heal (everything is sent again) and demand that every gang was launched. The
checker knows the order from the plan alone; it must catch the mutant that launches gangs as they arrive
(`GangQueue(check=False)`). Single executions are mixed with ranges of runs, which cover several launches of a host or none.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import random
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from pathways_worker.core.gang_queue import (
    AskAgain,
    Cancelled,
    Effect,
    EpochReset,
    Event,
    Following,
    GangQueue,
    Granted,
    Ignored,
    Launch,
    Prepared,
    RunRange,
    Stop,
    Work,
)

# Small state, soon explored: the seeds of a long run are better spent on the whole system.
SEEDS = min(int(os.environ.get("PATHWAYS_SIMULATION_SEEDS", "60")), 300)
FAULTS = ("delay", "repeat", "swap", "lose")
HOSTS = 3
GANGS = 90
EPOCHS = 3


class OrderBroken(AssertionError):
    """The checker found a host that left the island's order."""


class Grant(NamedTuple):
    """What a host must launch, by its first and last sequence."""

    work: Work
    sequence: int
    previous: int
    last: int

    def prepared(self, epoch: int) -> Prepared:
        return Prepared(self.work, self.sequence, self.previous, epoch, self.last)

    def granted(self, epoch: int) -> Granted:
        return Granted(self.work, self.sequence, self.previous, epoch, self.last)


@dataclass
class Plan:
    """The order of one epoch, per host; what a host is told between two grants follows the first of them."""

    epoch: int
    per_host: list[list[Grant]]
    following: list[list[Following]]

    def ending_with(self, host: int, sequence: int) -> Grant:
        return next(grant for grant in self.per_host[host] if grant.last == sequence)


def plan(draw: random.Random, epoch: int) -> Plan:
    per_host: list[list[Grant]] = [[] for _ in range(HOSTS)]
    following: list[list[Following]] = [[] for _ in range(HOSTS)]
    sequence = 0
    # The run under way, and the step at which its next range begins.
    run, step = epoch * 100_000, 0
    while sequence < GANGS:
        length = draw.randint(2, 9) if draw.random() < 0.3 else 1
        own: list[list[int]] = [[] for _ in range(HOSTS)]
        taking_part = draw.sample(range(HOSTS), HOSTS if length == 1 or draw.random() < 0.7 else HOSTS - 1)
        for number in range(sequence + 1, sequence + 1 + length):
            for host in draw.sample(taking_part, draw.randint(1, len(taking_part))):
                own[host].append(number)
        work: Work = RunRange(run, step, step + length) if length > 1 else epoch * 1000 + sequence + 1
        for grants, follow, numbers in zip(per_host, following, own, strict=True):
            previous = grants[-1].last if grants else 0
            if numbers:
                grants.append(Grant(work, numbers[0], previous, numbers[-1]))
            elif isinstance(work, RunRange):
                follow.append(Following(work, previous, epoch))
        sequence += length
        if length > 1:
            run, step = (run, step + length) if draw.random() < 0.7 else (run + 1, 0)
    return Plan(epoch, per_host, following)


def in_order(made: Plan, host: int) -> list[Grant | Following]:
    """What a host is told, in the order of the plan."""
    grants, following = made.per_host[host], made.following[host]
    return sorted([*grants, *following], key=lambda entry: (entry.previous, isinstance(entry, Grant)))


@dataclass
class Host:
    """One host's queue, its link and what it launched, with the checker."""

    queue: GangQueue
    launched: list[tuple[Work, int]] = field(default_factory=list)
    followed: list[Work] = field(default_factory=list)
    told: set[Following] = field(default_factory=set)

    def step(self, event: Event) -> list[Effect]:
        """A range without launches is told to the queue once, as executors do that."""
        if isinstance(event, Following):
            if event in self.told:
                return []
            self.told.add(event)
        return self.queue.step(event)

    def check_following(self, effect: Launch, expected: list[Following], grants: list[Grant]) -> None:
        previous = next(follow.previous for follow in expected if follow.work == effect.work)
        last = grants[len(self.launched) - 1].last if self.launched else 0
        if last < previous:
            raise OrderBroken(f"{effect} follows {previous}, and the last launch is {last}")
        self.followed.append(effect.work)

    def check(self, effect: Launch, expected: list[Grant]) -> None:
        position = len(self.launched)
        wanted = expected[position][:2] if position < len(expected) else None
        if wanted != (effect.work, effect.sequence):
            raise OrderBroken(f"launch {position} of the epoch is {effect}, the island's order says {wanted}")
        self.launched.append((effect.work, effect.sequence))


class World:
    """Virtual time; the link of a host delivers (time, tie, host, event)."""

    def __init__(self, seed: int, check: bool) -> None:
        self.draw = random.Random(seed)
        self.on = {fault for fault in FAULTS if self.draw.random() < 0.6}
        self.hosts = [Host(GangQueue(check)) for _ in range(HOSTS)]
        self.link: list[tuple[float, int, int, Event]] = []
        self.now = 0.0
        self.sent = 0
        self.counts: Counter[str] = Counter()
        self.digest = hashlib.sha256(str(sorted(self.on)).encode())
        self.plan = plan(self.draw, 1)

    def send(self, host: int, event: Event, safe: bool = False) -> None:
        """Puts an event on the link; faults strike unless it is `safe`."""
        at = self.sent * 1.0
        self.sent += 1
        if not safe:
            if "lose" in self.on and self.draw.random() < 0.05:
                self.counts["lost"] += 1
                return
            if "swap" in self.on and self.draw.random() < 0.1:
                self.counts["swapped"] += 1
                at += 1.5
            if "delay" in self.on and self.draw.random() < 0.1:
                self.counts["delayed"] += 1
                at += self.draw.uniform(0, 40)
            if "repeat" in self.on and self.draw.random() < 0.1:
                self.counts["repeated"] += 1
                heapq.heappush(self.link, (at + self.draw.uniform(0, 60), self.sent, host, event))
                self.sent += 1
        heapq.heappush(self.link, (at, self.sent, host, event))

    def deliver(self, limit: int | None = None) -> None:
        while self.link and limit != 0:
            limit = None if limit is None else limit - 1
            self.now, _, host, event = heapq.heappop(self.link)
            self.counts["events"] += 1
            for effect in self.hosts[host].step(event):
                self.digest.update(repr((host, event, effect)).encode())
                self.counts[type(effect).__name__] += 1
                match effect:
                    case Launch(sequence=0):
                        self.hosts[host].check_following(effect, self.plan.following[host], self.plan.per_host[host])
                        self.counts["following"] += 1
                    case Launch():
                        self.hosts[host].check(effect, self.plan.per_host[host])
                        self.counts["ranges"] += isinstance(effect.work, RunRange)
                    case AskAgain():
                        if effect.epoch == self.plan.epoch:
                            self.send(host, self.plan.ending_with(host, effect.sequence).prepared(effect.epoch))
                    case Stop():
                        raise OrderBroken(f"an honest controller was contradicted: {effect}")
                    case Ignored():
                        pass

    def begin(self, epoch: int) -> None:
        self.plan = plan(self.draw, epoch)
        for host in self.hosts:
            host.launched.clear()
            host.followed.clear()
            # As in the daemon: a new epoch is a fresh start, told before anything of it arrives.
            host.queue.step(EpochReset(epoch))

    def run_epoch(self, epoch: int) -> None:
        self.begin(epoch)
        for host in range(HOSTS):
            for entry in self.entries(host):
                self.enqueue(host, entry, epoch)
        total = len(self.link)
        if epoch < EPOCHS and self.draw.random() < 0.5:
            self.counts["epochs cut short"] += 1
            self.deliver(self.draw.randrange(total))
            return
        self.deliver()
        for host in range(HOSTS):
            for entry in self.entries(host):
                self.send(host, entry if isinstance(entry, Following) else entry.prepared(epoch), safe=True)
        self.deliver()
        for host, entries, following in zip(self.hosts, self.plan.per_host, self.plan.following, strict=True):
            assert host.launched == [entry[:2] for entry in entries], "something granted was never launched"
            assert sorted(host.followed) == [follow.work for follow in following], "something granted was never carried out"
            assert host.queue.waiting == 0, "something was left behind"

    def entries(self, host: int) -> list[Grant | Following]:
        """What a host is told, in the order of the plan."""
        return in_order(self.plan, host)

    def enqueue(self, host: int, grant: Grant | Following, epoch: int) -> None:
        if isinstance(grant, Following):
            self.send(host, grant)
            return
        kind = self.draw.random()
        if kind < 0.5:
            self.send(host, grant.prepared(epoch))
        elif kind < 0.9:
            parts: list[Event] = [Prepared(grant.work, 0, 0, epoch), grant.granted(epoch)]
            if self.draw.random() < 0.2:
                parts.reverse()
            for part in parts:
                self.send(host, part)
        else:
            self.send(host, Prepared(grant.sequence + 500_000, 0, 0, epoch), safe=True)
            self.send(host, Cancelled(grant.sequence + 500_000), safe=True)
            self.send(host, grant.prepared(epoch))


def simulate(seed: int, check: bool = True) -> World:
    world = World(seed, check)
    for epoch in range(1, EPOCHS + 1):
        world.run_epoch(epoch)
    return world


def test_every_host_launches_the_islands_order_whatever_the_link_does() -> None:
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for seed in range(SEEDS):
        try:
            world = simulate(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}; replay with simulate({seed})") from error
        counts += world.counts
        kinds.update(world.on)
    print(f"seeds {SEEDS}", dict(counts), dict(kinds))
    assert counts["events"] / SEEDS >= 500, "hollow seeds"
    assert all(kinds[fault] >= SEEDS / 5 for fault in FAULTS)
    for effect in (
        "Launch",
        "AskAgain",
        "Ignored",
        "lost",
        "swapped",
        "delayed",
        "repeated",
        "epochs cut short",
        "ranges",
        "following",
    ):
        assert counts[effect] > 0, effect


def test_the_checker_catches_a_host_that_launches_gangs_as_they_arrive() -> None:
    caught = 0
    for seed in range(SEEDS):
        try:
            simulate(seed, check=False)
        except AssertionError:
            caught += 1
    assert caught >= SEEDS * 0.8, f"only {caught} of {SEEDS} seeds noticed"


def test_without_faults_gangs_are_launched_as_they_arrive_and_nothing_is_asked_for() -> None:
    world = World(0, check=True)
    world.on = set()
    world.begin(1)
    for host in range(HOSTS):
        for entry in world.entries(host):
            world.send(host, entry if isinstance(entry, Following) else entry.prepared(1))
    world.deliver()
    ranges, following = world.counts.pop("ranges"), world.counts.pop("following")
    assert min(ranges, following) > 0
    launches = sum(map(len, world.plan.per_host)) + following
    assert world.counts == {"events": launches, "Launch": launches}


def test_on_a_link_that_keeps_order_no_launch_overtakes_a_range_without_launches() -> None:
    """Grants are lost behind the link, and sent again when they are asked for; nothing else changes places."""
    asked = 0
    for seed in range(SEEDS):
        draw = random.Random(seed)
        made = plan(draw, 1)
        entries = in_order(made, 0)
        on_way = deque(entry for entry in entries if isinstance(entry, Following) or draw.random() >= 0.1)
        queue, launched = GangQueue(), list[Work]()
        queue.step(EpochReset(1))
        while on_way:
            entry = on_way.popleft()
            for effect in queue.step(entry if isinstance(entry, Following) else entry.prepared(1)):
                if isinstance(effect, AskAgain):
                    asked += 1
                    on_way.append(made.ending_with(0, effect.sequence))
                elif isinstance(effect, Launch):
                    launched.append(effect.work)
        wanted = [entry.work for entry in entries]
        # What was lost at the very end is not asked for.
        assert launched == wanted[: len(launched)], f"seed {seed}"
        assert len(launched) > len(wanted) // 2, f"seed {seed}"
    assert asked >= SEEDS


@pytest.mark.parametrize("seed", [1, 7])
def test_the_same_seed_gives_the_same_story(seed: int) -> None:
    assert simulate(seed).digest.hexdigest() == simulate(seed).digest.hexdigest()


def test_a_controller_that_swaps_two_grants_stops_the_host_instead_of_breaking_the_order() -> None:
    for seed in range(SEEDS):
        draw = random.Random(seed)
        entries = plan(draw, 1).per_host[0]
        at = draw.randrange(len(entries) - 1)
        first, second = entries[at], entries[at + 1]
        sent = list(entries)
        # The mutant of the issue: the executions of two neighbours trade places, the numbers stay in order.
        sent[at], sent[at + 1] = first._replace(work=second.work), second._replace(work=first.work)
        queue = GangQueue()
        queue.step(EpochReset(1))
        # The right ones were sent before the link broke and come again after it, as a reconnecting link does.
        effects = [effect for entry in entries[: at + 1] for effect in queue.step(entry.prepared(1))]
        for entry in sent:
            effects += queue.step(entry.prepared(1))
        assert [e.work for e in effects if isinstance(e, Launch)] == [e[0] for e in entries[: at + 1]]
        assert [type(e) for e in effects if isinstance(e, Stop)] == [Stop]
