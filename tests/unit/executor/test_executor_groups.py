"""Groups on a real executor: one launch in place of several nodes, with their sequences, frees, names and rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.executor.driving import Executor, lower
from tests.unit.executor.driving_runs import Program, Run, vector

ONE = [("h0", "a")]
X = vector(1, 2)


@pytest.fixture(scope="module")
def host() -> Iterator[Executor]:
    executor = Executor(host="h0")
    executor.begin()
    executor.event("epoch_ready")
    yield executor
    executor.close()


def load(executor: Executor, program: bytes) -> int:
    answer = executor.load(program, (0,))
    assert not answer.HasField("failure"), answer
    return int(answer.executable_id)


def chain(host: Executor) -> Program:
    """Slots 1 to 5 are x + 1, x + 2, ...: slot 2 and slot 5 are results."""
    add = load(host, lower(lambda x: x + 1, X))
    program = Program(ONE, arguments=1, slots=6, results=[2, 5])
    program.launch(add, [0], [1]).launch(add, [1], [2]).free(1).launch(add, [2], [3]).launch(add, [3], [4]).free(3)
    program.launch(add, [4], [5]).free(4)
    program.load(host)
    return program


def gone(executor: Executor, identifier: int) -> bool:
    with pytest.raises(AssertionError, match="DELETED"):
        executor.fetch(identifier, X)
    return True


def test_a_group_is_one_launch_with_the_sequence_of_its_last_node(host: Executor) -> None:
    program = chain(host)
    both = load(host, lower(lambda x: (x + 20, x + 30), X))  # not what the nodes do, so that it can be told from them
    host.send(program.group(0, 6, both, [0], [2, 4]))
    run = Run(program, [host.place(X)])
    first = host.launched + 1
    host.send(run.command(None, first, host.launched, fused=True))
    host.launched += 5
    np.testing.assert_array_equal(host.fetch(run.result(0), X), X + 20)
    np.testing.assert_array_equal(host.fetch(run.result(1), X), X + 31)
    assert all(gone(host, run.value(slot)) for slot in (1, 3, 4))
    rows = run.trace(host).rows
    assert [(row.step, row.node, row.last_node, row.sequence) for row in rows] == [
        (0, 1, 5, first + 3),
        (6, 7, 0, first + 4),
    ]
    assert all(0 < row.granted_ns <= row.launched_ns <= row.finished_ns for row in rows)
    assert host.launched_through == host.finished_through == first + 4


def test_what_does_not_lie_in_a_fused_range_whole_runs_node_by_node(host: Executor) -> None:
    program = chain(host)
    wrong = load(host, lower(lambda x: (x * 0, x * 0), X))
    host.send(program.group(0, 6, wrong, [0], [2, 4]))
    run = Run(program, [host.place(X)])
    first = host.launched + 1
    host.send(run.command(3, first, host.launched, fused=True), run.grant(3, 9, first + 2, first + 1, fused=True))
    host.launched += 5
    np.testing.assert_array_equal(host.fetch(run.result(0), X), X + 2)
    np.testing.assert_array_equal(host.fetch(run.result(1), X), X + 5)
    assert [row.node for row in run.trace(host).rows] == [1, 2, 4, 5, 7]


def test_a_range_that_is_not_fused_runs_node_by_node_after_one_that_was(host: Executor) -> None:
    program = chain(host)
    both = load(host, lower(lambda x: (x + 20, x + 30), X))
    host.send(program.group(0, 6, both, [0], [2, 4]))
    argument = host.place(X)
    for fused, wanted in ((True, X + 31), (False, X + 5), (True, X + 31)):
        run = Run(program, [argument])
        host.send(run.command(None, host.launched + 1, host.launched, fused=fused))
        host.launched += 5
        np.testing.assert_array_equal(host.fetch(run.result(1), X), wanted)
    np.testing.assert_array_equal(host.fetch(argument, X), X)


def test_a_group_donates_an_argument_only_if_the_run_does(host: Executor) -> None:
    program = chain(host)
    both = load(host, lower(lambda x: (x + 20, x + 30), X, donate_argnums=(0,)))
    host.send(program.group(0, 6, both, [0], [2, 4]))
    argument = host.place(X)
    for donated in ((), (0,)):
        run = Run(program, [argument], donated=donated)
        host.send(run.command(None, host.launched + 1, host.launched, fused=True))
        host.launched += 5
        np.testing.assert_array_equal(host.fetch(run.result(1), X), X + 31)
        if not donated:
            np.testing.assert_array_equal(host.fetch(argument, X), X)
    assert gone(host, argument)


def test_a_group_whose_input_failed_is_reported_once_and_all_its_results_fail(host: Executor) -> None:
    program = chain(host)
    both = load(host, lower(lambda x: (x + 20, x + 30), X))
    host.send(program.group(0, 6, both, [0], [2, 4]))
    run = Run(program, [77 << 20])
    first = host.launched + 1
    host.send(run.command(None, first, host.launched, fused=True))
    host.launched += 5
    assert host.event("node_failed").sequence == first + 3
    assert host.event("node_failed").sequence == first + 4, "the node behind it takes what it made"
    for position in (0, 1):
        with pytest.raises(AssertionError):
            host.fetch(run.result(position), X)
