"""The documented example of users' own fault tests passes, through the fixture that pytest finds, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import psutil
import pytest

from tests.cluster import ROOT, plain_environment, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.waits]
EXAMPLE = ROOT / "examples" / "test_faults.py"


@pytest.mark.slow
def test_the_example_of_fault_tests_passes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    known = [each.value for each in entry_points(group="pytest11", name="pathways")]
    assert known == ["pathways._pytest_plugin"]
    folders = tmp_path / "folders"
    folders.mkdir()
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(EXAMPLE)]
    environment = plain_environment() | {"TMPDIR": str(folders)}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=560, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout
    left = [each for each in folders.iterdir() if each.name.startswith("pathways-testing-")]
    assert left == []

    def mine() -> list[psutil.Process]:
        every = psutil.process_iter(["cmdline"])
        return [process for process in every if str(folders) in " ".join(process.info["cmdline"] or ())]

    # Executors end by themselves when their daemon has.
    wait_until(lambda: mine() == [], "every process of the clusters to end")
