"""Loops on virtual slices: a release comes behind a loop that was asked for before, and who wants the devices waits for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pathways_common.model import graph
from pathways_common.model.failure import Reason
from pathways_common.model.ids import SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.transitions import BufferState

from tests.unit.core.core_driver import Driver, gid, only, replies
from tests.unit.core.core_graphs import rows
from tests.unit.core.core_runs import PROGRAM, A, buffer, driver_of, put, run
from tests.unit.core.core_walks import answer, asked, looping, node
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
