"""Lowering: what the steps of a plan are, and what is said about programs that make no sense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pathways_common.model import graph
from pathways_common.model.failure import Failure, Reason
from pathways_server.core.lowering import lower
from pathways_server.core.plan import Free, Launch, Move
from pathways_server.core.plans import affected_by_argument, affected_by_step

from tests.unit.core.core_driver import gid
from tests.unit.core.core_graphs import Writer, columns, everywhere, plan_of, rows, session_of, two_islands

TOKEN = 17


def test_the_second_of_two_nodes_takes_what_the_first_made_and_only_the_value_between_is_freed() -> None:
    writer = Writer(two_islands(), (rows(0, 1),))
    step = writer.computation((rows(0, 1),), (rows(0, 1),))
    writer.node(step, (0, 0))
    writer.node(step, (1, 0))
    plan = plan_of(writer.driver, writer.program((2, 0)))
    executable = plan.executables[0]
    assert plan.steps == (Launch(1, executable, (0,), (1,), ()), Launch(2, executable, (1,), (2,), ()), Free((1,)))
    assert (plan.results, plan.slot_count, plan.specs) == ((2,), 3, ())
    assert [island.name for island in plan.islands] == ["a"]
    assert plan.result_specs[0].placement is executable.placement


def test_a_value_that_two_nodes_want_in_one_other_layout_moves_once_right_before_the_first_of_them() -> None:
    writer = Writer(two_islands(), (rows(0, 1),))
    make = writer.computation((rows(0, 1),), (rows(0, 1),))
    there = writer.computation((columns(2, 3),), (rows(2, 3),))
    writer.node(make, (0, 0))
    writer.node(make, (1, 0))
    writer.node(there, (1, 0))
    writer.node(there, (1, 0))
    plan = plan_of(writer.driver, writer.program((2, 0), (3, 0), (4, 0)))
    here, far = plan.executables
    assert plan.steps == (
        Launch(1, here, (0,), (1,), ()),
        Launch(2, here, (1,), (2,), ()),
        Move(1, 3, 0, 1),
        Free((1,)),
        Launch(3, far, (3,), (4,), ()),
        Launch(4, far, (3,), (5,), ()),
        Free((3,)),
    )
    assert [placed.placement.island.name for placed in plan.specs] == ["a", "b"]
    assert [island.name for island in plan.islands] == ["a", "b"]


def test_one_layout_spelled_in_two_ways_is_not_moved() -> None:
    """One tile everywhere is what no sharding says; the first memory kind is the default."""
    writer = Writer(two_islands(), (everywhere(0, 1),))
    spelled = replace(everywhere(0, 1), sharding=b"\x08\x03\x1a\x03\x01\x01\x02\x22\x02\x00\x01\x30\x01", memory_kind="device")
    step = writer.computation((spelled,), (spelled,))
    writer.node(step, (0, 0))
    plan = plan_of(writer.driver, writer.program((1, 0)))
    assert [type(step) for step in plan.steps] == [Launch]


@pytest.mark.parametrize(
    "wanted", [columns(0, 1), rows(1, 0), everywhere(0), replace(rows(0, 1), memory_kind="pinned_host")], ids=str
)
def test_another_cut_or_order_or_device_or_memory_is_moved(wanted: Any) -> None:
    writer = Writer(two_islands(), (rows(0, 1),))
    step = writer.computation((wanted,), (wanted,))
    writer.node(step, (0, 0))
    plan = plan_of(writer.driver, writer.program((1, 0)))
    assert plan.steps[:2] == (Move(0, 1, 0, 1), Launch(1, plan.executables[0], (1,), (2,), ()))
    assert plan.steps[2] == Free((1,))


def test_a_donated_value_is_kept_while_a_later_node_or_move_or_the_caller_needs_it() -> None:
    writer = Writer(two_islands(), (rows(0, 1),))
    eat = writer.computation((rows(0, 1),), (rows(0, 1),), donated=(0,))
    there = writer.computation((rows(2, 3),), (rows(2, 3),))
    writer.node(eat, (0, 0))
    writer.node(eat, (0, 0))  # the last use of the argument: the run says whether it may go
    writer.node(eat, (1, 0))  # moved afterwards
    writer.node(there, (1, 0))
    writer.node(eat, (2, 0))  # a result of the program too
    writer.node(eat, (3, 0))
    plan = plan_of(writer.driver, writer.program((2, 0), (4, 0), (5, 0), (6, 0)))
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    assert [step.non_donatable for step in launches] == [(0,), (), (0,), (), (0,), ()]


def test_a_value_passed_twice_to_one_node_is_donated_in_neither_place() -> None:
    writer = Writer(two_islands(), (rows(0, 1),))
    make = writer.computation((rows(0, 1),), (rows(0, 1),))
    both = writer.computation((rows(0, 1),) * 3, (rows(0, 1),), donated=(0, 1, 2))
    writer.node(make, (0, 0))
    writer.node(make, (0, 0))
    writer.node(both, (1, 0), (2, 0), (1, 0))
    plan = plan_of(writer.driver, writer.program((3, 0)))
    assert [step.non_donatable for step in plan.steps if isinstance(step, Launch)] == [(), (), (0, 2)]


def test_an_unused_result_and_the_hidden_one_of_a_computation_without_results_are_freed_at_once() -> None:
    writer = Writer(two_islands(), (rows(0, 1),))
    pair = writer.computation((rows(0, 1),), (rows(0, 1), rows(0, 1)))
    nothing = writer.computation((rows(0, 1),), ())
    writer.node(pair, (0, 0))
    writer.node(nothing, (1, 1))
    plan = plan_of(writer.driver, writer.program((1, 1)))
    two, none = plan.executables
    assert plan.steps == (Launch(1, two, (0,), (1, 2), ()), Free((1,)), Launch(2, none, (2,), (3,), ()), Free((3,)))


def test_an_island_takes_part_on_which_only_an_argument_lives() -> None:
    writer = Writer(two_islands(), (rows(2, 3), rows(0, 1)))
    writer.node(writer.computation((rows(0, 1),), (rows(0, 1),)), (0, 1))
    plan = plan_of(writer.driver, writer.program((1, 0)))
    assert [island.name for island in plan.islands] == ["a", "b"]


def test_a_token_stays_where_it_is_and_is_refused_elsewhere() -> None:
    for home, far in (((0, 1), (0, 1)), ((0, 1), (2, 3))):
        writer = Writer(two_islands(), (rows(0, 1),))
        here, there = (replace(everywhere(*devices), dtype=TOKEN, shape=(), shard_shape=()) for devices in (home, far))
        writer.node(writer.computation((rows(0, 1),), (here,)), (0, 0))
        writer.node(writer.computation((there,), (rows(*far),)), (1, 0))
        plan = lower(writer.driver.core.state, session_of(writer.driver), writer.program((2, 0)))
        if home == far:
            assert not isinstance(plan, Failure)
            assert [type(step) for step in plan.steps] == [Launch, Launch, Free]
        else:
            assert isinstance(plan, Failure)
            assert (plan.reason, "no bytes to move" in plan.message) == (Reason.UNSUPPORTED, True)


def test_only_the_results_that_need_a_step_or_an_argument_depend_on_it() -> None:
    writer = Writer(two_islands(), (rows(0, 1), rows(0, 1)))
    one = writer.computation((rows(0, 1),), (rows(0, 1),))
    two = writer.computation((rows(2, 3), rows(2, 3)), (rows(2, 3),))
    writer.node(one, (0, 0))
    writer.node(one, (0, 1))
    writer.node(two, (1, 0), (2, 0))
    plan = plan_of(writer.driver, writer.program((1, 0), (2, 0), (3, 0)))
    steps = [index for index, step in enumerate(plan.steps) if isinstance(step, Launch)]
    assert [affected_by_step(plan, step) for step in steps] == [{0, 2}, {1, 2}, {2}]
    moves = [index for index, step in enumerate(plan.steps) if isinstance(step, Move)]
    assert [affected_by_step(plan, step) for step in moves] == [{2}, {2}]
    frees = [index for index, step in enumerate(plan.steps) if isinstance(step, Free)]
    assert [affected_by_step(plan, step) for step in frees] == [frozenset()] * len(frees)
    assert [affected_by_argument(plan, index) for index in (0, 1)] == [{0, 2}, {1, 2}]


# ---- refusals -------------------------------------------------------------------------------------------------------

Edit = Callable[[graph.Program], graph.Program]


def _nodes(program: graph.Program, *nodes: graph.Node) -> graph.Program:
    return replace(program, graphs=(graph.Graph(nodes),))


def _node(index: int, **changes: Any) -> Edit:
    def edit(program: graph.Program) -> graph.Program:
        nodes = list(program.graphs[0].nodes)
        nodes[index] = replace(nodes[index], **changes)
        return _nodes(program, *nodes)

    return edit


def _computation(**changes: Any) -> Edit:
    return lambda program: replace(program, computations=(replace(program.computations[0], **changes),))


REFUSED: list[tuple[str, Edit, Reason, str]] = [
    ("no graphs", lambda p: replace(p, graphs=()), Reason.INVALID_ARGUMENT, "0 graphs"),
    ("no nodes", _nodes, Reason.INVALID_ARGUMENT, "begins with its argument node"),
    (
        "wrong order",
        lambda p: _nodes(p, *reversed(p.graphs[0].nodes)),
        Reason.INVALID_ARGUMENT,
        "begins with its argument node",
    ),
    ("arguments take", _node(0, inputs=(graph.Edge(0, 0),)), Reason.INVALID_ARGUMENT, "takes none"),
    ("two argument nodes", _node(1, kind=graph.ArgumentKind(())), Reason.INVALID_ARGUMENT, "node 1 (step 1) is another"),
    ("edge from behind", _node(1, inputs=(graph.Edge(2, 0),)), Reason.INVALID_ARGUMENT, "comes from node 2"),
    ("edge from itself", _node(1, inputs=(graph.Edge(1, 0),)), Reason.INVALID_ARGUMENT, "comes from node 1"),
    ("edge from nowhere", _node(1, inputs=(graph.Edge(0, 1),)), Reason.INVALID_ARGUMENT, "has 1 outputs"),
    ("edge missing", _node(1, inputs=()), Reason.INVALID_ARGUMENT, "takes 1 inputs and has 0"),
    ("sparse edge", _node(1, inputs=(graph.Edge(0, 0, True),)), Reason.UNSUPPORTED, "sparse edges are not carried out yet"),
    ("no such computation", _node(1, kind=graph.ComputationKind(1)), Reason.INVALID_ARGUMENT, "runs computation 1"),
    ("branch", _node(1, kind=graph.BranchKind((0,), (), ())), Reason.UNSUPPORTED, "branch or a loop"),
    ("loop", _node(1, kind=graph.LoopKind(0, 0, 1, ())), Reason.UNSUPPORTED, "branch or a loop"),
    ("no results", _node(-1, inputs=()), Reason.INVALID_ARGUMENT, "no results"),
    ("argument as result", _node(-1, inputs=(graph.Edge(0, 0),)), Reason.INVALID_ARGUMENT, "is an argument"),
    ("result twice", _node(-1, inputs=(graph.Edge(1, 0),) * 2), Reason.INVALID_ARGUMENT, "result 1 is a result already"),
    ("sparse result", _node(-1, inputs=(graph.Edge(1, 0, True),)), Reason.UNSUPPORTED, "sparse"),
    ("unknown executable", _computation(executable_id=gid(99)), Reason.INVALID_ARGUMENT, "no executable has id 99"),
    ("parameters missing", _computation(parameters=()), Reason.INVALID_ARGUMENT, "takes 1 arguments and its specs name 0"),
    ("results missing", _computation(results=()), Reason.INVALID_ARGUMENT, "has 1 results and its specs name none"),
    ("too many results", _computation(results=(rows(0, 1),) * 2), Reason.INVALID_ARGUMENT, "its specs name 2"),
    ("result of other size", _computation(results=(everywhere(0, 1),)), Reason.INVALID_ARGUMENT, "has 128 bytes"),
    ("result elsewhere", _computation(results=(rows(1, 0),)), Reason.INVALID_ARGUMENT, "devices in their order"),
    ("parameter elsewhere", _computation(parameters=(rows(1, 0),)), Reason.INVALID_ARGUMENT, "devices in their order"),
    ("shape", _computation(parameters=(rows(0, 1, size=4),)), Reason.INVALID_ARGUMENT, "shape [8, 8]"),
    ("dtype", _computation(parameters=(replace(rows(0, 1), dtype=4),)), Reason.INVALID_ARGUMENT, "element type 11"),
    ("memory", _computation(parameters=(replace(rows(0, 1), memory_kind="tape"),)), Reason.INVALID_ARGUMENT, "'tape'"),
    ("shard", _computation(parameters=(replace(rows(0, 1), shard_shape=(8, 8)),)), Reason.INVALID_ARGUMENT, "its sharding makes"),
    ("sharding", _computation(parameters=(replace(rows(0, 1), sharding=b"\xff"),)), Reason.INVALID_ARGUMENT, "OpSharding"),
    ("no devices", _node(0, kind=graph.ArgumentKind((everywhere(),))), Reason.INVALID_ARGUMENT, "names no devices"),
    ("unknown device", _node(0, kind=graph.ArgumentKind((rows(0, 9),))), Reason.INVALID_ARGUMENT, "device 9"),
    ("two islands", _node(0, kind=graph.ArgumentKind((rows(0, 2),))), Reason.UNSUPPORTED, "islands a and b"),
    ("device not listed", lambda p: replace(p, devices=(0,)), Reason.INVALID_ARGUMENT, "device 1, which is not in the list"),
    ("device listed twice", lambda p: replace(p, devices=(0, 1, 0)), Reason.INVALID_ARGUMENT, "names one twice"),
]


@pytest.mark.parametrize(("edit", "reason", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_program_that_makes_no_sense_is_refused_in_one_sentence(edit: Edit, reason: Reason, words: str) -> None:
    writer = Writer(two_islands(), (rows(0, 1),))
    writer.node(writer.computation((rows(0, 1),), (rows(0, 1),)), (0, 0))
    failure = lower(writer.driver.core.state, session_of(writer.driver), edit(writer.program((1, 0))))
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.id != "") == (reason, True)
    assert words in failure.message
