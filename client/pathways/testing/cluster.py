"""A cluster on this machine with faults to order: kill, stop, delay, drop, swap, starve.

Between every host and the controller, and between scripts and the controller, stands a link of links.py. What a fault takes away
comes back when its block ends; `whole` waits until the cluster is as it was. Whatever happens, `close` ends every process.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pathways_common.model.failure import PathwaysError
from pathways_common.model.sizes import parse_size
from pathways_common.process.state import StateDir
from pathways_common.rpc.channels import parse_address

from pathways.cli.cluster import HOST, LocalCluster, Shape
from pathways.cli.executors import Process, executors, process
from pathways.cli.launch import GRACE_S, stop
from pathways.cli.query import Controller
from pathways.cli.signals import Interrupts
from pathways.testing.links import Link, Links
from pathways.testing.ports import HeldPorts
from pathways.testing.scripts import Scripts, plain_environment

EXECUTOR, DAEMON, CONTROLLER, CLIENT = "executor", "daemon", "controller", "client"
WHOLE_S = 60.0
_POLL_S = 0.05


class FaultyCluster(Scripts):
    """Made by `pathways.testing.cluster` or the fixture `pathways_cluster`. Hosts are a0, a1, ..., b0, ...

    Scripts run through the link CLIENT (`run`, `start`); `link(host)` is that of a host.
    """

    def __init__(self, islands: int = 1, hosts: int = 2, devices: int = 1, device_memory: str | int | None = None) -> None:
        """Starts it; raises a sentence, with nothing left behind. `device_memory`: of each device, such as "64M"."""
        device_memory_bytes = _bytes(device_memory)  # before anything is made
        self.state_dir = StateDir(tempfile.mkdtemp(prefix="pathways-testing-"))
        # A controller that is killed comes back where it was, whoever takes a port meanwhile.
        self._held = HeldPorts(HOST, 2)
        port, link_port = self._held.numbers
        self.shape = Shape(islands, hosts, devices, port, link_port, device_memory_bytes)
        self._links = Links()
        self._by_dialler: dict[str, Link] = {}
        self._ports: list[int] = []
        self._framed_port = 0
        self._cluster = LocalCluster(self.shape, self.state_dir, Interrupts(), dial=self._dial)
        try:
            self._cluster.start()
            address = self._dial(CLIENT, self._cluster.address)
        except BaseException:
            self.close()
            raise
        environment = plain_environment() | {"PATHWAYS_STATE_DIR": str(self.state_dir.path)}
        super().__init__(address, self.state_dir.path, environment)
        self.direct = self._cluster.address

    def close(self) -> None:
        """Ends everything and removes what it wrote."""
        for daemon in self._cluster.daemons():  # a stopped process hears no SIGTERM
            self._signal_all(daemon.process.pid, signal.SIGCONT)
        self._cluster.stop()
        self._links.close()
        self._held.close()
        shutil.rmtree(self.state_dir.path, ignore_errors=True)

    @property
    def hosts(self) -> list[str]:
        """All of them, in their order."""
        return [host for hosts in self.shape.host_names().values() for host in hosts]

    # ---- faults -----------------------------------------------------------------------------------------------------

    def kill(self, host: str = "", what: str = EXECUTOR) -> None:
        """SIGKILL to the executor of a host, which comes back by itself.

        Or to its DAEMON, or to the CONTROLLER (without a host), which `revive` starts again.
        """
        self._one(host, what).signal(signal.SIGKILL)

    @contextmanager
    def stop(self, host: str = "", what: str = EXECUTOR) -> Iterator[Process]:
        """SIGSTOP, and SIGCONT at the end of the block: to an executor, a DAEMON, or the CONTROLLER (without a host)."""
        stopped = self._one(host, what)
        stopped.signal(signal.SIGSTOP)
        try:
            yield stopped
        finally:
            stopped.signal(signal.SIGCONT)

    @contextmanager
    def delay(self, dialler: str, seconds: float | None = None) -> Iterator[None]:
        """What goes between a host, or the CLIENT, and the controller takes so long each way; None: it is held until the end."""
        link = self.link(dialler)
        if seconds is None:
            link.hold(True)
        else:
            link.set_delay(seconds)
        try:
            yield
        finally:
            link.hold(False)
            link.set_delay(0.0)

    @contextmanager
    def drop(self, dialler: str) -> Iterator[None]:
        """The connections of a host, or of the CLIENT, to the controller break, and new ones with them until the end."""
        link = self.link(dialler)
        link.drop(True)
        try:
            yield
        finally:
            link.drop(False)

    def swap(self, dialler: str, count: int = 1) -> None:
        """So many times the next message of the controller to a host, or to the CLIENT, changes places with the one behind it."""
        self.link(dialler).swap(count)

    @contextmanager
    def starve(self, host: str, device_memory: str | int) -> Iterator[None]:
        """The host's daemon ends and comes back with so little memory for each device; with the old one after the block."""
        self._restart(host, _bytes(device_memory))
        try:
            yield
        finally:
            self._restart(host, self.shape.device_memory_bytes)

    # ---- and what comes after ---------------------------------------------------------------------------------------

    def link(self, dialler: str) -> Link:
        """The link between a host, or the CLIENT, and the controller."""
        try:
            return self._by_dialler[dialler]
        except KeyError:
            raise ValueError(f"{dialler!r} has no link; there is one of {', '.join(self._by_dialler)}") from None

    def revive(self, host: str = "") -> None:
        """Starts the daemon of a host, or (without one) the controller, that was killed; waits until the cluster is whole."""
        if host:
            self._restart(host, self.shape.device_memory_bytes)
            return
        controller = self._cluster.controller
        assert controller is not None, "the cluster has a controller as long as it is open"
        stop([[controller]], impatient=lambda: False, grace_s=GRACE_S)
        self._cluster.start_controller()
        self.whole()

    def whole(self, timeout_s: float = WHOLE_S) -> None:
        """Waits until every host is ACTIVE; AssertionError with the ends of the logs if that takes longer."""
        deadline_s = time.monotonic() + timeout_s
        missing = self._missing()
        while missing:
            assert time.monotonic() < deadline_s, f"waited {timeout_s} s for {', '.join(missing)} to be ACTIVE{self.logs()}"
            time.sleep(_POLL_S)
            missing = self._missing()

    def epoch(self, island: str = "a") -> int:
        """Of an island: it counts how often its hosts were lost and came together again."""
        return int(next(each.epoch for each in self.status().islands if each.name == island))

    def executor(self, host: str) -> Process:
        """The executor at work on a host."""
        return self._one(host, EXECUTOR)

    # ---- processes --------------------------------------------------------------------------------------------------

    def _one(self, host: str, what: str) -> Process:
        if what not in (EXECUTOR, DAEMON, CONTROLLER):
            raise ValueError(f"{what!r} is no process of a host; name {EXECUTOR}, {DAEMON} or {CONTROLLER}")
        daemon = self._cluster.controller
        if what != CONTROLLER:
            daemon = next((worker for worker in self._cluster.workers if worker.name == host), None)
        if daemon is None:
            raise ValueError(f"there is no host {host!r}; the cluster has {', '.join(self.hosts)}")
        found = next(iter(executors(daemon.process.pid)), None) if what == EXECUTOR else process(daemon.process.pid)
        assert found is not None, f"the {what} of {host or 'the cluster'} does not run{self.logs()}"
        return found

    def _signal_all(self, daemon_pid: int, number: signal.Signals) -> None:
        daemon = process(daemon_pid)
        for each in [*executors(daemon_pid), *([daemon] if daemon is not None else [])]:
            each.signal(number)

    def _restart(self, host: str, device_memory_bytes: int | None) -> None:
        island, index = next((island, hosts.index(host)) for island, hosts in self.shape.host_names().items() if host in hosts)
        old = next(worker for worker in self._cluster.workers if worker.name == host)
        self._signal_all(old.process.pid, signal.SIGCONT)
        stop([[old]], impatient=lambda: False, grace_s=GRACE_S)
        self._cluster.start_worker(island, host, self.shape.place(island, index), device_memory_bytes)
        self.whole()

    def _missing(self) -> list[str]:
        try:
            with Controller(self._cluster.address, self.state_dir.token()) as controller:
                status = controller.status(timeout_s=2.0)
        except PathwaysError:
            return ["the controller"]
        active = [host.name for island in status.islands for host in island.hosts if island.state == host.state == "ACTIVE"]
        return [host for host in self.hosts if host not in active]

    def _dial(self, dialler: str, address: str) -> str:
        if not self._ports:
            with Controller(address, None) as controller:
                self._framed_port = controller.version(timeout_s=10.0).link_port
            self._ports = [int(parse_address(address).rpartition(":")[2]), *([self._framed_port] if self._framed_port else [])]
        link = self._by_dialler.get(dialler)
        if link is None:
            link = self._by_dialler[dialler] = self._links.open(HOST, self._ports, self._framed_port)
        return f"grpc://{link.host}:{self._ports[0]}"


@contextmanager
def cluster(
    islands: int = 1, hosts: int = 2, devices: int = 1, device_memory: str | int | None = None, folder: Path | None = None
) -> Iterator[FaultyCluster]:
    """A cluster for the time of a block. `folder`: where its scripts run; else where we do."""
    running = FaultyCluster(islands, hosts, devices, device_memory)
    running.folder = folder
    try:
        yield running
    finally:
        running.close()


def _bytes(size: str | int | None) -> int | None:
    return parse_size(size) if isinstance(size, str) else size
