"""Thousands of all-reduces that nobody awaits, on one executor with four devices: throttled there, finished, and exact.

XLA's thread pool on CPU waits for ever when dozens of them are in flight; which is why an executor keeps few.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import running_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.long]
SCRIPT = str(Path(__file__).with_name("scripts") / "many_collectives.py")
DEVICES, COUNT = 4, 5_000


def test_five_thousand_collectives_that_are_not_awaited_end_exactly() -> None:
    with running_cluster(islands=1, hosts=1, devices=DEVICES) as cluster:
        before = {each.pid for each in cluster.executors("a0")}
        done = cluster.run(SCRIPT, str(COUNT), timeout_s=150)
        assert done.returncode == 0, f"{done.stderr}{cluster.logs()}"
        mean = sum(range(DEVICES)) / DEVICES
        assert done.stdout.splitlines() == ["wrong 0", f"last {[mean + COUNT] * DEVICES}"]
        assert before <= {each.pid for each in cluster.executors("a0")}, "an executor ended"
