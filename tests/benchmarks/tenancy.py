"""How busy clients together keep an island (Figs. 8 and 11 of the Pathways paper): one to sixteen, traced and op by op."""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.claims import figure_claim, ratio_claim
from tests.benchmarks.report import Plot, Section, Series, Table
from tests.benchmarks.sharing import HOSTS, Processes, Sharing, boxes_in, plain_jax, sharing, utilisation
from tests.benchmarks.sharing_client import NODES
from tests.benchmarks.statistics_of_pairs import interval_of

CLIENTS = (1, 4, 8, 16)
KINDS = {"program": "traced programs", "op_by_op": "op by op"}
LASTS_NS = 330_000
# Of calls of 16 steps, 5 ms of device time each.
AHEAD = 4
SECONDS, QUICK_SECONDS = 4.0, 3.0
SAMPLES, QUICK_SAMPLES = 15, 1
BAR_CLIENTS, BAR = 8, 95.0

Samples = dict[tuple[str, int], list[float]]

TEXT = f"""Tenants with a client each on one island of {HOSTS} hosts. Every client keeps calling a chain of {NODES} gangs that
take 0.33 ms of emulated device time each, an all-reduce over both hosts among it: as one `@pw.program`, or op by op. Utilisation
is the device time between the start and end markers of all gangs over the time in which all clients ask; the mean of both hosts.
Plain JAX is one client, {HOSTS} processes over gloo, op by op and not awaited."""


def run(quick: bool) -> Section:
    return measured(QUICK_SAMPLES if quick else SAMPLES, QUICK_SECONDS if quick else SECONDS)


def ours(running: Sharing, kind: str, clients: int, seconds: float) -> float:
    """Percent."""
    command = {"kind": kind, "lasts_ns": LASTS_NS, "seconds": seconds, "ahead": AHEAD}
    answers = running.clients.ask(dict.fromkeys(range(clients), command))
    began_ns, ended_ns = max(answer["began_ns"] for answer in answers), min(answer["ended_ns"] for answer in answers)
    return 100 * utilisation(running.boxes([LASTS_NS] * clients, began_ns + 100_000_000, ended_ns))


def theirs(processes: Processes, folder: Path, seconds: float) -> float:
    """Percent, of plain JAX."""
    command = {"kind": "op_by_op", "lasts_ns": LASTS_NS, "seconds": seconds, "ahead": AHEAD}
    answers = processes.ask(dict.fromkeys(range(HOSTS), command))
    began_ns, ended_ns = max(answer["began_ns"] for answer in answers), min(answer["ended_ns"] for answer in answers)
    return 100 * utilisation(boxes_in(folder, [LASTS_NS], began_ns, ended_ns))


def measured(samples: int, seconds: float, clients: Sequence[int] = CLIENTS) -> Section:
    found: Samples = defaultdict(list)
    beside: Samples = defaultdict(list)
    with plain_jax() as (processes, folder), sharing(max(clients)) as running:
        for sample in range(samples):
            for kind in KINDS:
                for count in clients:
                    beside[kind, count].append(theirs(processes, folder, seconds / 2))
                    found[kind, count].append(ours(running, kind, count, seconds))
            print(f"sample {sample + 1} of {samples}", file=sys.stderr, flush=True)
    return section(found, beside, clients)


def section(found: Samples, beside: Samples, clients: Sequence[int]) -> Section:
    """`found` and `beside` by kind and number of clients, in percent."""
    claims = []
    if BAR_CLIENTS in clients:
        what = f"{BAR_CLIENTS} clients, traced programs: utilisation"
        claims.append(figure_claim(what, found["program", BAR_CLIENTS], "%", BAR))
    for count in clients:
        pair = found["program", count], beside["program", count]
        claims.append(ratio_claim(f"{count} clients, traced programs: utilisation over that of one of plain JAX", *pair, 1.0))
    rows = [
        (words, str(count), *(f"{statistics.median(side[kind, count]):.1f}" for side in (found, beside)))
        for kind, words in KINDS.items()
        for count in clients
    ]
    series = []
    for kind, words in KINDS.items():
        intervals = [(count, interval_of(found[kind, count])) for count in clients]
        series.append(Series(words, [(float(count), each.median, each.low, each.high) for count, each in intervals]))
    jax = interval_of([value for values in beside.values() for value in values])
    series.append(Series("plain JAX, one client", [(float(count), jax.median, jax.low, jax.high) for count in clients]))
    plot = Plot("tenancy", "Utilisation of the devices by number of clients", "clients", "%", series, bars=[(f"{BAR:g} %", BAR)])
    head = ("", "clients", "utilisation, %", "plain JAX beside it, %")
    data = {f"{kind}, {count}": values for (kind, count), values in found.items()}
    return Section("tenancy", "Utilisation by number of clients", TEXT, claims, [Table(head, rows)], [plot], data=data)
