"""The run of the mutants tells one that is caught from one that is not, and each meets a tree without those before it."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

from tests.cluster import ROOT

SOURCE = "proto/pathways_common/model/failure.py"
TEST = "tests/unit/mutated/test_value.py"


def broken_source() -> str:
    """A patch of what the tree has: an import of what does not exist."""
    before = (ROOT / SOURCE).read_text().splitlines(keepends=True)
    after = [*before, "import there_is_no_such_module\n"]
    return "".join(difflib.unified_diff(before, after, f"a/{SOURCE}", f"b/{SOURCE}"))


def new_test(body: str) -> str:
    """A patch that adds a test."""
    return new_file("\n".join(["def test_value():", *(f"    {line}" for line in body.splitlines())]))


def new_file(text: str) -> str:
    """A patch that adds the file of the test."""
    lines = text.splitlines()
    added = "".join(f"+{line}\n" for line in lines)
    return f"--- /dev/null\n+++ b/{TEST}\n@@ -0,0 +1,{len(lines)} @@\n{added}"


WITHOUT_A_BEGIN = """import pytest
@pytest.fixture
def broken():
    raise ValueError("set-up failed")
def test_value(broken):
    pass"""
IMPORTS = "from pathways_common.model.failure import Reason\nassert Reason"
PATCHES = {
    # In the order in which they meet the one tree.
    "a_caught": (f"{TEST}::test_value", new_test("assert 1 == 2")),
    "b_survives": (f"{TEST}::test_value", new_test(IMPORTS)),
    "c_breaks_what_is_there": (f"{TEST}::test_value", broken_source() + new_test(IMPORTS)),
    "d_survives_as_before": (f"{TEST}::test_value", new_test(IMPORTS)),
    "e_names_no_test": (f"{TEST}::test_another", new_test(IMPORTS)),
    "f_applies_to_nothing": (f"{TEST}::test_value", broken_source().replace("@@\n ", "@@\n x")),
    "g_has_no_test": (f"{TEST}::test_value", broken_source()),
    "i_does_not_begin": (f"{TEST}::test_value", new_file(WITHOUT_A_BEGIN)),
    "h_ends_its_process": (f"{TEST}::test_value", new_test("import os\nos._exit(0)")),
}


def test_only_what_fails_by_its_test_is_caught(tmp_path: Path) -> None:
    for name, (test, diff) in PATCHES.items():
        (tmp_path / f"{name}.patch").write_text(f"rule: {name}\ntest: {test}\n\n{diff}")
    command = [sys.executable, "tests/mutants/run.py", "--patches", str(tmp_path), "--at-once", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    caught = {line.rpartition(" ")[2] for line in done.stdout.splitlines() if line.startswith("caught")}
    assert caught == {"a_caught", "c_breaks_what_is_there"}, done.stdout + done.stderr
    assert done.returncode == len(PATCHES) - 2
    assert f"2 of {len(PATCHES)} mutants caught" in done.stdout
    assert f"b_survives: {TEST}::test_value passes with the mutant" in done.stdout
    assert f"e_names_no_test: {TEST}::test_another could not be run (exit 4)" in done.stdout
    assert f"i_does_not_begin: {TEST}::test_value could not be run (exit 1)" in done.stdout
    assert "f_applies_to_nothing: the patch no longer applies: " in done.stdout
