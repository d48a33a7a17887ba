"""What `make chaos` has shown so far: docs/benchmarks/chaos.json, by fault and phase, and the table of it in docs/testing.md.

    python tests/chaos/published.py build/chaos/results.json ...      # adds these trials, and writes both

A trial that is repeated replaces the earlier one, so a seed that was broken is null until it has held.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "docs/benchmarks/chaos.json", ROOT / "docs/testing.md"
HEAD = "| fault | "

# Of a fault and a phase: seconds until the work had its value, by seed; None where a rule did not hold.
Cells = dict[str, dict[str, dict[int, float | None]]]


def load() -> Cells:
    """What is published."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return {
        kind: {phase: {int(seed): again_s for seed, again_s in seeds.items()} for phase, seeds in phases.items()}
        for kind, phases in found.items()
    }


def add(cells: Cells, trials: Iterable[Any]) -> Cells:
    """`trials`: matrix.Trial, or what JSON made of one."""
    for kind, phase, seed, _, again_s, broken in trials:
        cells.setdefault(kind, {}).setdefault(phase, {})[seed] = None if broken else round(again_s, 1)
    return cells


def table(
    cells: Mapping[str, Mapping[str, Mapping[int, float | None]]], kinds: Iterable[str], phases: Iterable[str]
) -> list[str]:
    """Faults by phases: in how many trials everything held, and the longest time until the work had its value."""
    phases = list(phases)
    lines = [HEAD + " | ".join(phases) + " |", "|---" * (len(phases) + 1) + "|"]
    for kind in kinds:
        words = []
        for phase in phases:
            seeds = cells.get(kind, {}).get(phase, {})
            held = [again_s for again_s in seeds.values() if again_s is not None]
            words.append(f"{len(held)} of {len(seeds)}, {max(held, default=0.0):.1f} s" if seeds else "")
        lines.append(f"| {kind} | " + " | ".join(words) + " |")
    return lines


def write(cells: Cells, kinds: Iterable[str], phases: Iterable[str]) -> None:
    """The file, a line per fault and phase, and the table in place of the one on the page."""
    lines = []
    for kind in kinds:
        inner = [
            f"  {json.dumps(phase)}: {json.dumps(dict(sorted(seeds.items())))}" for phase, seeds in cells.get(kind, {}).items()
        ]
        lines.append(f" {json.dumps(kind)}: {{\n" + ",\n".join(inner) + "\n }")
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    page = PAGE.read_text().splitlines()
    begin = next(number for number, line in enumerate(page) if line.startswith(HEAD))
    end = next(number for number in range(begin, len(page)) if not page[number].startswith("|"))
    PAGE.write_text("\n".join([*page[:begin], *table(cells, kinds, phases), *page[end:]]) + "\n")


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from tests.chaos.kinds import KINDS
    from tests.chaos.matrix import PHASES

    cells = load()
    for path in sys.argv[1:]:
        add(cells, json.loads(Path(path).read_text()))
    write(cells, [kind.name for kind in KINDS], PHASES)


if __name__ == "__main__":
    main()
