"""The sides of a comparison as long-lived processes that measure when asked, and whose CPU time is read by role."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks.emulator import device_time
from tests.benchmarks.quiet import machine_cpu_seconds
from tests.cluster import Cluster, free_port, local_environment

STEPS = str(Path(__file__).with_name("steps.py"))
CHAINS = str(Path(__file__).with_name("chains.py"))
DIRECT = str(Path(__file__).with_name("direct.py"))
ROLES = ("client", "door", "controller", "daemon", "executor", "coordinator")
# What executors are started with (shell/environment.py); a peer gets the same.
XLA_FLAGS = "--xla_cpu_collective_timeout_seconds=600"


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

    def ask(self, **command: Any) -> list[dict[str, Any]]:
        """Every process's answer to one command."""
        text = json.dumps(command) + "\n"
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(text)
            process.stdin.flush()
        return self._answers()

    def measure(self, what: str, count: int, awaited: bool = False, **more: Any) -> dict[str, Any]:
        """The answer of the first process, with `rate`, `foreign` and `cpu_us`: CPU time per step by role.

        Checks the value on every process.
        """
        before, answers, after, foreign = self.watched(what=what, count=count, awaited=awaited, **more)
        for answer in answers:
            if answer["value"] != count:
                raise SystemExit(f"{count} {what} steps gave {answer['value']}, which is wrong")
        cpu_us = {role: 1e6 * (after[role] - before.get(role, 0.0)) / count for role in after}
        return answers[0] | {"rate": count / answers[0]["seconds"], "cpu_us": cpu_us, "foreign": foreign}

    def watched(self, **command: Any) -> tuple[dict[str, float], list[dict[str, Any]], dict[str, float], float]:
        """CPU seconds by role, the answers, the CPU seconds then, and how many cores all other processes used meanwhile."""
        began_s, machine_s, own_s = time.monotonic(), machine_cpu_seconds(), time.process_time()
        before = self.cpu_seconds()
        answers = self.ask(**command)
        after = self.cpu_seconds()
        ours_s = sum(after.values()) - sum(before.values()) + time.process_time() - own_s
        foreign = (machine_cpu_seconds() - machine_s - ours_s) / (time.monotonic() - began_s)
        return before, answers, after, foreign

    def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def spawn(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    """A process that is spoken to in lines."""
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def peer(controllers: int, script: str = STEPS, *words: str) -> Side:
    """Multi-controller JAX over gloo: every process runs the same script, which is told its rank and where the emulator is.

    `words`: what else it is told.
    """
    port, emulator = str(free_port()), str(device_time.library())
    environment = local_environment(devices=1) | {"XLA_FLAGS": XLA_FLAGS}
    commands = [
        [sys.executable, script, "--peer", str(rank), str(controllers), port, emulator, *words] for rank in range(controllers)
    ]
    processes = [spawn(command, environment) for command in commands]
    return Side(processes, lambda: {"controllers": sum(cpu_seconds(process.pid) for process in processes)})


def on(cluster: Cluster, script: str = STEPS, *words: str) -> Side:
    """A script, by default the steps of `steps.py`, as a client of the cluster, by `pathways run`."""
    return _client_side(cluster, spawn(cluster.command(script, *words), cluster.environment))


def without_door(cluster: Cluster) -> Side:
    """A client that speaks pathways.v1 itself: neither JAX's client nor a door is in its way."""
    command = [sys.executable, DIRECT, cluster.address, str(cluster.state / "token")]
    return _client_side(cluster, spawn(command, local_environment(devices=1)))


def _client_side(cluster: Cluster, process: subprocess.Popen[str]) -> Side:
    roles: dict[int, str] = {}

    def cpu() -> dict[str, float]:
        # Whom the cluster consists of is asked once: a sample must not be longer for it.
        if not roles:
            client = psutil.Process(process.pid)
            members = [*cluster.processes(), client, *client.children(recursive=True)]
            roles.update({member.pid: role_of(member) for member in members})
        seconds: dict[str, float] = defaultdict(float)
        for pid, role in roles.items():
            seconds[role] += cpu_seconds(pid)
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


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, its ended threads included, by the kernel's own clock of it: /proc counts in 10 ms."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:  # it has ended
        return 0.0
