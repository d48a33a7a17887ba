"""Connections that break under a running program: it goes on, and its numbers are those of plain arithmetic.

`linked` is a cluster whose hosts reach the controller through one proxy, its clients through another, and everybody the data of
hosts through a third.
"""

from __future__ import annotations

import os
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
from tests.e2e.loopback_proxy import LoopbackProxy, dropped, proxied

pytestmark = pytest.mark.waits
SCRIPTS = Path(__file__).with_name("scripts")
CLIENTS, HOSTS, DATA = "127.0.0.2", "127.0.0.3", "127.0.0.4"
LEASE_S, GRACE_S, KEEPALIVE_S = 4, 2, 1.0
LINE_S = 60
FAR_S = 60.0  # far longer than the keep-alive, as it is than that of a cluster that nobody configured


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
        command, env=cluster.environment, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip


@contextmanager
def stepping(cluster: Cluster, host: str, steps: int) -> Iterator[Lines]:
    """The script on its way: two steps are read, and its session stays for the block. At the end all that it printed is right."""
    process = start(cluster, host, str(SCRIPTS / "wrapping_steps.py"), str(steps))
    try:
        lines = Lines(process)
        lines.next(LINE_S)
        lines.next(LINE_S)
        yield lines
        while not (line := lines.next(LINE_S)).startswith("values"):
            pass
        assert line == expected(steps, devices=2)
        assert process.stdin is not None
        process.stdin.write("end\n")
        process.stdin.flush()
        assert process.wait(30) == 0, lines
    finally:
        process.kill()


def read_until(lines: Lines, step: int) -> None:
    line = lines.next(LINE_S)
    while line is not None and int(line.split()[1]) < step:
        line = lines.next(LINE_S)
    assert line is not None, f"the script ended or said nothing for {LINE_S} s before step {step}"


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
            dropped(proxy)
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


# ---- a cluster behind proxies ------------------------------------------------------------------------------------------


class Linked(Cluster):
    """One island of two hosts, started by hand: the controller, then workers that reach it through a proxy."""

    hosts_at = HOSTS
    keepalive_s, lease_s, grace_s = KEEPALIVE_S, LEASE_S, GRACE_S
    more: tuple[str, ...] = ()

    def up(self) -> None:
        self.link_port = free_port()
        self.data_ports = {"a0": free_port(), "a1": free_port()}
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.environment |= {"PATHWAYS_KEEPALIVE_S": str(self.keepalive_s)}
        (self.state / "logs").mkdir(mode=0o700)
        self.start_controller()

    def start_controller(self) -> None:
        lives = self.lives()
        settings = ["--listen", f"127.0.0.1:{port_of(self)}", "--link-port", str(self.link_port), "--hosts-per-island", "2"]
        settings += ["--lease-s", str(self.lease_s), "--grace-s", str(self.grace_s), *self.more]
        self.spawn("controller", "pathways-server", *settings)
        wait_until(lambda: self.lives() > lives, "the controller")

    def lives(self) -> int:
        """How often the controller came up."""
        path = self.state / "logs" / "controller.log"
        return self.log_of("controller").count("listening grpc") if path.exists() else 0

    def join(self) -> None:
        if self.hosts_at == HOSTS:  # else nothing stands between the hosts
            self.environment |= {"PYTHONPATH": str(Path(__file__).with_name("faults")), "DATA_AT": DATA}
        for host in self.data_ports:
            self.join_again(host)
        wait_until(self.active, "both hosts to be ACTIVE", 60)

    def join_again(self, host: str) -> None:
        """Starts the daemon of a host."""
        where = ["--controller", f"{self.hosts_at}:{port_of(self)}", "--island", "a", "--host", host]
        where += ["--data-listen", f"127.0.0.1:{self.data_ports[host]}"]
        self.spawn(host, "pathways-worker", *where, "--join-timeout", "60")

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
    """What breaks the links of clients and of hosts, and those on which bytes of arrays go to and between hosts."""

    cluster: Linked
    clients: LoopbackProxy
    hosts: LoopbackProxy
    data: LoopbackProxy


@contextmanager
def behind_proxies(kind: type[Linked]) -> Iterator[Links]:
    """A cluster whose links go through proxies."""
    with tempfile.TemporaryDirectory(prefix="pathways-test-") as folder:
        os.chmod(folder, 0o700)
        cluster = kind(1, 2, 1, Path(folder))
        try:
            cluster.up()
            ports = (port_of(cluster), cluster.link_port)
            moved = tuple(cluster.data_ports.values())
            with proxied(CLIENTS, *ports) as clients, proxied(HOSTS, *ports) as hosts, proxied(DATA, *moved) as data:
                cluster.join()
                yield Links(cluster, clients, hosts, data)
        finally:
            cluster.stop()
            left = cluster.end_leftovers()
        assert not left, f"processes were left: {left}"


@pytest.fixture(scope="module")
def linked() -> Iterator[Links]:
    with behind_proxies(Linked) as links:
        yield links


def resumed(links: Links, what: str) -> int:
    return len(re.findall(what, links.cluster.log_of("controller")))


