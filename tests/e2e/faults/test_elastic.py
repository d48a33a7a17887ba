"""Training through kills: what is lost is left out and comes back, and no bit of a loss differs from undisturbed plain JAX."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.cluster import ROOT, local_environment, wait_until
from tests.e2e.faults.test_killed_and_stuck import Script
from tests.e2e.faults.three_hosts import ThreeHosts, three_hosts
from tests.e2e.lines import stop

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SCRIPT = str(Path(__file__).parents[1] / "scripts" / "elastic.py")
STEPS = 60


@pytest.fixture(scope="module")
def faulty() -> Iterator[ThreeHosts]:
    with three_hosts() as running:
        yield running


def undisturbed(folder: Path) -> list[str]:
    """The losses of plain JAX on one local device."""
    out = folder / "losses.json"
    words = [str(ROOT / "examples" / "elastic_training.py"), "--plain", "--steps", str(STEPS), "--losses-out", str(out)]
    subprocess.run([sys.executable, *words], env=local_environment(devices=1), timeout=120, check=True, capture_output=True)
    losses: list[str] = json.loads(out.read_text())
    return losses


def test_training_through_a_killed_executor_and_a_killed_worker_has_the_losses_of_the_undisturbed_run(
    faulty: ThreeHosts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = faulty.start(SCRIPT, str(STEPS), "10,30,50", islands="all", stdin=True)
    script = Script(process)
    try:
        assert script.hear("at") == {"at": 10, "devices": 3, "restored": 0}
        before = faulty.epochs()["a"]
        script.go_on()
        faulty.executor("a1").kill()
        # Between two steps that costs nothing that a0 has not, too: then nothing is to be restored.
        restored = script.hear("at")["restored"]
        wait_until(lambda: faulty.epochs()["a"] > before, "the island to begin another epoch")
        say(process, "grow")
        assert script.hear("grown") == {"grown": 3}
        faulty.daemons["b0"].kill()  # with a step under way
        faulty.daemons["b0"].wait(20)
        paused = script.hear("at")
        assert (paused["devices"], paused["restored"]) == (2, restored + 1)
        faulty.start_worker("b0")
        say(process, "grow")
        assert script.hear("grown") == {"grown": 3}
        told = script.hear("losses")
        assert process.wait(60) == 0
    finally:
        stop(process)
    assert told["losses"] == undisturbed(tmp_path)
    assert told["devices"][:9] == [3] * 9
    assert told["devices"][-10:] == [3] * 10
    with capsys.disabled():
        print(f"\n  steps with a loss took {told['slowest_s']} s, a step without {told['median_s']:.3f} s", end="")
    faulty.await_active()


def test_on_a_slice_of_one_island_the_state_comes_back_from_the_client_when_the_executor_does(
    faulty: ThreeHosts, tmp_path: Path
) -> None:
    process = faulty.start(SCRIPT, str(STEPS), "10", "b", islands="b", stdin=True)
    script = Script(process)
    try:
        assert script.hear("at") == {"at": 10, "devices": 1, "restored": 0}
        faulty.executor("b0").kill()
        script.go_on()
        told = script.hear("losses")
        assert process.wait(60) == 0
    finally:
        stop(process)
    assert told["restored"] == 1
    assert told["losses"] == undisturbed(tmp_path)


def test_an_array_that_is_whole_on_two_islands_is_read_after_one_is_lost(faulty: ThreeHosts) -> None:
    sums = [[size, float(np.arange(size, dtype=np.float32).sum())] for size in (4, 50_000)]
    process = faulty.start(str(Path(__file__).parents[1] / "scripts" / "replicas.py"), islands="all", stdin=True)
    script = Script(process)
    try:
        assert script.hear("before")["before"] == sums
        before = faulty.epochs()["a"]
        faulty.executor("a0").kill()
        wait_until(lambda: faulty.epochs()["a"] > before, "the island to begin another epoch")
        script.go_on()
        assert script.hear("after")["after"] == sums
        assert script.hear("moved")["moved"] == sums
        assert script.hear("lost")["lost"] == "BufferLostError"
    finally:
        stop(process)


def say(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()
