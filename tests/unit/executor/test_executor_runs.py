"""Runs on real executors: chains, moves on one host and between two, failures in the middle, ends, waits, traces, progress."""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pathways_proto.v1 import types_pb2, workers_pb2

from tests.unit.executor.driving import Executor, Group, lower, lower_sharded, sharded
from tests.unit.executor.driving_runs import TIMEOUT_NS, Program, Run, relay, send_failure, spec_of, vector

ONE = [("h0", "a")]
TWO_ISLANDS = [("h0", "a"), ("h1", "b")]
TWO_RANKS = [("h0", "a"), ("h1", "a")]
HERE, THERE = spec_of((2,), (), [0]), spec_of((2,), (), [1])
X = vector(1, 2)


@pytest.fixture(scope="module")
def host() -> Iterator[Executor]:
    """One host with two devices; tests go on with the sequences of those before."""
    executor = Executor(device_count=2, host="h0")
    executor.begin()
    executor.event("epoch_ready")
    yield executor
    executor.close()


def plus_one() -> bytes:
    return lower(lambda x: x + 1, X)


def twice() -> bytes:
    return lower(lambda x: x * 2, X)


def load(executor: Executor, program: bytes, devices: tuple[int, ...] = (0,)) -> int:
    answer = executor.load(program, devices)
    assert not answer.HasField("failure"), answer
    return int(answer.executable_id)


def start(executor: Executor, run: Run, launches: int, end: int | None = None) -> int:
    """Sends the run's first grant as the next one of this host; the sequence of its first launch."""
    first = executor.launched + 1
    executor.send(run.command(end, first if launches else 0, executor.launched))
    executor.launched += launches
    return first


def gone(executor: Executor, identifier: int) -> bool:
    """Whether nothing is kept under an id."""
    with pytest.raises(AssertionError, match="DELETED"):
        executor.fetch(identifier, X)
    return True


def test_a_chain_with_a_move_between_devices_of_one_host_gives_the_values_of_plain_jax(host: Executor) -> None:
    add, double = load(host, plus_one()), load(host, twice(), devices=(1,))
    program = Program(ONE, arguments=1, slots=4, results=[3])
    program.launch(add, [0], [1]).move(1, 2, HERE, spec_of((2,), (), [0], [1])).free(1).launch(double, [2], [3]).free(2)
    program.load(host)
    run = Run(program, [host.place(X)])
    first = start(host, run, launches=2)
    np.testing.assert_array_equal(host.fetch(run.result(), X), (X + 1) * 2)
    assert gone(host, run.value(1))
    assert gone(host, run.value(2))
    np.testing.assert_array_equal(host.fetch(run.arguments[0], X), X)
    trace = run.trace(host)
    assert trace.execution_id == run.execution_id
    assert [(row.step, row.sequence) for row in trace.rows] == [(0, first), (1, 0), (3, first + 1)]
    assert [(row.pulled_bytes, row.copied_bytes) for row in trace.rows] == [(0, 0), (0, 8), (0, 0)]
    for row in trace.rows:
        assert 0 < trace.prepared_ns <= row.granted_ns <= row.launched_ns <= row.started_ns <= row.finished_ns
    assert trace.rows[2].started_ns >= trace.rows[0].finished_ns
    assert host.launched_through == host.finished_through == first + 1


def test_a_reshard_on_one_host_is_put_together_from_boxes(host: Executor) -> None:
    value = np.arange(16, dtype=np.float32).reshape(4, 4)
    rows, columns = spec_of((4, 4), ("d",), [0, 0], [0, 1]), spec_of((4, 4), (None, "d"), [0, 0], [0, 1])
    shape = jax.ShapeDtypeStruct((4, 4), jnp.float32)
    shardings = {"in_shardings": sharded((None, "d"), 2), "out_shardings": sharded((None, "d"), 2)}
    double = load(host, lower_sharded(lambda x: x * 2, shape, **shardings), devices=(0, 1))
    program = Program(ONE, arguments=1, slots=3, results=[2]).move(0, 1, rows, columns).launch(double, [1], [2]).free(1)
    program.load(host)
    run = Run(program, [host.place(value[:2], value[2:])])
    start(host, run, launches=1)
    for index, part in enumerate((value[:, :2], value[:, 2:])):
        np.testing.assert_array_equal(host.fetch(run.result(), part, index), part * 2)


