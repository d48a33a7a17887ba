"""A cluster of real processes on this machine, for tests and benchmarks. Who starts one stops it and proves that nothing stayed.

Everything goes through what users have: `pathways up`, `run` and `down`, the status call of `pathways.v1`, and pathways.testing.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from pathways.testing.scripts import PATHWAYS as PATHWAYS
from pathways.testing.scripts import Scripts, plain_environment
from pathways.testing.scripts import wait_until as wait_until
from pathways_proto.v1 import cluster_pb2

ROOT = Path(__file__).resolve().parent.parent
UP_TIMEOUT_S = 150.0
DOWN_TIMEOUT_S = 60.0
# What is on its way when a session ends: messages, pulls whose other end is gone, an executor that is at work for long.
LEAKS_TIMEOUT_S = 40.0
# Ports from here up to those that the kernel takes for whoever asks for none in particular.
_PORTS_FROM, _TRIES = 10_000, 100
_EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def local_environment(devices: int) -> dict[str, str]:
    """Plain local JAX with so many CPU devices."""
    return plain_environment() | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}


def end_on_sigterm() -> None:
    """SIGTERM ends this process from now on as an exit does, so that the clusters that it has started are stopped."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def free_port() -> int:
    """One that nobody listens on, and that the kernel gives to nobody by itself before it is used, or between two uses."""
    below = int(_EPHEMERAL_PORTS.read_text().split()[0])
    for port in random.sample(range(_PORTS_FROM, below), _TRIES):
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"no port from {_PORTS_FROM} to {below} is free")


def lives(process: psutil.Process) -> bool:
    """Whether it runs; a zombie does not, nor one that goes while it is looked at."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Cluster(Scripts):
    """One running cluster. `state` is its state directory, `address` what clients dial."""

    def __init__(self, islands: int, hosts: int, devices: int, state: Path, more: Sequence[str] = ()) -> None:
        environment = plain_environment() | {"PATHWAYS_STATE_DIR": str(state)}
        super().__init__(f"grpc://127.0.0.1:{free_port()}", state, environment, ROOT)
        self.islands, self.hosts, self.devices, self.more = islands, hosts, devices, more
        self._seen: dict[int, psutil.Process] = {}

    def up(self) -> None:
        shape = ["--islands", str(self.islands), "--hosts", str(self.hosts), "--devices", str(self.devices), *self.more]
        port = self.address.rpartition(":")[2]
        command = [PATHWAYS, "up", *shape, "--port", port, "--detach", "--state-dir", str(self.state)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=UP_TIMEOUT_S, check=False)
        assert done.returncode == 0, f"`pathways up` ended with {done.returncode}:\n{done.stdout}{done.stderr}{self.logs()}"
        assert f"ready {self.address}" in done.stdout, done.stdout

    def down(self) -> subprocess.CompletedProcess[str]:
        self.processes()
        command = [PATHWAYS, "down", "--state-dir", str(self.state)]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=DOWN_TIMEOUT_S, check=False)

    def find_leaks(self) -> cluster_pb2.FindLeaksResponse:
        return self.ask("FindLeaks", cluster_pb2.FindLeaksRequest(), timeout_s=20)

    def check_leaks(self, sessions: set[int]) -> None:
        """Only these sessions are left, and nothing that any other one had is: in the controller or on any host."""
        wait_until(lambda: self.session_numbers() <= sessions, "the sessions of a test that is over to be closed")
        found = [cluster_pb2.FindLeaksResponse()]

        def clean() -> bool:
            found[0] = self.find_leaks()
            return not (found[0].leaks or found[0].left_out or found[0].late_hosts or found[0].lost_hosts)

        try:
            wait_until(clean, "what closed sessions had to be gone from every host", LEAKS_TIMEOUT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{found[0]}{self.logs()}") from None

    def is_up(self) -> bool:
        """Whether its controller lives."""
        return (self.state / "cluster.json").exists() and any(
            any("pathways_server" in word for word in _words(process)) for process in self.processes()
        )

    def session_numbers(self) -> set[int]:
        return {session.session_number for session in self.status().sessions}

    def gangs_by_host(self) -> dict[str, int]:
        return {host.name: host.gangs_granted for island in self.status().islands for host in island.hosts}

    def sessions(self) -> int:
        return len(self.status().sessions)

    def processes(self) -> list[psutil.Process]:
        """Every living process of the cluster: those in cluster.json and their descendants."""
        known = json.loads((self.state / "cluster.json").read_text()) if (self.state / "cluster.json").exists() else {}
        found: list[psutil.Process] = []
        for pid in _pids(known):
            try:
                process = psutil.Process(pid)
                found += [process, *process.children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
        self._seen |= {process.pid: process for process in found}
        return found

    def executors(self, host: str) -> list[psutil.Process]:
        """The executors of one host: the one at work and, where there is one, the spare."""
        workers = [process for process in self.processes() if _option(process, "--host") == host]
        children = [child for worker in workers for child in worker.children(recursive=True)]
        found = [child for child in children if any("pathways_worker.executor" in word for word in _words(child))]
        # Their readers are forks of them, with the same words.
        return [child for child in found if not _is_reader(child)]

    def stop_worker(self, host: str) -> None:
        """Ends the daemon of a host, as a person does who has drained it."""
        for process in self.processes():
            executor = any("pathways_worker.executor" in word for word in _words(process))
            if _option(process, "--host") == host and not executor:
                process.terminate()

    def leftovers(self) -> list[str]:
        """Processes of the cluster that still live (psutil compares start times, so a reused pid is not one)."""
        return [f"{process.pid} {' '.join(_words(process))}" for process in self._seen.values() if lives(process)]

    def end_leftovers(self) -> list[str]:
        """The last resort: kills what `pathways down` left, one by one, and says what it was."""
        left = self.leftovers()
        for process in self._seen.values():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return left


def _is_reader(process: psutil.Process) -> bool:
    try:
        return process.name() == "pathways-reader"
    except psutil.NoSuchProcess:
        return True


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _option(process: psutil.Process, name: str) -> str:
    words = _words(process)
    return next((value for flag, value in itertools.pairwise(words) if flag == name), "")


def _pids(value: Any, key: str = "") -> Iterator[int]:
    """Every number that cluster.json names a pid, whatever its shape."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _pids(item, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from _pids(item, key)
    elif isinstance(value, int) and key in ("pid", "pids"):
        yield value


@contextmanager
def running_cluster(
    islands: int = 1, hosts: int = 2, devices: int = 1, more: Sequence[str] = (), **environment: str
) -> Iterator[Cluster]:
    """A cluster in a state directory of its own; it is stopped and checked for leftovers whatever happens.

    `more`: further words for `pathways up`.
    """
    state = Path(tempfile.mkdtemp(prefix="pathways-test-"))
    cluster = Cluster(islands, hosts, devices, state, more)
    cluster.environment |= environment
    try:
        cluster.up()
        cluster.processes()
        yield cluster
        if cluster.is_up():
            cluster.check_leaks(set())
    finally:
        try:
            done = cluster.down()
            wait_until(lambda: not cluster.leftovers(), "every process of the cluster to end after `pathways down`")
        finally:
            left = cluster.end_leftovers()
            shutil.rmtree(state, ignore_errors=True)
    assert done.returncode == 0, f"`pathways down` ended with {done.returncode}: {done.stderr}"
    assert not left, f"`pathways down` left {left}"
