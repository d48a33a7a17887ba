"""The round trips of one client while another is greedy: it keeps 10,000 gangs queued, or uploads without pause.

Idle and loaded samples come in turns. A sample's figure is its 99th percentile, and a pair's ratio that of loaded to idle.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.claims import Claim, judged, number
from tests.benchmarks.quiet import Quiet
from tests.benchmarks.report import Plot, Section, Series, Table
from tests.benchmarks.sides import ROLES, Side, on
from tests.benchmarks.statistics_of_pairs import interval_of, percentile, ratio_of
from tests.cluster import Cluster, running_cluster

COMPANY = str(Path(__file__).with_name("company.py"))
# Name, words, what the greedy client is told, and how many times as long as idle round trips may take.
LOADS: tuple[tuple[str, str, dict[str, Any], float], ...] = (
    ("queue", "10,000 gangs queued", {"what": "keep_queued", "gangs": 10_000}, 5.0),
    ("upload", "64 MiB uploaded without pause", {"what": "upload", "size_bytes": 64 << 20}, 5.0),
    ("put", "1 GiB put without pause", {"what": "upload", "size_bytes": 1 << 30, "fast": True}, 3.0),
)
# Name, words, round trips per sample.
KINDS = (("calls", "a no-op call, awaited", 2000), ("fences", "a request without a device", 4000))
PAIRS, QUICK_PAIRS = 21, 2
BUDGET_S_PER_PAIR = 10.0

TEXT = """One client of two hosts makes round trips: an addition of one on one device by `jax.jit`, awaited, and a fence, from
a session without JAX and without a door: no device is needed for it. Another client, a process of its own on the island,
is greedy meanwhile: it has 10,000 gangs over both hosts asked for and not done at any time, or it puts arrays of 64 MiB by
`device_put`, or of 1 GiB by `pw.put`, on a device one right after the other. Idle and loaded samples take turns; figures are 99th
percentiles of a sample, ratios those of a pair."""

Samples = dict[tuple[str, str, str], list[dict[str, Any]]]  # by load, kind and "idle" or "loaded"


def run(quick: bool) -> Section:
    pairs = QUICK_PAIRS if quick else PAIRS
    quiet = Quiet(BUDGET_S_PER_PAIR * pairs * len(LOADS))
    with running_cluster(islands=1, hosts=2, devices=1) as cluster, company(cluster) as (patient, greedy):
        if not quick:
            measure(patient, greedy, 1, divide_by=4)  # whatever happens once in a process has happened then
        samples = measure(patient, greedy, pairs, divide_by=8 if quick else 1, quiet=quiet)
    return section(samples, quiet)


@contextmanager
def company(cluster: Cluster) -> Iterator[tuple[Side, Side]]:
    """The client that measures, and the one that is greedy when told to."""
    words = (cluster.address, str(cluster.state / "token"))
    patient = on(cluster, COMPANY, *words)
    try:
        greedy = on(cluster, COMPANY, *words)
        try:
            yield patient, greedy
        finally:
            greedy.close()
    finally:
        patient.close()


def measure(
    patient: Side, greedy: Side, pairs: int, loads: tuple[str, ...] = tuple(name for name, *_ in LOADS), divide_by: int = 1,
    quiet: Quiet | None = None,
) -> Samples:  # fmt: skip
    """`divide_by` shortens the samples."""
    samples: Samples = defaultdict(list)
    for pair in range(pairs):
        for load, _, command, _ in LOADS:
            if load not in loads:
                continue
            state: dict[str, Any] = {}

            def pair_of(command: dict[str, Any] = command, state: dict[str, Any] = state) -> dict[str, Any]:
                state["idle"] = {kind: sample(patient, kind, count // divide_by) for kind, _, count in KINDS}
                greedy.ask(**command)
                state["loaded"] = {kind: sample(patient, kind, count // divide_by, greedy) for kind, _, count in KINDS}
                greedy.ask(what="stop")
                return {"foreign": max(each["foreign"] for each in state["idle"].values())}

            if quiet is None:
                pair_of()
            else:
                quiet.take([pair_of])
            for when, found in state.items():
                for kind, answer in found.items():
                    samples[load, kind, when].append(answer)
        print(f"pair {pair + 1} of {pairs}", file=sys.stderr, flush=True)
    return samples


def sample(patient: Side, kind: str, count: int, greedy: Side | None = None) -> dict[str, Any]:
    """Round trips, with the CPU time that each process spent meanwhile, as parts of a core."""
    before, answers, after, foreign = patient.watched(what=kind, count=count)
    seconds = sum(answers[0]["latencies_us"]) / 1e6
    cpu = {role: (after[role] - before.get(role, 0.0)) / seconds for role in after}
    return {"p50": p(answers[0], 50), "p99": p(answers[0], 99), "foreign": foreign if greedy is None else 0.0, "cpu": cpu}


def p(answer: dict[str, Any], part: int) -> float:
    """A percentile in milliseconds."""
    return percentile(answer["latencies_us"], part) / 1000


def ratios(samples: Samples, load: str, kind: str) -> tuple[list[float], list[float]]:
    """The 99th percentiles of loaded and idle samples, pair by pair."""
    return [each["p99"] for each in samples[load, kind, "loaded"]], [each["p99"] for each in samples[load, kind, "idle"]]


def section(samples: Samples, quiet: Quiet) -> Section:
    claims, rows, cpu_rows = [], [], []
    points: dict[str, list[tuple[float, float, float, float]]] = defaultdict(list)
    names = []
    for load, load_words, _, ratio_max in LOADS:
        for kind, words, _ in KINDS:
            ratio = ratio_of(*ratios(samples, load, kind))
            claims.append(Claim(f"{words}, {load_words}: p99 to idle p99", ratio, ratio_max, at_least=False, width_max=1.0))
            row = [words, load_words]
            for when in ("idle", "loaded"):
                for part in ("p50", "p99"):
                    figure = interval_of([each[part] for each in samples[load, kind, when]])
                    row.append(number(figure.median))
                    if part == "p99":
                        points[when].append((float(len(names)), figure.median, figure.low, figure.high))
                cores = {role: [each["cpu"].get(role, 0.0) for each in samples[load, kind, when]] for role in ROLES}
                medians = [number(interval_of(cores[role]).median) for role in ROLES]
                cpu_rows.append((words, load_words if when == "loaded" else "idle", *medians))
            rows.append(tuple(row))
            names.append(f"{kind},\n{load}")
    head = ("round trip, ms", "beside", "idle p50", "idle p99", "loaded p50", "loaded p99")
    cpu_head = ("round trip", "beside", *ROLES)
    tables = [
        Table(head, rows, "Medians over all samples, in milliseconds."),
        Table(cpu_head, cpu_rows, "Cores used meanwhile; client and door are those of the one that measures."),
    ]
    series = [Series(when, found) for when, found in points.items()]
    plot = Plot("shared", "Round trips beside a greedy client", "", "p99, ms", series, categories=names, log_y=True)
    return Section("shared", "Round trips beside a greedy client", f"{TEXT}\n{quiet}", judged(claims, quiet.loud), tables, [plot])
