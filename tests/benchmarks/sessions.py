"""Long sessions: what every process of a cluster grows by in a million dispatches, thousands of programs and live arrays.

A phase is one stock script on one cluster of one host, and once more on plain local JAX. Every value is checked. What is done and
over may leave nothing behind: the slope over the last half, with its interval, is held against a bar. What is held takes memory,
and has to come back when it is dropped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tests.benchmarks.claims import Claim, number
from tests.benchmarks.process_memory import ROLES, Held, held
from tests.benchmarks.report import Plot, Section, Series, Table
from tests.benchmarks.sides import Side, spawn
from tests.benchmarks.statistics_of_pairs import Interval
from tests.cluster import Cluster, local_environment, running_cluster, wait_until

SCRIPT = str(Path(__file__).with_name("session_client.py"))
MARKS = 40
MIB = 1 << 20
# Releases ride in frames, and executors give memory back once a second.
SETTLE_S = 3.0
LOCAL = "local JAX"
# Standard errors to each side: 95 %.
ERRORS = 2.0

TEXT = f"""One island of one host with one device, and one stock client that does the same thing again and again; every value is
checked. *Dispatches* are chained calls of one compiled function. *Programs* differ by their constants, so each is compiled and
run once, and the client drops it (*dropped*) or keeps it (*kept*). *Arrays* of one KiB are put and computed in turns, all of them
live at once, then read and dropped. Memory is what a process has of its own: anonymous and shared memory by proportion, without
libraries. It is read for every process after each fortieth part; with it descriptors, threads and maps. Before the first look a
fortieth part was done, and of arrays all of it, held and dropped. A host has two executors, one of them spare, and their readers.
*More for each*: bytes by least squares over the last half, {ERRORS:g} standard errors to both sides. What is over may leave
nothing, so it is held against a bar. What is held takes memory: *left* is what of it a process had {SETTLE_S:g} s after all of it
was dropped. Local JAX, one process without a cluster, runs the same script."""


@dataclass(frozen=True)
class Phase:
    """`count` times `what`. What is `held` comes back by `then`, one after the other; of the rest nothing may stay.

    `bar_bytes`: of each unit of what is over, in every process of ours. `twice`: all of it is held and dropped once before it is
    measured, so that what is measured is not what heaps need once.
    """

    what: str
    unit: str
    count: int
    quick: int
    local: int
    bar_bytes: float
    then: tuple[str, ...] = ()
    twice: bool = False


PHASES = (
    Phase("dispatches", "dispatch", 1_000_000, 40_000, 1_000_000, 16),
    Phase("dropped", "program", 10_000, 400, 2_000, 2048),
    Phase("kept", "kept program", 5_000, 200, 1_000, 2048, ("forget",)),
    Phase("arrays", "live array", 10_000, 1_000, 10_000, 512, ("read", "drop"), True),
)


@dataclass(frozen=True)
class Mark:
    """After `done` units, `seconds` after the beginning."""

    done: int
    seconds: float
    held: dict[str, Held]


class Watched:
    """A client, and all processes that work for it."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], cluster: Cluster | None) -> None:
        process = spawn(command, environment)
        self._client = psutil.Process(process.pid)
        self._cluster = cluster
        self._began_s = time.monotonic()
        self.side = Side([process], dict)

    def ask(self, what: str, count: int) -> None:
        (answer,) = self.side.ask(what=what, count=count)
        if answer["value"] != count:
            raise SystemExit(f"of {count} {what} {answer['value']} had the right value")

    def mark(self, done: int) -> Mark:
        members = [self._client, *self._client.children(recursive=True)]
        members += self._cluster.processes() if self._cluster else []
        return Mark(done, time.monotonic() - self._began_s, held(members))


