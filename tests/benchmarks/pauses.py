"""Faults after which nothing is lost: how long a client waits, or how soon what is to happen has happened."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from pathways.cli.query import Controller
from pathways.testing import CLIENT, CONTROLLER, DAEMON, FaultyCluster, Lines, cluster, end_script, wait_until
from pathways_proto.v1 import movements_pb2

from tests.benchmarks.claims import Claim, figure_claim
from tests.benchmarks.report import Section, Table
from tests.benchmarks.statistics_of_pairs import interval_of

SCRIPT = Path(__file__).with_name("pause_client.py")
HELD_S = 1.0  # shorter than any keep-alive or deadline
ANSWER_S = 90.0
_LOOK_S = 0.01

TEXT = f"""A stock client awaits one gang of two hosts after the other. *Pause*: the longest time without a value around the
fault, less the {HELD_S:g} s for which something was stopped or held. Every value is checked; an error would end the run, and
there was none. A controller that was killed is started again at once, which takes a new process its second or two. *Freed*:
from the SIGKILL of the client's process until no session is left; then a question for leaks finds none on any host. *DRAINED*:
from `pathways drain` under a client that works on the island, until its arrays are on the other one and the host may be
switched off."""


class Awaiting:
    """The client, and what it says."""

    def __init__(self, running: FaultyCluster) -> None:
        self.process = running.start(str(SCRIPT), stdin=True)
        self._lines = Lines(self.process)
        self.longest_s()  # it has begun

    def longest_s(self) -> float:
        """Since the last time, up to a gang from now."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self._lines.next(ANSWER_S)
        if line is None:
            raise SystemExit(f"the client ended, or said nothing for {ANSWER_S:g} s")
        return float(json.loads(line)["longest_s"])

    def kill(self) -> float:
        """SIGKILL to the script alone, as when a notebook's process dies; when that was."""
        (script,) = [each for each in psutil.Process(self.process.pid).children(True) if str(SCRIPT) in each.cmdline()]
        killed_s = time.monotonic()
        script.send_signal(signal.SIGKILL)
        return killed_s


@contextmanager
def awaiting(running: FaultyCluster) -> Iterator[Awaiting]:
    client = Awaiting(running)
    try:
        yield client
    finally:
        end_script(client.process)


def paused(running: FaultyCluster, client: Awaiting, fault: Callable[[FaultyCluster], None], held_s: float = 0.0) -> float:
    time.sleep(0.3)
    client.longest_s()
    fault(running)
    return max(client.longest_s() - held_s, 0.0)


def kill_controller(running: FaultyCluster) -> None:
    running.kill(what=CONTROLLER)
    running.revive()


def stop_controller(running: FaultyCluster) -> None:
    with running.stop(what=CONTROLLER):
        time.sleep(HELD_S)  # the fault itself


def stop_daemon(running: FaultyCluster) -> None:
    with running.stop("a1", DAEMON):
        time.sleep(HELD_S)


def drop(dialler: str) -> Callable[[FaultyCluster], None]:
    def fault(running: FaultyCluster) -> None:
        with running.drop(dialler):
            pass

    return fault


def hold(dialler: str) -> Callable[[FaultyCluster], None]:
    def fault(running: FaultyCluster) -> None:
        with running.delay(dialler):
            time.sleep(HELD_S)

    return fault


# What happens, how, for how long, and how often.
PAUSES: tuple[tuple[str, Callable[[FaultyCluster], None], float, int], ...] = (
    ("controller killed and started again", kill_controller, 0.0, 15),
    (f"controller stopped for {HELD_S:g} s", stop_controller, HELD_S, 15),
    (f"daemon stopped for {HELD_S:g} s", stop_daemon, HELD_S, 15),
    ("link of a host dropped", drop("a1"), 0.0, 15),
    (f"link of a host held for {HELD_S:g} s", hold("a1"), HELD_S, 15),
    ("link of the client dropped", drop(CLIENT), 0.0, 15),
    (f"link of the client held for {HELD_S:g} s", hold(CLIENT), HELD_S, 15),
)
FREED, DRAINED = "client killed: all of it freed", "host drained: DRAINED"


def freed(running: FaultyCluster) -> float:
    with awaiting(running) as client, Controller(running.direct, running.state_dir.token()) as controller:
        killed_s = client.kill()
        while running.status().sessions:
            time.sleep(_LOOK_S)
        took_s = time.monotonic() - killed_s
        leaks = controller.leaks().leaks
        if leaks:
            raise SystemExit(f"a killed client left {len(leaks)} things, the first of them {leaks[0]}")
        return took_s


def drained(running: FaultyCluster) -> float:
    """With another island for what lies there; the host is taken back."""
    with awaiting(running) as client, Controller(running.direct, running.state_dir.token()) as controller:
        client.longest_s()
        (session,) = running.status().sessions
        host = session.islands[0] + "1"
        asked_s = time.monotonic()
        while controller.movements("DrainHost", movements_pb2.DrainHostRequest(host=host)).state != "DRAINED":
            if time.monotonic() - asked_s > ANSWER_S:
                raise SystemExit(f"host {host} was not DRAINED within {ANSWER_S:g} s")
            time.sleep(_LOOK_S)
        took_s = time.monotonic() - asked_s
        client.longest_s()
        controller.movements("UndrainHost", movements_pb2.UndrainHostRequest(host=host))
    wait_until(lambda: not running.status().sessions, "the client's session to end")
    running.whole()
    return took_s


def run(quick: bool) -> Section:
    found: dict[str, list[float]] = {name: [] for name, *_ in PAUSES}
    with cluster() as running:
        with awaiting(running) as client:
            for name, fault, held_s, samples in PAUSES:
                for _ in range(1 if quick else samples):
                    found[name].append(_told(name, paused(running, client, fault, held_s)))
        found[FREED] = [_told(FREED, freed(running)) for _ in range(1 if quick else 15)]
    with cluster(islands=2) as running:
        found[DRAINED] = [_told(DRAINED, drained(running)) for _ in range(1 if quick else 5)]
    return section(found)


def section(found: dict[str, list[float]]) -> Section:
    claims: list[Claim] = [figure_claim(name, values, "s") for name, values in found.items()]
    head = ("what happens", "samples", "pause, or until it is so: median, s", "range, s")
    rows = [
        (name, str(len(values)), f"{interval_of(values).median:.3f}", f"{min(values):.3f} to {max(values):.3f}")
        for name, values in found.items()
    ]
    data: dict[str, Any] = {"seconds": found}
    return Section("pauses", "Faults after which nothing is lost", TEXT, claims, [Table(head, rows)], data=data)


def _told(name: str, seconds: float) -> float:
    print(f"{name}: {seconds:.3f} s", file=sys.stderr, flush=True)
    return seconds
