"""What the journal costs: a session of pathways.v1 without a door on two clusters, one of which keeps its journal in memory.

Without a file nothing is synced and nothing is copied; everything else is the same code.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.claims import judged, number, ratio_claim
from tests.benchmarks.quiet import Quiet
from tests.benchmarks.report import Section, Table
from tests.benchmarks.sides import Side, without_door
from tests.cluster import ROOT, running_cluster

# Name, steps per sample, awaited.
KINDS = (("call", 6000, False), ("awaited call", 500, True), ("session", 150, False))
PAIRS, QUICK_PAIRS = 101, 3
BUDGET_S_PER_PAIR = 3.0
BAR = 0.95
FAULTS = Path(ROOT / "tests" / "e2e" / "faults")

TEXT = """A Python program that speaks pathways.v1 itself, without a door: *call*, an addition on one device, chained; *awaited
call*, each waited for; *session*, opened and closed one after the other. The sides run in turns on two clusters of one host that
are alike, but for the journal: one writes it as always (SQLite, synced at each write), the other one keeps it in memory."""


def run(quick: bool) -> Section:
    return run_pairs(QUICK_PAIRS if quick else PAIRS)


def run_pairs(pairs: int, divide_by: int = 1) -> Section:
    """`divide_by` shortens the samples: only to see that it runs."""
    quiet = Quiet(BUDGET_S_PER_PAIR * pairs)
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for name, environment in (("file", {}), ("memory", {"PYTHONPATH": str(FAULTS), "JOURNAL_IN_MEMORY": "1"})):
            cluster = stack.enter_context(running_cluster(islands=1, hosts=1, devices=1, **environment))
            assert _has_tables(cluster.state) == (name == "file"), "the two sides differ in nothing"
            sides[name] = without_door(cluster)
            stack.callback(sides[name].close)
        answers: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for pair in range(pairs):
            for kind, steps, awaited in KINDS:
                names = list(sides)[:: 1 if pair % 2 else -1]
                what = "session" if kind == "session" else "call"
                taken = quiet.take([partial(sides[name].measure, what, max(steps // divide_by, 2), awaited) for name in names])
                for name, answer in zip(names, taken, strict=True):
                    answers[name, kind].append(answer)
            print(f"pair {pair + 1} of {pairs}", file=sys.stderr, flush=True)
    return section(answers, quiet)


def section(answers: dict[tuple[str, str], list[dict[str, Any]]], quiet: Quiet) -> Section:
    claims, rows = [], []
    for kind, _, _ in KINDS:
        with_file, without = ([each["rate"] for each in answers[name, kind]] for name in ("file", "memory"))
        claims.append(ratio_claim(f"{kind}s a second with the journal, over those without", with_file, without, BAR))
        rows.append((kind, number(statistics.median(with_file)), number(statistics.median(without))))
    table = Table(("", "with, a second", "without, a second"), rows)
    return Section("journal", "What the journal costs", f"{TEXT}\n{quiet}", judged(claims, quiet.loud), [table])


def _has_tables(state: Path) -> bool:
    """Whether anything was ever written to the journal's files."""
    return any(path.stat().st_size for path in state.glob("journal.sqlite*"))
