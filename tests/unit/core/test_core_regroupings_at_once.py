"""Drains that come while an island is about to form again, and what sessions ask for while things are about to be moved."""

from __future__ import annotations

import pytest
from pathways_common.model.ids import HostName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events, why
from pathways_server.core.migration_records import Purpose
from pathways_server.core.transitions import BufferState

from tests.unit.core.core_driver import Driver, gid
from tests.unit.core.core_graphs import rows
from tests.unit.core.core_runs import chain, put, run
from tests.unit.core.test_core_drains import drain, is_drained, members, text
from tests.unit.core.test_core_regroupings import cluster, devices_of, go, positions_of, read, serve


def wait_for_a_regrouping(driver: Driver) -> None:
    session = driver.core.state.sessions[SessionNumber(1)]
    for _ in range(40):
        go(driver, 1)
        if session.migration is not None and session.migration.purpose is Purpose.REGROUP:
            return
    raise AssertionError("the island is never about to form again")


def test_a_host_that_is_drained_while_the_island_is_about_to_form_keeps_what_lies_on_it_until_it_has_moved() -> None:
    driver = cluster(4)
    driver.add_slice(3, 2)
    driver.put(50, devices=devices_of(driver, 3))
    drain(driver, "a1")
    wait_for_a_regrouping(driver)
    host = members(driver)[positions_of(driver, 3)[0] // 2]
    drain(driver, host)
    assert not driver.core.state.drains[HostName(host)].clear
    go(driver, 120)
    assert is_drained(driver, "a1")
    assert is_drained(driver, host)
    assert read(driver, 50, 50) in members(driver)


@pytest.mark.parametrize("later", range(3))
def test_islands_of_one_session_that_are_drained_at_once_form_one_after_the_other(later: int) -> None:
    driver = Driver({"a": ["a0", "a1"], "b": ["b0", "b1"]}, devices=2, pool_slices=3)
    driver.open(1, ("*",))
    driver.add_slice(1, 1)
    for device in range(8):
        driver.put(10 + device, devices=(device,))
    drain(driver, "a1")
    wait_for_a_regrouping(driver)
    go(driver, later)
    drain(driver, "b1")
    go(driver, 200)
    assert (members(driver, "a"), members(driver, "b")) == (["a0"], ["b0"]), (text(driver, "a1"), text(driver, "b1"))
    assert [read(driver, 10 + device, 10 + device)[0] for device in range(8)] == list("aaaabbbb")


def test_devices_do_not_become_one_under_what_was_made_on_both_meanwhile() -> None:
    driver = cluster()
    driver.compile(1, devices=(2, 3))
    drain(driver)
    session = driver.core.state.sessions[SessionNumber(1)]
    driver.compile(2, devices=(0, 2))
    driver.put(30, devices=(0, 2))
    go(driver, 20)
    placed = session.handles[gid(30)].placement
    assert placed is not None
    assert len(set(placed.positions)) == 2
    assert len(set(session.executables[gid(2)].placement.positions)) == 2
    assert not is_drained(driver)
    driver.release(30)


def test_a_program_over_a_suspended_slice_and_one_that_moved_runs_when_both_are_there() -> None:
    driver = cluster(3)
    chain(driver, rows(*devices_of(driver, 1)), rows(*devices_of(driver, 2)))
    put(driver, 70, rows(*devices_of(driver, 1)))
    driver.step(events.SuspendRequested(SessionNumber(1), 2))
    go(driver, 3)
    drain(driver, "a0")
    for _ in range(20):
        go(driver, 1)
        if positions_of(driver, 1)[0] // 2:
            break
    assert positions_of(driver, 1)[0] // 2
    drain(driver, "a0", on=False)
    go(driver, 2)
    driver.step(events.ResumeRequested(SessionNumber(1), 2))
    go(driver, 4)
    serve(driver, run(driver, (70,), 80))
    result = driver.core.state.sessions[SessionNumber(1)].buffers[gid(80)]
    assert (result.state, result.failure) == (BufferState.PRESENT, None)


def test_a_host_that_was_taken_back_takes_the_rank_of_one_that_died_and_others_keep_theirs() -> None:
    driver = cluster(3)
    driver.add_slice(3, 2)
    driver.put(50, devices=devices_of(driver, 3))
    drain(driver, "a0")
    go(driver, 12)
    assert members(driver) == ["a1", "a2"]
    drain(driver, "a0", on=False)
    go(driver, 3)
    kept = next(number for number in (1, 2, 3) if positions_of(driver, number) == (0, 1))
    array = {1: 10, 2: 20, 3: 50}[kept]
    driver.step(events.SuspendRequested(SessionNumber(1), kept))
    go(driver, 3)
    driver.lose("a2")
    go(driver, 20)
    assert members(driver) == ["a1", "a0"]
    driver.step(events.ResumeRequested(SessionNumber(1), kept))
    go(driver, 3)
    assert read(driver, array, 99) == "a1"


def test_what_a_session_that_is_over_had_granted_ends_before_the_island_forms_again() -> None:
    driver = cluster(stuck_ns=0)
    driver.open(2)
    driver.compile(1, devices=(0,), session=2)
    driver.execute(1, (), 20, session=2)
    driver.close(2)
    drain(driver)
    go(driver, 60)
    assert members(driver) == ["a0", "a1"]
    assert not is_drained(driver)
    driver.finish("a0", 1)
    go(driver, 20)
    assert is_drained(driver)
    assert members(driver) == ["a0"]


def test_what_was_to_be_moved_within_its_island_says_so() -> None:
    driver = cluster(3)
    driver.compile(1, devices=devices_of(driver, 2))
    driver.execute(1, (20,), 60)  # and never ends
    drain(driver, "a0")
    go(driver, 1)
    said = why.of_session(driver.core.state, driver.now_ns, SessionNumber(1), None).sentences
    assert (
        "its devices on island a is being moved to other hosts of island a (that waits for work that runs on island a" in said[0]
    )
    driver.lose("a2")
    go(driver, 1)
    failed = [
        dict(each.fields)["reason"] for each in driver.log if isinstance(each, out.Log) and each.phrase == "migration failed"
    ]
    assert failed == [
        "its devices on island a of session 1 was not moved to other hosts of island a: island a has lost a host, or it was"
        " released; everything is where it was"
    ]
