"""Traced programs on two islands of two hosts: stages on different islands, preparation side by side, and the trace file.

These want the machine for themselves: four executors, and times that are compared with one another.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import PATHWAYS, Cluster, local_environment, running_cluster

pytestmark = pytest.mark.alone
SCRIPTS = Path(__file__).with_name("scripts")
DELAY_S = 0.005
STAGES = 4


@pytest.fixture(scope="module")
def islands() -> Iterator[Cluster]:
    """Two islands of two hosts; every node costs its host 5 ms of preparation."""
    with running_cluster(islands=2, hosts=2, devices=1, PATHWAYS_PREPARE_DELAY_NS=str(round(DELAY_S * 1e9))) as running:
        yield running


def test_paper_example_on_four_devices(islands: Cluster) -> None:
    done = islands.run(str(SCRIPTS / "paper.py"), islands="all")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["[[3.0, 5.0], [2.0, 4.0]]"] * 2


def test_training_step_in_three_stages_is_plain_jax_to_the_bit(islands: Cluster) -> None:
    script = str(SCRIPTS / "pipeline.py")
    local = subprocess.run(
        [sys.executable, script, "local"], env=local_environment(4), capture_output=True, text=True, timeout=120, check=True
    )
    remote = islands.run(script, "cluster", islands="all")
    assert remote.returncode == 0, remote.stderr
    assert len(local.stdout.splitlines()) == 3
    assert remote.stdout == local.stdout


def _seconds(output: str, mode: str) -> list[float]:
    found = [line.split()[1:] for line in output.splitlines() if line.startswith(mode)]
    assert found[0] == ["value", "4.0"]
    return [float(words[0]) for words in found[1:]]


def test_hosts_prepare_side_by_side_unless_told_not_to(islands: Cluster) -> None:
    done = islands.run(str(SCRIPTS / "stages.py"), "15", islands="all")
    assert done.returncode == 0, done.stderr
    parallel, sequential = (_seconds(done.stdout, mode) for mode in ("parallel", "sequential"))
    assert min(sequential) >= STAGES * DELAY_S
    # What is left of a call besides its preparations is the same in both modes, up to noise, which meets neighbours alike.
    longer_s = statistics.median(late - soon for soon, late in zip(parallel, sequential, strict=True))
    assert longer_s >= (STAGES - 1) * DELAY_S * 0.8, (parallel, sequential)


def test_trace_shows_every_node_on_its_host_in_order(islands: Cluster, tmp_path: Path) -> None:
    assert islands.run(str(SCRIPTS / "stages.py"), "1", islands="all").returncode == 0
    path = tmp_path / "trace.json"
    command = [PATHWAYS, "trace", "--last", "-o", str(path), "--address", islands.address]
    done = subprocess.run(command, env=islands.environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    events = json.loads(path.read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event.get("name") == "process_name"}
    assert {name.split()[0] for name in names.values()} >= {"a0", "a1", "b0", "b1"}
    spans = sorted((event for event in events if event["ph"] == "X"), key=lambda event: float(event["ts"]))
    assert [event["args"]["node"] for event in spans if event["cat"] == "launches"] == list(range(1, STAGES + 1))
    # One float32 from host to host between two stages.
    assert [event["args"]["pulled_bytes"] for event in spans if event["cat"] == "moves"] == [4] * (STAGES - 1)
    # The last call was a sequential one: each host prepared, 5 ms, after the one before it had ended.
    prepared = [(event["ts"], event["ts"] + event["dur"]) for event in spans if event["cat"] == "control"]
    assert len(prepared) == STAGES
    assert all(end - begin >= DELAY_S * 1e6 for begin, end in prepared)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(prepared))