def test_ranges_go_on_where_the_one_before_ended_and_repetitions_change_nothing(host: Executor) -> None:
    add = load(host, plus_one())
    program = Program(ONE, arguments=1, slots=4, results=[3])
    program.launch(add, [0], [1]).launch(add, [1], [2]).free(1).launch(add, [2], [3]).free(2)
    program.load(host)
    run = Run(program, [host.place(X)])
    first = start(host, run, launches=1, end=1)
    np.testing.assert_array_equal(host.fetch(run.value(1), X), X + 1)
    second = run.grant(1, 2, first + 1, first)
    # Without a launch: frees only.
    third = run.grant(2, 3, 0, first + 1)
    last = run.grant(3, 5, first + 2, first + 1)
    host.send(second, run.command(1, first, first - 1), second, third, third)
    host.launched += 2
    np.testing.assert_array_equal(host.fetch(run.value(2), X), X + 2)
    assert gone(host, run.value(1))
    # A single execution between two ranges, as another client's may be.
    host.send(last, last, third, run.command(1, first, first - 1))
    np.testing.assert_array_equal(host.fetch(run.result(), X), X + 3)
    assert host.events_of("contradiction") == []
    assert host.launched_through == first + 2


def test_single_executions_and_runs_share_one_order(host: Executor) -> None:
    add = load(host, plus_one())
    program = Program(ONE, arguments=1, slots=3, results=[2]).launch(add, [0], [1]).launch(add, [1], [2]).free(1)
    program.load(host)
    run = Run(program, [host.place(X)])
    late = host.prepare_command(add, [run.result()], 1, sequence=host.launched + 3, previous=host.launched + 2)
    host.launched -= 3
    # The execution that needs the run's result comes first and is held.
    host.handled(late)
    assert host.event("missing").sequence == host.launched + 2
    start(host, run, launches=2)
    host.launched += 1
    np.testing.assert_array_equal(host.fetch(late.prepare.first_result_id, X), X + 3)


def test_a_launch_that_fails_in_the_middle_is_named_by_its_sequence_and_poisons_what_follows(host: Executor) -> None:
    add = load(host, plus_one())
    broken = load(host, lower(lambda x: x + 1, vector(1, 2, 3)))  # takes three elements; two will come
    program = Program(ONE, arguments=1, slots=5, results=[3, 4])
    program.launch(add, [0], [1]).launch(broken, [1], [2]).launch(add, [2], [3]).launch(add, [1], [4]).free(1, 2)
    program.load(host)
    run = Run(program, [host.place(X)])
    first = start(host, run, launches=4)
    failed = host.event("node_failed", execution_id=run.execution_id)
    assert (failed.sequence, failed.launched_with_zeros, failed.failure.reason) == (first + 1, False, "EXECUTION_ERROR")
    dependant = host.event("node_failed", execution_id=run.execution_id)
    assert (dependant.sequence, dependant.failure) == (first + 2, failed.failure)
    with pytest.raises(AssertionError, match="EXECUTION_ERROR"):
        host.fetch(run.result(0), X)
    np.testing.assert_array_equal(host.fetch(run.result(1), X), X + 2)
    assert host.launched_through == first + 3


def donating() -> bytes:
    return lower(lambda x: x + 1, X, donate_argnums=0)


def test_an_argument_is_given_up_only_if_the_run_says_so(host: Executor) -> None:
    add = load(host, donating())
    program = Program(ONE, arguments=1, slots=2, results=[1]).launch(add, [0], [1])
    program.load(host)
    kept, given = host.place(X), host.place(X)
    for run in (Run(program, [kept]), Run(program, [given], donated=[0])):
        start(host, run, launches=1)
        np.testing.assert_array_equal(host.fetch(run.result(), X), X + 1)
    np.testing.assert_array_equal(host.fetch(kept, X), X)
    assert gone(host, given)


