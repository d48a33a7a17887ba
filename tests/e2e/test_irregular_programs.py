"""Loops and branches on a real cluster: what runs depends on values, others get their turn, and nothing turns on for nobody."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster import Cluster, wait_until
from tests.e2e.lines import Lines, stop

pytestmark = pytest.mark.cluster
SCRIPT = str(Path(__file__).with_name("scripts") / "irregular.py")


def halvings(start: float) -> str:
    value, count = start / 2, 0
    while value > 1:
        value, count = value / 2, count + 1
    return f"shrink {start} ({count}, {[value] * 2})"


def collatz(start: float) -> str:
    value, count = start, 0
    while value > 1:
        value, count = value * 3 + 1 if value % 2 == 1 else value / 2, count + 1
    return f"collatz {start} ({count}, {[value] * 2})"


def test_loops_branches_and_counts_give_the_numbers_of_arithmetic(cluster: Cluster) -> None:
    done = cluster.run(SCRIPT, "numbers")
    assert done.returncode == 0, done.stderr
    starts = (6.0, 7.0, 1.0)
    # Of six rows, those that count, and how many rows the function got that was chosen: 1, 2, 4 or 6.
    counted = [(0, 0.0, 1.0), (1, 1.0, 1.0), (3, 6.0, 4.0), (4, 10.0, 4.0), (6, 21.0, 6.0)]
    assert done.stdout.splitlines() == [
        *map(halvings, starts),
        *map(collatz, starts),
        *(f"positive {count} ({total}, {rows})" for count, total, rows in counted),
    ]


def test_loop_that_does_not_end_is_told_with_its_line_and_fails_alone(cluster: Cluster) -> None:
    done = cluster.run(SCRIPT, "endless")
    assert done.returncode == 0, done.stderr
    line = 1 + next(
        number for number, text in enumerate(Path(SCRIPT).read_text().splitlines()) if text.strip().startswith("endless =")
    )
    fine, failed, again = done.stdout.splitlines()
    assert fine == "fine [0.0, 0.0]"
    assert f"node while_loop, called at {SCRIPT}:{line} of program <lambda> failed: " in failed
    assert "5 iterations" in failed
    assert "reason=EXECUTION_ERROR" in failed
    assert again == "again (2, [0.875, 0.875])"


def test_others_get_their_turn_during_a_long_loop_which_ends_with_its_client(cluster: Cluster) -> None:
    process = cluster.start(SCRIPT, "long", "1000000")
    lines = Lines(process)
    try:
        assert lines.next(60) == "running"
        before = cluster.gangs_by_host()
        assert cluster.run(SCRIPT, "endless").stdout.startswith("fine [0.0, 0.0]\n")
        assert process.poll() is None, "the loop should take longer"
        # Those of the other client are few.
        assert min(count - before[host] for host, count in cluster.gangs_by_host().items()) > 100
    finally:
        stop(process)
    wait_until(lambda: cluster.sessions() == 0, "the session of the loop to end")
    time.sleep(0.5)
    before = cluster.gangs_by_host()
    time.sleep(0.5)
    assert cluster.gangs_by_host() == before
    assert cluster.run(SCRIPT, "long", "3").stdout.splitlines()[1].startswith("value [3.0, 3.0] ")


def test_loop_is_cancelled_in_the_middle_while_another_thread_reads_its_result(cluster: Cluster) -> None:
    process = cluster.start(SCRIPT, "cancel", "1000000", stdin=True)
    lines = Lines(process)
    assert process.stdin is not None
    try:
        before = cluster.gangs_by_host()
        wait_until(lambda: min(turns_since(cluster, before)) > 100, "the loop to be under way", 60)
        process.stdin.write("cancel\n")
        process.stdin.flush()
        result, after = lines.next(60) or "", lines.next(60) or ""
        for line, name in ((result, "result"), (after, "after")):
            assert line.startswith(f"{name} CancelledError CANCELLED: the client cancelled program <lambda>; run it again")
            assert "[pathways reason=CANCELLED " in line
        assert lines.next(60) == "other [1.5, 1.5] again (2, [0.875, 0.875])"
        before = cluster.gangs_by_host()
        assert cluster.run(SCRIPT, "long", "3").returncode == 0
        # A loop that went on would add hundreds, see above.
        assert max(turns_since(cluster, before)) < 40
        process.stdin.write("end\n")
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        stop(process)


def test_the_first_failure_of_a_wait_for_all_nodes_lets_a_client_end_the_others(cluster: Cluster) -> None:
    done = cluster.run(str(Path(SCRIPT).with_name("fail_fast.py")))
    assert done.returncode == 0, done.stderr
    first, *nodes, free, times = done.stdout.splitlines()
    assert re.match("first UserError .*ValueError: node 2 found nothing in turn 20", first), first
    assert nodes == ["0 CancelledError", "1 CancelledError", "2 UserError", "3 CancelledError"]
    assert free == "free True"
    others = re.search("the others ended after ([0-9.]+) s", times)
    assert others is not None
    assert float(others[1]) < 5, times  # a million turns take minutes


def turns_since(cluster: Cluster, before: dict[str, int]) -> list[int]:
    return [count - before[host] for host, count in cluster.gangs_by_host().items()]


def test_slice_is_given_back_behind_the_loops_that_were_dispatched_before(cluster: Cluster) -> None:
    def states() -> list[str]:
        return [held.state for held in cluster.status().slices]

    process = cluster.start(SCRIPT, "release", stdin=True)
    lines = Lines(process)
    assert process.stdin is not None
    try:
        assert lines.next(90) == "released [400.0, 400.0]"
        assert lines.next(60) == "refused ProgramRefusedError"
        assert states() == ["BOUND", "BOUND", "RELEASING"]
        process.stdin.write("cancel\n")
        process.stdin.flush()
        assert lines.next(60) == "endless CancelledError"
        wait_until(lambda: states() == ["BOUND", "BOUND"], "the slice to be given back")
        process.stdin.write("end\n")
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        stop(process)


def test_ctrl_c_ends_a_read_and_the_loop_can_be_cancelled_after_it(cluster: Cluster) -> None:
    environment = cluster.environment | {"PATHWAYS_ADDRESS": cluster.address}
    command = [sys.executable, SCRIPT, "interrupt", "1000000"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    lines = Lines(process)
    try:
        assert lines.next(60) == "reading"
        before = cluster.gangs_by_host()
        wait_until(lambda: min(turns_since(cluster, before)) > 100, "the loop to go on while its result is read", 60)
        process.send_signal(signal.SIGINT)
        assert lines.next(60) == "after Ctrl-C CancelledError"
        assert process.wait(30) == 0
    finally:
        stop(process)
