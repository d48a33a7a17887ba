"""A tenant with executors of its own on a real cluster: what a killed executor takes with it, and that nobody computes beside."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster import Cluster, running_cluster
from tests.e2e.lines import Lines
from tests.e2e.test_tenants import ended, go_on, heard, tenants

pytestmark = pytest.mark.cluster
SCRIPT = str(Path(__file__).with_name("scripts") / "isolated_work.py")


@pytest.fixture(scope="module")
def pair() -> Iterator[Cluster]:
    with running_cluster(islands=1, hosts=2, devices=1) as running:
        yield running


def executor_of(cluster: Cluster, host: str) -> psutil.Process:
    """The one that was started for a host, or for its cell; of an executor and its spare the older one."""
    found = [each for each in cluster.executors("a0") if host in each.cmdline()]
    return min(found, key=lambda each: each.create_time())


def epochs(cluster: Cluster) -> dict[str, int]:
    return {island.name: island.epoch for island in cluster.status().islands}


def interval_pairs(first: list[list[int]], second: list[list[int]]) -> list[tuple[list[int], list[int]]]:
    """Those of both that overlap."""
    return [(one, other) for one in first for other in second if one[0] < other[1] and other[0] < one[1]]


@pytest.mark.slow
def test_a_killed_executor_takes_its_own_cell_with_it_and_nothing_else(pair: Cluster) -> None:
    tokens = [tenants(pair, "add", "ads", "--isolation", "process"), tenants(pair, "add", "web")]
    processes: list[subprocess.Popen[str]] = []
    try:
        for token in tokens:
            processes.append(pair.start(SCRIPT, stdin=True, PATHWAYS_TOKEN=token))
        ads, web = (Lines(process) for process in processes)
        heard(ads, "computing")
        heard(web, "computing")
        assert epochs(pair) == {"a": 1, "a+ads": 1}
        shared = executor_of(pair, "a0").pid
        executor_of(pair, "a0+ads").kill()
        lost = heard(ads, "lost")
        assert "host a0+ads of island a+ads was lost in epoch 1" in lost
        heard(ads, "again")
        assert epochs(pair) == {"a": 1, "a+ads": 2}
        assert executor_of(pair, "a0").pid == shared
        executor_of(pair, "a0").kill()
        assert "host a0 of island a was lost in epoch 1" in heard(web, "lost")
        heard(web, "again")
        assert epochs(pair) == {"a": 2, "a+ads": 2}
        times = []
        for process, lines in zip(processes, (ads, web), strict=True):
            go_on(process)
            line = lines.next(120)
            assert line is not None
            assert line.startswith("times"), f"it lost something that was not its own: {line}"
            times.append(json.loads(line.removeprefix("times ")))
            assert process.wait(60) == 0
        assert min(map(len, times)) > 10
        assert interval_pairs(*times) == []
    finally:
        for process in processes:
            ended(process)
