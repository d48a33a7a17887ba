"""A stock client and one device: tiny jitted calls, chained and awaited, and what JAX's client and the door add to them."""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from functools import partial
from typing import Any

from tests.benchmarks.claims import figure_claim, judged, number
from tests.benchmarks.quiet import Quiet
from tests.benchmarks.report import Plot, Section, Series, Table
from tests.benchmarks.sides import ROLES, Side, on, without_door
from tests.benchmarks.statistics_of_pairs import percentile
from tests.cluster import running_cluster

# Name, steps per sample, awaited.
KINDS = (("chained", 2000, False), ("awaited", 300, True))
PAIRS, QUICK_PAIRS = 21, 5
BUDGET_S_PER_PAIR = 3.0

TEXT = """A *call* adds one to a scalar on one device by `jax.jit`. Chained: each call takes the last one's output and only the
end is awaited. The same calls are also made by a Python program that speaks pathways.v1 itself, without JAX's client and
without a door; it pushes up to 32 of them per turn of its loop. The sides run in turns, and the value is checked."""

Answers = dict[tuple[str, str], list[dict[str, Any]]]  # by side and kind


def run(quick: bool) -> Section:
    return run_pairs(QUICK_PAIRS if quick else PAIRS)


def run_pairs(pairs: int, divide_by: int = 1) -> Section:
    """`divide_by` shortens the samples: only to see that it runs."""
    quiet = Quiet(BUDGET_S_PER_PAIR * pairs)
    with running_cluster(islands=1, hosts=1, devices=1) as cluster:
        sides = {"door": on(cluster)}
        try:
            sides["bare"] = without_door(cluster)
            answers = measure(sides, pairs, divide_by, quiet)
        finally:
            for side in sides.values():
                side.close()
    return section(answers, quiet)


def measure(sides: dict[str, Side], pairs: int, divide_by: int, quiet: Quiet) -> Answers:
    answers: Answers = defaultdict(list)
    for pair in range(pairs):
        for kind, steps, awaited in KINDS:
            names = list(sides)[:: 1 if pair % 2 else -1]
            taken = quiet.take([partial(sides[name].measure, "call", steps // divide_by, awaited) for name in names])
            for name, answer in zip(names, taken, strict=True):
                answers[name, kind].append(answer)
        print(f"pair {pair + 1} of {pairs}", file=sys.stderr, flush=True)
    return answers


def section(answers: Answers, quiet: Quiet) -> Section:
    rates = [answer["rate"] for answer in answers["door", "chained"]]
    halves_ms = [percentile(answer["latencies_us"], 50) / 1000 for answer in answers["door", "awaited"]]
    tails_ms = [percentile(answer["latencies_us"], 99) / 1000 for answer in answers["door", "awaited"]]
    return Section(
        name="calls",
        title="Calls of a stock client on one device",
        text=f"{TEXT}\n{quiet}",
        claims=judged(
            [
                figure_claim("chained tiny jit on one device", rates, "calls/s", 4000.0, 10_000.0),
                figure_claim("a call awaited, p50", halves_ms, "ms", 1.0, at_least=False),
                figure_claim("a call awaited, p99", tails_ms, "ms"),
            ],
            quiet.loud,
        ),
        tables=[door_table(answers), cpu_table(answers)],
        plots=[cpu_plot(answers)],
        data={
            "cpu_us": {f"call {kind}": cpu_of(answers, "door", kind) for kind, *_ in KINDS},
            "rates": rates,
            "p50_ms": halves_ms,
            "p99_ms": tails_ms,
        },
    )


def cpu_of(answers: Answers, side: str, kind: str) -> dict[str, float]:
    return {role: statistics.median(answer["cpu_us"].get(role, 0.0) for answer in answers[side, kind]) for role in ROLES}


def door_table(answers: Answers) -> Table:
    lines = []
    for kind, *_ in KINDS:
        through, without = (
            1e6 / statistics.median(answer["rate"] for answer in answers[side, kind]) for side in ("door", "bare")
        )
        cpus = [sum(cpu_of(answers, side, kind).values()) for side in ("door", "bare")]
        lines.append((kind, *map(number, (through, without, through - without, *cpus))))
    head = ("microseconds per call, median", "through the door", "without", "added", "CPU through", "CPU without")
    return Table(head, lines, "What JAX's client and the door add.")


def cpu_table(answers: Answers) -> Table:
    lines = []
    for side, words in (("door", "through the door"), ("bare", "without")):
        for kind, *_ in KINDS:
            cpu = cpu_of(answers, side, kind)
            lines.append((f"{kind}, {words}", *(number(cpu[role]) for role in ROLES), number(sum(cpu.values()))))
    return Table(("CPU us per call, median", *ROLES, "all"), lines, "Where the time goes.")


def cpu_plot(answers: Answers) -> Plot:
    cases = [(side, kind) for side in ("door", "bare") for kind, *_ in KINDS]
    cpu = [cpu_of(answers, *case) for case in cases]
    series = [Series(role, [(float(at), *(3 * (each[role],))) for at, each in enumerate(cpu)]) for role in ROLES]
    names = [f"{kind},\n{'through the door' if side == 'door' else 'without'}" for side, kind in cases]
    return Plot("calls_cpu", "Where the time goes, one device", "", "us of CPU per call", series, categories=names, stacked=True)
