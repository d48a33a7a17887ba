"""The dispatch micro-benchmark of the Pathways paper (Fig. 5): gang steps of one device per host, beside multi-controller JAX.

Every sample of ours is paired with a sample of JAX taken just before or just after it, in turns: JAX alone swings by a factor of
two within seconds, and only a pair shares that.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.benchmarks import placed_threads
from tests.benchmarks.claims import Claim, figure_claim, judged, number, ratio_claim
from tests.benchmarks.quiet import Quiet
from tests.benchmarks.report import Plot, Section, Series, Table
from tests.benchmarks.sides import ROLES, STEPS, Side, on, peer
from tests.benchmarks.steps import NODES
from tests.cluster import running_cluster

TEXT = """A *gang step* is an all-reduce of a scalar over {hosts} hosts and an addition, its output fed to the next step; one
device per host. The peer is {hosts} JAX processes over gloo, each running the whole script, op by op, not awaited; for *Fused*
each calls one compiled function of {nodes} steps. *OpByOp*: stock JAX through the door, one call per step. *Chained*: one
`@pw.program` of {nodes} nodes, {nodes} gangs in the trace. *Fused*: a program of one node that holds {nodes} steps. Only the
end of a sample is awaited, and its value is checked on every process of both sides. Same XLA flags on both sides."""


@dataclass(frozen=True)
class Row:
    """One line of the table: what we run, what JAX runs beside it, and per number of hosts what must hold and what is hoped."""

    name: str
    ours: str
    theirs: str
    bars: dict[int, tuple[float, float | None]]
    steps: int = 2048


ROWS = (
    Row("OpByOp", "gang", "gang", {2: (0.25, 0.4), 4: (0.4, 0.6)}),
    Row("Chained", "chain", "gang", {2: (0.8, 1.0), 4: (0.8, 1.0)}),
    Row("Chained, fused by itself", "chain_fused", "gang", {2: (1.3, None), 4: (1.3, None)}),
    Row("Fused", "fused", "fused", {2: (0.97, None), 4: (0.97, None)}, steps=4096),
)
# Measured once more with the threads of both sides placed; no bar holds for these.
PLACED_TEXT = """Lines marked *threads placed* stand for themselves: there the launching threads and gloo's run on different CPUs,
in the executors (`thread_placement = "split"`) and in the JAX processes beside them alike. JAX is faster for it, too."""
PLACED_HOSTS = 2
PLACED_ROWS = [row for row in ROWS if row.name in ("OpByOp", "Chained")]
PLACED_PAIRS = 11
PLACED_BUDGET_S = 6.0
PAIRS = {2: 31, 4: 17}
QUICK_PAIRS = 3
BUDGET_S_PER_PAIR = 4.0


@dataclass
class Pairs:
    """The answers of both sides for one row, one entry per pair."""

    ours: list[dict[str, Any]] = field(default_factory=list)
    theirs: list[dict[str, Any]] = field(default_factory=list)

    def rates(self) -> tuple[list[float], list[float]]:
        return [answer["rate"] for answer in self.ours], [answer["rate"] for answer in self.theirs]

    def cpu_us(self) -> tuple[dict[str, float], float]:
        """Medians: ours by role, and all of theirs."""
        ours = {role: statistics.median(answer["cpu_us"].get(role, 0.0) for answer in self.ours) for role in ROLES}
        return ours, statistics.median(sum(answer["cpu_us"].values()) for answer in self.theirs)


Measured = dict[str, Pairs]


def two_hosts(quick: bool) -> Section:
    return run_on(2, QUICK_PAIRS if quick else PAIRS[2])


def four_hosts(quick: bool) -> Section:
    return run_on(4, QUICK_PAIRS if quick else PAIRS[4])


def run_on(hosts: int, pairs: int, divide_by: int = 1) -> Section:
    """The section of one number of hosts. `divide_by` shortens the samples: only to see that it runs."""
    quiet = Quiet(BUDGET_S_PER_PAIR * pairs)
    theirs = peer(hosts)
    try:
        with running_cluster(islands=1, hosts=hosts, devices=1) as cluster:
            ours = on(cluster)
            try:
                rows = [row for row in ROWS if row.ours != "chain_fused" or ours.hello["fuses"]]
                measured = measure(ours, theirs, rows, pairs, divide_by, quiet)
            finally:
                ours.close()
    finally:
        theirs.close()
    found = section(hosts, rows, measured, quiet)
    if hosts != PLACED_HOSTS:
        return found
    if not placed_threads.possible():
        return replace(found, misses=[*found.misses, f"{placed_threads.MARK}: this machine has one CPU"])
    return with_placed(found, *measure_placed(min(pairs, PLACED_PAIRS), divide_by))


def measure_placed(pairs: int, divide_by: int) -> tuple[Measured, Quiet]:
    """Pairs of a cluster and of peers whose threads are placed, with processes of their own."""
    quiet = Quiet(PLACED_BUDGET_S)
    theirs = peer(PLACED_HOSTS, STEPS, placed_threads.PEER_WORD)
    try:
        with running_cluster(islands=1, hosts=PLACED_HOSTS, devices=1, **placed_threads.CLUSTER) as cluster:
            ours = on(cluster)
            try:
                measured = measure(ours, theirs, PLACED_ROWS, pairs, divide_by, quiet)
                # Of the executors of a host, the spare has no group yet.
                for host in cluster.gangs_by_host():
                    placed_threads.check_one([process.pid for process in cluster.executors(host)])
            finally:
                ours.close()
    finally:
        theirs.close()
    return measured, quiet


def with_placed(found: Section, measured: Measured, quiet: Quiet) -> Section:
    """The section with lines of their own for what was measured with placed threads; all others stay as they are."""
    mark = placed_threads.MARK
    claims = [
        ratio_claim(f"{mark}: {row.name}, {PLACED_HOSTS} hosts: ratio to JAX async, {mark}", *measured[row.name].rates())
        for row in PLACED_ROWS
    ]
    table = rate_table(PLACED_ROWS, measured)
    rows = [(f"{mark}: {name}", *figures) for name, *figures in table.rows]
    rates = {row.name: dict(zip(("ours", "theirs"), measured[row.name].rates(), strict=True)) for row in PLACED_ROWS}
    return replace(
        found,
        text=f"{found.text}\n{PLACED_TEXT} {quiet}",
        claims=[*found.claims, *claims],
        tables=[*found.tables, replace(table, rows=rows)],
        data=found.data | {"threads_placed": rates},
    )


def measure(ours: Side, theirs: Side, rows: list[Row], pairs: int, divide_by: int, quiet: Quiet) -> Measured:
    """Pairs in alternating order; every program is compiled and warm before the first."""
    for row in rows:
        ours.measure(row.ours, NODES)
        theirs.measure(row.theirs, NODES)
    measured: Measured = {row.name: Pairs() for row in rows}
    for pair in range(pairs):
        for row in rows:
            kept, steps = measured[row.name], row.steps // divide_by
            samples = [partial(ours.measure, row.ours, steps), partial(theirs.measure, row.theirs, steps)]
            turn = 1 if pair % 2 else -1
            mine, jax = quiet.take(samples[::turn])[::turn]
            kept.ours.append(mine)
            kept.theirs.append(jax)
        print(f"pair {pair + 1} of {pairs}", file=sys.stderr, flush=True)
    return measured


def section(hosts: int, rows: list[Row], measured: Measured, quiet: Quiet) -> Section:
    absent = [row.name for row in ROWS if row not in rows]
    name = f"gangs_{hosts}_hosts"
    return Section(
        name=name,
        title=f"Gang steps on {hosts} hosts",
        text=TEXT.format(hosts=hosts, nodes=NODES) + "\n" + str(quiet),
        claims=judged(claims(hosts, rows, measured), quiet.loud),
        tables=[rate_table(rows, measured), cpu_table(rows, measured)],
        plots=[ratio_plot(name, hosts, rows, measured), cpu_plot(name, hosts, rows, measured)],
        misses=[f"{row}: this build has no fusion of neighbours" for row in absent],
        data={
            "hosts": hosts,
            "cpu_us": {f"{row.name}, {hosts} hosts": measured[row.name].cpu_us()[0] for row in rows},
            "rows": {row.name: {"ours": measured[row.name].rates()[0], "theirs": measured[row.name].rates()[1]} for row in rows},
        },
    )


def claims(hosts: int, rows: list[Row], measured: Measured) -> list[Claim]:
    found = []
    for row in rows:
        peer_name = "JAX fused" if row.theirs == "fused" else "JAX async"
        found.append(
            ratio_claim(f"{row.name}, {hosts} hosts: ratio to {peer_name}", *measured[row.name].rates(), *row.bars[hosts])
        )
    chained = measured["Chained"].ours
    calls_us = [answer["call_us"] for answer in chained]
    found.append(figure_claim(f"a call of the {NODES}-node program returns to the client", calls_us, "us", 100.0, at_least=False))
    controller_ms = [answer["cpu_us"]["controller"] * NODES / 1000 for answer in chained]
    bar = 1.0 if hosts == 2 else None
    found.append(
        figure_claim(f"controller CPU per {NODES}-node program, {hosts} hosts", controller_ms, "ms", bar, at_least=False)
    )
    return found


def rate_table(rows: list[Row], measured: Measured) -> Table:
    lines = []
    for row in rows:
        ours, theirs = measured[row.name].rates()
        lines.append((row.name, *(number(statistics.median(side)) for side in (ours, theirs)), _range(ours), _range(theirs)))
    return Table(("gang steps/s, median", "cluster", "JAX beside it", "cluster, range", "JAX, range"), lines)


def _range(rates: list[float]) -> str:
    return f"{number(min(rates))} to {number(max(rates))}"


def cpu_table(rows: list[Row], measured: Measured) -> Table:
    lines = []
    for row in rows:
        ours, theirs = measured[row.name].cpu_us()
        lines.append((row.name, *(number(ours[role]) for role in ROLES), number(sum(ours.values())), number(theirs)))
    note = "Where the time goes: microseconds of CPU per gang step; all daemons together, all executors together."
    return Table(("CPU us per step, median", *ROLES, "all", "JAX, all"), lines, note)


def ratio_plot(name: str, hosts: int, rows: list[Row], measured: Measured) -> Plot:
    points = []
    for place, row in enumerate(rows):
        ratio = ratio_claim("", *measured[row.name].rates()).figure
        points.append((float(place), ratio.median, ratio.low, ratio.high))
    return Plot(
        f"{name}_ratio",
        f"Gang steps/s over those of multi-controller JAX, {hosts} hosts",
        "",
        "ratio (95 % interval)",
        [
            Series("measured", points),
            Series("must hold", [(float(at), *(3 * (row.bars[hosts][0],))) for at, row in enumerate(rows)]),
        ],
        categories=[row.name for row in rows],
        bars=[("JAX", 1.0)],
    )


def cpu_plot(name: str, hosts: int, rows: list[Row], measured: Measured) -> Plot:
    by_role = {role: [measured[row.name].cpu_us()[0][role] for row in rows] for role in ROLES}
    series = [
        Series(role, [(float(place), value, value, value) for place, value in enumerate(values)])
        for role, values in by_role.items()
    ]
    jax = [(float(len(rows)), *(3 * (measured["OpByOp"].cpu_us()[1],)))]
    return Plot(
        f"{name}_cpu",
        f"Where the time goes, {hosts} hosts",
        "",
        "us of CPU per gang step",
        [*series, Series("JAX, all processes", jax)],
        categories=[*(row.name for row in rows), "JAX async"],
        stacked=True,
    )
