"""Measures dispatch through the cluster beside multi-controller JAX over gloo, in interleaved pairs, and writes the report.

Rates are of steps whose last value was awaited and checked. A bar is met when the median of all rounds reaches it; a ratio
is quoted with its bootstrap interval and called undecided where the interval is wide.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.claims import ratio_claim
from tests.benchmarks.sides import ROLES, Side, on, peer, without_door
from tests.benchmarks.statistics_of_pairs import percentile
from tests.cluster import ROOT, running_cluster

REPORT = ROOT / "docs/benchmarks/first_light.md"
HOSTS = 2
# (name, what, steps per round, awaited)
MEASURES = [
    ("call, chained", "call", 2000, False),
    ("call, awaited", "call", 300, True),
    ("gang step, chained", "gang", 1000, False),
    ("gang step, awaited", "gang", 300, True),
]
BARS = {"call, chained": 2000.0, "gang step, chained": 1000.0}


@dataclass
class Rounds:
    """What one side gave for one measure, one entry per round."""

    rates: list[float] = field(default_factory=list)
    latencies_us: list[float] = field(default_factory=list)
    cpu_us: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, answer: dict[str, Any], count: int) -> None:
        self.rates.append(count / answer["seconds"])
        self.latencies_us += answer["latencies_us"]
        for role, cpu_us in answer["cpu_us"].items():
            self.cpu_us[role].append(cpu_us)


Results = dict[str, tuple[Rounds, Rounds, Rounds]]  # through the door, multi-controller JAX, without a door


def measure(ours: Side, theirs: Side, bare: Side, pairs: int) -> Results:
    """Rounds in alternating order, so that a drift of the machine hits all sides alike."""
    results: Results = {name: (Rounds(), Rounds(), Rounds()) for name, *_ in MEASURES}
    for pair in range(pairs):
        for name, what, count, awaited in MEASURES:
            sides = list(zip((ours, theirs, bare), results[name], strict=True))
            for side, rounds in sides if pair % 2 == 0 else sides[::-1]:
                rounds.add(side.measure(what, count, awaited), count)
        print(f"pair {pair + 1} of {pairs}", file=sys.stderr, flush=True)
    return results


def machine() -> list[str]:
    information = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in information if line.startswith("model name")), platform.machine())
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("pathways", "jax", "jaxlib", "grpcio", "uvloop")
    )
    return [
        f"- machine: {model}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, Linux {platform.release()}, everything on loopback",
        f"- versions: Python {platform.python_version()}, {versions}",
        f"- load before the run (1 minute): {os.getloadavg()[0]:.2f}",
        f"- date: {datetime.date.today().isoformat()}",
    ]


def rate_table(results: Results) -> list[str]:
    lines = ["| steps/s, median | cluster | multi-controller JAX | ratio |", "|---|---|---|---|"]
    for name, (ours, theirs, _) in results.items():
        medians = statistics.median(ours.rates), statistics.median(theirs.rates)
        lines.append(f"| {name} | {medians[0]:,.0f} | {medians[1]:,.0f} | {ratio_claim('', ours.rates, theirs.rates).measured} |")
    return lines


def latency_table(results: Results) -> list[str]:
    lines = ["| latency, microseconds | cluster p50 | cluster p99 | peer p50 | peer p99 |", "|---|---|---|---|---|"]
    for name, sides in results.items():
        if sides[0].latencies_us:
            figures = [percentile(side.latencies_us, which) for side in sides[:2] for which in (50, 99)]
            lines.append(f"| {name} | " + " | ".join(f"{figure:,.0f}" for figure in figures) + " |")
    return lines


def cpu_table(results: Results) -> list[str]:
    heads = " | ".join(ROLES)
    lines = [f"| CPU per step, microseconds | {heads} | all | peer, all |", "|---|" + "---|" * (len(ROLES) + 2)]
    for name, (ours, theirs, _) in results.items():
        figures = [statistics.median(ours.cpu_us.get(role) or [0.0]) for role in ROLES]
        peers = statistics.median(theirs.cpu_us["controllers"])
        cells = " | ".join(f"{figure:,.0f}" for figure in [*figures, sum(figures), peers])
        lines.append(f"| {name} | {cells} |")
    return lines


def door_table(results: Results) -> list[str]:
    """What JAX's own client and the door add, in microseconds per step: the same steps with and without them."""
    lines = ["| microseconds per step, median | through the door | without | added | CPU through | CPU without |"]
    lines.append("|---|---|---|---|---|---|")
    for name, (ours, _, bare) in results.items():
        through, without = (1e6 / statistics.median(side.rates) for side in (ours, bare))
        cpus = [sum(statistics.median(cpu_us) for cpu_us in side.cpu_us.values()) for side in (ours, bare)]
        lines.append(f"| {name} | {through:,.0f} | {without:,.0f} | {through - without:,.0f} | {cpus[0]:,.0f} | {cpus[1]:,.0f} |")
    return lines


def verdicts(results: Results) -> list[str]:
    lines = []
    for name, bar in BARS.items():
        rate = statistics.median(results[name][0].rates)
        lines.append(f"- {name}: at least {bar:,.0f}/s wanted, {rate:,.0f}/s measured: {'met' if rate >= bar else 'NOT met'}")
    return lines


def report(before: list[str], results: Results) -> str:
    parts = [
        ["# First light: what a dispatch costs", "", "Written by `make bench`; run it again rather than editing."],
        before,
        verdicts(results),
        [
            "A *call* adds one to a scalar on one device; its peer is plain JAX inside one process, without any network.",
            f"A *gang step* is an all-reduce of a scalar over {HOSTS} hosts and an addition; its peer is {HOSTS} JAX processes",
            "over gloo, each running the whole script. Chained: each step takes the last one's output and only the end is",
            "awaited. The two sides run in turns.",
        ],
        rate_table(results),
        latency_table(results),
        ["Where the time goes: CPU of each kind of process, both daemons and both executors together.", "", *cpu_table(results)],
        [
            "What the door adds: the same steps by a Python program that speaks pathways.v1 itself, without JAX's client and",
            "without a door. It pushes up to 32 steps per turn of its loop.",
            "",
            *door_table(results),
        ],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--output", type=Path, default=REPORT)
    options = parser.parse_args()
    before = machine()
    theirs = peer(HOSTS)
    try:
        with running_cluster(islands=1, hosts=HOSTS, devices=1) as cluster:
            ours = on(cluster)
            bare = without_door(cluster)
            try:
                results = measure(ours, theirs, bare, options.pairs)
            finally:
                ours.close()
                bare.close()
    finally:
        theirs.close()
    text = report(before, results)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text)
    print(text)
    return 0 if all(statistics.median(results[name][0].rates) >= bar for name, bar in BARS.items()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
