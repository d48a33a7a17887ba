"""The two sides of the comparison as long-lived processes that measure when asked, and whose CPU time is read by role."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tests.cluster import Cluster, free_port, local_environment

STEPS = str(Path(__file__).with_name("steps.py"))
CHAINS = str(Path(__file__).with_name("chains.py"))
DIRECT = str(Path(__file__).with_name("direct.py"))
ROLES = ("client", "door", "controller", "daemon", "executor", "coordinator")


class Side:
    """One or more processes that answer the same commands; the first one's answer counts."""

    def __init__(self, processes: list[subprocess.Popen[str]], cpu: Callable[[], dict[str, float]]) -> None:
        self._processes = processes
        self.cpu_seconds = cpu
        self.hello = self._answers()[0]

    def _answers(self) -> list[dict[str, Any]]:
        answers = []
        for process in self._processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"a measured process ended with exit code {process.wait(10)}")
            answers.append(json.loads(line))
        return answers

    def measure(self, what: str, count: int, awaited: bool) -> dict[str, Any]:
        """The answer of the first process, with `cpu_us`: CPU time per step by role. Checks the value on every process."""
        before = self.cpu_seconds()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"what": what, "count": count, "awaited": awaited}) + "\n")
            process.stdin.flush()
        answers = self._answers()
        after = self.cpu_seconds()
        for answer in answers:
            if answer["value"] != count:
                raise SystemExit(f"{count} {what} steps gave {answer['value']}, which is wrong")
        cpu_us = {role: 1e6 * (after[role] - before.get(role, 0.0)) / count for role in after}
        return answers[0] | {"cpu_us": cpu_us}

    def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _spawn(command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def peer(controllers: int, script: str = STEPS) -> Side:
    """Multi-controller JAX over gloo: every process runs the same script."""
    port = free_port()
    environment = local_environment(devices=1)
    words = [[sys.executable, script, "--peer", str(rank), str(controllers), str(port)] for rank in range(controllers)]
    processes = [_spawn(command, environment) for command in words]

    def cpu() -> dict[str, float]:
        return {"controllers": sum(_cpu_of(psutil.Process(process.pid)) for process in processes)}

    return Side(processes, cpu)


def on(cluster: Cluster, script: str = STEPS) -> Side:
    """A client of the cluster, by `pathways run`."""
    return _client_side(cluster, _spawn(cluster.command(script), cluster.environment))


def without_door(cluster: Cluster) -> Side:
    """A client that speaks pathways.v1 itself: neither JAX's client nor a door is in its way."""
    command = [sys.executable, DIRECT, cluster.address, str(cluster.state / "token")]
    return _client_side(cluster, _spawn(command, local_environment(devices=1)))


def _client_side(cluster: Cluster, process: subprocess.Popen[str]) -> Side:
    def cpu() -> dict[str, float]:
        seconds: dict[str, float] = defaultdict(float)
        client = psutil.Process(process.pid)
        for member in [*cluster.processes(), client, *client.children(recursive=True)]:
            seconds[role_of(member)] += _cpu_of(member)
        return dict(seconds)

    return Side([process], cpu)


def role_of(process: psutil.Process) -> str:
    """Which of ROLES a process plays, by its command line."""
    try:
        words = " ".join(process.cmdline())
    except psutil.Error:
        return "client"
    marks = {
        "pathways_worker.executor": "executor",
        "pathways_worker.coordinator": "coordinator",
        "pathways_door": "door",
        "pathways-server": "controller",
        "pathways_server": "controller",
        "pathways-worker": "daemon",
        "pathways_worker": "daemon",
    }
    return next((role for mark, role in marks.items() if mark in words), "client")


def _cpu_of(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
