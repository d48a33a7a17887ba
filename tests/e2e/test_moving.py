"""Slices that move and hosts that are drained, on two islands of two hosts: scripts go on, every bit is what plain JAX has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import PATHWAYS, Cluster, running_cluster, wait_until
from tests.e2e.lines import Lines, stop

SCRIPT = Path(__file__).with_name("scripts") / "moved.py"
LINES = 3


@pytest.fixture(scope="module")
def islands() -> Iterator[Cluster]:
    with running_cluster(islands=2, hosts=2, devices=1) as running:
        yield running


@pytest.fixture(scope="module")
def expected() -> list[str]:
    """What the script prints in plain JAX, on two devices of this process."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "local", str(LINES)], input="\n" * LINES, env=environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(set(lines)) == LINES + 1, "every line says something else"
    return lines


def start(cluster: Cluster, kind: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), kind, str(LINES)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=cluster.environment)


def go_on(process: subprocess.Popen[str], heard: Lines, word: str = "") -> str | None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()
    return heard.next(60)


def pathways(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PATHWAYS, *words, "--state-dir", str(cluster.state)], env=cluster.environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.alone
def test_a_slice_goes_to_another_island_and_back_and_every_bit_is_right(islands: Cluster, expected: list[str]) -> None:
    process = start(islands, "slice")
    heard = Lines(process)
    try:
        said = [heard.next(60), go_on(process, heard)]
        (held,) = islands.status().slices
        name = f"{held.session_number}.{held.slice_id}"
        assert held.island == "a"
        moved = pathways(islands, "migrate", name, "--to", "b", "-o", "json")
        assert moved.returncode == 0, moved.stderr + islands.logs()
        answer = json.loads(moved.stdout)
        assert (answer["island"], answer["hosts"]) == ("b", ["b0", "b1"])
        assert int(answer["array_count"]) >= 2
        said.append(go_on(process, heard))
        gangs = islands.gangs_by_host()
        assert gangs["b0"] > 0, "it computes there"
        refused = pathways(islands, "migrate", name, "--to", "b")
        assert refused.returncode != 0
        assert f"slice {held.slice_id} of session {held.session_number} lies on island b; name another one" in refused.stderr
        back = pathways(islands, "migrate", name, "--to", "a")
        assert back.returncode == 0, back.stderr
        said.append(go_on(process, heard))
        assert said == expected
        assert process.wait(30) == 0
    finally:
        stop(process)


_HOLDER = """
import sys, pathways as pw
with pw.connect(islands="b"):
    held = pw.make_virtual_device_set().add_slice(devices=2, island="a", exclusive=True)
    print("held", *held.hosts, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.alone
def test_a_suspended_slice_gives_its_devices_away_and_comes_back_elsewhere_with_every_bit(
    islands: Cluster, expected: list[str]
) -> None:
    process, other = start(islands, "slice"), None
    heard = Lines(process)
    try:
        said = [heard.next(60), go_on(process, heard)]
        assert go_on(process, heard, "suspend") == "suspend a a0 a1"
        assert [held.state for held in islands.status().slices] == ["SUSPENDED"]
        other = subprocess.Popen(
            [sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=islands.environment
        )
        assert Lines(other).next(60) == "held a0 a1"
        assert go_on(process, heard, "resume") == "resume b b0 b1"
        said.append(go_on(process, heard))
        assert go_on(process, heard, "suspend") == "suspend b b0 b1"
        assert go_on(process, heard, "resume") == "resume b b0 b1", "the same devices, which are free"
        said.append(go_on(process, heard))
        assert said == expected
        assert process.wait(30) == 0
    finally:
        stop(process)
        if other is not None:
            stop(other)


@pytest.mark.alone
def test_a_host_is_drained_and_stopped_under_a_script_that_notices_nothing(islands: Cluster, expected: list[str]) -> None:
    process = start(islands, "view")
    heard = Lines(process)
    try:
        said = [heard.next(60), go_on(process, heard)]
        drained = pathways(islands, "drain", "a1", "-o", "json")
        assert drained.returncode == 0, drained.stdout + drained.stderr + islands.logs()
        assert json.loads(drained.stdout) == {"island": "a", "state": "DRAINED", "waits_for": ""}
        states = {host.name: host.state for island in islands.status().islands for host in island.hosts}
        assert states["a1"] == "DRAINED"
        said.append(go_on(process, heard))
        islands.stop_worker("a1")
        wait_until(lambda: "a1" not in hosts(islands), "the worker of a1 to be gone")
        said.append(go_on(process, heard))
        assert said == expected
        assert process.wait(30) == 0
        audit = pathways(islands, "tenants", "audit")
        assert "DrainHost" in audit.stdout
        undone = pathways(islands, "drain", "a1", "--undo")
        assert undone.returncode == 0, undone.stderr
    finally:
        stop(process)


def hosts(cluster: Cluster) -> list[str]:
    return [host.name for island in cluster.status().islands for host in island.hosts]
