"""A cluster on this machine: one controller and one worker daemon per host. It is up when every host is ACTIVE.

cluster.json names every process from the moment it exists, with its start time, so that `pathways down` finds what was started
whatever became of the command that started it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import string
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pathways_common.model.failure import PathwaysError, Reason
from pathways_common.model.topology import coordinates_text, places_in_turn
from pathways_common.process.child import alive, start_time
from pathways_common.process.state import StateDir
from pathways_common.rpc.channels import parse_address

from pathways.cli.faults import Refusal
from pathways.cli.launch import Daemon, daemon_environment, how_it_ended, spawn, stop
from pathways.cli.query import Controller
from pathways.cli.signals import Interrupts

HOST = "127.0.0.1"
READY_TIMEOUT_S = 120.0
CONTROLLER = "pathways_server.main"
WORKER = "pathways_worker.main"
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Shape:
    """What to start. `device_memory_bytes` None leaves it to the workers; `port` and `link_port` 0 take free ones."""

    islands: int
    hosts: int
    devices: int
    port: int = 0
    link_port: int = 0
    device_memory_bytes: int | None = None
    topology: tuple[int, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    stay: bool = False
    ready_timeout_s: float = READY_TIMEOUT_S

    def host_names(self) -> dict[str, list[str]]:
        """Island -> hosts: a -> a0, a1, ..."""
        return {name: [f"{name}{index}" for index in range(self.hosts)] for name in island_names(self.islands)}

    def place(self, island: str, index: int) -> list[str]:
        """What a worker is told of its devices: where they lie in the island, row-major in host order, and their kind."""
        words = []
        if self.topology:
            coordinates = list(places_in_turn(self.topology, self.devices))[index]
            words = ["--topology", "x".join(map(str, self.topology)), "--coordinates", coordinates_text(coordinates)]
        return [*words, "--device-kind", self.kinds[island]] if island in self.kinds else words


def island_names(count: int) -> str:
    """One letter each."""
    return string.ascii_lowercase[:count]


@dataclass(slots=True)
class LocalCluster:
    """Owns the processes. `start`, then `stop`; with `shape.stay`, leave out `stop` and they go on."""

    shape: Shape
    state: StateDir
    interrupts: Interrupts
    address: str = ""
    controller: Daemon | None = None
    workers: list[Daemon] = field(default_factory=list)
    # Where the worker of a host dials the controller, given its address; for links that tests put between.
    dial: Callable[[str, str], str] | None = None
    _started: float = field(default_factory=time.time)

    def start(self) -> float:
        """Starts everything and waits until every host is ACTIVE; returns the seconds it took.

        Raises Refusal with a sentence, or Interrupted; call `stop` then.
        """
        began = time.monotonic()
        self.state.create()
        with _alone(self.state):
            refuse_running(self.state)
            if self.shape.port:
                _refuse_used(self.shape.port)
            self.start_controller()
        deadline = began + self.shape.ready_timeout_s
        self._await_address(deadline)
        for island, hosts in self.shape.host_names().items():
            for index, host in enumerate(hosts):
                self.start_worker(island, host, self.shape.place(island, index), self.shape.device_memory_bytes)
        self._await_active(deadline)
        self._record(ready=True)
        return time.monotonic() - began

    def stop(self) -> None:
        """Ends everything, workers first, and forgets the cluster. A second signal makes it quick."""
        stop(
            [self.workers, [self.controller] if self.controller else []],
            impatient=lambda: self.interrupts.impatient,
        )
        self.state.remove_cluster()

    def daemons(self) -> list[Daemon]:
        """All processes, the controller first."""
        return [*([self.controller] if self.controller else []), *self.workers]

    def start_controller(self) -> None:
        """Its first life, or another one when it has ended; then the shape names its ports, or workers would not find it."""
        arguments = ["--listen", f"{HOST}:{self.shape.port}", "--state-dir", str(self.state.path)]
        arguments += ["--hosts-per-island", str(self.shape.hosts)]
        if self.shape.link_port:
            arguments += ["--link-port", str(self.shape.link_port)]
        log = self.state.log_path("controller")
        self.controller = spawn("controller", CONTROLLER, arguments, log, daemon_environment(), self.shape.stay)
        self._record()

    def _await_address(self, deadline: float) -> None:
        assert self.controller is not None
        log = self.controller.log
        while not self.address:
            self._check_children()
            text = log.read_text(errors="replace") if log.exists() else ""
            for line in text.splitlines():
                if line.startswith("listening grpc://"):
                    self.address = f"grpc://{parse_address(line.split()[1])}"
            if time.monotonic() > deadline:
                raise _late("the controller did not listen", self.shape.ready_timeout_s, self.controller)
            self.interrupts.wait(0.02)
        self._record()

    def start_worker(self, island: str, host: str, place: list[str], device_memory_bytes: int | None) -> None:
        """Starts the daemon of a host, at the start or again after it ended."""
        address = self.dial(host, self.address) if self.dial is not None else self.address
        arguments = ["--controller", address, "--island", island, "--host", host]
        arguments += ["--devices", str(self.shape.devices), "--state-dir", str(self.state.path), *place]
        if device_memory_bytes is not None:
            arguments += ["--device-memory", str(device_memory_bytes)]
        log = self.state.log_path(host)
        self.workers = [worker for worker in self.workers if worker.name != host]
        self.workers.append(spawn(host, WORKER, arguments, log, daemon_environment(), self.shape.stay))
        self._record()

    def _await_active(self, deadline: float) -> None:
        wanted = {host for hosts in self.shape.host_names().values() for host in hosts}
        waiting = dict.fromkeys(wanted, "not joined")
        with Controller(self.address, self.state.token()) as controller:
            while waiting:
                self.interrupts.wait(_POLL_S)
                self._check_children()
                try:
                    status = controller.status(timeout_s=5.0)
                except PathwaysError as error:
                    if error.failure.reason not in (Reason.UNAVAILABLE, Reason.TIMED_OUT):
                        raise
                    status = None
                for island in status.islands if status else ():
                    for host in island.hosts:
                        if host.name not in wanted:
                            continue
                        if island.state == host.state == "ACTIVE":
                            waiting.pop(host.name, None)
                        else:
                            waiting[host.name] = host.state.lower()
                if waiting and time.monotonic() > deadline:
                    self._refuse_late(waiting)

    def _refuse_late(self, waiting: dict[str, str]) -> None:
        never = sorted(host for host, state in waiting.items() if state == "not joined")
        name = (never or sorted(waiting))[0]
        what = f"host {name} did not join" if never else f"host {name} joined but did not become active"
        raise _late(what, self.shape.ready_timeout_s, next(worker for worker in self.workers if worker.name == name))

    def _check_children(self) -> None:
        for daemon in self.daemons():
            code = daemon.exit_code
            if code is not None:
                raise Refusal(f"{_described(daemon)} {how_it_ended(code)} before the cluster was up; {_log_words(daemon)}")

    def _record(self, ready: bool = False) -> None:
        def entry(daemon: Daemon) -> dict[str, object]:
            return {"name": daemon.name, "pid": daemon.process.pid, "start_time": daemon.started}

        self.state.write_cluster(
            {
                "address": self.address,
                "ready": ready,
                "started": self._started,
                "topology": "x".join(map(str, self.shape.topology)),
                "islands": {
                    name: {"hosts": hosts, "devices": self.shape.devices} for name, hosts in self.shape.host_names().items()
                },
                "launcher": None if self.shape.stay else {"pid": os.getpid(), "start_time": start_time(os.getpid())},
                "processes": [entry(daemon) for daemon in self.daemons()],
            }
        )


def known_processes(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of cluster.json that name a process; whatever else the file holds is skipped."""
    entries = cluster.get("processes")
    return [entry for entry in entries if names_process(entry)] if isinstance(entries, list) else []


