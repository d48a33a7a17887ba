"""What happens to work when its hosts are killed, stopped or hang, and when its own code fails: real processes, one row each.

Detection times are printed. How far the deadline may be exceeded is held under simulated time; here the sentence says how long
it was, by the controller's clock, and the waits are only bounded.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cluster import PATHWAYS, lives, wait_until
from tests.e2e import foreign_sockets
from tests.e2e.faults.three_hosts import LONG_AFTER_S, STUCK_AFTER_S, ThreeHosts, three_hosts
from tests.e2e.lines import Lines, stop

pytestmark = pytest.mark.cluster
# From the end of an executor to the value of a gang of both hosts that was compiled before.
AGAIN_S = 5.0
SCRIPT = str(Path(__file__).parents[1] / "scripts" / "faults.py")


@pytest.fixture(scope="module")
def faulty() -> Iterator[ThreeHosts]:
    with three_hosts() as running:
        yield running


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Prints a figure, whatever pytest does with output."""

    def tell(text: str) -> None:
        with capsys.disabled():
            print(f"\n  {text}", end="")

    return tell


class Script:
    """A script of scripts/faults.py that runs, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines = Lines(process)

    def hear(self, key: str, timeout_s: float = 60) -> dict[str, Any]:
        """Its next line, which must tell this."""
        line = self._lines.next(timeout_s)
        assert line is not None, f"it did not tell {key!r} in {timeout_s} s or to its end (exit {self.process.poll()})"
        found: dict[str, Any] = json.loads(line)
        assert key in found, found
        return found

    def says_nothing(self, for_s: float) -> bool:
        return self._lines.next(for_s) is None and self.process.poll() is None

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@contextmanager
def running(cluster: ThreeHosts, mode: str, islands: str = "a", **environment: str) -> Iterator[Script]:
    process = cluster.start(SCRIPT, mode, islands=islands, stdin=True, **environment)
    try:
        yield Script(process)
    finally:
        stop(process)


@contextmanager
def beside(cluster: ThreeHosts, islands: str, **environment: str) -> Iterator[Script]:
    """Somebody else's gangs, which go on meanwhile and after."""
    with running(cluster, "beside", islands, **environment) as script:
        script.hear("running")
        yield script
        script.go_on()
        before = script.hear("steps")["steps"]
        script.go_on()
        assert script.hear("steps")["steps"] >= before > 3


def times(failed: dict[str, Any], again: dict[str, Any], since_s: float) -> str:
    """When a fault was seen, and when the island worked again."""
    return f"seen after {failed['at_s'] - since_s:.2f} s, working again {again['at_s'] - since_s:.2f} s after it"


def check_said(seconds: str, failed: dict[str, Any], since_s: float, early_s: float = 0.0) -> None:
    """How long nothing came, as a sentence says: the deadline at least, and at most from a little before the fault until now."""
    assert STUCK_AFTER_S - early_s <= float(seconds) <= failed["at_s"] - since_s + STUCK_AFTER_S


def check_too_long(message: str) -> None:
    """The sentence says for how long, which is the deadline at least and far longer than before."""
    found = re.match(r"program .+ ran for (\d+\.\d) s, too long for a program that took (\d+\.\d) s before", message)
    assert found, message
    ran_s, before_s = map(float, found.groups())
    assert ran_s >= max(LONG_AFTER_S, 2 * before_s)


