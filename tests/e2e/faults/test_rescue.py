"""What survivors hold outlives the loss of an executor, for a client that does nothing about it: real processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.faults.test_killed_and_stuck import Script
from tests.e2e.faults.three_hosts import ThreeHosts, three_hosts
from tests.e2e.lines import stop

pytestmark = pytest.mark.cluster
SCRIPT = str(Path(__file__).parents[1] / "scripts" / "rescue.py")


@pytest.fixture(scope="module")
def faulty() -> Iterator[ThreeHosts]:
    with three_hosts(devices=4) as running:
        yield running


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_what_lay_whole_on_another_host_is_there_and_what_did_not_is_named(faulty: ThreeHosts, how: signal.Signals) -> None:
    process = faulty.start(SCRIPT, islands="a", stdin=True)
    script = Script(process)
    try:
        script.hear("ready")
        before = faulty.epochs()
        faulty.executor("a0").send_signal(how)
        script.go_on()
        assert script.hear("alone")["alone"]
        assert script.hear("used")["used"]
        assert script.hear("everywhere")["everywhere"] == [True] * 8
        assert script.hear("twice")["twice"] == [True] * 8
        lost = script.hear("failed")
        assert lost["failed"] == "BufferLostError"
        assert "an array of 256 KiB in 8 shards on hosts a0, a1 of island a" in lost["message"]
        assert "host a0 of island a was lost" in lost["message"]
        assert faulty.epochs()["a"] > before["a"]
        assert faulty.epochs()["b"] == before["b"]
    finally:
        stop(process)
    faulty.await_active()
