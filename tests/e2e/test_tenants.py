"""Tenants on a real cluster: tokens, a quota with both answers to it, what survives a killed controller, quarantine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import PATHWAYS, Cluster, free_port, running_cluster, wait_until
from tests.e2e.lines import Lines

pytestmark = pytest.mark.cluster
SCRIPT = str(Path(__file__).with_name("scripts") / "tenant_work.py")
_SUM = "import jax; print(float(jax.numpy.arange(4.0).sum()), len(jax.devices()))"
_SUM_WHEN_TOLD = f"import jax, sys; jax.devices(); print('ready', flush=True); sys.stdin.readline(); {_SUM}"
# Half a MiB of the whole MiB, then a whole one, which is too much beside it.
_BOUNDED = """
import sys, jax, numpy as np
print("devices", len(jax.devices()), flush=True)
half = jax.device_put(np.ones(1 << 17, np.float32)).block_until_ready()
try:
    jax.device_put(np.ones(1 << 18, np.float32)).block_until_ready()
except jax.errors.JaxRuntimeError as error:
    print("refused", str(error).replace("\\n", " "), flush=True)
sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def small() -> Iterator[Cluster]:
    with running_cluster(islands=1, hosts=1, devices=1) as running:
        yield running


def command(cluster: Cluster, *words: str, token: str = "", address: str = "") -> subprocess.CompletedProcess[str]:
    environment = cluster.environment | ({"PATHWAYS_TOKEN": token} if token else {})
    line = [PATHWAYS, *words, "--address", address or cluster.address]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60, check=False)


def tenants(cluster: Cluster, *words: str, token: str = "", address: str = "") -> str:
    done = command(cluster, "tenants", *words, token=token, address=address)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def listed(cluster: Cluster, token: str = "", address: str = "") -> dict[str, Any]:
    rows = json.loads(tenants(cluster, "list", "-o", "json", token=token, address=address))["tenants"]
    return {row["name"]: row for row in rows}


def has_program(cluster: Cluster, tenant: str) -> bool:
    """Whether a session of the tenant has one, be it compiled yet or not."""
    return any(session.programs for session in cluster.status().sessions if session.tenant == tenant)


def heard(lines: Lines, beginning: str) -> str:
    """The next line that begins so; the others are passed over."""
    passed: list[str] = []
    while (line := lines.next(120)) is not None:
        if line.startswith(beginning):
            return line
        passed.append(line)
    raise AssertionError(f"no line began with {beginning!r}: {passed}")


def go_on(process: subprocess.Popen[str]) -> None:
    """The line that a script waits for."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def warmed_up(cluster: Cluster, lines: Lines, tenant: str) -> None:
    """Everything before the script waits is over, in the controller's books too."""
    assert heard(lines, "before").endswith("[0.0, 3.0, 6.0, 9.0]")
    wait_until(lambda: listed(cluster)[tenant]["programs_running"] == "0", "the first program to be over")


