"""Scripts that end while their work is under way, in 20 orders of what they do last: each ends well, and nothing is a fault."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cluster import Cluster, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SCRIPT = str(Path(__file__).with_name("scripts") / "exits.py")
RUNS, SEED = 20, 7


def manners() -> list[list[str]]:
    """Each ends another way: what is read, is read before the arrays or the connection are gone."""
    draw = random.Random(SEED)
    found = []
    for _ in range(RUNS):
        last = [word for word in ("drop", "close") if draw.random() < 0.6]
        draw.shuffle(last)
        first = ["read"] if draw.random() < 0.5 else []
        found.append([*first, *last, *(["exit"] if draw.random() < 0.5 else [])])
    return found


def test_twenty_scripts_that_end_in_other_orders_while_their_work_is_under_way_have_all_ended_well(cluster: Cluster) -> None:
    def epochs() -> list[int]:
        return [island.epoch for island in cluster.status().islands]

    def ends() -> list[str]:
        """What the controller has said about sessions whose clients left."""
        log = (cluster.state / "logs" / "controller.log").read_text()
        return [line for line in log.splitlines() if "rpc.sessions" in line and "session closed" in line]

    before, earlier = epochs(), len(ends())
    for manner in manners():
        sessions = cluster.session_numbers()
        done = cluster.run(SCRIPT, ",".join(manner) or "nothing")
        assert (done.returncode, done.stderr) == (0, ""), (manner, done.stderr)
        assert done.stdout.split() == ["200.0"] * ("read" in manner), manner
        wait_until(lambda open_before=sessions: cluster.session_numbers() <= open_before, "its session to end", 30)
        assert epochs() == before, manner
    told = ends()[earlier:]
    assert len(told) == RUNS, told
    assert all("goodbye" in line for line in told), told