@pytest.mark.slow
@pytest.mark.cluster
def test_hosts_whose_links_are_dropped_while_gangs_run_keep_their_epoch(linked: Links) -> None:
    before = (linked.cluster.incarnations(), linked.cluster.epoch(), resumed(linked, "host resumed"))
    with stepping(linked.cluster, "127.0.0.1", 200) as lines:
        for step in (20, 50, 80, 110, 140):
            read_until(lines, step)
            dropped(linked.hosts, 2)
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
def test_a_link_of_a_client_that_takes_60_s_is_one_that_carries_nothing(linked: Links) -> None:
    """Given up, and resumed if it is quick again within the lease; after it the client is told in a sentence."""
    before = (linked.cluster.incarnations(), linked.cluster.epoch())
    with stepping(linked.cluster, CLIENTS, 400) as lines:
        read_until(lines, 4)
        sessions, connections = linked.cluster.session_numbers(), linked.clients.connections
        linked.clients.away(FAR_S)
        try:
            wait_until(lambda: linked.clients.connections > connections, "somebody to come with another connection")
        finally:
            linked.clients.mend()
        read_until(lines, 390)
        assert linked.cluster.session_numbers() == sessions
    process = start(linked.cluster, CLIENTS, str(SCRIPTS / "ticker.py"))
    try:
        assert Lines(process).next(LINE_S) == "step 1"
        linked.clients.away(FAR_S)
        try:
            away_s = time.monotonic()
            wait_until(lambda: linked.cluster.sessions() == 0, "the lease to end")
            assert time.monotonic() - away_s > LEASE_S
        finally:
            linked.clients.mend()
        assert process.wait(LINE_S) != 0
        assert process.stderr is not None
        assert f"its lease of {LEASE_S} s ended" in process.stderr.read()
    finally:
        process.kill()
    linked.cluster.check_leaks(set())
    assert (linked.cluster.incarnations(), linked.cluster.epoch()) == before


@pytest.mark.slow
@pytest.mark.cluster
def test_a_link_of_a_host_that_takes_60_s_ends_its_work_by_name_and_it_joins_again(linked: Links) -> None:
    before = linked.cluster.incarnations()
    process = start(linked.cluster, CLIENTS, str(SCRIPTS / "wrapping_steps.py"), "100000")
    try:
        read_until(Lines(process), 4)
        linked.hosts.away(FAR_S)
        try:
            wait_until(lambda: not linked.cluster.incarnations(), "the hosts to be given up")
        finally:
            linked.hosts.mend()
        assert process.wait(LINE_S) != 0
        assert process.stderr is not None
        assert re.search(r"host a[01] of island a was lost in epoch \d+: .*heard of it", process.stderr.read())
    finally:
        process.kill()
    wait_until(linked.cluster.active, "both hosts to be ACTIVE again", 60)
    after = linked.cluster.incarnations()
    assert all(after[host] > before[host] for host in before)
    with stepping(linked.cluster, CLIENTS, 10):
        pass


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


@pytest.mark.slow
@pytest.mark.cluster
def test_bytes_of_arrays_arrive_whole_whatever_happens_to_their_links(linked: Links) -> None:
    """Between doors and hosts, and between hosts: dropped, stalled, slow."""
    before = (linked.cluster.incarnations(), linked.cluster.epoch())
    process = start(linked.cluster, "127.0.0.1", str(SCRIPTS / "moving.py"), "120")
    try:
        lines = Lines(process)
        for step in range(5, 65, 5):
            read_until(lines, step)
            linked.data.drop()
        connections, passed = linked.data.connections, linked.data.passed_bytes
        assert connections > 2, "nothing goes through the proxy"
        assert passed > 3 * 60 << 20, "the bytes of arrays do not go through the proxy"
        linked.data.stall()
        try:
            # Of what is under way a round may still end.
            while lines.next(1.5) is not None:
                pass
        finally:
            linked.data.mend()
        read_until(lines, 80)
        linked.data.slow(0.05)
        read_until(lines, 83)
        linked.data.mend()
        while (line := lines.next(LINE_S)) is not None and line.startswith("step"):
            pass
        assert line == "values right", process.stderr.read() if process.poll() is not None and process.stderr else line
    finally:
        process.kill()
    assert (linked.cluster.incarnations(), linked.cluster.epoch()) == before


@pytest.mark.slow
@pytest.mark.cluster
def test_a_client_whose_lid_is_closed_is_given_up_and_nobody_else_notices(linked: Links) -> None:
    """Its processes stand still and its connections neither carry anything nor end. When it wakes it is told in a sentence."""
    before = (linked.cluster.incarnations(), linked.cluster.epoch())
    known = linked.cluster.session_numbers()
    others = start(linked.cluster, "127.0.0.1", str(SCRIPTS / "ticker.py"))
    asleep = start(linked.cluster, CLIENTS, str(SCRIPTS / "ticker.py"))
    try:
        heard, last = Lines(others), Lines(asleep)
        read_until(heard, 3)
        read_until(last, 3)
        assert len(linked.cluster.session_numbers() - known) == 2
        linked.clients.stall()
        sleeping = [psutil.Process(asleep.pid), *psutil.Process(asleep.pid).children(recursive=True)]
        for process in sleeping:
            process.suspend()
        wait_until(lambda: linked.cluster.sessions() == 1, "the session of the client that sleeps to be given up")
        linked.cluster.check_leaks(linked.cluster.session_numbers())
        # Nobody else notices: steps follow one another, with their values.
        number = int((heard.next(LINE_S) or "").split()[1])
        read_until(heard, number + 50)
        assert (linked.cluster.incarnations(), linked.cluster.epoch()) == before
        linked.clients.mend()
        for process in sleeping:
            process.resume()
        assert asleep.wait(LINE_S) != 0
        assert asleep.stderr is not None
        said = asleep.stderr.read()
        assert re.search(rf"its lease of {LEASE_S} s ended", said), said
    finally:
        linked.clients.mend()
        for run in (asleep, others):
            with suppress(psutil.NoSuchProcess):
                for process in psutil.Process(run.pid).children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        process.resume()
            run.kill()