def test_an_array_that_is_two_arguments_survives_the_donation_of_one(host: Executor) -> None:
    add = load(host, donating())
    program = Program(ONE, arguments=2, slots=4, results=[2, 3]).launch(add, [0], [2]).launch(add, [1], [3])
    program.load(host)
    array = host.place(X)
    run = Run(program, [array, array], donated=[0, 1])
    start(host, run, launches=2)
    for position in range(2):
        np.testing.assert_array_equal(host.fetch(run.result(position), X), X + 1)


def test_a_value_that_the_plan_still_needs_survives_its_donation(host: Executor) -> None:
    add = load(host, donating())
    program = Program(ONE, arguments=1, slots=4, results=[2, 3])
    program.launch(add, [0], [1]).launch(add, [1], [2], kept=[0]).launch(add, [1], [3])
    program.load(host)
    run = Run(program, [host.place(X)])
    start(host, run, launches=3)
    for position in range(2):
        np.testing.assert_array_equal(host.fetch(run.result(position), X), X + 2)
    assert gone(host, run.value(1))


def test_the_end_of_a_run_frees_all_but_its_results_and_no_later_grant_is_carried_out(host: Executor) -> None:
    add = load(host, plus_one())
    program = Program(ONE, arguments=1, slots=4, results=[1, 3])
    program.launch(add, [0], [1]).launch(add, [1], [2]).launch(add, [2], [3]).free(2)
    program.load(host)
    run = Run(program, [host.place(X)])
    first = start(host, run, launches=2, end=2)
    host.send(run.end(), run.grant(2, 4, first + 2, first + 1))
    assert gone(host, run.value(2))
    np.testing.assert_array_equal(host.fetch(run.result(0), X), X + 1)
    np.testing.assert_array_equal(host.fetch(run.arguments[0], X), X)
    assert gone(host, run.result(1))
    assert host.launched_through == first + 1


def test_a_range_that_only_sends_never_overtakes_the_launch_that_it_follows(host: Executor) -> None:
    add = load(host, plus_one())
    chain = Program(ONE, arguments=1, slots=2, results=[1]).launch(add, [0], [1])
    away = Program(TWO_ISLANDS, arguments=1, slots=3, results=[2]).move(0, 1, HERE, THERE).launch(1, [1], [2], hosts=[1])
    for program in (chain, away):
        program.load(host)
    first = Run(chain, [host.place(X)])
    second = Run(away, [first.result()])
    previous = host.launched + 1
    # What makes the argument comes behind the run that sends it.
    host.send(second.command(sequence=0, previous=previous))
    assert host.event("missing").sequence == previous
    start(host, first, launches=1)
    header, data = host.read_data()
    assert (header.fetch_id, header.HasField("failure")) == (second.fetch(0), False)
    np.testing.assert_array_equal(np.frombuffer(data, np.float32), X + 1)
    # It is over, and told again it changes nothing.
    host.send(second.command(sequence=0, previous=previous))
    np.testing.assert_array_equal(host.fetch(first.result(), X), X + 1)
    assert host.events_of("contradiction") == []


def test_a_range_that_came_early_is_launched_also_when_the_run_was_ended_meanwhile(host: Executor) -> None:
    add = load(host, plus_one())
    program = Program(ONE, arguments=1, slots=4, results=[1, 3])
    program.launch(add, [0], [1]).launch(add, [1], [2]).launch(add, [2], [3]).free(2)
    program.load(host)
    run = Run(program, [host.place(X)])
    first = start(host, run, launches=1, end=1)
    # What is granted is never withdrawn, and the next execution names it as its previous.
    host.send(run.grant(2, 4, first + 2, first + 1), run.end(), run.grant(1, 2, first + 1, first))
    assert host.event("missing").sequence == first + 1
    host.launched += 2
    (after,) = host.execute(add, [run.result(1)])
    np.testing.assert_array_equal(host.fetch(after, X), X + 4)
    assert host.launched_through == first + 3
    assert gone(host, run.value(2))


