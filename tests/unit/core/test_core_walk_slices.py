"""Loops on virtual slices: a release comes behind a loop that was asked for before, and who wants the devices waits for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pathways_common.model import graph
from pathways_common.model.failure import Reason
from pathways_common.model.ids import GlobalId, HostName, SessionNumber, is_made_by_core
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.records import Buffer
from pathways_server.core.transitions import BufferState

from tests.unit.core.core_driver import Driver, facts, gid, only, replies, sent
from tests.unit.core.core_graphs import rows
from tests.unit.core.core_runs import PROGRAM, A, buffer, driver_of, put, run
from tests.unit.core.core_walks import COUNT, Graphs, answer, asked, looping, node
from tests.unit.core.test_core_walks import nothing_is_left, steps_of

S = rows(4, 5)  # the first group of the pool


def loop_on_a_slice_that_others_want() -> tuple[Driver, list[out.Effect]]:
    """A loop under way on a slice that its session has released; another session waits for its devices."""
    driver = driver_of(2, pool_slices=2)
    assert only(replies(driver.add_slice(1, 2, island="b", exclusive=True), out.SliceAdded)).devices == (4, 5)
    assert looping(driver, most=9, lies=S).define().failure is None
    put(driver, 10, S)
    effects = run(driver, (10,), 20)
    assert steps_of(driver, effects) == [1, 1], "the first node and the condition"
    return driver, effects


def release(driver: Driver) -> None:
    given = driver.release_slice(1)
    assert not replies(given + driver.add_slice(1, 2, session=2, island="b", wait=True), out.SliceAdded)
    assert [figures.state for figures in driver.core.snapshot(0).slices] == ["RELEASING", "WAITING"]


def test_a_slice_is_given_back_when_the_loop_that_was_asked_for_before_has_ended() -> None:
    driver, effects = loop_on_a_slice_that_others_want()
    driver.fetch(20)
    release(driver)
    for _ in range(3):
        effects = answer(driver, asked(effects), 1, 1)
        assert steps_of(driver, effects) == [1, 1], "the body and the condition, as without the release"
        assert not replies(effects, out.SliceAdded)
    effects = answer(driver, asked(effects), 0, 1)
    assert only(replies(effects, out.SliceAdded)).island == "b"
    order = [type(e.command) for e in effects if isinstance(e, out.SendToHost) and e.host == "b0"]
    assert order.index(out.PlaceView) < order.index(out.FetchShard) < order.index(out.Free), "the read before it gets its value"
    assert buffer(driver, 20).state is BufferState.FREED
    nothing_is_left(driver, 10, 20)


def test_new_runs_on_a_slice_that_waits_for_a_loop_are_refused() -> None:
    driver, effects = loop_on_a_slice_that_others_want()
    release(driver)
    assert steps_of(driver, run(driver, (10,), 30)) == []
    failure = buffer(driver, 30).failure
    assert failure is not None
    assert (failure.reason, "the slice was released" in failure.message) == (Reason.DELETED, True)
    assert steps_of(driver, answer(driver, asked(effects), 1, 1)) == [1, 1]


@pytest.mark.parametrize("how", ["cancelled", "closed", "lost"])
def test_a_slice_is_given_back_when_its_loop_ends_otherwise(how: str) -> None:
    driver, effects = loop_on_a_slice_that_others_want()
    release(driver)
    question = asked(effects)
    if how == "cancelled":
        effects = driver.step(events.CancelRequested(SessionNumber(1), (gid(20),)))
    elif how == "closed":
        effects = driver.close(1)
    else:
        before = len(driver.log)
        driver.kill_executor("b0")
        effects = driver.log[before:]
    assert only(replies(effects, out.SliceAdded)).island == "b"
    assert steps_of(driver, answer(driver, question, 1, 1)) == []
    assert how == "closed" or not driver.core.state.sessions[SessionNumber(1)].walks


def test_a_release_does_not_wait_for_a_loop_on_other_devices() -> None:
    driver = driver_of(2, pool_slices=2)
    driver.add_slice(1, 2, island="b", exclusive=True)
    looping(driver, most=9).define()
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    driver.release_slice(1)
    assert only(replies(driver.add_slice(1, 2, session=2, island="b"), out.SliceAdded)).island == "b"
    assert steps_of(driver, answer(driver, asked(effects), 1, 1)) == [1, 1]


def test_a_program_that_only_keeps_values_on_a_slice_ends_with_it_too() -> None:
    driver = driver_of(pool_slices=2)
    driver.add_slice(1, 2, island="b")
    graphs = looping(driver)
    graphs.graph(0, (A,), (node("while", graph.LoopKind(1, 2, 9, (S,)), (0, 0)),), (1, 0))
    program = replace(graphs.program(), devices=(0, 1, 2, 3, 4, 5))
    driver.step(events.DefinitionRequested(SessionNumber(1), gid(PROGRAM), program))
    put(driver, 10, A)
    run(driver, (10,), 20)
    assert buffer(driver, 20).state is BufferState.PENDING
    driver.release_slice(1)
    assert [figures.state for figures in driver.core.snapshot(0).slices] == ["RELEASING"]
    run(driver, (10,), 30)
    failure = buffer(driver, 30).failure
    assert failure is not None
    assert (failure.reason, "the slice was released" in failure.message) == (Reason.DELETED, True)


def test_a_value_of_a_loop_that_is_being_spilled_does_not_hold_up_the_release_and_goes_when_the_host_has_answered() -> None:
    driver = driver_of(pool_slices=2, memory=800)
    driver.add_slice(1, 2, island="b")
    looping(driver, lies=S).define()
    put(driver, 10, S)
    effects = answer(driver, asked(run(driver, (10,), 20)), 1, 1)  # the first value lies idle: the loop carries another
    for host in ("b0", "b1"):
        driver.finish(host, 4, "b")
    driver.now_ns += 1
    put(driver, 30, rows(2, 3, size=16))
    (_, command), _ = sent(driver.log, out.SpillArray)
    assert is_made_by_core(command.buffer_id)
    driver.release_slice(1)
    answer(driver, asked(effects), 0, 1)
    assert driver.core.snapshot(0).slices == ()
    going = _made(driver, command.buffer_id)
    assert (going.state, going.handles, going.ended is not None) == (BufferState.SPILLING, 0, True)
    driver.step(events.ArraySpilled(HostName("b0"), going.id, command.spill_number, 8, None))
    effects = driver.step(events.ArraySpilled(HostName("b1"), going.id, command.spill_number, 8, None))
    assert [host for host, drop in sent(effects, out.DropSpilled) if drop.ids == (going.id,)] == ["b0", "b1"]
    assert going.id not in driver.core.state.sessions[SessionNumber(1)].buffers


def _made(driver: Driver, identifier: GlobalId) -> Buffer:
    return driver.core.state.sessions[SessionNumber(1)].buffers[identifier]


def test_a_result_that_is_in_doubt_and_read_does_not_hold_up_the_release() -> None:
    driver = driver_of(pool_slices=2)
    driver.add_slice(1, 2, island="b")
    graphs, count = Graphs(driver), replace(COUNT, devices=S.devices)
    graphs.graph(1, (S,), (graphs.call((S,), (S,), (0, 0)),), (1, 0))
    first = graphs.call((S,), (count, S), (0, 0))
    graphs.graph(0, (S,), (first, node("choose", graph.BranchKind((1,), (), (S,)), (1, 0), (1, 1))), (2, 0))
    assert graphs.define().failure is None
    driver.facts["f"] = facts(fallible=True, digest=b"f")
    driver.compile(1, devices=(2, 3), program="f")
    for number, lies in ((10, S), (30, rows(2, 3))):
        put(driver, number, lies)
    effects = run(driver, (10,), 20)
    driver.execute(1, (30,), 31)  # may fail on one member alone, and what is granted behind it with it
    answer(driver, asked(effects), 0)
    assert not sent(driver.fetch(20), out.FetchShard)
    driver.release_slice(1)
    assert driver.core.snapshot(0).slices == ()
    for host in ("b0", "b1"):
        effects = driver.finish(host, 2, "b")
    assert len(sent(effects, out.FetchShard)) == 1, "the read was asked for before"
    assert {*driver.core.state.sessions[SessionNumber(1)].buffers} == {gid(10), gid(20), gid(30), gid(31)}
