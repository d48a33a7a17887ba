"""When gangs ran: rows of timed launches and the busy time of all, by a real executor. Expected are order and arithmetic.

Durations are compared with each other and with the wall time around them, never with a figure of this machine.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.unit.executor.driving import Executor, Group, lower, lower_sharded, sharded
from tests.unit.executor.driving_runs import Program, Run, vector

X = np.float32(1)
MATRIX = np.full((300, 300), 0.5, np.float32)
# Matrix products of one launch, and of one that lasts eight times as long.
SHORT, LONG = 4, 32


def products(count: int) -> bytes:
    """x + 1 after that many matrix products, one after the other."""

    def function(x: Any, matrix: Any) -> Any:
        end = jax.lax.fori_loop(0, count, lambda _, value: value @ matrix * 1e-2, matrix)
        return x + 1 + end.sum() * 0

    return lower(function, X, MATRIX)


class Host:
    """A real executor and its programs."""

    def __init__(self, device_count: int = 1) -> None:
        self.executor = Executor(device_count=device_count, host="h0")
        self.executor.begin()
        self.executor.event("epoch_ready")
        self._programs: dict[tuple[int, int], int] = {}
        self.matrix = self.place(MATRIX)

    def place(self, value: Any, device: int = 0) -> int:
        command = self.executor.place_command([value])
        command.place_array.pieces[0].local_device = device
        self.executor.send(command)
        return int(command.place_array.buffer_id)

    def program(self, count: int, device: int = 0) -> int:
        known = self._programs.get((count, device))
        if known is None:
            answer = self.executor.load(products(count), (device,))
            assert not answer.HasField("failure"), answer
            known = self._programs[count, device] = int(answer.executable_id)
        return known

    def launch(self, counts: Sequence[int], timed: bool = True, device: int = 0) -> list[int]:
        """Launches one after the other, each with the result of the one before; the sequences."""
        programs = [self.program(count, device) for count in counts]
        matrix = self.place(MATRIX, device)
        value = self.place(X, device)
        first = self.executor.launched + 1
        for program in programs:
            (value,) = self.executor.execute(program, [value, matrix], timed=timed)
        return list(range(first, first + len(counts)))

    def finish(self) -> None:
        """Reads reports until everything launched has ended."""
        while self.executor.finished_through < self.executor.launched:
            self.executor.read()

    def rows(self, sequences: Sequence[int]) -> list[Any]:
        self.finish()
        found = {row.sequence: row for row in self.executor.times}
        return [found[sequence] for sequence in sequences]


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.executor.close()


def lasted(row: Any) -> int:
    return int(row.ended_ns - row.started_ns)


def test_rows_come_once_in_order_do_not_overlap_and_fit_into_the_time_around_them(host: Host) -> None:
    for count in (SHORT, LONG):
        host.program(count)
    before, began_ns = host.executor.busy_ns, time.time_ns()
    sequences = host.launch([SHORT, LONG] * 8)
    rows = host.rows(sequences)
    ended_ns = time.time_ns()
    assert [row.sequence for row in host.executor.times][-16:] == sequences
    assert began_ns < rows[0].started_ns
    assert rows[-1].ended_ns < ended_ns
    for earlier, later in itertools.pairwise(rows):
        assert earlier.started_ns < earlier.ended_ns <= later.started_ns < later.ended_ns
    # All of the busy time is theirs.
    assert host.executor.busy_ns - before == sum(map(lasted, rows)) <= ended_ns - began_ns


def test_a_launch_of_eight_times_the_work_takes_several_times_as_long(host: Host) -> None:
    # What else runs on this machine only ever adds, and not to every launch.
    short, long = (min(map(lasted, host.rows(host.launch([count] * 20)))) for count in (SHORT, LONG))
    assert short * 3 < long


def test_launches_that_are_queued_begin_when_the_one_before_ends(host: Host) -> None:
    host.program(LONG)
    # They are handed over while the first one runs, or run as they are handed over; either costs little beside a launch. On busy
    # cores up to half of what lies between two ends is taken for waiting for one.
    shares = []
    for _ in range(4):
        rows = host.rows(host.launch([LONG] * 6))
        gaps = [later.started_ns - earlier.ended_ns for earlier, later in itertools.pairwise(rows)]
        shares.append(sum(gaps) / sum(map(lasted, rows)))
    assert min(shares) < 1


def test_what_is_not_timed_has_no_row_and_is_counted_all_the_same(host: Host) -> None:
    least = min(sum(map(lasted, host.rows(host.launch([LONG] * 5)))) for _ in range(4))
    told, most = len(host.executor.times), 0
    for _ in range(4):
        before, began_ns = host.executor.busy_ns, time.time_ns()
        host.launch([LONG] * 5, timed=False)
        host.finish()
        grown, around = host.executor.busy_ns - before, time.time_ns() - began_ns
        assert grown <= around
        most = max(most, grown)
    assert len(host.executor.times) == told
    # Neighbours on this machine make a launch longer, never shorter.
    assert least / 2 < most


def test_a_run_of_many_nodes_tells_its_rows_while_it_goes_on(host: Host) -> None:
    executor, count = host.executor, 100
    program = Program([("h0", "a")], arguments=2, slots=count + 2, results=[count + 1])
    for at in range(count):
        program.launch(host.program(SHORT), [at + 1 if at else 0, 1], [at + 2])
    program.load(executor)
    run = Run(program, [host.place(X), host.matrix])
    first, told = executor.launched + 1, len(executor.times)
    executor.send(run.command(None, first, executor.launched, timed=True))
    executor.launched += count
    reports = 0
    while executor.finished_through < executor.launched:
        before = len(executor.times)
        executor.read()
        reports += len(executor.times) > before
        # A row is told together with its end.
        assert len(executor.times) - told == max(0, executor.finished_through - first + 1)
    assert [row.sequence for row in executor.times[told:]] == list(range(first, first + count))
    # A launch lasts a millisecond at least, and of a range that goes on it is told every 20.
    assert reports >= count // 20 - 1
    np.testing.assert_array_equal(executor.fetch(run.result(), X), X + count)


def test_a_fused_group_has_one_row_with_the_sequence_of_its_last_node(host: Host) -> None:
    executor = host.executor
    program = Program([("h0", "a")], arguments=2, slots=6, results=[5])
    for at in range(4):
        program.launch(host.program(SHORT), [at + 1 if at else 0, 1], [at + 2])
    program.load(executor)
    executor.send(program.group(0, 3, host.program(LONG), [0, 1], [4]))
    run = Run(program, [host.place(X), host.matrix])
    first, told, before = executor.launched + 1, len(executor.times), executor.busy_ns
    executor.send(run.command(None, first, executor.launched, fused=True, timed=True))
    executor.launched += 4
    host.finish()
    rows = executor.times[told:]
    assert [row.sequence for row in rows] == [first + 2, first + 3]
    assert executor.busy_ns - before == sum(map(lasted, rows))


def test_what_could_not_be_launched_began_and_ended_at_once(host: Host) -> None:
    executor = host.executor
    before, told = executor.busy_ns, len(executor.times)
    wrong = host.place(vector(1, 2, 3))
    executor.execute(host.program(SHORT), [wrong, host.matrix], timed=True)
    executor.execute(404, [wrong], timed=True)
    host.finish()
    assert [row.sequence for row in executor.times[told:]] == [executor.launched - 1, executor.launched]
    assert [lasted(row) for row in executor.times[told:]] == [0, 0]
    assert executor.busy_ns == before
    assert len(executor.events_of("node_failed")) == 2


def test_ends_are_told_one_by_one_while_the_devices_have_work(host: Host) -> None:
    """The controller waits for room with launches still queued: it is not told of all of them with the last."""
    host.program(LONG)
    sequences = host.launch([LONG] * 6)
    seen = set()
    while host.executor.finished_through < sequences[-1]:
        host.executor.read()
        seen.add(host.executor.finished_through)
    assert len(seen & set(sequences)) >= 4


def test_devices_of_one_host_have_each_their_own_order() -> None:
    host = Host(device_count=2)
    try:
        for device in range(2):
            host.program(LONG * 4, device), host.program(SHORT, device)
        parts = []
        for _ in range(4):
            slow, quick = host.launch([LONG * 4]), host.launch([SHORT], device=1)
            row, other = host.rows([*slow, *quick])
            parts.append(lasted(other) / lasted(row))
        # Counted from its own launch, and to its own end; one after the other they would make the time around them. Neighbours on
        # this machine make a launch longer, never shorter.
        assert min(parts) < 1 / 2
    finally:
        host.executor.close()


def test_a_member_that_launches_with_zeros_is_timed_like_the_others() -> None:
    group = Group()
    try:
        shape = jax.ShapeDtypeStruct((2,), jnp.float32)
        shardings = {"in_shardings": sharded("d", 2), "out_shardings": sharded((), 2)}
        executables, _ = group.load(lower_sharded(lambda x: jnp.full((1,), x.sum()), shape, **shardings))
        arguments = [group.ranks[0].place(np.ones(1, np.float32)), 404]
        for executor, executable, argument in zip(group.ranks, executables, arguments, strict=True):
            executor.execute(executable, [argument], timed=True)
        for executor in group.ranks:
            while executor.finished_through < 1:
                executor.read()
            assert [row.sequence for row in executor.times] == [1]
            assert 0 < lasted(executor.times[0]) == executor.busy_ns
        assert group.ranks[1].event("node_failed").launched_with_zeros
    finally:
        group.close()
