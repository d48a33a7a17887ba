"""Work happens on the hosts: their counters grow with it, and it stands still while their executors do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster, wait_until
from tests.e2e.lines import Lines, stop

pytestmark = pytest.mark.cluster
SCRIPTS = Path(__file__).with_name("scripts")


def test_gangs_of_every_host_are_counted(cluster: Cluster) -> None:
    before = cluster.gangs_by_host()
    assert sorted(before) == ["a0", "a1"]
    assert cluster.run(str(SCRIPTS / "gangs.py"), "50", "0").returncode == 0
    after = cluster.gangs_by_host()
    assert all(after[host] - before[host] >= 50 for host in before), (before, after)


def test_script_stalls_while_executors_are_stopped_and_goes_on_exactly(cluster: Cluster) -> None:
    process = cluster.start(str(SCRIPTS / "ticker.py"))
    lines = Lines(process)
    executors = [executor for host in ("a0", "a1") for executor in cluster.executors(host)]
    assert len(executors) >= 2
    try:
        assert lines.next(60) == "step 1"
        for executor in executors:
            executor.suspend()
        try:
            before = lines.drain()
            assert lines.next(2.0) is None, "a step finished although every executor is stopped"
        finally:
            for executor in executors:
                executor.resume()
        resumed = [lines.next(30) for _ in range(20)]
    finally:
        stop(process)
    start = len(before) + 2
    assert before == [f"step {number}" for number in range(2, start)]
    assert resumed == [f"step {number}" for number in range(start, start + 20)]


def test_killed_executor_is_named_and_the_island_works_again(cluster: Cluster) -> None:
    process = cluster.start(str(SCRIPTS / "survivor.py"))
    lines = Lines(process)
    try:
        assert lines.next(60) == "running"
        for executor in cluster.executors("a1"):
            executor.kill()
        failed = lines.next(60) or "nothing"
        assert failed.startswith("failed:")
        assert "a1" in failed
        assert "[pathways reason=" in failed
        assert "host=a1" in failed
        assert lines.next(90) == "works again [3.0, 3.0]"
        assert process.wait(30) == 0
    finally:
        stop(process)


def test_session_of_an_ended_script_is_gone(cluster: Cluster) -> None:
    assert cluster.run(str(SCRIPTS / "gangs.py"), "4", "0").returncode == 0
    wait_until(lambda: cluster.sessions() == 0, "the session of an ended script to be closed")
