"""A hundred thousand tiny programs leave nothing in the controller: its memory goes back to what it was."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from tests.benchmarks.sides import role_of
from tests.cluster import Cluster, running_cluster, wait_until
from tests.e2e.lines import Lines

pytestmark = [pytest.mark.cluster, pytest.mark.long]
SCRIPT = str(Path(__file__).with_name("scripts") / "tiny_programs.py")
WARM, PROGRAMS = 3_000, 100_000
GROWTH_MAX_MIB = 20.0
# Four to five minutes on two quiet cores, most of them for a thousand compilations.
RUN_S = 900.0


def memory_mib(cluster: Cluster, client: psutil.Process | None) -> dict[str, float]:
    """Resident memory by process."""
    members = cluster.processes()
    if client is not None:
        members += [client, *client.children(recursive=True)]
    return {f"{role_of(member)} {member.pid}": member.memory_info().rss / 2**20 for member in members}


def controller_mib(memory: dict[str, float]) -> float:
    (found,) = (mib for name, mib in memory.items() if name.startswith("controller"))
    return found


def test_hundred_thousand_tiny_programs_leave_the_controller_as_it_was() -> None:
    with running_cluster(islands=1, hosts=1, devices=1) as cluster:
        client = cluster.start(SCRIPT, stdin=True)
        try:
            lines, process = Lines(client), psutil.Process(client.pid)

            def run(count: int) -> dict[str, float]:
                assert client.stdin is not None
                client.stdin.write(f"{count}\n")
                client.stdin.flush()
                said = None
                deadline_s = time.monotonic() + RUN_S
                while said is None and time.monotonic() < deadline_s and client.poll() is None:
                    said = lines.next(1)
                assert said is not None, f"the client ended with {client.poll()}, or took longer than {RUN_S} s"
                assert said.startswith("done"), said
                return memory_mib(cluster, process)

            steady = run(WARM)
            after = run(PROGRAMS)
            assert client.stdin is not None
            client.stdin.close()
            assert client.wait(60) == 0
        finally:
            client.kill()
        wait_until(lambda: cluster.sessions() == 0, "the session to be closed")
        end = memory_mib(cluster, None)
    for name in {**steady, **after}:  # a process that reads programs ends after some, and another reads on
        print(f"{name:24}", *(f"{found[name]:8.1f}" if name in found else "       -" for found in (steady, after, end)), "MiB")
    assert controller_mib(after) - controller_mib(steady) <= GROWTH_MAX_MIB
    assert controller_mib(end) - controller_mib(steady) <= GROWTH_MAX_MIB
