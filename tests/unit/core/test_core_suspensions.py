"""Suspended slices: arrays into stores, devices to others, and back to the same or other devices."""

from __future__ import annotations

from typing import Any

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import Driver, gid, only, replies, sent
from tests.unit.core.core_graphs import rows
from tests.unit.core.core_runs import chain, put, run
from tests.unit.core.test_core_migrations import TICK_S, TWO, ended, land, migrate

both = pytest.mark.parametrize("memory", [0, 1000])


def cluster(memory: int = 0, **config: Any) -> Driver:
    """Session 1 is shown island a and has slice 1 there, devices 2 and 3, with array 10 and program 1 on it."""
    driver = Driver(TWO, memory=memory, **{"pool_slices": 3, **config})
    driver.open(1, ("a",))
    driver.add_slice(1, 2, island="a")
    driver.put(10, devices=(2, 3))
    driver.compile(1, devices=(2, 3))
    return driver


def answered(driver: Driver, effects: list[out.Effect], failure: Failure | None = None) -> list[out.Effect]:
    """Hosts spill what they are told to, or one of them has no room; and give back what they are told to."""
    found: list[out.Effect] = []
    for host, spilled in sent(effects, out.SpillArray):
        refusal = failure if host == "a0" else None
        found += driver.step(events.ArraySpilled(HostName(host), spilled.buffer_id, spilled.spill_number, 8, refusal))
    for host, restored in sent(effects, out.RestoreArray):
        found += driver.step(events.ArrayRestored(HostName(host), restored.buffer_id, restored.spill_number, None))
    return found


def suspend(driver: Driver, failure: Failure | None = None) -> out.SliceSuspended:
    effects = driver.step(events.SuspendRequested(SessionNumber(1), 1))
    effects += driver.pass_time(TICK_S)
    answered(driver, answered(driver, effects, failure))
    effects += driver.pass_time(TICK_S)
    return only(replies(effects, out.SliceSuspended))


def resume(driver: Driver) -> out.SliceResumed:
    effects = driver.step(events.ResumeRequested(SessionNumber(1), 1))
    for _ in range(4):
        more = driver.pass_time(TICK_S)
        more += answered(driver, effects + more)
        land(driver, more)
        effects += more
    return only(replies(effects, out.SliceResumed))


@both
def test_devices_are_free_for_others_and_work_on_it_says_that_it_is_suspended(memory: int) -> None:
    driver = cluster(memory)
    driver.open(2, ("b",))
    assert only(replies(driver.add_slice(1, 2, session=2, island="a", exclusive=True), out.SliceAdded)).failure is not None
    assert suspend(driver) == out.SliceSuspended(1, None)
    assert [host for host, _ in sent(driver.log, out.SpillArray)] == ["a0", "a1"]
    assert only(replies(driver.add_slice(2, 2, session=2, island="a", exclusive=True), out.SliceAdded)).failure is None
    driver.execute(1, (10,), 20)
    failure = only(replies(driver.fetch(20), out.FetchFailed)).failure
    assert failure.message == "slice 1 is suspended; resume it first (pw.resume)"


@both
def test_it_comes_back_to_the_same_devices_with_its_arrays_and_programs(memory: int) -> None:
    driver = cluster(memory)
    suspend(driver)
    assert resume(driver) == out.SliceResumed(1, "a", ("a0", "a1"), None)
    effects = driver.execute(1, (10,), 20)
    effects += answered(driver, effects)
    assert [host for host, _ in sent(effects, out.RestoreArray)] == ["a0", "a1"]
    assert [host for host, _ in sent(effects, out.Load)] == ["a0", "a1"]
    assert [host for host, _ in sent(effects, out.Prepare)] == ["a0", "a1"]


@both
def test_it_comes_back_on_another_island_if_its_own_has_no_devices(memory: int) -> None:
    driver = cluster(memory)
    suspend(driver)
    driver.open(2, ("b",))
    driver.add_slice(1, 2, session=2, island="a", exclusive=True)
    assert resume(driver) == out.SliceResumed(1, "b", ("b0", "b1"), None)
    assert only(sent(driver.fetch(10), out.FetchShard))[0] == "b0"
    assert [host for host, _ in sent(driver.execute(1, (10,), 20), out.Prepare)] == ["b0", "b1"]


def test_what_does_not_come_to_an_end_is_named_by_what_was_asked_for() -> None:
    driver = cluster()
    driver.execute(1, (10,), 20)
    effects = driver.step(events.SuspendRequested(SessionNumber(1), 1))
    effects += driver.pass_time(TICK_S)
    effects += driver.pass_time(61)
    failure = only(replies(effects, out.SliceSuspended)).failure
    assert failure is not None
    assert failure.message.startswith(
        "slice 1 of session 1 was not suspended: after 60 s it still has work that runs on island a;"
    )