def check_recovered(
    script: Script, told: Callable[[str], None], what: str, host: str, since_s: float, within_s: float = 90.0
) -> dict[str, Any]:
    """The failure is typed and names the host, others have the same cause, the island works again, and what it held is lost."""
    failed = script.hear("failed", 90)
    assert (failed["failed"], failed["reason"], failed["host"], failed["retryable"]) == (
        "SliceLostError",
        "SLICE_LOST",
        host,
        True,
    ), failed
    assert set(script.hear("followed")["followed"]) <= {failed["id"]}
    again = script.hear("again", 90)
    assert again["again"] == [3.0, 3.0]
    assert again["at_s"] - since_s < within_s
    lost = script.hear("failed")
    assert (lost["failed"], lost["host"], lost["id"]) == ("BufferLostError", host, failed["id"])
    assert lost["message"].startswith("an array of 8 B in 2 shards on hosts a0, a1 of island a, held by session "), lost
    told(f"{what}: {times(failed, again, since_s)}")
    return failed


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGKILL, "signal 9"), pytest.param(signal.SIGABRT, "signal 6", marks=pytest.mark.slow)],
)
def test_a_killed_executor_is_named_with_the_program_and_its_island_works_again(
    faulty: ThreeHosts, told: Callable[[str], None], number: signal.Signals, words: str
) -> None:
    before = faulty.epochs()
    with beside(faulty, "b"), running(faulty, "loop") as script:
        assert script.hear("running")["running"] == [3.0, 3.0]
        killed_s = time.time()
        faulty.executor("a1").send_signal(number)
        failed = check_recovered(script, told, f"executor killed by {number.name}", "a1", killed_s, AGAIN_S)
        assert re.search(
            r"program .+ failed: host a1 of island a was lost in epoch \d+: its executor ended \(" + words, failed["message"]
        )
    after = faulty.epochs()
    assert (after["a"] > before["a"], after["b"]) == (True, before["b"])


def test_a_stopped_executor_is_named_within_the_deadline_with_the_node(faulty: ThreeHosts, told: Callable[[str], None]) -> None:
    before = faulty.epochs()
    with beside(faulty, "b"), running(faulty, "program") as script:
        assert script.hear("running")["running"] == [27.0, 27.0]
        stopped = faulty.executor("a1")
        stopped_s = time.time()
        stopped.suspend()
        failed = script.hear("failed", 90)
        assert (failed["failed"], failed["host"]) == ("SliceLostError", "a1"), failed["message"]
        found = re.search(
            r"^node [123] of 3 \(.*faults\.py:\d+\) of program three failed: host a1 of island a was lost in epoch \d+:"
            r" its executor has not answered for (\d+\.\d) s; it (is in|did not start) node [123] of 3 \(.*\) of program three",
            failed["message"],
        )
        assert found, failed["message"]
        check_said(found.group(1), failed, stopped_s)
        assert set(script.hear("followed")["followed"]) <= {failed["id"]}
        again = script.hear("again", 90)
        assert again["again"] == [27.0, 27.0]
        told(f"executor stopped: {times(failed, again, stopped_s)}")
        wait_until(lambda: not lives(stopped), "the stopped executor to be killed")
    assert faulty.epochs()["b"] == before["b"]


@pytest.mark.slow
def test_a_stopped_executor_that_owes_only_a_read_is_named(faulty: ThreeHosts, told: Callable[[str], None]) -> None:
    before = faulty.epochs()
    with running(faulty, "reading") as script:
        assert script.hear("running")["running"] == [3.0, 3.0]
        stopped = faulty.executor("a1")
        stopped_s = time.time()
        stopped.suspend()
        script.go_on()
        failed = script.hear("failed", 90)
        assert (failed["failed"], failed["host"]) == ("BufferLostError", "a1")
        # The bytes would come from its daemon, which says only that they are gone; the controller knows why.
        log = faulty.log("controller").read_text()
        found = re.search(r"its executor has not answered for (\d+\.\d) s; it did not give shard 1 of array", log)
        assert found, log
        check_said(found.group(1), failed, stopped_s)
        again = script.hear("again", 90)
        assert again["again"] == [3.0, 3.0]
        told(f"executor stopped before a read: {times(failed, again, stopped_s)}")
        wait_until(lambda: not lives(stopped), "the stopped executor to be killed")
    assert faulty.epochs()["b"] == before["b"]