def watched(phase: Phase, count: int, client: Watched, marks: int = MARKS) -> list[Mark]:
    """The mark before the first unit, after each part of the count, and after all of it was dropped if it is held."""
    step = max(1, count // marks)
    before = count if phase.twice else step
    client.ask(phase.what, before)
    for what in phase.then:
        client.ask(what, before)
    time.sleep(SETTLE_S)
    found = [client.mark(0)]
    for done in range(step, count + 1, step):
        client.ask(phase.what, step)
        found.append(client.mark(done))
        if done % (10 * step) == 0:
            print(f"{phase.what}: {done} in {found[-1].seconds:.0f} s", file=sys.stderr, flush=True)
    for what in phase.then:
        client.ask(what, found[-1].done)
    time.sleep(SETTLE_S)
    return [*found, client.mark(found[-1].done)]


def on_cluster(phase: Phase, count: int) -> list[Mark]:
    with running_cluster(islands=1, hosts=1, devices=1) as cluster, ExitStack() as stack:
        wait_for_spare(cluster)
        client = Watched(cluster.command(SCRIPT), cluster.environment, cluster)
        stack.callback(client.side.close)
        return watched(phase, count, client)


def wait_for_spare(cluster: Cluster) -> None:
    """A host starts a second executor some seconds after the first; from then on their number stays."""
    wait_until(lambda: len(cluster.executors("a0")) == 2, "the spare executor to be there")


def alone(phase: Phase, count: int) -> list[Mark]:
    with ExitStack() as stack:
        client = Watched([sys.executable, SCRIPT], local_environment(1), None)
        stack.callback(client.side.close)
        return watched(phase, count, client)


def run(quick: bool) -> Section:
    found: dict[str, list[Mark]] = {}
    beside: dict[str, list[Mark]] = {}
    for phase in PHASES:
        found[phase.what] = on_cluster(phase, phase.quick if quick else phase.count)
        beside[phase.what] = alone(phase, phase.quick if quick else phase.local)
    return section(found, beside)


def slope(marks: Sequence[Mark], role: str) -> Interval:
    """Bytes per unit over the last half of what was done, what came after it left out."""
    done = marks[-1].done
    half = [mark for mark in marks[:-1] if 2 * mark.done >= done]
    units = np.array([mark.done for mark in half], np.float64)
    sizes = np.array([mark.held[role].memory_bytes for mark in half], np.float64)
    (steep, _), covariance = np.polyfit(units, sizes, 1, cov=True)
    error = ERRORS * float(np.sqrt(covariance[0, 0]))
    return Interval(float(steep), float(steep) - error, float(steep) + error, len(half))


def left_bytes(marks: Sequence[Mark], role: str) -> float:
    """Of each unit, when all is over."""
    return (marks[-1].held[role].memory_bytes - marks[0].held[role].memory_bytes) / marks[-1].done


def section(found: dict[str, list[Mark]], beside: dict[str, list[Mark]]) -> Section:
    claims: list[Claim] = []
    tables, plots, misses = [], [], []
    for phase in PHASES:
        marks = found[phase.what]
        for role in [role for role in ROLES if role in marks[0].held]:
            text = f"{phase.what}: {role}, more for each {phase.unit}"
            if phase.then or role == "client":
                claims.append(Claim(text, slope(marks, role), unit=" B"))
            else:
                claims.append(Claim(text, slope(marks, role), phase.bar_bytes, None, False, " B", phase.bar_bytes))
            left = left_bytes(marks, role)
            if phase.then and role != "client" and left > phase.bar_bytes:
                misses.append(
                    f"{phase.what}: {role} had {number(left)} B left of each {phase.unit}, {phase.bar_bytes:g} were wanted"
                )
        claims.append(Claim(f"{phase.what}: {LOCAL}, more for each {phase.unit}", slope(beside[phase.what], "client"), unit=" B"))
        tables.append(table(phase, marks, beside[phase.what]))
        plots.append(plot(phase, marks))
    data = {name: {what: as_data(marks) for what, marks in each.items()} for name, each in (("cluster", found), (LOCAL, beside))}
    return Section("sessions", "Long sessions", TEXT, claims, tables, plots, misses, data)


def table(phase: Phase, marks: Sequence[Mark], beside: Sequence[Mark]) -> Table:
    rows = [row(role, marks, role) for role in ROLES if role in marks[0].held]
    rows.append(row(LOCAL, beside, "client"))
    head = (
        "",
        "units",
        "MiB at first",
        "after a tenth",
        "half",
        "all",
        "B per unit, all",
        "in the last half",
        "left, B per unit",
    )
    note = f"{phase.what}: {marks[-1].done:,} in {marks[-2].seconds:,.0f} s; what counts: first, and after all of them"
    return Table((*head, "descriptors", "threads", "maps"), rows, note)


def row(name: str, marks: Sequence[Mark], role: str) -> tuple[str, ...]:
    units = marks[-1].done
    shown = [marks[0], *(min(marks[:-1], key=lambda mark: abs(mark.done - units * part)) for part in (0.1, 0.5, 1.0))]
    first, last = shown[0].held[role], shown[-1].held[role]
    return (
        name,
        f"{units:,}",
        *(f"{mark.held[role].memory_bytes / MIB:.1f}" for mark in shown),
        number((last.memory_bytes - first.memory_bytes) / units),
        number(slope(marks, role).median),
        number(left_bytes(marks, role)),
        f"{first.descriptors}, {last.descriptors}",
        f"{first.threads}, {last.threads}",
        f"{first.maps}, {last.maps}",
    )


def plot(phase: Phase, marks: Sequence[Mark]) -> Plot:
    series = []
    for role in [role for role in ROLES if role in marks[0].held]:
        points = [
            (float(mark.done), (mark.held[role].memory_bytes - marks[0].held[role].memory_bytes) / MIB) for mark in marks[:-1]
        ]
        series.append(Series(role, [(x, y, y, y) for x, y in points]))
    return Plot(f"sessions_{phase.what}", f"Memory: {phase.what}", phase.what, "MiB more than at first", series)


def as_data(marks: Sequence[Mark]) -> dict[str, Any]:
    """Columns: one figure of each for each mark."""
    memory = {role: [mark.held[role].memory_bytes for mark in marks] for role in marks[0].held}
    return {"done": [mark.done for mark in marks], "seconds": [round(mark.seconds, 1) for mark in marks], "memory_bytes": memory}