def test_a_host_without_room_leaves_it_as_it_was() -> None:
    driver = cluster()
    failure = suspend(driver, Failure(Reason.RESOURCE_EXHAUSTED, "no room", host="a0")).failure
    assert failure is not None
    assert failure.message == (
        "slice 1 was not suspended: a host has no room for its arrays (spill_memory, spill_disk of its worker); delete some, or"
        " have it raised"
    )
    answered(driver, driver.log)
    effects = driver.execute(1, (10,), 20)
    answered(driver, effects)
    assert [host for host, _ in sent(driver.log, out.Prepare)] == ["a0", "a1"]


def test_it_can_be_read_released_and_closed_while_it_is_suspended() -> None:
    driver = cluster()
    suspend(driver)
    effects = driver.fetch(10)
    effects += answered(driver, effects)
    assert only(sent(effects, out.FetchShard))[0] == "a0"
    driver.release_slice(1)
    assert not driver.core.state.slices
    assert gid(10) in driver.core.state.sessions[SessionNumber(1)].handles
    again = cluster()
    suspend(again)
    again.close()
    assert not again.core.state.slices


def test_what_is_not_so_is_refused() -> None:
    driver = cluster()
    refused = only(replies(driver.step(events.ResumeRequested(SessionNumber(1), 1)), out.SliceResumed)).failure
    assert refused is not None
    assert refused.message == "slice 1 of this session is not suspended"
    refused = only(replies(driver.step(events.SuspendRequested(SessionNumber(1), 9)), out.SliceSuspended)).failure
    assert refused is not None
    assert "slice 9 is not one that this session holds" in refused.message
    suspend(driver)
    refused = only(replies(driver.step(events.SuspendRequested(SessionNumber(1), 1)), out.SliceSuspended)).failure
    assert refused is not None


def test_it_cannot_be_resumed_while_nobody_has_room() -> None:
    driver = cluster()
    suspend(driver)
    driver.open(2, ("b",))
    for number, island in ((1, "a"), (2, "b")):
        driver.add_slice(number, 2, session=2, island=island, exclusive=True)
    failure = resume(driver).failure
    assert failure is not None
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    driver.close(2)
    assert resume(driver).failure is None


@pytest.mark.parametrize("resumes", [False, True])
def test_traced_programs_go_along_to_another_island(resumes: bool) -> None:
    driver = cluster()
    lies = rows(2, 3)
    chain(driver, lies, lies)
    put(driver, 11, lies)
    if resumes:
        suspend(driver)
        driver.open(2, ("b",))
        driver.add_slice(1, 2, session=2, island="a", exclusive=True)
        assert resume(driver).island == "b"
    else:
        effects = migrate(driver)
        effects += driver.pass_time(TICK_S)
        land(driver, effects)
        assert ended(driver.pass_time(TICK_S)).failure is None
    effects = run(driver, (11,), 40)
    assert [host for host, _ in sent(effects, out.RunPlan)] == ["b0", "b1"]


def test_a_traced_program_is_loaded_again_before_it_runs_where_it_was() -> None:
    driver = cluster()
    lies = rows(2, 3)
    chain(driver, lies, lies)
    put(driver, 11, lies)
    run(driver, (11,), 40)
    for host in ("a0", "a1"):
        driver.finish(host, 2)
    assert suspend(driver).failure is None
    assert resume(driver).island == "a"
    effects = run(driver, (11,), 50)
    answered(driver, effects)
    kinds = [type(each.command) for each in driver.log if isinstance(each, out.SendToHost) and each.host == "a0"]
    after = kinds[max(index for index, kind in enumerate(kinds) if kind is out.Unload) + 1 :]
    assert after.count(out.Load) == 2
    assert after.index(out.LoadPlan) < after.index(out.RunPlan)
    assert max(index for index, kind in enumerate(after) if kind is out.Load) < after.index(out.RunPlan)


@both
def test_what_a_lost_host_kept_is_lost_and_says_so(memory: int) -> None:
    driver = cluster(memory)
    suspend(driver)
    driver.lose("a1")
    failure = only(replies(driver.fetch(10), out.FetchFailed)).failure
    assert (failure.reason, failure.host) == (Reason.BUFFER_LOST, "a1")
    assert "the array was spilled on host a1 of island a, which was lost" in failure.message


@both
@pytest.mark.parametrize("resumes", [False, True])
def test_what_is_between_devices_and_store_is_lost_with_its_epoch(memory: int, resumes: bool) -> None:
    driver = cluster(memory)
    if resumes:
        suspend(driver)
        driver.step(events.ResumeRequested(SessionNumber(1), 1))
        assert [host for host, _ in sent(driver.fetch(10), out.RestoreArray)] == ["a0", "a1"]
    else:
        driver.step(events.SuspendRequested(SessionNumber(1), 1))
        assert [host for host, _ in sent(driver.pass_time(TICK_S), out.SpillArray)] == ["a0", "a1"]
    driver.lose("a1")
    driver.pass_time(TICK_S)  # what is held back is handled
    failed = replies([*driver.log, *driver.fetch(10)], out.FetchFailed)
    assert {each.failure.reason for each in failed} == {Reason.BUFFER_LOST}
