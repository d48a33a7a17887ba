"""Two clients, two different all-reduce programs, and a link to one of two hosts on which launches change places.

With the host's check of the order every number is exact: the later launch is held, the missing one asked for and sent again.
Without it numbers are wrong, and nothing tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster import Cluster, running_cluster
from tests.e2e.lines import Lines

pytestmark = pytest.mark.cluster
SCRIPTS = Path(__file__).with_name("scripts")
FAULTS = Path(__file__).with_name("faults")
EXECUTIONS = 1000
# Of 2,000 launches some 80 change places in a round; one is enough.
ROUNDS_MAX = 3


@contextmanager
def swapping_cluster(**environment: str) -> Iterator[Cluster]:
    with running_cluster(
        islands=1, hosts=2, devices=1, PYTHONPATH=str(FAULTS), SWAPPED_LAUNCHES="a1:0.05", **environment
    ) as cluster:
        yield cluster


def two_clients(cluster: Cluster) -> list[tuple[int, str]]:
    """How many numbers were wrong, and the first failure, of each client."""
    clients = [
        cluster.start(str(SCRIPTS / "all_reduces.py"), str(factor), str(EXECUTIONS), stdin=True, PYTHONPATH="")
        for factor in (1, 3)
    ]
    try:
        said = [Lines(client) for client in clients]
        assert [lines.next(60) for lines in said] == ["ready", "ready"]
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.flush()
        told = []
        for lines in said:
            wrong, failure = lines.next(90), lines.next(10)
            told.append((int(wrong.removeprefix("wrong ")), failure.removeprefix("failure").strip()))
        for client in clients:
            client.communicate(timeout=30)
    finally:
        for client in clients:
            client.kill()
    return told


def count(cluster: Cluster, phrase: str) -> int:
    """Lines of the logs that hold a phrase."""
    return sum(path.read_text(errors="replace").count(phrase) for path in (cluster.state / "logs").glob("*.log"))


@pytest.mark.slow
def test_launches_swapped_on_one_hosts_link_are_put_right_and_every_number_is_exact() -> None:
    with swapping_cluster() as cluster:
        assert two_clients(cluster) == [(0, ""), (0, "")]
        # Every swap was met by a host that held the later launch and asked for the earlier one.
        assert count(cluster, "launches swapped") >= 10
        assert count(cluster, "gang sent again") >= 10


@pytest.mark.slow
def test_without_the_check_of_the_order_numbers_are_wrong() -> None:
    with swapping_cluster(UNCHECKED_ORDER="1") as cluster:
        for _ in range(ROUNDS_MAX):
            told = two_clients(cluster)
            if sum(wrong for wrong, _ in told):
                break
        else:
            swapped = count(cluster, "launches swapped")
            raise AssertionError(f"{swapped} launches changed places and no number was wrong: {told}{cluster.logs()}")
        assert count(cluster, "gang sent again") == 0
