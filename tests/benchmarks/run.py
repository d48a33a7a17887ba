"""Runs benchmarks by name, or all of them, and keeps what they gave: one result file, a page and plots per section, a summary.

python tests/benchmarks/run.py                  # everything, into docs/benchmarks
python tests/benchmarks/run.py gangs2 calls     # some; the other pages stay, with the commit they were measured at
python tests/benchmarks/run.py --quick          # a few samples each, into build/benchmarks; no verdicts
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.machine import facts
from tests.benchmarks.plots import draw
from tests.benchmarks.report import Section, as_json, claim_lines, from_json, markdown
from tests.benchmarks.summary import commit_in, plots, summary
from tests.cluster import ROOT, end_on_sigterm

# Name -> module and function; the function takes `quick` and returns a Section.
SECTIONS = {
    "gangs2": "tests.benchmarks.gangs:two_hosts",
    "gangs4": "tests.benchmarks.gangs:four_hosts",
    "calls": "tests.benchmarks.calls:run",
    "emulator": "tests.benchmarks.emulation:run",
    "smallest2": "tests.benchmarks.smallest:two_hosts",
    "smallest4": "tests.benchmarks.smallest:four_hosts",
    "pipeline": "tests.benchmarks.pipeline:run",
    "shares": "tests.benchmarks.shares:run",
    "tenancy": "tests.benchmarks.tenancy:run",
    "tenancy_apart": "tests.benchmarks.tenancy:apart",
    "fanout": "tests.benchmarks.fan_out:run",
    "shared": "tests.benchmarks.shared:run",
    "faults": "tests.benchmarks.faults:run",
    "reform": "tests.benchmarks.faults:reform",
    "pauses": "tests.benchmarks.pauses:run",
    "journal": "tests.benchmarks.journal:run",
    "sessions": "tests.benchmarks.sessions:run",
    "bulk": "tests.benchmarks.bulk:run",
    "ray": "tests.benchmarks.ray_peer:run",
    "raybulk": "tests.benchmarks.bulk:beside_ray",
    "faultpeers": "tests.benchmarks.faults:peers",
}
# Only when asked for: they install Ray, and Monarch, into environments of their own.
PEERS = {"ray", "raybulk", "faultpeers"}
# The same at two hosts is enough in five minutes, and faults take theirs.
NOT_QUICK = {"smallest4", "faults", "reform", "pauses", "sessions"}
RESULTS = "results.json"


def runner(name: str) -> Callable[[bool], Section] | None:
    """The function behind a name; None where this tree has no such module."""
    module, _, function = SECTIONS[name].partition(":")
    if importlib.util.find_spec(module) is None:
        return None
    found: Callable[[bool], Section] = getattr(importlib.import_module(module), function)
    return found


def keep(section: Section, lines: list[str], folder: Path) -> None:
    """Adds the section to the result file, and writes its page and plots."""
    folder.mkdir(parents=True, exist_ok=True)
    results = read_results(folder)
    results[section.name] = {"facts": lines, **as_json(section), "profiles": profiles(results.get(section.name), section, lines)}
    (folder / RESULTS).write_text(json.dumps(results, indent=1) + "\n")
    write_page(section, lines, folder)


def write_page(section: Section, lines: list[str], folder: Path) -> None:
    for plot in section.plots:
        draw(plot, folder)
    (folder / f"{section.name}.md").write_text(markdown(section, lines))


def write_summary(folder: Path) -> None:
    results = read_results(folder)
    for plot in plots(results):
        draw(plot, folder)
    (folder / "README.md").write_text(summary(results))


def profiles(before: dict[str, Any] | None, section: Section, lines: list[str]) -> list[dict[str, Any]]:
    """CPU per step by process, at the first commit that was measured and at the last: where the time went, and goes."""
    cpu_us = section.data.get("cpu_us")
    if cpu_us is None:
        return []
    kept = before["profiles"][:1] if before else []
    return [*kept, {"commit": commit_in(lines), "cpu_us": cpu_us}]


def read_results(folder: Path) -> dict[str, Any]:
    path = folder / RESULTS
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def measure(name: str, quick: bool, folder: Path) -> bool:
    """Runs one and keeps what it gave; False if it failed: what the others give is kept all the same."""
    run = runner(name)
    if run is None:
        print(f"{name}: this tree does not have it", file=sys.stderr)
        return True
    print(f"{name} ...", file=sys.stderr, flush=True)
    began_s = time.monotonic()
    lines = facts(quick)
    try:
        section = run(quick)
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            raise  # by SIGTERM; a benchmark that gives up says why
        traceback.print_exc()
        return False
    keep(section, lines, folder)
    print("\n".join([f"{section.title} ({time.monotonic() - began_s:.0f} s)", *claim_lines(section.claims), ""]), flush=True)
    return True


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to run: {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="few samples, 5 minutes in all, no verdicts; into build/benchmarks")
    parser.add_argument("--ray", action="store_true", help="measure Ray and Monarch as well; makes virtual environments in build")
    parser.add_argument("--render", action="store_true", help="measure nothing; write the pages again from the result file")
    parser.add_argument("--output", type=Path, help="where to write (default docs/benchmarks)")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    return options


def main() -> int:
    options = parse()
    end_on_sigterm()
    folder = options.output or ROOT / ("build/benchmarks" if options.quick else "docs/benchmarks")
    if options.render:
        for kept in read_results(folder).values():
            write_page(from_json(kept), kept["facts"], folder)
        write_summary(folder)
        return 0
    left_out = (PEERS if not options.ray else set()) | (NOT_QUICK if options.quick else set())
    names = options.names or [name for name in SECTIONS if name not in left_out]
    failed = [name for name in names if not measure(name, options.quick, folder)]
    write_summary(folder)
    print(f"written to {folder}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