def ended(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait(20)


def test_two_tenants_share_a_cluster_each_within_its_quota(small: Cluster) -> None:
    ads = tenants(small, "add", "ads")
    web = tenants(small, "add", "web", "--weight", "3")
    process = small.start(SCRIPT, "beside", "fail", stdin=True, PATHWAYS_TOKEN=ads)
    other: subprocess.Popen[str] | None = None
    try:
        lines = Lines(process)
        warmed_up(small, lines, "ads")
        tenants(small, "set", "ads", "--max-programs", "1", "--over", "fail")
        # The other tenant sees nothing of it.
        assert list(listed(small, token=web)) == ["web"]
        seen = json.loads(command(small, "status", "-o", "json", token=web).stdout)
        assert seen["sessions"] == []
        assert [session["tenant"] for session in json.loads(command(small, "status", "-o", "json").stdout)["sessions"]] == ["ads"]
        assert "needs the administrator's token" in command(small, "tenants", "audit", token=web).stderr
        # It has started before a callback is held, which has a deadline.
        other = small.start("-c", _SUM_WHEN_TOLD, stdin=True, PATHWAYS_TOKEN=web)
        others = Lines(other)
        heard(others, "ready")
        go_on(process)
        heard(lines, "running")
        heard(lines, "asked")
        refused = heard(lines, "second")
        assert "tenant ads has 1 programs in flight and its administrator allows 1 (max_programs)" in refused
        row = listed(small)["ads"]
        assert (row["sessions"], row["programs_running"]) == ("1", "1")
        # Nor is it concerned: its program is taken, and goes on when the executor is free, within the deadline of a callback.
        go_on(other)
        wait_until(lambda: has_program(small, "web"), "the program of the other tenant to be taken")
        go_on(process)
        assert heard(lines, "first").endswith("[1.0, 2.0, 3.0, 4.0]")
        assert others.next(60) == "6.0 1"
        assert [each.wait(60) for each in (process, other)] == [0, 0]
    finally:
        ended(process)
        if other is not None:
            ended(other)


def test_limits_that_are_set_at_run_time_bound_devices_memory_and_sessions(cluster: Cluster) -> None:
    token = tenants(cluster, "add", "bounded")
    limits = ("--max-devices", "1", "--max-memory", "1MiB", "--max-sessions", "1", "--max-programs", "64")
    tenants(cluster, "set", "bounded", "--weight", "4", "--priority", "high", *limits)
    tenants(cluster, "set", "bounded", "--over", "fail", token=token)
    settings = listed(cluster, token=token)["bounded"]["settings"]
    assert (settings["weight"], settings["priority"], settings["over"]) == (4, "PRIORITY_HIGH", "OVER_FAIL")
    process = cluster.start("-c", _BOUNDED, stdin=True, PATHWAYS_TOKEN=token)
    try:
        lines = Lines(process)
        assert heard(lines, "devices") == "devices 1"  # of two
        refused = heard(lines, "refused")
        assert "tenant bounded holds" in refused
        assert "(max_memory, set by its administrator)" in refused
        second = cluster.run("-c", _SUM, PATHWAYS_TOKEN=token)
        assert second.returncode != 0
        assert "1 sessions at once (max_sessions, set by its administrator)" in second.stderr
        go_on(process)
        assert process.wait(60) == 0
    finally:
        ended(process)
    wait_until(lambda: listed(cluster)["bounded"]["sessions"] == "0", "its session to end")
    tenants(cluster, "remove", "bounded")


def test_a_tenant_that_chose_to_wait_gets_everything_in_its_turn(small: Cluster) -> None:
    token = tenants(small, "add", "patient", "--max-programs", "1")
    process = small.start(SCRIPT, "beside", "wait", stdin=True, PATHWAYS_TOKEN=token)
    try:
        lines = Lines(process)
        warmed_up(small, lines, "patient")
        go_on(process)
        heard(lines, "asked")
        wait_until(lambda: listed(small)["patient"]["programs_waiting"] == "1", "the second program to wait for room")
        assert listed(small)["patient"]["programs_running"] == "1"
        go_on(process)
        assert heard(lines, "first").endswith("[1.0, 2.0, 3.0, 4.0]")
        assert heard(lines, "second").endswith("[0.0, 3.0, 6.0, 9.0]")
        assert process.wait(60) == 0
    finally:
        ended(process)


@pytest.mark.slow
def test_a_program_that_ended_two_executors_is_not_run_until_it_is_allowed(small: Cluster) -> None:
    process = small.start(SCRIPT, "again", "4", stdin=True)
    try:
        lines = Lines(process)
        for _ in range(2):
            heard(lines, "running")
            for executor in small.executors("a0"):
                os.kill(executor.pid, signal.SIGSEGV)
            assert "signal 11" in heard(lines, "held failed")
            go_on(process)
        refused = heard(lines, "held failed")
        assert "ended 2 executors" in refused
        assert "on host a0 by SIGSEGV" in refused
        program = refused.partition("pathways tenants allow ")[2].split()[0]
        assert program in tenants(small, "quarantine")
    finally:
        ended(process)
    tenants(small, "allow", program)
    assert tenants(small, "quarantine") == "no program is quarantined"
    assert "AllowProgram" in tenants(small, "audit")


@pytest.mark.slow
def test_settings_and_accounts_survive_a_controller_that_is_killed() -> None:
    with running_cluster(islands=1, hosts=1, devices=1) as cluster:
        token = tenants(cluster, "add", "ads", "--weight", "4", "--priority", "high", "--max-memory", "2GiB")
        done = cluster.run(
            "-c", "import jax, time; x = jax.device_put(jax.numpy.zeros(1 << 20)).block_until_ready(); time.sleep(2)",
            PATHWAYS_TOKEN=token,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        wait_until(lambda: cluster.sessions() == 0, "its session to be closed, which is billed until then")
        before = json.loads(tenants(cluster, "usage", "-o", "json"))["usage"]
        (row,) = [row for row in before if row["tenant"] == "ads"]
        # Four megabytes for two seconds, at least.
        assert row["byte_seconds"] >= 4 * (1 << 20) * 1.5
        address = f"127.0.0.1:{free_port()}"
        controller = next(process for process in cluster.processes() if "pathways_server" in " ".join(process.cmdline()))
        controller.kill()
        controller.wait(20)
        again = subprocess.Popen(
            [sys.executable, "-m", "pathways_server.main", "--listen", address, "--state-dir", str(cluster.state)],
            env=cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert again.stdout is not None
            assert again.stdout.readline().startswith("listening")
            settings = listed(cluster, address=f"grpc://{address}")["ads"]["settings"]
            assert (settings["weight"], settings["priority"], settings["memory_bytes_max"]) == (4, "PRIORITY_HIGH", str(2 << 30))
            assert json.loads(tenants(cluster, "usage", "-o", "json", address=f"grpc://{address}"))["usage"] == before
            assert list(listed(cluster, token=token, address=f"grpc://{address}")) == ["ads"]
        finally:
            again.terminate()
            again.wait(30)


@pytest.mark.slow
def test_what_the_setting_means_is_said_and_shown(small: Cluster) -> None:
    token = tenants(small, "add", "maps")
    said = tenants(small, "set", "maps", "--isolation", "process").splitlines()
    assert said[0].endswith("executors of its own")
    assert said[1] == "new sessions get executors of the tenant's own; open ones stay on those of all tenants until they end"
    (row,) = [each for each in json.loads(tenants(small, "list", "-o", "json"))["tenants"] if each["name"] == "maps"]
    assert row["settings"]["isolation"] == "ISOLATION_PROCESS"
    assert "isolation=shared" in tenants(small, "audit")
    assert "process" in command(small, "tenants").stdout
    done = small.run("-c", _SUM, PATHWAYS_TOKEN=token)
    assert done.stdout.split() == ["6.0", "1"], done.stderr
    cells = [(island.name, island.tenant, [host.name for host in island.hosts]) for island in small.status().islands]
    assert cells == [("a", "", ["a0"]), ("a+maps", "maps", ["a0+maps"])]
    assert "1 islands  1 hosts  1 devices" in command(small, "status").stdout
    said = tenants(small, "set", "maps", "--clear", "isolation").splitlines()
    assert said[1] == "new sessions use the executors of all tenants; open ones keep their own until they end"