@pytest.mark.slow
def test_a_host_that_never_gets_its_launch_is_named_with_who_waits(faulty: ThreeHosts, told: Callable[[str], None]) -> None:
    with beside(faulty, "b"), running(faulty, "loop") as script:
        script.hear("running")
        deaf_s = time.time()
        faulty.deaf.touch()
        try:
            failed = script.hear("failed", 90)
        finally:
            faulty.deaf.unlink()
        assert (failed["failed"], failed["host"]) == ("SliceLostError", "a1")
        found = re.search(
            r"a1 of island a .*: it did not start program .+, which host a0 entered (\d+\.\d) s ago", failed["message"]
        )
        assert found, failed["message"]
        check_said(found.group(1), failed, deaf_s, early_s=0.2)
        script.hear("followed")
        again = script.hear("again", 90)
        told(f"launches lost: {times(failed, again, deaf_s)}")


@pytest.mark.slow
def test_a_stopped_daemon_is_dropped_and_joins_again_by_itself(faulty: ThreeHosts, told: Callable[[str], None]) -> None:
    before = faulty.epochs()
    with beside(faulty, "b"), running(faulty, "loop") as script:
        script.hear("running")
        old = faulty.executor("a1")
        stopped_s = time.time()
        faulty.daemons["a1"].send_signal(signal.SIGSTOP)
        try:
            failed = script.hear("failed", 90)
        finally:
            faulty.daemons["a1"].send_signal(signal.SIGCONT)
        assert (failed["failed"], failed["host"]) == ("SliceLostError", "a1")
        found = re.search(r"nothing has been heard of it for (\d+\.\d) s, and it did not start program .+", failed["message"])
        assert found, failed["message"]
        check_said(found.group(1), failed, stopped_s)
        script.hear("followed")
        again = script.hear("again", 90)
        assert again["again"] == [3.0, 3.0]
        told(f"daemon stopped: {times(failed, again, stopped_s)}")
        assert not lives(old), "the executor of the incarnation before lives"
    assert faulty.epochs()["b"] == before["b"]


@pytest.mark.slow
def test_work_whose_argument_was_on_its_way_to_a_stopped_daemon_fails_with_it_and_does_not_wait_for_the_island(
    faulty: ThreeHosts, told: Callable[[str], None]
) -> None:
    with running(faulty, "uploading") as script:
        assert script.hear("running")["running"] == [3.0, 3.0]
        stopped_s = time.time()
        faulty.daemons["a1"].send_signal(signal.SIGSTOP)
        try:
            script.go_on()
            failed = script.hear("failed", 30)  # the island is not formed before the daemon goes on
        finally:
            faulty.daemons["a1"].send_signal(signal.SIGCONT)
        assert (failed["failed"], failed["host"]) == ("BufferLostError", "a1")
        found = re.search(
            r"nothing has been heard of it for (\d+\.\d) s, and it did not take the bytes of an upload", failed["message"]
        )
        assert found, failed["message"]
        check_said(found.group(1), failed, stopped_s)
        assert script.hear("followed")["followed"] == [failed["id"]]
        again = script.hear("again", 90)
        assert again["again"] == [3.0, 3.0]
        told(f"daemon stopped before an upload: {times(failed, again, stopped_s)}")


@pytest.mark.slow
def test_a_killed_daemon_takes_its_executor_along_and_a_new_one_begins_anew(
    faulty: ThreeHosts, told: Callable[[str], None]
) -> None:
    incarnations = {host.name: host.incarnation for island in faulty.status().islands for host in island.hosts}
    with running(faulty, "loop") as script:
        script.hear("running")
        old = faulty.executors("a1")
        killed_s = time.time()
        faulty.daemons["a1"].kill()
        wait_until(lambda: not any(map(lives, old)), "executors to end")
        faulty.daemons["a1"].wait(20)
        faulty.start_worker("a1")
        failed = check_recovered(script, told, "daemon killed and started again", "a1", killed_s)
        assert "host a1 of island a was lost" in failed["message"]
    faulty.await_active()
    after = {host.name: host.incarnation for island in faulty.status().islands for host in island.hosts}
    assert after["a1"] > incarnations["a1"]
    assert after["a0"] == incarnations["a0"]


