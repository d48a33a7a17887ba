"""Traced programs on a real cluster: the paper's example, many threads, one frame per host, and which node a loss is told of."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.cluster import PATHWAYS, Cluster, wait_until
from tests.e2e.lines import Lines, stop

pytestmark = pytest.mark.cluster
SCRIPTS = Path(__file__).with_name("scripts")


def test_paper_example_gives_what_the_paper_prints(cluster: Cluster) -> None:
    done = cluster.run(str(SCRIPTS / "paper.py"))
    assert done.returncode == 0, done.stderr
    # Argument, a, b, c, a, result.
    assert done.stdout.splitlines() == [
        "[[3.0, 5.0], [2.0, 4.0]]",
        "[[3.0, 5.0], [2.0, 4.0]]",
        "[[9.0, 17.0], [8.0, 16.0]]",
        "True 6",
    ]


def test_eight_threads_call_one_program_with_arguments_of_their_own(cluster: Cluster) -> None:
    done = cluster.run(str(SCRIPTS / "chain.py"), "threads")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stdout + done.stderr


def test_donated_arrays_live_on_where_something_needs_them(cluster: Cluster) -> None:
    done = cluster.run(str(SCRIPTS / "donations.py"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[[3.0, 5.0], [2.0, 4.0]]", "[3.0, 5.0] [2.0, 4.0]", "[4.0, 6.0] True"]


def test_run_of_128_nodes_is_one_frame_per_host(cluster: Cluster) -> None:
    def frames() -> dict[str, int]:
        return {host.name: host.run_frames for island in cluster.status().islands for host in island.hosts}

    process = cluster.start(str(SCRIPTS / "chain.py"), "once", stdin=True)
    lines = Lines(process)
    assert process.stdin is not None
    try:
        assert lines.next(60) == "warm [128.0, 128.0]"
        frames_before, gangs_before = frames(), cluster.gangs_by_host()
        process.stdin.write("go\n")
        process.stdin.flush()
        assert lines.next(60) == "called"
        # All of it is granted although nobody reads its result.
        wait_until(lambda: all(cluster.gangs_by_host()[host] - gangs_before[host] >= 128 for host in gangs_before), "the grants")
        process.stdin.write("go\n")
        process.stdin.flush()
        assert lines.next(60) == "value [128.0, 128.0]"
        frames_after, gangs_after = frames(), cluster.gangs_by_host()
    finally:
        stop(process)
    assert {host: gangs_after[host] - gangs_before[host] for host in gangs_before} == {"a0": 128, "a1": 128}
    assert {host: frames_after[host] - frames_before[host] for host in frames_before} == {"a0": 1, "a1": 1}


def test_executor_killed_in_node_57_of_128_is_told_as_that(cluster: Cluster) -> None:
    process = cluster.start(str(SCRIPTS / "chain.py"), "slow")
    lines = Lines(process)
    try:
        assert lines.next(90) == "running"
        assert lines.next(2.0) is None, "node 57 should take longer"
        for executor in cluster.executors("a1"):
            executor.kill()
        failed = lines.next(60) or "nothing"
        assert failed.startswith("failed:")
        assert re.search(r"node 57 of 128 \(.*chain\.py:\d+\) of program slow", failed), failed
        assert "[pathways reason=SLICE_LOST host=a1" in failed
        assert lines.next(120) == "again [128.0, 128.0]"
        assert process.wait(30) == 0
    finally:
        stop(process)


def test_neighbouring_nodes_as_one_executable_give_the_same_bits(cluster: Cluster, tmp_path: Path) -> None:
    done = cluster.run(str(SCRIPTS / "fused.py"), "values", timeout_s=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{name} True True" for name in ("chain", "diamond", "moving")]
    path = tmp_path / "trace.json"
    command = [PATHWAYS, "trace", "--last", "-o", str(path), "--address", cluster.address]
    told = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, timeout=30, check=False)
    assert told.returncode == 0, told.stderr
    events = json.loads(path.read_text())["traceEvents"]
    launches = {(event["args"]["node"], event["name"]) for event in events if event.get("cat") == "launches"}
    # `moving` on both hosts: between the two a value takes another layout.
    assert sorted(launches) == [(1, "nodes 1-4: step x2, total, spread"), (5, "nodes 5-7: device_put, spread, step")]


def test_executor_killed_in_a_fused_executable_is_told_with_its_nodes(cluster: Cluster) -> None:
    process = cluster.start(str(SCRIPTS / "fused.py"), "kill")
    lines = Lines(process)
    try:
        assert lines.next(120) == "running"
        assert lines.next(2.0) is None, "node 57 should take longer"
        for executor in cluster.executors("a1"):
            executor.kill()
        failed = lines.next(60) or "nothing"
        assert re.search(r"failed:.*nodes 1-128 of 128 \(.*fused\.py:\d+.*\) of program slow failed; they ran as one", failed), (
            failed
        )
        assert "[pathways reason=SLICE_LOST host=a1" in failed
        assert lines.next(120) == "again [183.0, 183.0]"
        assert process.wait(60) == 0
    finally:
        stop(process)
