"""Pipelines of S stages on S hosts, dispatched in parallel and one stage after the other (Fig. 7 of the Pathways paper).

Real executors, S = 1 to 4, with links as they are and with emulated ones. What 5 to 64 stages cost, with hosts that only
acknowledge, is measured elsewhere.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from functools import partial
from typing import Any

from tests.benchmarks.claims import Claim, judged, number, ratio_claim
from tests.benchmarks.quiet import Quiet
from tests.benchmarks.report import Plot, Section, Series, Table
from tests.benchmarks.sides import Side, on
from tests.benchmarks.statistics_of_pairs import interval_of
from tests.cluster import running_cluster

SCRIPT = "tests/benchmarks/stages.py"
STAGES_MAX = 4
MODES = ("parallel", "sequential")
CALLS = 40
PAIRS, QUICK_PAIRS = 15, 3
BUDGET_S_PER_PAIR = 5.0
# Name -> what the daemons are told: a link of 1 Gbit/s over some distance.
LINKS: dict[str, dict[str, str]] = {
    "as it is": {},
    "1 Gbit/s, 1 ms": {"PATHWAYS_LINK_BYTES_PER_S": "125000000", "PATHWAYS_LINK_DELAY_NS": "1000000"},
}

TEXT = """One `@pw.program` of S stages: a scalar addition on each of S hosts of one island, the value going from host to host.
*Parallel*: all hosts get the run and prepare at once, and a stage is launched when its input is there. *Sequential*
(`dispatch="sequential"`): a stage is made ready only after the one before it was launched. {calls} calls are under way at once
for throughput; calls one by one give the latency. The modes run in turns; values are checked."""

Samples = dict[tuple[str, int, str], tuple[list[float], list[float]]]  # link, stages, mode -> stages/s, latencies in us


def run(quick: bool) -> Section:
    return run_pairs(QUICK_PAIRS if quick else PAIRS)


def no_samples() -> Samples:
    return defaultdict(lambda: ([], []))


def run_pairs(pairs: int, stages_max: int = STAGES_MAX, calls: int = CALLS) -> Section:
    """One cluster per link."""
    quiet = Quiet(BUDGET_S_PER_PAIR * pairs)
    samples = no_samples()
    for link, environment in LINKS.items():
        with running_cluster(islands=1, hosts=stages_max, devices=1, **environment) as cluster:
            client = on(cluster, SCRIPT)
            try:
                measure(client, link, samples, pairs, stages_max, calls, quiet)
            finally:
                client.close()
    return section(samples, stages_max, calls, quiet)


def measure(client: Side, link: str, samples: Samples, pairs: int, stages_max: int, calls: int, quiet: Quiet) -> None:
    for pair in range(pairs):
        for stages in range(1, stages_max + 1):
            modes = MODES[:: 1 if pair % 2 else -1]
            answers = quiet.take([partial(sample, client, stages, mode, calls) for mode in modes])
            for mode, answer in zip(modes, answers, strict=True):
                rates, latencies_us = samples[link, stages, mode]
                rates.append(stages * calls / answer["seconds"])
                latencies_us.append(answer["latency_us"])
        print(f"link {link}: pair {pair + 1} of {pairs}", file=sys.stderr, flush=True)


def sample(client: Side, stages: int, mode: str, calls: int) -> dict[str, Any]:
    """One answer, whose values are right."""
    _, (answer,), _, foreign = client.watched(stages=stages, dispatch=mode, count=calls)
    if answer["values"] != [float(stages)]:
        raise SystemExit(f"{stages} stages gave {answer['values']}, which is wrong")
    return answer | {"foreign": foreign}


def section(samples: Samples, stages_max: int, calls: int, quiet: Quiet) -> Section:
    claims: list[Claim] = []
    rows = []
    for link in LINKS:
        for stages in range(1, stages_max + 1):
            parallel, sequential = (samples[link, stages, mode] for mode in MODES)
            medians = [number(statistics.median(each)) for each in (parallel[0], sequential[0], parallel[1], sequential[1])]
            rows.append((link, str(stages), *medians))
        fast, slow = (samples[link, stages_max, mode] for mode in MODES)
        claims.append(ratio_claim(f"{stages_max} stages, link {link}: throughput, parallel over sequential", fast[0], slow[0]))
        claims.append(ratio_claim(f"{stages_max} stages, link {link}: latency, sequential over parallel", slow[1], fast[1]))
    head = ("link", "stages", "parallel, stages/s", "sequential", "parallel, latency us", "sequential, latency us")
    plots = [_plot(samples, stages_max, 0, "pipeline_rate", "stages/s"), _plot(samples, stages_max, 1, "pipeline_latency", "us")]
    return Section(
        "pipeline",
        "Pipelines over hosts",
        TEXT.format(calls=calls) + "\n" + str(quiet),
        judged(claims, quiet.loud),
        [Table(head, rows)],
        plots,
    )


def _plot(samples: Samples, stages_max: int, which: int, file: str, unit: str) -> Plot:
    series = []
    for link in LINKS:
        for mode in MODES:
            points = []
            for stages in range(1, stages_max + 1):
                figure = interval_of(samples[link, stages, mode][which])
                points.append((float(stages), figure.median, figure.low, figure.high))
            series.append(Series(f"{mode}, link {link}", points))
    title = "Throughput of pipelines" if which == 0 else "Latency of pipelines"
    return Plot(file, f"{title}, S stages on S hosts", "stages, one per host", unit, series)