@pytest.mark.slow
def test_a_callback_that_raises_on_one_host_fails_its_program_alone(faulty: ThreeHosts) -> None:
    before = faulty.epochs()
    added = subprocess.run(
        [PATHWAYS, "tenants", "add", "web", "--address", faulty.address], env=faulty.environment, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    with beside(faulty, "a", PATHWAYS_TOKEN=added.stdout.strip()), running(faulty, "raise") as script:
        failed = script.hear("failed")
        assert (failed["failed"], failed["reason"], failed["retryable"]) == ("UserError", "USER_ERROR", False)
        assert "ValueError: the tide table has no entry for Tuesday" in failed["message"]
        assert re.search(r"faults\.py.*line \d+|faults\.py:\d+", failed["message"]), "the user's line is not told"
        assert failed["host"] == "a1", "it raises on the last device alone"
        assert script.hear("followed")["followed"] == [failed["id"]]
        assert script.process.wait(60) == 0
    assert faulty.epochs() == before


@pytest.mark.slow
def test_a_callback_that_keeps_one_host_waiting_is_left_alone(faulty: ThreeHosts) -> None:
    before = faulty.epochs()
    with running(faulty, "hang") as script:
        script.hear("running")
        assert script.says_nothing(2 * STUCK_AFTER_S + 1)
        script.go_on()
        # Ranks 0 and 1, added on both.
        assert script.hear("value")["value"] == [1, 1]
    assert faulty.epochs() == before


@pytest.mark.slow
def test_a_daemon_that_stands_still_is_left_alone_while_nobody_waits_for_it(faulty: ThreeHosts) -> None:
    before = faulty.epochs()
    with running(faulty, "hang") as script:
        script.hear("running")
        # Long enough for the controller to have heard that all of them are in the gang.
        assert script.says_nothing(STUCK_AFTER_S / 2)
        faulty.daemons["a1"].send_signal(signal.SIGSTOP)
        try:
            assert script.says_nothing(2 * STUCK_AFTER_S)
        finally:
            faulty.daemons["a1"].send_signal(signal.SIGCONT)
        script.go_on()
        assert script.hear("value")["value"] == [1, 1]
    assert faulty.epochs() == before


@pytest.mark.slow
def test_a_loop_that_ends_on_one_host_only_ran_too_long_and_the_host_that_computes_is_named(faulty: ThreeHosts) -> None:
    before = faulty.epochs()
    with running(faulty, "endless") as script:
        script.hear("running")
        failed = script.hear("failed", 90)
        assert (failed["failed"], failed["reason"], failed["host"]) == ("TimedOutError", "TIMED_OUT", "a1"), failed
        found = re.match(r"program .+ ran for (\d+\.\d) s, too long for a program that took 0\.\d s before", failed["message"])
        assert found, failed["message"]
        assert STUCK_AFTER_S <= float(found.group(1)) < LONG_AFTER_S, (
            "at the deadline, and not when any program would be too long"
        )
        assert "a1 used its processors in it and a0 did not" in failed["message"]
        assert script.hear("again", 90)["again"] == [3.0, 3.0]
    assert faulty.epochs()["b"] == before["b"]


@pytest.mark.slow
def test_a_long_compilation_is_left_alone_and_the_other_island_goes_on(faulty: ThreeHosts, told: Callable[[str], None]) -> None:
    """Longer than the deadline; its first run follows at once."""
    before = faulty.epochs()
    process = faulty.start(SCRIPT, "compile", str(STUCK_AFTER_S + 1), islands="a")
    with beside(faulty, "b"):
        try:
            script = Script(process)
            script.hear("running")
            compiled = script.hear("lasted_s", 120)
        finally:
            stop(process)
    assert compiled["lasted_s"] > STUCK_AFTER_S
    assert compiled["value"] == compiled["wanted"]
    assert faulty.epochs() == before
    told(f"compiled for {compiled['lasted_s']:.1f} s, nobody was named")


@pytest.mark.slow
def test_an_executor_without_memory_is_named_and_its_island_works_again(faulty: ThreeHosts, told: Callable[[str], None]) -> None:
    """The runtime refuses on one host, before the collective in which the other one waits."""
    before = faulty.epochs()
    with beside(faulty, "b"), running(faulty, "memory") as script:
        assert script.hear("running")["running"] == [3.0, 3.0]
        starved = faulty.executor("a1")
        limit = starved.memory_info().vms + (64 << 20)
        starved.rlimit(psutil.RLIMIT_AS, (limit, limit))
        script.go_on()
        failed = script.hear("failed", 90)
        assert failed["host"] == "a1"
        assert "Out of memory" in failed["message"]
        again = script.hear("again", 90)
        assert again["again"] == [3.0, 3.0]
    told(f"without memory: working again {again['at_s'] - failed['at_s']:.2f} s after the error")
    after = faulty.epochs()
    assert (after["a"] > before["a"], after["b"]) == (True, before["b"])


@pytest.mark.slow
def test_a_dropped_connection_between_executors_ends_the_gang_by_name(faulty: ThreeHosts, told: Callable[[str], None]) -> None:
    """What they send each other in a collective; XLA cannot mend such a group, so the epoch ends with it."""
    before = faulty.epochs()
    with beside(faulty, "b"), running(faulty, "loop") as script:
        assert script.hear("running")["running"] == [3.0, 3.0]
        with foreign_sockets.between(faulty.executor("a0"), faulty.executor("a1")) as ends:
            assert ends, "the executors have no connection with each other"
            dropped_s = time.time()
            foreign_sockets.end(ends)
        failed = script.hear("failed", 90)
        assert (failed["failed"], failed["reason"], failed["retryable"]) == ("SliceLostError", "SLICE_LOST", True)
        assert re.search(
            rf"program .+ failed: host {failed['host']} of island a was lost in epoch \d+: .*collective", failed["message"]
        ), failed["message"]
        assert set(script.hear("followed")["followed"]) <= {failed["id"]}
        again = script.hear("again", 90)
        assert again["again"] == [3.0, 3.0]
        told(f"connection between executors dropped: {times(failed, again, dropped_s)}")
    after = faulty.epochs()
    assert (after["a"] > before["a"], after["b"]) == (True, before["b"])


@pytest.mark.slow
def test_a_silent_connection_between_executors_is_waited_for(faulty: ThreeHosts) -> None:
    """Both are in the gang, so nobody is stuck; when bytes flow again it ends with its value."""
    before = faulty.epochs()
    with running(faulty, "hang") as script:
        script.hear("running")
        with foreign_sockets.between(faulty.executor("a0"), faulty.executor("a1")) as ends:
            assert ends, "the executors have no connection with each other"
            with foreign_sockets.stalled(ends):
                script.go_on()
                assert script.says_nothing(2 * STUCK_AFTER_S + 1)
        assert script.hear("value")["value"] == [1, 1]
    assert faulty.epochs() == before


@pytest.mark.slow
def test_a_connection_between_executors_that_stays_silent_ends_its_gang(faulty: ThreeHosts, told: Callable[[str], None]) -> None:
    """As any gang that takes far longer than before: the connection cannot be told from a long computation."""
    before = faulty.epochs()
    with beside(faulty, "b"), running(faulty, "loop") as script:
        assert script.hear("running")["running"] == [3.0, 3.0]
        with foreign_sockets.between(faulty.executor("a0"), faulty.executor("a1")) as ends:
            assert ends, "the executors have no connection with each other"
            with foreign_sockets.stalled(ends):
                stalled_s = time.time()
                failed = script.hear("failed", 90)
                script.hear("followed")
                again = script.hear("again", 90)
        assert (failed["failed"], failed["reason"]) == ("TimedOutError", "TIMED_OUT")
        check_too_long(failed["message"])
        assert again["again"] == [3.0, 3.0]
        told(f"connection between executors silent: {times(failed, again, stalled_s)}")
    after = faulty.epochs()
    assert (after["a"] > before["a"], after["b"]) == (True, before["b"])
