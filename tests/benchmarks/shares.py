"""Device time by declared shares (Fig. 9 of the Pathways paper): four clients, programs of very different length."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tests.benchmarks.claims import figure_claim
from tests.benchmarks.report import Plot, Section, Series, Table
from tests.benchmarks.sharing import HOSTS, Box, Sharing, busy_shares, sharing

DURATIONS_MS = (1, 3, 10, 100)
LASTS_NS = tuple(ms * 1_000_000 for ms in DURATIONS_MS)
# As many unfinished calls of each client as keep it backlogged.
AHEAD = (64, 32, 16, 4)
WEIGHTS = ((1, 1, 1, 1), (1, 2, 4, 8))
SECONDS, QUICK_SECONDS = 20.0, 8.0
SAMPLES, QUICK_SAMPLES = 25, 1
# Clients begin one after the other; shares are of the time in which all of them ask.
SETTLE_NS = 500_000_000
PICTURE_NS = 400_000_000
BAR_PERCENT = 5.0

# By weights: shares, and the boxes of a stretch from the middle.
Samples = dict[tuple[int, ...], list[tuple[list[float], list[list[Box]]]]]

TEXT = f"""Four tenants with a client each on one island of {HOSTS} hosts. Every client keeps calling a gang that takes 1, 3, 10
or 100 ms of emulated device time, an all-reduce over both hosts among it, and always has calls waiting. Shares are of the device
time that the emulator wrote down over {SECONDS:g} s: of every gang, from the start marker of its last member to its last end. The
deviation is that of the client that is furthest from its share, relative to that."""


def run(quick: bool) -> Section:
    return measured(QUICK_SAMPLES if quick else SAMPLES, QUICK_SECONDS if quick else SECONDS)


def one_sample(running: Sharing, weights: Sequence[int], seconds: float) -> tuple[list[float], list[list[Box]]]:
    """The shares, and the boxes of a stretch from the middle."""
    running.weigh(weights)
    commands = {
        number: {"kind": "step", "lasts_ns": lasts_ns, "seconds": seconds, "ahead": ahead}
        for number, (lasts_ns, ahead) in enumerate(zip(LASTS_NS, AHEAD, strict=True))
    }
    answers = running.clients.ask(commands)
    began_ns = max(answer["began_ns"] for answer in answers) + SETTLE_NS
    ended_ns = min(answer["ended_ns"] for answer in answers)
    found = running.gangs(LASTS_NS, began_ns, ended_ns)
    middle_ns = (began_ns + ended_ns) // 2
    return busy_shares(found, len(LASTS_NS)), running.boxes(LASTS_NS, middle_ns, middle_ns + PICTURE_NS)


def deviation_percent(shares: Sequence[float], weights: Sequence[int]) -> float:
    """Of the client furthest from its share."""
    wanted = [weight / sum(weights) for weight in weights]
    return max(abs(share / due - 1) for share, due in zip(shares, wanted, strict=True)) * 100


def measured(samples: int, seconds: float) -> Section:
    taken: Samples = {weights: [] for weights in WEIGHTS}
    with sharing(len(LASTS_NS)) as running:
        one_sample(running, WEIGHTS[0], 2.0)  # estimates of all programs are there after it
        for weights in WEIGHTS:
            taken[weights] = [one_sample(running, weights, seconds) for _ in range(samples)]
    return section(taken)


def section(taken: Samples) -> Section:
    claims, rows, plots = [], [], []
    for weights, samples in taken.items():
        words = ":".join(map(str, weights))
        shares = [each for each, _ in samples]
        what = f"shares {words}: the furthest from its share"
        deviations = [deviation_percent(each, weights) for each in shares]
        claims.append(figure_claim(what, deviations, "%", BAR_PERCENT, at_least=False))
        medians = [statistics.median(values) for values in zip(*shares, strict=True)]
        wanted = [weight / sum(weights) for weight in weights]
        rows += [
            (words, f"{ms} ms", f"{100 * due:.1f}", f"{100 * got:.1f}")
            for ms, due, got in zip(DURATIONS_MS, wanted, medians, strict=True)
        ]
        plots.append(timeline(f"shares_{'_'.join(map(str, weights))}", f"Shares {words}: who runs when", samples[-1][1]))
    data = {":".join(map(str, weights)): [each for each, _ in samples] for weights, samples in taken.items()}
    head = ("shares", "client", "its share, %", "device time, %")
    return Section("shares", "Device time by declared shares", TEXT, claims, [Table(head, rows)], plots, data=data)


def timeline(file: str, title: str, hosts: Sequence[Sequence[Box]]) -> Plot:
    begin_ns = min(box.began_ns for boxes in hosts for box in boxes)
    series = []
    for number, ms in enumerate(DURATIONS_MS):
        points = [
            (float(row), (box.began_ns - begin_ns) / 1e6, (box.ended_ns - begin_ns) / 1e6, 0.0)
            for row, boxes in enumerate(hosts)
            for box in boxes
            if box.client == number
        ]
        series.append(Series(f"client of {ms} ms", points))
    names = [f"host {row}" for row in range(len(hosts))]
    return Plot(file, title, "ms", "", series, categories=names, spans=True)