def names_process(entry: Any) -> bool:
    """Whether an entry has a pid that can be one, and a start time."""
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("pid"), int)
        and entry["pid"] > 0
        and isinstance(entry.get("start_time"), int)
    )


def living_processes(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of cluster.json whose processes still live."""
    return [entry for entry in known_processes(cluster) if alive(entry["pid"], entry["start_time"])]


@contextmanager
def _alone(state: StateDir) -> Iterator[None]:
    """Two commands at once would both find no cluster in the state directory; the later one is refused instead."""
    descriptor = os.open(state.path / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refusal(
                f"another `pathways up` starts a cluster in {state.path} right now; use it, or give another --state-dir"
            ) from None
        yield
    finally:
        os.close(descriptor)


def refuse_running(state: StateDir) -> None:
    """Raises Refusal if the state directory names a cluster that still has a process."""
    cluster = state.read_cluster() or {}
    if any(living_processes(cluster)):
        raise Refusal(
            f"a cluster runs already at {cluster.get('address') or 'an unknown address'} (state directory {state.path}): "
            "use it, stop it with `pathways down`, or give another --state-dir"
        )


def _refuse_used(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError:
            raise Refusal(f"port {port} may not be used by this user; choose one above 1023 with --port") from None
        except OSError:
            raise Refusal(f"port {port} is in use; choose another with --port (0 takes a free one)") from None


def _late(what: str, seconds: float, daemon: Daemon) -> Refusal:
    return Refusal(f"{what} within {seconds:g} s; {_log_words(daemon)}")


def _described(daemon: Daemon) -> str:
    return "the controller" if daemon.name == "controller" else f"the worker of host {daemon.name}"


def _log_words(daemon: Daemon) -> str:
    tail = daemon.tail()
    return f"the end of its log ({daemon.log}):\n{tail}" if tail else f"its log ({daemon.log}) is empty"
