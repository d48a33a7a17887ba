"""The smallest computation at which our throughput equals plain JAX's (Fig. 6 of the Pathways paper), by number of hosts.

A gang step gets emulated device time. Both sides run the same durations in turns; where the ratio of their rates crosses
`EQUAL` is the smallest computation. Its interval comes from resampling the pairs of every duration.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tests.benchmarks.claims import Claim, judged, number
from tests.benchmarks.emulator import device_time
from tests.benchmarks.quiet import Quiet
from tests.benchmarks.report import Plot, Section, Series, Table
from tests.benchmarks.sides import Side, on, peer
from tests.benchmarks.statistics_of_pairs import RESAMPLES, Interval, ratio_of
from tests.benchmarks.steps import NODES
from tests.cluster import running_cluster

EQUAL = 0.97
DURATIONS_US = (100, 200, 330, 500, 1000, 2000)
SAMPLE_S = 0.15
PAIRS, QUICK_PAIRS = {2: 15, 4: 15}, 3
BUDGET_S_PER_PAIR = 4.0
BAR_MS = {2: 0.5}
KINDS = {"timed": "OpByOp", "timed_chain": "Chained"}

TEXT = """A gang step on {hosts} hosts (an all-reduce of a scalar and an addition) that then takes emulated device time: it
sleeps, and the host's cores are free, as with an accelerator. Throughput counts as equal from {equal} of that of
multi-controller JAX, op by op and not awaited, in the same minutes. *OpByOp*: stock JAX through the door, one call per step.
*Chained*: a program of {nodes} nodes. The device time is what JAX's step really took from its start marker to its end marker;
[emulator](emulator.md) says more. A figure that equals the largest or smallest duration tried is only a bound."""


@dataclass
class Point:
    """One duration: the rates of both sides, pair by pair, and how long a step of JAX was really busy."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    busy_us: list[float] = field(default_factory=list)

    def ratio(self) -> Interval:
        return ratio_of(self.ours, self.theirs)


Points = dict[str, dict[int, Point]]  # kind -> duration asked for, in microseconds


def two_hosts(quick: bool) -> Section:
    return run_on(2, QUICK_PAIRS if quick else PAIRS[2], DURATIONS_US[1:5] if quick else DURATIONS_US)


def four_hosts(quick: bool) -> Section:
    return run_on(4, QUICK_PAIRS if quick else PAIRS[4], DURATIONS_US[1:5] if quick else DURATIONS_US)


def run_on(hosts: int, pairs: int, durations_us: Sequence[int], sample_s: float = SAMPLE_S) -> Section:
    """The section of one number of hosts."""
    emulator = {device_time.LIBRARY_VARIABLE: str(device_time.library())}
    quiet = Quiet(BUDGET_S_PER_PAIR * pairs)
    theirs = peer(hosts)
    try:
        with running_cluster(islands=1, hosts=hosts, devices=1, **emulator) as cluster:
            ours = on(cluster)
            try:
                points = measure(ours, theirs, pairs, durations_us, sample_s, quiet)
            finally:
                ours.close()
    finally:
        theirs.close()
    return section(hosts, points, quiet)


def measure(ours: Side, theirs: Side, pairs: int, durations_us: Sequence[int], sample_s: float, quiet: Quiet) -> Points:
    for kind in KINDS:
        ours.measure(kind, NODES)
        theirs.measure(kind, NODES)
    points: Points = {kind: {duration_us: Point() for duration_us in durations_us} for kind in KINDS}
    for pair in range(pairs):
        for kind in KINDS:
            for duration_us in durations_us:
                # Whole programs, and about as long at every duration; a gang step itself takes a while, too.
                count = NODES * max(1, math.ceil(sample_s * 1e6 / (duration_us + 150) / NODES))
                point = points[kind][duration_us]
                turn = 1 if pair % 2 else -1
                samples = [partial(side.measure, kind, count, lasts_ns=1000 * duration_us) for side in (ours, theirs)]
                mine, jax = quiet.take(samples[::turn])[::turn]
                point.ours.append(mine["rate"])
                point.theirs.append(jax["rate"])
                point.busy_us.append(jax["busy_us"])
        print(f"pair {pair + 1} of {pairs}", file=sys.stderr, flush=True)
    return points


def crossing_us(durations_us: Sequence[float], ratios: Sequence[float]) -> float:
    """Where the ratio gets to `EQUAL` for good, between the durations that were tried; the last of them if it never does."""
    below = [index for index, ratio in enumerate(ratios) if ratio < EQUAL]
    if not below:
        return durations_us[0]
    last = below[-1]
    if last + 1 == len(ratios):
        return durations_us[-1]
    share = (EQUAL - ratios[last]) / (ratios[last + 1] - ratios[last])
    return math.exp((1 - share) * math.log(durations_us[last]) + share * math.log(durations_us[last + 1]))


def smallest(points: Sequence[Point]) -> Interval:
    """The smallest computation, in milliseconds, with its interval."""
    durations_us = [statistics.median(point.busy_us) for point in points]
    ratios = [np.array(point.ours) / np.array(point.theirs) for point in points]
    generator = np.random.default_rng(0)
    medians = []
    for each in ratios:
        picks = generator.integers(0, len(each), (RESAMPLES, len(each)))
        medians.append(np.median(each[picks], axis=1))
    crossings = sorted(crossing_us(durations_us, row.tolist()) / 1000 for row in np.stack(medians, axis=1))
    middle = crossing_us(durations_us, [float(np.median(each)) for each in ratios]) / 1000
    return Interval(middle, crossings[RESAMPLES // 40], crossings[-RESAMPLES // 40 - 1], min(map(len, ratios)))


def section(hosts: int, points: Points, quiet: Quiet) -> Section:
    name = f"smallest_{hosts}_hosts"
    claims = []
    for kind, words in KINDS.items():
        figure = smallest(list(points[kind].values()))
        what = f"{words}, {hosts} hosts: smallest computation at which throughput equals JAX"
        claims.append(Claim(what, figure, BAR_MS.get(hosts), at_least=False, unit=" ms"))
    rows = []
    for kind, words in KINDS.items():
        for duration_us, point in points[kind].items():
            ratio = point.ratio()
            figures = [number(statistics.median(values)) for values in (point.busy_us, point.ours, point.theirs)]
            rows.append((words, str(duration_us), *figures, f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"))
    series = []
    for kind, words in KINDS.items():
        ratios = [(statistics.median(point.busy_us) / 1000, point.ratio()) for point in points[kind].values()]
        series.append(Series(words, [(busy_ms, ratio.median, ratio.low, ratio.high) for busy_ms, ratio in ratios]))
    plot = Plot(
        name,
        f"Throughput over that of JAX by size of the computation, {hosts} hosts",
        "device time of a step, ms",
        "ratio (95 % interval)",
        series,
        log_x=True,
        bars=[(f"equal: {EQUAL}", EQUAL)],
    )
    head = ("", "asked, us", "device time, us", "cluster, steps/s", "JAX, steps/s", "ratio (95 % interval)")
    text = TEXT.format(hosts=hosts, equal=EQUAL, nodes=NODES) + "\n" + str(quiet)
    return Section(
        name,
        f"The smallest computation that hides dispatch, {hosts} hosts",
        text,
        judged(claims, quiet.loud),
        [Table(head, rows)],
        [plot],
    )
