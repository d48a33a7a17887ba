"""What a session did and is over leaves nothing in any process: dispatches, programs, arrays, fewer than `sessions` measures."""

from __future__ import annotations

import pytest

from tests.benchmarks.process_memory import ROLES, Held
from tests.benchmarks.sessions import PHASES, SCRIPT, Mark, Watched, left_bytes, wait_for_spare, watched
from tests.cluster import Cluster, running_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
COUNTS = {"dispatches": 30_000, "dropped": 240, "arrays": 1_000}
# Bytes of one unit; a daemon keeps an image of each program until it has 4,096.
OVER_MAX = {"dispatches": 64.0, "dropped": 16_384.0, "arrays": 2_048.0}
# What a controller needs once: it writes all its tables down whenever so much was told it since.
ONCE_BYTES = {"controller": 12 << 20}
MARKS = 10
OURS = tuple(role for role in ROLES if role != "client")


def one_after_the_other(cluster: Cluster) -> dict[str, list[Mark]]:
    """All phases by one client."""
    client = Watched(cluster.command(SCRIPT), cluster.environment, cluster)
    try:
        return {phase.what: watched(phase, COUNTS[phase.what], client, MARKS) for phase in PHASES if phase.what in COUNTS}
    finally:
        client.side.close()


def test_dispatches_programs_and_arrays_that_are_over_leave_nothing_in_any_process() -> None:
    with running_cluster(islands=1, hosts=1, devices=1) as cluster:
        wait_for_spare(cluster)
        found = one_after_the_other(cluster)
    over: list[str] = []
    for what, marks in found.items():
        first, last = marks[0].held, marks[-1].held
        for role in OURS:
            left = left_bytes(marks, role)
            print(f"{what:10} {role:10} {left:10.0f} B each, {counts(first[role])} then {counts(last[role])}")
            most = OVER_MAX[what] + ONCE_BYTES.get(role, 0) / COUNTS[what]
            if left > most or last[role].descriptors > first[role].descriptors + 4:
                over.append(f"{what}: {role} has {left:.0f} B of each left, {counts(first[role])} then {counts(last[role])}")
    assert not over, over


def counts(held: Held) -> str:
    return f"{held.descriptors} descriptors, {held.threads} threads, {held.maps} maps"
