"""A cluster of two islands that are not alike, a with hosts a0 and a1 and b with b0, and a short deadline for who is stuck.

Its daemons are started one by one, as on machines of their own, so that each can be stopped, killed and started again.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.cluster import Cluster, wait_until

STUCK_AFTER_S = 2
LONG_AFTER_S = 4
HOSTS = {"a0": "a", "a1": "a", "b0": "b"}


class ThreeHosts(Cluster):
    """`daemons` by name: the controller and the workers. While the file `deaf` is there, no launch reaches the executor of a1."""

    def __init__(self, state: Path, devices: int = 1) -> None:
        super().__init__(2, 2, devices, state)
        self.deaf = state / "deaf"
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def up(self) -> None:
        (self.state / "logs").mkdir()
        port = self.address.rpartition(":")[2]
        words = ["--listen", f"127.0.0.1:{port}", "--hosts-per-island", "a=2,b=1", "--metrics-port", "-1"]
        words += ["--stuck-after-s", str(STUCK_AFTER_S), "--long-after-s", str(LONG_AFTER_S)]
        self._spawn("controller", "pathways_server.main", words)
        wait_until(lambda: "listening grpc://" in self.log("controller").read_text(), "the controller to listen")
        for host in HOSTS:
            self.start_worker(host)
        self.await_active()

    def start_worker(self, host: str) -> None:
        words = ["--controller", self.address, "--island", HOSTS[host], "--host", host, "--metrics-port", "-1"]
        words += ["--devices", str(self.devices)]
        self._spawn(host, "pathways_worker.main", words)

    def await_active(self) -> None:
        """Until both islands are."""
        wait_until(lambda: [island.state for island in self.status().islands] == ["ACTIVE"] * 2, "both islands to be ACTIVE", 90)

    def log(self, name: str) -> Path:
        """Of the controller, or of a daemon."""
        return self.state / "logs" / f"{name}.log"

    def _spawn(self, name: str, module: str, words: list[str]) -> None:
        faults = {"PYTHONPATH": str(Path(__file__).parent), "LOST_LAUNCHES": f"a1:{self.deaf}"}
        with self.log(name).open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                [sys.executable, "-m", module, *words, "--state-dir", str(self.state)],
                env=self.environment | faults, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def down(self) -> subprocess.CompletedProcess[str]:
        """Ends every daemon, whatever state it is in, workers first."""
        self.processes()
        for name in reversed(self.daemons):
            daemon = self.daemons[name]
            daemon.send_signal(signal.SIGCONT)
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait(20)
        return subprocess.CompletedProcess([], 0, "", "")

    def is_up(self) -> bool:
        return "controller" in self.daemons and self.daemons["controller"].poll() is None

    def processes(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for daemon in self.daemons.values():
            if daemon.poll() is None:
                process = psutil.Process(daemon.pid)
                found += [process, *process.children(recursive=True)]
        self._seen |= {process.pid: process for process in found}
        return found

    def executor(self, host: str) -> psutil.Process:
        """The one at work: a spare is younger."""
        return min(self.executors(host), key=lambda process: process.create_time())

    def epochs(self) -> dict[str, int]:
        return {island.name: island.epoch for island in self.status().islands}


@contextmanager
def three_hosts(devices: int = 1) -> Iterator[ThreeHosts]:
    """Hosts of so many devices each. It is stopped and checked for leftovers whatever happens."""
    state = Path(tempfile.mkdtemp(prefix="pathways-test-"))
    cluster = ThreeHosts(state, devices)
    try:
        cluster.up()
        yield cluster
        cluster.check_leaks(set())
    finally:
        try:
            cluster.down()
            wait_until(lambda: not cluster.leftovers(), "every process of the cluster to end")
        finally:
            left = cluster.end_leftovers()
            shutil.rmtree(state, ignore_errors=True)
    assert not left, f"the cluster left {left}"