def test_a_run_of_a_plan_that_is_not_here_stops_the_host_before_anything_is_launched() -> None:
    executor = Executor(host="h0")
    try:
        executor.begin()
        executor.event("epoch_ready")
        program = Program([("h1", "a")], arguments=1, slots=2, results=[1]).launch(1, [0], [1])
        program.load(executor)
        executor.send(Run(program, [5]).command())
        broken = executor.event("contradiction")
        assert broken.sequence == 1
        assert "no host h0" in broken.text
    finally:
        executor.close()


def test_a_launch_waits_for_a_late_transfer_and_what_ends_meanwhile_is_told(host: Executor) -> None:
    add = load(host, plus_one())
    sum_of = load(host, lower(lambda x, y: x + y, X, X))
    program = Program([*ONE, ("h1", "b")], arguments=2, slots=5, results=[4])
    # The second argument lives on another host.
    program.launch(add, [0], [2]).move(1, 3, THERE, HERE).launch(sum_of, [2, 3], [4]).free(2, 3)
    program.load(host)
    run = Run(program, [host.place(X), 77])
    first = start(host, run, launches=2)
    while host.finished_through < first:
        host.read()
    assert host.launched_through == first
    host.send_data(run.transfer(0), vector(10, 20).tobytes())
    np.testing.assert_array_equal(host.fetch(run.result(), X), X + 1 + vector(10, 20))
    assert host.events_of("landed") == []
    rows = {row.step: row for row in run.trace(host).rows}
    assert (rows[1].pulled_bytes, rows[1].copied_bytes) == (8, 0)
    assert rows[1].finished_ns <= rows[2].launched_ns


def test_bytes_that_come_before_their_step_are_kept_for_it(host: Executor) -> None:
    add = load(host, plus_one())
    program = Program([*ONE, ("h1", "b")], arguments=1, slots=3, results=[2]).move(0, 1, THERE, HERE).launch(add, [1], [2])
    program.load(host)
    run = Run(program, [77])
    host.send_data(run.transfer(0), X.tobytes())
    start(host, run, launches=1)
    np.testing.assert_array_equal(host.fetch(run.result(), X), X + 1)


@pytest.mark.parametrize("early", [False, True], ids=["while it is waited for", "before its step"])
def test_a_transfer_that_fails_fails_the_launch_that_needs_it(host: Executor, early: bool) -> None:
    add = load(host, plus_one())
    program = Program([*ONE, ("h1", "b")], arguments=1, slots=3, results=[2]).move(0, 1, THERE, HERE).launch(add, [1], [2])
    program.load(host)
    run = Run(program, [77])
    failure = types_pb2.Failure(reason="UNAVAILABLE", message="host h1 is gone", host="h1")
    if early:
        send_failure(host, run.transfer(0), failure)
    first = start(host, run, launches=1)
    if not early:
        send_failure(host, run.transfer(0), failure)
    failed = host.event("node_failed", execution_id=run.execution_id)
    assert (failed.sequence, failed.failure, failed.launched_with_zeros) == (first, failure, False)
    assert host.events_of("transfer_failed") == []


def test_a_transfer_that_never_comes_fails_its_launch_at_the_deadline_of_the_run(host: Executor) -> None:
    add = load(host, plus_one())
    program = Program([*ONE, ("h1", "b")], arguments=1, slots=3, results=[2]).move(0, 1, THERE, HERE).launch(add, [1], [2])
    program.load(host)
    run = Run(program, [77], timeout_ns=50 * 10**6)
    began = time.monotonic()
    first = start(host, run, launches=1)
    assert host.event("node_failed", execution_id=run.execution_id).sequence == first
    assert 0.05 <= time.monotonic() - began < TIMEOUT_NS / 1e9


