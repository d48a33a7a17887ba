"""A program of four stages on four hosts, of which one compiles for seconds: the others wait, and it can be seen for what.

Neither a second call nor a second client compiles anything.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cluster import PATHWAYS, Cluster, running_cluster, wait_until
from tests.e2e.lines import Lines, stop

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SCRIPT = str(Path(__file__).with_name("scripts") / "slow_stage.py")
SORTS = 640
WAIT_S = 50.0
HOSTS = {"a0", "a1", "b0", "b1"}


@pytest.fixture(scope="module")
def islands() -> Iterator[Cluster]:
    with running_cluster(islands=2, hosts=2, devices=1) as running:
        yield running


class Pipeline:
    """The script, spoken with."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines = Lines(process)

    def hear(self) -> dict[str, Any]:
        said = self._lines.next(WAIT_S)
        assert said is not None, "the script says nothing"
        found: dict[str, Any] = json.loads(said)
        return found

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()


@contextmanager
def pipeline(cluster: Cluster, seed: int) -> Iterator[Pipeline]:
    process = cluster.start(SCRIPT, str(seed), stdin=True)
    try:
        yield Pipeline(process)
        assert process.wait(WAIT_S) == 0
    finally:
        stop(process)


def wanted(seed: int, call: int) -> list[int]:
    x = (np.arange(8, dtype=np.int32) + call + seed) * 2
    for turn in range(SORTS):
        x = np.sort(x + turn + seed)
    return (x - 1).tolist()


def waited_for(cluster: Cluster, session: int) -> list[tuple[str, str]]:
    """Kind and holder of everything that it waits for, by `pathways why`."""
    command = [PATHWAYS, "why", "session", str(session), "-o", "json", "--address", cluster.address]
    done = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [(reason["kind"], reason["holder"]) for reason in json.loads(done.stdout)["reasons"]]


def compiled_and_reused(cluster: Cluster) -> tuple[dict[str, int], dict[str, int]]:
    """How many executables each host compiled, and loaded from images."""
    hosts = [host for island in cluster.status().islands for host in island.hosts]
    return {host.name: host.executables_compiled for host in hosts}, {host.name: host.executables_reused for host in hosts}


def test_a_stage_that_compiles_for_seconds_is_waited_for_by_name_and_never_compiled_again(islands: Cluster) -> None:
    # Another program every time, or an image would be loaded.
    seed = random.randrange(1 << 16)
    with pipeline(islands, seed) as client:
        hosts = client.hear()["hosts"]
        assert set(hosts) == HOSTS
        (session,) = islands.session_numbers()
        began_s = time.monotonic()
        client.tell()
        # The hosts of the other stages are ready; all wait for the third.
        slow = ("PROGRAM", f"host {hosts[2]}, which compile or load it")
        wait_until(lambda: waited_for(islands, session) == [slow], "the slow stage to be all that is waited for", WAIT_S)
        first = client.hear()
        print(f"the first call took {time.monotonic() - began_s:.1f} s")
        assert first["value"] == wanted(seed, 0)
        assert waited_for(islands, session) == []
        compiled, reused = compiled_and_reused(islands)
        assert set(compiled.values()) == {1}
        client.tell()
        assert client.hear()["value"] == wanted(seed, 1)
        assert compiled_and_reused(islands) == (compiled, reused)
    with pipeline(islands, seed) as client:
        assert client.hear()["hosts"] == hosts
        for call in range(2):
            client.tell()
            assert client.hear()["value"] == wanted(seed, call)
    assert compiled_and_reused(islands) == (compiled, {host: count + 1 for host, count in reused.items()})
