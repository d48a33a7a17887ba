"""A client's memory does not grow with the number of its dispatches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster

pytestmark = pytest.mark.cluster
SCRIPT = str(Path(__file__).with_name("scripts") / "dispatches.py")


def growth_mib(cluster: Cluster, warm_up: int, count: int, every: int, timeout_s: float) -> float:
    done = cluster.run(SCRIPT, str(warm_up), str(count), str(every), timeout_s=timeout_s)
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert int(words[1]) == warm_up + count
    return float(words[3])


def test_twenty_thousand_dispatches_leave_nothing_behind(cluster: Cluster) -> None:
    # A client whose tracebacks are never released keeps 0.43 KB of each dispatch: 8.6 MiB here.
    # Few are in flight, so that what is measured is what stays and not what was under way.
    assert growth_mib(cluster, warm_up=10_000, count=20_000, every=100, timeout_s=120) < 4


@pytest.mark.slow
def test_two_hundred_thousand_dispatches_grow_the_client_by_less_than_30_mib(cluster: Cluster) -> None:
    # Of which a client that kept its tracebacks would need 86. Few are in flight here, too: the stock client starts a thread
    # for every answer that finds no idle one and keeps it, up to 1,500 threads and 20 MiB if a loop never waits (decision 17).
    assert growth_mib(cluster, warm_up=0, count=200_000, every=100, timeout_s=300) < 30
