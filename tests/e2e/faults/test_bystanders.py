"""A client on hosts that are left when another executor ends: each of its steps is taken once, and it sees but a pause."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.faults.test_killed_and_stuck import running
from tests.e2e.faults.three_hosts import ThreeHosts, three_hosts

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def faulty() -> Iterator[ThreeHosts]:
    with three_hosts() as cluster:
        yield cluster


def killed(cluster: ThreeHosts) -> None:
    cluster.executor("a1").kill()


def stopped(cluster: ThreeHosts) -> None:
    cluster.executor("a1").suspend()


@pytest.mark.parametrize("fault", [killed, stopped])
def test_a_bystander_takes_every_step_once(faulty: ThreeHosts, fault: Callable[[ThreeHosts], None]) -> None:
    with running(faulty, "bystander") as other, running(faulty, "loop") as script:
        assert other.hear("running")["running"] == 6
        script.hear("running")
        before = faulty.epochs()["a"]
        fault(faulty)
        assert script.hear("failed", 90)["host"] == "a1"
        assert script.hear("followed")
        assert script.hear("again", 90)["again"] == [3.0, 3.0]
        time.sleep(0.5)
        other.go_on()
        end = other.hear("value", 90)
        assert end["value"] == end["steps"] > 6
        assert faulty.epochs()["a"] > before
