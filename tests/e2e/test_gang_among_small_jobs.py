"""A gang over two hosts loses one of them amid endless small jobs of others on single hosts: it has both, and has them back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.e2e.lines import Lines, stop
from tests.e2e.test_tenants import tenants

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SCRIPTS = Path(__file__).with_name("scripts")
# With one more than devices somebody always waits for the next one that comes free.
STREAMS = 3
# Both are kept for the gang when it has waited 10 s; an executor is started and the gang compiled again, on two cores.
HAD_S = 35.0


def counted(lines: Lines, more: int) -> int:
    """What a stream has said after so many further jobs."""
    last = 0
    for _ in range(more):
        said = lines.next(60)
        assert said is not None, "the small jobs do not go on"
        last = int(said)
    return last


def test_a_gang_that_lost_a_host_has_both_back_while_small_jobs_of_lower_priority_go_on(cluster: Cluster) -> None:
    low, high = tenants(cluster, "add", "small"), tenants(cluster, "add", "large")
    tenants(cluster, "set", "small", "--priority", "low")
    tenants(cluster, "policy", "priority")
    small = [cluster.start(str(SCRIPTS / "endless_jobs.py"), PATHWAYS_TOKEN=low) for _ in range(STREAMS)]
    jobs = [Lines(each) for each in small]
    started = list(small)
    try:
        for lines in jobs:
            counted(lines, 2)
        gang = cluster.start(str(SCRIPTS / "exclusive_gang.py"), PATHWAYS_TOKEN=high)
        started.append(gang)
        heard = Lines(gang)
        began_s = time.monotonic()
        assert heard.next(HAD_S) == "has both", "small jobs pass it for ever"
        print(f"the gang had both hosts after {time.monotonic() - began_s:.1f} s")
        for executor in cluster.executors("a1"):
            executor.kill()
        assert "host=a1" in (heard.next(60) or "nothing")
        began_s = time.monotonic()
        assert heard.next(HAD_S) == "has both"
        print(f"the gang had both hosts back after {time.monotonic() - began_s:.1f} s")
        assert gang.wait(30) == 0
        for lines in jobs:
            counted(lines, 3)
        assert [each.poll() for each in small] == [None] * STREAMS
    finally:
        for process in started:
            stop(process)
        tenants(cluster, "policy", "proportional-share")
        for name in ("small", "large"):
            tenants(cluster, "remove", name)
