"""A controller that ends at any point of any write has lost nothing that it acknowledged and holds nothing half-written."""

from __future__ import annotations

import ast
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pathways_common.model.bounds import COUNTER_BLOCK
from pathways_server.core.tenant_events import Death
from pathways_server.shell.journal import Journal, Point, ProgramRow, Statement
from pathways_server.shell.tenant_journal import Act, TenantJournal, UsageRow

from tests.cluster import ROOT
from tests.unit.server_shell import journal_ends
from tests.unit.server_shell.journal_ends import ACTS

NOTHING: dict[str, Any] = {
    "programs": {}, "tokens": {}, "settings": {}, "policies": {}, "usage": [], "deaths": [], "audit": [],
}  # fmt: skip
ONE, TWO = ["graph 1", "bytes of p", "bytes of q1"], ["graph 2", "bytes of p", "bytes of q2"]
# What each act of journal_ends.ACTS changes. Audit lines are kept to three, days to two.
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"tokens": {"ads": "t1"}, "settings": {"ads": {"weight": "2", "priority": "1"}}, "audit": ["add"]},
    {"settings": {"ads": {"weight": "3"}}, "audit": ["weigh", "add"]},
    {"tokens": {"ads": "t2"}, "audit": ["token", "weigh", "add"]},
    {"policies": {"a": "priority"}, "audit": ["policy", "token", "weigh"]},
    {"programs": {"train 1": ONE}},
    {"programs": {"train 1": ONE, "train 2": TWO}},
    {"programs": {"train 2": TWO}},
    {"usage": [["2026-01-01", "ads", 5, 6], ["2026-01-02", "ads", 1, 1]]},
    {"usage": [["2026-01-02", "ads", 3, 4], ["2026-01-03", "ads", 4, 4]]},
    {"deaths": ["p"]},
    {"deaths": [], "audit": ["allow", "policy", "token"]},
    {"tokens": {}, "settings": {}, "audit": ["remove", "allow", "policy"]},
)


def after(acts: int) -> dict[str, Any]:
    found = deepcopy(NOTHING)
    for change in CHANGES[:acts]:
        found |= change
    return found


def test_a_process_that_ends_at_any_point_of_a_write_leaves_what_it_acknowledged_and_nothing_half(tmp_path: Path) -> None:
    assert len(CHANGES) == len(ACTS)
    done = subprocess.run(
        [sys.executable, journal_ends.__file__, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ends: set[tuple[int, str]] = set()
    for line in lines:
        acknowledged, point = line["acknowledged"], line["point"]
        ends.add((acknowledged, point))
        # What is durable is there, whether or not it could still be acknowledged.
        whole = max(acknowledged + (point == Point.COMMITTED.name), 0)
        assert line["found"] == after(whole), f"after {acknowledged} acts, at {point}"
        # No number that a client or host could have heard of comes again.
        assert [line["session"], line["incarnation"]] == [COUNTER_BLOCK + 1 if whole >= at else 1 for at in (1, 2)]
        assert line["term"] == 2 or (acknowledged == -1 and line["term"] == 1)
    for acts in range(-1, len(ACTS)):
        assert {point for number, point in ends if number == acts} == {each.name for each in Point}, f"ends of act {acts + 1}"
    assert lines[-1]["point"] == ""
    assert lines[-1]["found"] == after(len(ACTS))


def test_what_fails_half_way_is_not_written_and_the_next_write_is(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    good = Statement("insert into meta values ('x', 1)")
    with pytest.raises(sqlite3.OperationalError):
        journal.write(good, Statement("insert into nowhere values (1)"))
    assert journal.rows("select value from meta where name = 'x'") == []
    journal.write(good)
    assert journal.rows("select value from meta where name = 'x'") == [(1,)]
    journal.close()


def test_nothing_of_the_server_writes_but_through_the_one_function() -> None:
    folder = ROOT / "server" / "pathways_server"
    assert list(_executes(folder / "shell" / "journal.py")), "the check looks for something else than the journal does"
    found = [path for path in sorted(folder.rglob("*.py")) if list(_executes(path)) and path.name != "journal.py"]
    assert found == [], "they use the database beside Journal.write"
    writers = set(_executes(folder / "shell" / "journal.py"))
    # The first sets pragmas, the last reads.
    assert writers == {"__init__", "write", "rows", "kept_programs", "program_bytes"}


def _executes(path: Path) -> Iterator[str]:
    """Functions that call execute, executemany or executescript."""
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and node.attr.startswith("execute"):
                    yield function.name


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("journal.sqlite*"))


@pytest.mark.parametrize("what", ["usage", "deaths", "audit", "programs"])
def test_a_journal_that_is_written_for_years_stays_small(tmp_path: Path, what: str) -> None:
    journal = Journal(tmp_path)
    journal._database.execute("pragma synchronous = off")  # the disk is not what is looked at
    tenants = TenantJournal(journal, audit_lines_max=100, usage_days_max=10)
    large = b"x" * 200_000

    def programs(number: int) -> None:
        journal.keep_program(ProgramRow("ads", "p", number, b"g", ()), {f"q{number}": (large, b"")})
        journal.forget_program("ads", "p", number)

    def day(number: int) -> str:
        return f"{2000 + number // 360}-{number // 30 % 12 + 1:02}-{number % 30 + 1:02}"

    writes: dict[str, Callable[[int], object]] = {
        "usage": lambda number: tenants.add_usage([UsageRow(day(number), f"tenant{each}", 1, 1) for each in range(20)]),
        "deaths": lambda number: tenants.add_death(Death(f"p{number}", "f", "ads", "a0", "SIGKILL", number)),
        "audit": lambda number: tenants.set_settings("ads", {"weight": str(number)}, Act(number, "a", "b", "c", "d" * 200)),
        "programs": programs,
    }
    rounds = {"usage": 4000, "deaths": 10_000, "audit": 6000, "programs": 200}[what]
    half = 0
    for number in range(rounds):
        writes[what](number)
        if number == rounds // 2:
            half = _size(tmp_path)
    # The log is copied every 1,000 pages of 4 KiB and holds one write more; the rest is what is kept.
    assert _size(tmp_path) < 6 << 20
    assert _size(tmp_path) <= half + (1 << 20), "it grows with the writes"
    journal.close()