def test_the_end_of_a_run_fails_what_it_waits_for_and_drops_its_late_bytes(host: Executor) -> None:
    add = load(host, plus_one())
    program = Program([*ONE, ("h1", "b")], arguments=1, slots=3, results=[2]).move(0, 1, THERE, HERE).launch(add, [1], [2])
    program.load(host)
    run = Run(program, [77])
    start(host, run, launches=0, end=1)
    wait = workers_pb2.AwaitReady(wait_id=run.number, ids=[run.value(1)])
    host.send(workers_pb2.HostCommand(await_ready=wait))
    host.send(run.end("host h1 is lost"))
    assert host.event("became_ready", wait_id=run.number).failure.message == "host h1 is lost"
    host.send_data(run.transfer(0), X.tobytes())
    assert gone(host, run.value(1))


def test_only_the_last_runs_are_remembered(host: Executor) -> None:
    add = load(host, plus_one())
    program = Program(ONE, arguments=1, slots=2, results=[1]).launch(add, [0], [1])
    program.load(host)
    argument = host.place(X)
    runs = [Run(program, [argument]) for _ in range(257)]
    for run in runs:
        start(host, run, launches=1)
    assert len(runs[0].trace(host).rows) == 0
    assert len(runs[1].trace(host).rows) == 1


def test_progress_is_in_memory_that_outlives_the_process_and_preparation_can_be_slowed() -> None:
    descriptor = os.memfd_create("progress")
    os.ftruncate(descriptor, mmap.PAGESIZE)
    page = mmap.mmap(descriptor, mmap.PAGESIZE, access=mmap.ACCESS_READ)
    executor = Executor(host="h0", progress_fd=descriptor, environment={"PATHWAYS_PREPARE_DELAY_NS": str(100 * 10**6)})
    os.close(descriptor)
    try:
        executor.begin()
        executor.event("epoch_ready")
        add = load(executor, plus_one())
        program = Program([*ONE, ("h1", "b")], arguments=2, slots=5, results=[4])
        program.launch(add, [0], [2]).move(1, 3, THERE, HERE).launch(add, [3], [4])
        program.load(executor)
        run = Run(program, [executor.place(X), 77])
        began = time.monotonic()
        start(executor, run, launches=2)
        while executor.finished_through < 1:
            executor.read()
        # Two launches of this host.
        assert time.monotonic() - began >= 0.2
        executor.process.kill()
        executor.process.wait(10)
        assert struct.unpack_from("<QQ", page) == (1, 1)
    finally:
        executor.close()
        page.close()


@pytest.fixture
def islands() -> Iterator[list[Executor]]:
    """Two hosts, each an island of its own."""
    executors = [Executor(host="h0"), Executor(host="h1")]
    for executor in executors:
        executor.begin()
    for executor in executors:
        executor.event("epoch_ready")
    yield executors
    for executor in executors:
        executor.close()


def test_a_value_goes_to_another_island_and_comes_back(islands: list[Executor]) -> None:
    a, b = islands
    adds = [load(executor, plus_one()) for executor in islands]
    if adds[0] != adds[1]:
        raise AssertionError("both number their executables alike")
    program = Program(TWO_ISLANDS, arguments=1, slots=6, results=[5])
    program.launch(adds[0], [0], [1], hosts=[0]).move(1, 2, HERE, THERE).free(1)
    program.launch(adds[1], [2], [3], hosts=[1]).move(3, 4, THERE, HERE).free(2, 3)
    program.launch(adds[0], [4], [5], hosts=[0]).free(4)
    program.load(a, b)
    run = Run(program, [a.place(X)])
    start(a, run, launches=2)
    start(b, run, launches=1)
    assert relay(run, a, "h0", b, "h1") == X.nbytes
    assert relay(run, b, "h1", a, "h0") == X.nbytes
    np.testing.assert_array_equal(a.fetch(run.result(), X), X + 3)
    for executor, slot in ((a, 1), (b, 2), (b, 3), (a, 4)):
        assert gone(executor, run.value(slot))
    for executor in islands:
        assert executor.events_of("shard_fetched") == []
        assert executor.events_of("node_failed") == []


