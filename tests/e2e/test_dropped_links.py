"""Connections that break under a running program: it goes on, and its numbers are those of plain arithmetic.

`linked` is a cluster whose hosts reach the controller through one proxy, and its clients through another.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest
from pathways_common.rpc.channels import parse_address
from pathways_proto.v1 import cluster_pb2

from tests.cluster import PATHWAYS, ROOT, Cluster, free_port, wait_until
from tests.e2e.lines import Lines
from tests.e2e.loopback_proxy import LoopbackProxy, proxied

SCRIPTS = Path(__file__).with_name("scripts")
CLIENTS, HOSTS = "127.0.0.2", "127.0.0.3"
LEASE_S, GRACE_S, KEEPALIVE_S = 4, 2, 1.0
LINE_S = 60


def expected(steps: int, devices: int) -> str:
    """What wrapping_steps.py has to print at last, by numpy."""
    values = np.arange(1, 4 * devices + 1, dtype=np.int32)
    for _ in range(steps):
        values = values * np.int32(3) + np.sum(values, dtype=np.int32)
    return f"values {values.tolist()}"


def start(cluster: Cluster, host: str, *words: str) -> subprocess.Popen[str]:
    """`pathways run` of a script that reaches the controller at another address of this machine."""
    address = f"grpc://{host}:{cluster.address.rpartition(':')[2]}"
    command = [PATHWAYS, "run", "--address", address, "--", sys.executable, *words]
    return subprocess.Popen(
        command, env=cluster.environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


@contextmanager
def stepping(cluster: Cluster, host: str, steps: int) -> Iterator[Lines]:
    """The script on its way: two steps are read. At the end everything it printed is right."""
    process = start(cluster, host, str(SCRIPTS / "wrapping_steps.py"), str(steps))
    try:
        lines = Lines(process)
        lines.next(LINE_S)
        lines.next(LINE_S)
        yield lines
        while not (line := lines.next(LINE_S)).startswith("values"):
            pass
        assert line == expected(steps, devices=2)
        assert process.wait(30) == 0, lines
    finally:
        process.kill()


def read_until(lines: Lines, step: int) -> None:
    line = lines.next(LINE_S)
    while line is not None and int(line.split()[1]) < step:
        line = lines.next(LINE_S)
    assert line is not None, f"the script said nothing for {LINE_S} s before step {step}"


def link_port(cluster: Cluster) -> int:
    version: cluster_pb2.GetVersionResponse = cluster.ask("GetVersion", cluster_pb2.GetVersionRequest())
    return int(version.link_port)


def port_of(cluster: Cluster) -> int:
    return int(parse_address(cluster.address).rpartition(":")[2])


def waits_for_clients(cluster: Cluster) -> int:
    """How often a session was left without a goodbye."""
    return (cluster.state / "logs" / "controller.log").read_text().count("session waits for its client")


@pytest.mark.cluster
def test_a_session_whose_link_is_dropped_goes_on_exactly(cluster: Cluster) -> None:
    with proxied(CLIENTS, port_of(cluster), link_port(cluster)) as proxy, stepping(cluster, CLIENTS, 60) as lines:
        sessions = cluster.session_numbers()
        for step in (10, 20, 30, 40):
            read_until(lines, step)
            assert proxy.drop() > 0
        read_until(lines, 50)
        assert cluster.session_numbers() == sessions


@pytest.mark.cluster
def test_a_killed_client_says_goodbye_through_its_door(cluster: Cluster) -> None:
    """No lease is needed: the door outlives its client by the time that it takes to say so."""
    waited = waits_for_clients(cluster)
    process = cluster.start(str(SCRIPTS / "ticker.py"))
    try:
        assert Lines(process).next(LINE_S) == "step 1"
        (script,) = [each for each in psutil.Process(process.pid).children() if "ticker.py" in " ".join(each.cmdline())]
        script.kill()
        wait_until(lambda: cluster.sessions() == 0, "the session of a killed client to be closed")
        assert waits_for_clients(cluster) == waited, "it was the lease that closed it"
    finally:
        process.kill()


def killed(run: subprocess.Popen[str]) -> bool:
    """Kills the script of a run wherever it is in its start, but not its door; whether the run has ended."""
    with suppress(psutil.Error):
        for each in psutil.Process(run.pid).children(recursive=True):
            with suppress(psutil.Error):
                if "ticker.py" in " ".join(each.cmdline()) and "pathways_door" not in each.cmdline():
                    each.kill()
    return run.poll() is not None


@pytest.mark.slow
@pytest.mark.cluster
def test_clients_killed_at_any_moment_leave_nothing(cluster: Cluster) -> None:
    moment = random.Random(26)
    for _ in range(10):
        process = cluster.start(str(SCRIPTS / "ticker.py"))
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(moment.uniform(0.2, 6.0))
            wait_until(lambda run=process: killed(run), "a script that was killed to end its run")  # type: ignore[misc]
        finally:
            process.kill()
    wait_until(lambda: cluster.sessions() == 0, "the sessions of killed clients to be closed")
    cluster.check_leaks(set())


# ---- a cluster behind proxies ------------------------------------------------------------------------------------------


class Linked(Cluster):
    """One island of two hosts, started by hand: the controller, then workers that reach it through a proxy."""

    def up(self) -> None:
        self.link_port = free_port()
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.environment |= {"PATHWAYS_KEEPALIVE_S": str(KEEPALIVE_S)}
        (self.state / "logs").mkdir(mode=0o700)
        settings = ["--listen", f"127.0.0.1:{port_of(self)}", "--link-port", str(self.link_port), "--hosts-per-island", "2"]
        self.spawn("controller", "pathways-server", *settings, "--lease-s", str(LEASE_S), "--grace-s", str(GRACE_S))
        wait_until(lambda: (self.state / "secret").exists() and "listening" in self.log_of("controller"), "the controller")

    def join(self) -> None:
        for host in ("a0", "a1"):
            where = ["--controller", f"{HOSTS}:{port_of(self)}", "--island", "a", "--host", host]
            self.spawn(host, "pathways-worker", *where, "--join-timeout", "60")
        wait_until(self.active, "both hosts to be ACTIVE", 60)

    def spawn(self, name: str, program: str, *words: str) -> None:
        log = (self.state / "logs" / f"{name}.log").open("ab")
        command = [str(Path(sys.executable).with_name(program)), *words, "--state-dir", str(self.state)]
        self.daemons[name] = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        log.close()

    def log_of(self, name: str) -> str:
        return (self.state / "logs" / f"{name}.log").read_text(errors="replace")

    def active(self) -> bool:
        islands = self.status().islands
        return bool(islands) and islands[0].state == "ACTIVE" and len(islands[0].hosts) == 2

    def incarnations(self) -> dict[str, int]:
        return {host.name: host.incarnation for island in self.status().islands for host in island.hosts}

    def epoch(self) -> int:
        return int(self.status().islands[0].epoch)

    def is_up(self) -> bool:
        return self.daemons["controller"].poll() is None

    def processes(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for daemon in self.daemons.values():
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(daemon.pid)
                found += [process, *process.children(recursive=True)]
        self._seen |= {process.pid: process for process in found}
        return found

    def stop(self) -> None:
        self.processes()
        for daemon in reversed(self.daemons.values()):
            daemon.send_signal(signal.SIGCONT)
            daemon.terminate()
        for daemon in self.daemons.values():
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(20)


@dataclass
class Links:
    """What breaks the links of clients and of hosts."""

    cluster: Linked
    clients: LoopbackProxy
    hosts: LoopbackProxy


@pytest.fixture(scope="module")
def linked() -> Iterator[Links]:
    with tempfile.TemporaryDirectory(prefix="pathways-test-") as folder:
        os.chmod(folder, 0o700)
        cluster = Linked(1, 2, 1, Path(folder))
        try:
            cluster.up()
            ports = (port_of(cluster), cluster.link_port)
            with proxied(CLIENTS, *ports) as clients, proxied(HOSTS, *ports) as hosts:
                cluster.join()
                yield Links(cluster, clients, hosts)
        finally:
            cluster.stop()
            left = cluster.end_leftovers()
        assert not left, f"processes were left: {left}"


def resumed(links: Links, what: str) -> int:
    return len(re.findall(what, links.cluster.log_of("controller")))


@pytest.mark.slow
@pytest.mark.cluster
def test_hosts_whose_links_are_dropped_while_gangs_run_keep_their_epoch(linked: Links) -> None:
    before = (linked.cluster.incarnations(), linked.cluster.epoch(), resumed(linked, "host resumed"))
    with stepping(linked.cluster, "127.0.0.1", 200) as lines:
        for step in (20, 50, 80, 110, 140):
            read_until(lines, step)
            assert linked.hosts.drop() >= 2
    assert (linked.cluster.incarnations(), linked.cluster.epoch()) == before[:2]
    assert resumed(linked, "host resumed") > before[2]


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("whose", ["hosts", "clients"])
def test_links_that_carry_nothing_any_more_are_replaced(linked: Links, whose: str) -> None:
    proxy: LoopbackProxy = getattr(linked, whose)
    before = (linked.cluster.incarnations(), linked.cluster.epoch())
    with stepping(linked.cluster, CLIENTS, 120) as lines:
        read_until(lines, 20)
        connections = proxy.connections
        proxy.stall()
        wait_until(lambda: proxy.connections > connections, "somebody to come with another connection")
        proxy.mend()
        read_until(lines, 100)
    assert (linked.cluster.incarnations(), linked.cluster.epoch()) == before


@pytest.mark.slow
@pytest.mark.cluster
def test_slow_links_change_nothing_but_the_time(linked: Links) -> None:
    before = (linked.cluster.incarnations(), linked.cluster.epoch())
    with stepping(linked.cluster, CLIENTS, 30) as lines:
        read_until(lines, 5)
        for proxy in (linked.hosts, linked.clients):
            proxy.slow(0.2)
        read_until(lines, 8)
        for proxy in (linked.hosts, linked.clients):
            proxy.mend()
    assert (linked.cluster.incarnations(), linked.cluster.epoch()) == before


@pytest.mark.slow
@pytest.mark.cluster
def test_a_controller_that_was_stopped_gives_nobody_up(linked: Links) -> None:
    before = (linked.cluster.incarnations(), linked.cluster.epoch())
    controller = linked.cluster.daemons["controller"]
    with stepping(linked.cluster, CLIENTS, 120) as lines:
        read_until(lines, 20)
        sessions = linked.cluster.session_numbers()
        controller.send_signal(signal.SIGSTOP)
        try:
            time.sleep(2 * LEASE_S)  # the fault itself: longer than lease, grace and keep-alive
        finally:
            controller.send_signal(signal.SIGCONT)
        read_until(lines, 60)
        assert linked.cluster.session_numbers() == sessions
    assert (linked.cluster.incarnations(), linked.cluster.epoch()) == before


@pytest.mark.slow
@pytest.mark.cluster
def test_a_door_that_was_killed_leaves_its_session_for_the_lease_and_nothing_after_it(linked: Links) -> None:
    process = start(linked.cluster, CLIENTS, str(SCRIPTS / "ticker.py"))
    try:
        assert Lines(process).next(LINE_S) == "step 1"
        (door,) = [each for each in psutil.Process(process.pid).children(recursive=True) if "pathways_door" in each.cmdline()]
        (number,) = linked.cluster.session_numbers()
        door.kill()
        killed_s = time.monotonic()
        wait_until(lambda: linked.cluster.sessions() == 0, "the lease to end")
        assert time.monotonic() - killed_s > LEASE_S - 1, "it did not live for its lease"
        assert f"its lease of {LEASE_S} s ended" in linked.cluster.log_of("controller"), number
    finally:
        process.kill()
    linked.cluster.check_leaks(set())


@pytest.mark.slow
@pytest.mark.cluster
def test_hosts_that_stay_away_for_longer_than_the_grace_join_anew(linked: Links) -> None:
    before = linked.cluster.incarnations()
    linked.hosts.drop(refuse=True)
    try:
        wait_until(lambda: not linked.cluster.incarnations(), "the hosts to be given up")
    finally:
        linked.hosts.mend()
    wait_until(linked.cluster.active, "both hosts to be ACTIVE again", 60)
    after = linked.cluster.incarnations()
    assert all(after[host] > before[host] for host in before)
    with stepping(linked.cluster, CLIENTS, 10):
        pass
    linked.cluster.check_leaks(set())
