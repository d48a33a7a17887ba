"""Four hosts that start together compile a program once between them; started again, they compile nothing that they have seen.

Tiny programs, too: what it costs is counted, not timed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster, running_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SCRIPT = str(Path(__file__).with_name("scripts") / "tiny_programs_of_all.py")
HOSTS = 4
# By arithmetic: 1 + 2 + 3 + 4 is 10.
VALUES = "[1.0, 2.0, 3.0, 4.0] [10.0, 10.0, 10.0, 10.0] 6.0\n"
# Two programs for all hosts, and one for the first.
PROGRAMS, LOADS = 3, 2 * HOSTS + 1


def run(cluster: Cluster) -> tuple[int, int]:
    """How often something was compiled and loaded from an image in the life of these daemons."""
    done = cluster.run(SCRIPT)
    assert (done.returncode, done.stdout) == (0, VALUES), done.stderr
    hosts = [host for island in cluster.status().islands for host in island.hosts]
    assert len(hosts) == HOSTS
    return sum(host.executables_compiled for host in hosts), sum(host.executables_reused for host in hosts)


def test_four_hosts_compile_a_program_once_and_nothing_after_a_restart() -> None:
    with running_cluster(islands=1, hosts=HOSTS, devices=1) as cluster:
        assert run(cluster) == (PROGRAMS, LOADS - PROGRAMS)
        assert cluster.down().returncode == 0
        cluster.up()
        assert run(cluster) == (0, LOADS)
