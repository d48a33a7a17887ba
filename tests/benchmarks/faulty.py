"""A cluster whose processes are ended, stopped or starved of launches under a client that runs gangs, and what that sees then."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster import wait_until
from tests.e2e.faults.three_hosts import ThreeHosts, three_hosts
from tests.e2e.lines import Lines, stop

CLIENT = str(Path(__file__).with_name("fault_client.py"))
VICTIM = "a1"
ANSWER_S = 120.0


class Held(NamedTuple):
    """On the island when a fault comes: arrays over both hosts, which are lost, arrays of the other host, and what has run."""

    lost_bytes: int = 0
    kept_bytes: int = 0
    executables: int = 0


NOTHING = Held()


class Seen(NamedTuple):
    """Seconds from a fault to the error in the client, to the next gang and to the last program; whether the host was named."""

    detected_s: float
    again_s: float
    all_again_s: float
    right: bool
    message: str


class Faulty:
    """The cluster and its client; made by `faulty`."""

    def __init__(self, cluster: ThreeHosts, process: subprocess.Popen[str]) -> None:
        self.cluster = cluster
        self._process = process
        self._lines = Lines(process)
        self._hear("ready")
        self._spare()

    def _spare(self) -> None:
        """A fault is to meet a host with a spare executor."""
        wait_until(lambda: len(self.cluster.executors(VICTIM)) == 2, "a spare executor to start", 60)

    def _hear(self, key: str) -> dict[str, Any]:
        line = self._lines.next(ANSWER_S)
        if line is None or key not in (answer := json.loads(line)):
            raise SystemExit(f"the client said {line!r} where {key!r} was to come (exit {self._process.poll()})")
        found: dict[str, Any] = answer
        return found

    def sample(self, fault: Callable[[ThreeHosts], Callable[[], None] | None], held: Held = NOTHING) -> Seen:
        """One fault while gangs run; it may give what mends it, which is called when the client has seen it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(held._asdict()) + "\n")
        self._process.stdin.flush()
        self._hear("running")
        began_s = time.time()
        mend = fault(self.cluster)
        failed = self._hear("failed")
        if mend is not None:
            mend()
        again, last = self._hear("again"), self._hear("all_again")
        self.cluster.await_active()
        self._spare()
        # Of a gang that was granted, or of an array that waited for its gang.
        right = failed["failed"] in ("SliceLostError", "BufferLostError") and failed["host"] == VICTIM
        return Seen(failed["at_s"] - began_s, again["at_s"] - began_s, last["at_s"] - began_s, right, failed["message"])


@contextmanager
def faulty() -> Iterator[Faulty]:
    with three_hosts() as cluster:
        process = cluster.start(CLIENT, islands="a", stdin=True)
        try:
            yield Faulty(cluster, process)
        finally:
            stop(process)


def kill(cluster: ThreeHosts) -> None:
    cluster.executor(VICTIM).kill()


def abort(cluster: ThreeHosts) -> None:
    cluster.executor(VICTIM).send_signal(signal.SIGABRT)


def suspend(cluster: ThreeHosts) -> None:
    cluster.executor(VICTIM).suspend()


def starve(cluster: ThreeHosts) -> Callable[[], None]:
    """No launch reaches it any more."""
    cluster.deaf.touch()
    return cluster.deaf.unlink


def stop_daemon(cluster: ThreeHosts) -> Callable[[], None]:
    daemon = cluster.daemons[VICTIM]
    daemon.send_signal(signal.SIGSTOP)
    return lambda: daemon.send_signal(signal.SIGCONT)


def kill_daemon(cluster: ThreeHosts) -> Callable[[], None]:
    """It is started again at once, as a service manager would."""
    daemon = cluster.daemons[VICTIM]
    daemon.kill()
    daemon.wait(20)
    cluster.start_worker(VICTIM)
    return lambda: None