def test_a_failed_value_fails_its_readers_on_the_other_island_with_the_same_cause(islands: list[Executor]) -> None:
    a, b = islands
    broken = load(a, lower(lambda x: x + 1, vector(1, 2, 3)))
    add = load(b, plus_one())
    program = Program(TWO_ISLANDS, arguments=1, slots=4, results=[3])
    program.launch(broken, [0], [1], hosts=[0]).move(1, 2, HERE, THERE).launch(add, [2], [3], hosts=[1])
    program.load(a, b)
    run = Run(program, [a.place(X)])
    start(a, run, launches=1)
    start(b, run, launches=1)
    relay(run, a, "h0", b, "h1")
    cause = a.event("node_failed", execution_id=run.execution_id)
    told = b.event("node_failed", execution_id=run.execution_id)
    assert (told.sequence, told.failure) == (1, cause.failure)


def all_reduce() -> bytes:
    """float32[2] with one element per rank -> their sum, on both ranks."""
    shape = jax.ShapeDtypeStruct((2,), jnp.float32)
    shardings = {"in_shardings": sharded("d", 2), "out_shardings": sharded((), 2)}
    return lower_sharded(lambda x: jnp.full((1,), x.sum()), shape, **shardings)


def test_a_gang_whose_transfer_failed_on_one_host_is_launched_there_with_zeros() -> None:
    group = Group(hosts=("h0", "h1"))
    try:
        executables, _ = group.load(all_reduce())
        assert executables[0] == executables[1]
        away, ranks = spec_of((2,), ("d",), [2, 2], [0, 1]), spec_of((2,), ("d",), [0, 1])
        program = Program([*TWO_RANKS, ("h2", "b")], arguments=1, slots=3, results=[2])
        program.move(0, 1, away, ranks).launch(executables[0], [1], [2], hosts=[0, 1]).free(1)
        program.load(*group.ranks)
        run = Run(program, [77])
        for executor in group.ranks:
            start(executor, run, launches=1)
        failure = types_pb2.Failure(reason="UNAVAILABLE", message="host h2 is gone", host="h2")
        send_failure(group.ranks[0], run.transfer(0), failure)
        group.ranks[1].send_data(run.transfer(0), vector(5).tobytes())
        failed = group.ranks[0].event("node_failed", execution_id=run.execution_id)
        assert (failed.sequence, failed.failure, failed.launched_with_zeros) == (1, failure, True)
        # 0 + 5: the other member did not hang.
        np.testing.assert_array_equal(group.ranks[1].fetch(run.result(), vector(0)), vector(5))
        # The next gang of both is in order.
        values = [executor.place(vector(value)) for executor, value in zip(group.ranks, (1, 2), strict=True)]
        results = [
            executor.execute(executable, [value])
            for executor, executable, value in zip(group.ranks, executables, values, strict=True)
        ]
        for executor, (result,) in zip(group.ranks, results, strict=True):
            np.testing.assert_array_equal(executor.fetch(result, vector(0)), vector(3))
    finally:
        group.close()


def test_a_host_says_how_it_understood_a_plan_or_why_not(host: Executor) -> None:
    add = load(host, plus_one())
    program = Program(ONE, arguments=1, slots=2, results=[1]).launch(add, [0], [1])
    program.load(host)
    answer = host.event("plan_loaded", plan_id=program.message.plan_id)
    assert [field.name for field in answer.fields] == ["hosts", "layouts", "steps", "results", "launches"]
    # Of the one launch: step, node, executable, and how many of its island come before.
    assert answer.fields[-1].digest == hashlib.sha256(f"((0, 1, {add}, 0),)".encode()).digest()
    other = Program([("h9", "a")], arguments=1, slots=2, results=[1]).launch(add, [0], [1])
    other.message.steps.add()
    other.load(host)
    refused = host.event("plan_loaded", plan_id=other.message.plan_id)
    assert (refused.failure.reason, list(refused.fields)) == ("PROGRAM_REFUSED", [])
    assert "cannot carry out program train: a plan holds a step of kind None" in refused.failure.message
