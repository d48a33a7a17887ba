"""How busy clients together keep an island (Figs. 8 and 11 of the Pathways paper): one to sixteen, traced and op by op."""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.claims import figure_claim, ratio_claim
from tests.benchmarks.report import Plot, Section, Series, Table
from tests.benchmarks.sharing import HOSTS, Box, Processes, Sharing, boxes_in, plain_jax, sharing, utilisation, worked
from tests.benchmarks.sharing_client import NODES
from tests.benchmarks.statistics_of_pairs import interval_of

CLIENTS = (1, 4, 8, 16)
KINDS = {"fused": "traced programs", "program": "traced programs, never fused", "op_by_op": "op by op"}
TRACED = ("fused", "program")
# Two sections: as programs run by themselves, and the rest. Together they take twenty minutes.
BY_THEMSELVES, APART = ("fused",), ("program", "op_by_op")
LASTS_NS = 330_000
# Of calls of 16 steps, 5 ms of device time each.
AHEAD = 4
SECONDS, QUICK_SECONDS = 4.0, 3.0
# Clients begin one after the other, and more is granted ahead only when all of them have had work for a while.
SETTLE_PART = 0.15
SAMPLES, QUICK_SAMPLES = 15, 1
BAR_CLIENTS, BAR = 8, 95.0

# Percent: how long devices were busy, and how long they would have been if nobody had waited for anybody.
Busy = tuple[float, float]
Samples = dict[tuple[str, int], list[Busy]]

TEXT = f"""Tenants with a client each on one island of {HOSTS} hosts. Every client keeps calling a chain of {NODES} gangs that
take 0.33 ms of emulated device time each, an all-reduce over both hosts among it: as one `@pw.program`, as one with `fuse=False`,
so that all {NODES} are launched one by one, or op by op. Utilisation
is the device time between the start and end markers of all gangs over the time in which all clients ask; the mean of both hosts.
A member that waits for a late one counts as busy there, on both sides. *Worked* counts every gang as the 0.33 ms that it was
told to take, so it says how many there were. Plain JAX is one client, {HOSTS} processes over gloo, op by op and not awaited."""


def run(quick: bool) -> Section:
    """Traced programs."""
    return measured(*((QUICK_SAMPLES, QUICK_SECONDS) if quick else (SAMPLES, SECONDS)))


def apart(quick: bool) -> Section:
    """Traced programs that are never fused, and op by op."""
    return measured(*((QUICK_SAMPLES, QUICK_SECONDS) if quick else (SAMPLES, SECONDS)), kinds=APART)


def ours(running: Sharing, kind: str, clients: int, seconds: float) -> Busy:
    """Of so many clients at once."""
    command = {"kind": kind, "lasts_ns": LASTS_NS, "seconds": seconds, "ahead": AHEAD}
    answers = running.clients.ask(dict.fromkeys(range(clients), command))
    began_ns, ended_ns = max(answer["began_ns"] for answer in answers), min(answer["ended_ns"] for answer in answers)
    return _busy(running.boxes([LASTS_NS] * clients, began_ns + round(SETTLE_PART * seconds * 1e9), ended_ns))


def theirs(processes: Processes, folder: Path, seconds: float) -> Busy:
    """Of plain JAX."""
    command = {"kind": "op_by_op", "lasts_ns": LASTS_NS, "seconds": seconds, "ahead": AHEAD}
    answers = processes.ask(dict.fromkeys(range(HOSTS), command))
    began_ns, ended_ns = max(answer["began_ns"] for answer in answers), min(answer["ended_ns"] for answer in answers)
    return _busy(boxes_in(folder, [LASTS_NS], began_ns, ended_ns))


def _busy(hosts: Sequence[Sequence[Box]]) -> Busy:
    return 100 * utilisation(hosts), 100 * worked(hosts, LASTS_NS)


def measured(samples: int, seconds: float, clients: Sequence[int] = CLIENTS, kinds: Sequence[str] = BY_THEMSELVES) -> Section:
    found: Samples = defaultdict(list)
    beside: Samples = defaultdict(list)
    with plain_jax() as (processes, folder), sharing(max(clients)) as running:
        for sample in range(samples):
            for kind in kinds:
                for count in clients:
                    beside[kind, count].append(theirs(processes, folder, seconds / 2))
                    found[kind, count].append(ours(running, kind, count, seconds))
            print(f"sample {sample + 1} of {samples}", file=sys.stderr, flush=True)
    return section(found, beside, clients, kinds)


def section(found: Samples, beside: Samples, clients: Sequence[int], kinds: Sequence[str]) -> Section:
    """`found` and `beside` by kind and number of clients."""
    claims = []
    for kind in (kind for kind in TRACED if kind in kinds):
        if BAR_CLIENTS in clients:
            what = f"{BAR_CLIENTS} clients, {KINDS[kind]}: utilisation"
            claims.append(figure_claim(what, _part(found[kind, BAR_CLIENTS], 0), "%", BAR))
        for count in clients:
            pair = _part(found[kind, count], 0), _part(beside[kind, count], 0)
            claims.append(ratio_claim(f"{count} clients, {KINDS[kind]}: utilisation over that of one of plain JAX", *pair, 1.0))
    rows = [
        (
            KINDS[kind],
            str(count),
            *(f"{statistics.median(_part(side[kind, count], part)):.1f}" for part in (0, 1) for side in (found, beside)),
        )
        for kind in kinds
        for count in clients
    ]
    series = []
    for kind in kinds:
        intervals = [(count, interval_of(_part(found[kind, count], 0))) for count in clients]
        series.append(Series(KINDS[kind], [(float(count), each.median, each.low, each.high) for count, each in intervals]))
    jax = interval_of([value for values in beside.values() for value in _part(values, 0)])
    series.append(Series("plain JAX, one client", [(float(count), jax.median, jax.low, jax.high) for count in clients]))
    name, title = ("tenancy", "") if "fused" in kinds else ("tenancy_apart", ", never fused and op by op")
    plot = Plot(
        name, f"Utilisation of the devices by number of clients{title}", "clients", "%", series, bars=[(f"{BAR:g} %", BAR)]
    )
    head = ("", "clients", "utilisation, %", "plain JAX beside it, %", "worked, %", "plain JAX beside it, %")
    data = {f"{kind}, {count}": values for (kind, count), values in found.items()}
    return Section(name, f"Utilisation by number of clients{title}", TEXT, claims, [Table(head, rows)], [plot], data=data)


def _part(samples: Sequence[Busy], part: int) -> list[float]:
    return [sample[part] for sample in samples]
