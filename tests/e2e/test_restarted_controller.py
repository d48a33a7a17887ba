"""A controller that is killed and started again under a running script, which goes on with the numbers of plain arithmetic."""

from __future__ import annotations

import itertools
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import wait_until
from tests.e2e.lines import Lines
from tests.e2e.test_dropped_links import LINE_S, SCRIPTS, Linked, read_until, start, stepping

LOCAL = "127.0.0.1"
FAULTS = Path(__file__).with_name("faults")


class Restartable(Linked):
    """Two hosts that reach the controller without a proxy."""

    hosts_at = LOCAL

    def kill_and_start_again(self) -> None:
        """SIGKILL; another life comes up on the same state directory."""
        controller = self.daemons["controller"]
        controller.kill()
        controller.wait(20)
        self.start_controller()


@pytest.fixture(scope="module")
def restartable() -> Iterator[Restartable]:
    with tempfile.TemporaryDirectory(prefix="pathways-test-") as folder:
        os.chmod(folder, 0o700)
        cluster = Restartable(1, 2, 1, Path(folder))
        try:
            cluster.up()
            cluster.join()
            yield cluster
        finally:
            cluster.stop()
            left = cluster.end_leftovers()
        assert not left, f"processes were left: {left}"


@pytest.mark.cluster
def test_a_script_goes_on_where_the_controller_was_killed(restartable: Restartable) -> None:
    before = (restartable.incarnations(), restartable.epoch())
    with stepping(restartable, LOCAL, 100) as lines:
        sessions = restartable.session_numbers()
        for step in (20, 60):
            read_until(lines, step)
            restartable.kill_and_start_again()
        read_until(lines, 80)
        assert restartable.session_numbers() == sessions
    wait_until(restartable.active, "both hosts to be ACTIVE still")
    assert (restartable.incarnations(), restartable.epoch()) == before
    restartable.check_leaks(set())


@pytest.mark.slow
@pytest.mark.cluster
def test_a_controller_that_is_killed_at_any_moment_loses_nothing_and_does_nothing_twice(restartable: Restartable) -> None:
    before = (restartable.incarnations(), restartable.epoch())
    moment = random.Random(36)
    with stepping(restartable, LOCAL, 400) as lines:
        for kill in range(8):
            read_until(lines, 10 + 30 * kill)
            time.sleep(moment.uniform(0.0, 0.05))  # the fault itself: somewhere in a step
            restartable.kill_and_start_again()
    wait_until(restartable.active, "both hosts to be ACTIVE still")
    assert (restartable.incarnations(), restartable.epoch()) == before
    restartable.check_leaks(set())


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("when", ["WRITING", "WRITTEN", "SENT"])
def test_a_controller_that_ends_between_what_it_hears_writes_and_sends_loses_nothing_and_does_nothing_twice(
    restartable: Restartable, tmp_path: Path, when: str
) -> None:
    armed = tmp_path / "armed"
    restartable.environment |= {"PYTHONPATH": str(FAULTS), "ENDS_AT_LOG": f"{when}:{armed}"}
    restartable.kill_and_start_again()
    wait_until(restartable.active, "both hosts to be ACTIVE")
    before = (restartable.incarnations(), restartable.epoch())
    gangs = [restartable.gangs_by_host()]
    for ends in ((), (10, 40, 70)):
        with stepping(restartable, LOCAL, 120) as lines:
            sessions = restartable.session_numbers()
            for step in ends:
                read_until(lines, step)
                armed.touch()
                assert restartable.daemons["controller"].wait(LINE_S) == -signal.SIGKILL
                restartable.start_controller()
            read_until(lines, 110)
            assert restartable.session_numbers() == sessions
        gangs.append(restartable.gangs_by_host())
    assert (restartable.incarnations(), restartable.epoch()) == before
    undisturbed, disturbed = ({host: after[host] - then[host] for host in then} for then, after in itertools.pairwise(gangs))
    assert undisturbed == disturbed
    assert all(count >= 120 for count in undisturbed.values()), undisturbed
    restartable.check_leaks(set())


@pytest.mark.slow
@pytest.mark.cluster
def test_arrays_are_there_bit_by_bit_after_a_restart(restartable: Restartable) -> None:
    """Arrays on both hosts, compiled programs and a slice, none of which is touched while the controller is away."""
    process = start(restartable, LOCAL, str(SCRIPTS / "outlasting.py"))
    try:
        lines = Lines(process)
        assert lines.next(LINE_S) == "made"
        restartable.kill_and_start_again()
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert lines.next(LINE_S) == "equal"
        assert process.wait(30) == 0, lines
    finally:
        process.kill()
    restartable.check_leaks(set())


@pytest.mark.slow
@pytest.mark.cluster
def test_a_host_that_dies_while_the_controller_is_away_is_lost_by_name(restartable: Restartable) -> None:
    process = start(restartable, LOCAL, str(SCRIPTS / "outlasting.py"))
    try:
        lines = Lines(process)
        assert lines.next(LINE_S) == "made"
        controller = restartable.daemons["controller"]
        controller.kill()
        controller.wait(20)
        restartable.daemons["a1"].kill()
        restartable.daemons["a1"].wait(20)
        restartable.start_controller()
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        line = lines.next(LINE_S)
        assert line is not None
        assert line.startswith("lost BUFFER_LOST"), line
        assert "a1" in line, line
    finally:
        process.kill()
    restartable.join_again("a1")
    with stepping(restartable, LOCAL, 10):
        pass
    restartable.check_leaks(set())
