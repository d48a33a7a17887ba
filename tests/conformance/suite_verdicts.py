"""What the outcomes of tests on a cluster are worth beside those on plain local JAX, and which failures are known."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

PASSED, SKIPPED, CRASHED = "passed", "skipped", "crashed"


@dataclass(frozen=True)
class Outcome:
    """`outcome` is passed, failed, skipped, or crashed: the process ended, or had to be ended, in the test."""

    outcome: str
    text: str = ""


@dataclass(frozen=True)
class Expectation:
    """A failure that is known. `by` is what refuses: a function of JAX's client, or `pathways`, which is ours to mend."""

    tests: str
    by: str
    reason: str

    @property
    def ours(self) -> bool:
        return self.by == "pathways"


@dataclass
class Tally:
    """Of one file: `failed` names tests that pass locally and not here, and that nobody expects to."""

    local: int = 0
    passed: int = 0
    skipped: int = 0
    expected: int = 0
    ours: int = 0
    failed: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)

    @property
    def percent(self) -> float:
        """Of what passes locally, the part that passes here."""
        return 100 * self.passed / self.local if self.local else 100.0


def read_outcomes(log: Path) -> dict[str, Outcome]:
    """The last word on each test of a log; one that was only started crashed."""
    outcomes: dict[str, Outcome] = {}
    for line in map(json.loads, log.read_text().splitlines()) if log.exists() else ():
        if "test" in line:
            known = outcomes.get(line["test"])
            outcome = Outcome(CRASHED if line["outcome"] == "started" else line["outcome"], line.get("text", ""))
            # A teardown that fails comes after a call that passed, and counts; one that is skipped does not.
            if known is None or known.outcome == CRASHED or outcome.outcome == "failed":
                outcomes[line["test"]] = outcome
        elif "unreadable" in line:
            outcomes[line["unreadable"]] = Outcome("failed", line["text"])
    return outcomes


def is_finished(log: Path) -> bool:
    """Whether every test of the file has had its turn."""
    return log.exists() and any("finished" in json.loads(line) for line in log.read_text().splitlines()[-1:])


def say_finished(log: Path) -> None:
    with log.open("a") as lines:
        lines.write(json.dumps({"finished": True}) + "\n")


def forget(log: Path, tests: Iterable[str]) -> None:
    """As if these had not had their turn yet."""
    gone = set(tests)
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    kept = [line for line in lines if not gone & {json.loads(line).get("test")} and "finished" not in json.loads(line)]
    log.write_text("".join(kept))


def read_expectations(path: Path) -> list[Expectation]:
    """`[[expected]]` tables with `tests` (one pattern or several), `by` and `reason`."""
    found = []
    for table in tomllib.loads(path.read_text()).get("expected", []):
        tests = table["tests"] if isinstance(table["tests"], list) else [table["tests"]]
        found += [Expectation(each, table["by"], table["reason"]) for each in tests]
    return found


def expectation_of(test: str, expectations: Iterable[Expectation]) -> Expectation | None:
    return next((each for each in expectations if fnmatchcase(test, each.tests)), None)


def tally(local: Mapping[str, Outcome], here: Mapping[str, Outcome], expectations: Sequence[Expectation]) -> Tally:
    """Only what passes locally is asked for. What passes here needs no word of plain local JAX; what was not run here has failed,
    and so has what failed here and was not run locally."""
    found = Tally()
    for test in local | here:
        got = here.get(test, Outcome("failed", "it was not run"))
        there = local.get(test, Outcome(SKIPPED if got.outcome == SKIPPED else PASSED))
        if there.outcome == SKIPPED:
            found.skipped += 1
        if there.outcome != PASSED:
            continue
        found.local += 1
        known = expectation_of(test, expectations)
        if got.outcome == PASSED:
            found.passed += 1
            if known is not None:
                found.mended.append(test)
        elif got.outcome == SKIPPED:
            # A test that asks for what a device can do says so by skipping itself; it proves nothing here.
            found.local -= 1
            found.skipped += 1
        elif got.outcome == CRASHED:
            found.crashed.append(test)
        elif known is not None:
            found.expected += 1
            found.ours += known.ours
        else:
            found.failed.append(test)
    return found


def table(tallies: Mapping[str, Tally]) -> str:
    """One row a file, and one for all."""
    rows: list[tuple[str, ...]] = [("suite", "passed", "of", "%", "skipped", "expected", "ours", "failed", "crashed")]
    total = Tally()
    for name, each in tallies.items():
        rows.append(_row(name, each))
        for key in ("local", "passed", "skipped", "expected", "ours"):
            setattr(total, key, getattr(total, key) + getattr(each, key))
        total.failed += each.failed
        total.crashed += each.crashed
    rows.append(_row("all", total))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _row(name: str, each: Tally) -> tuple[str, ...]:
    figures = (each.skipped, each.expected, each.ours, len(each.failed), len(each.crashed))
    return (name, str(each.passed), str(each.local), f"{each.percent:.1f}", *map(str, figures))
