"""Hosts that are drained where no other island has room: the hosts of their island that stay take what lies on them."""

from __future__ import annotations

from typing import Any

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, IslandName, SessionNumber
from pathways_server.core import buffers, events, why
from pathways_server.core import effects as out
from pathways_server.core.transitions import BufferState, SliceState

from tests.unit.core.core_driver import Driver, gid, only, replies, sent
from tests.unit.core.core_graphs import rows
from tests.unit.core.core_runs import chain, put, run
from tests.unit.core.test_core_drains import drain, is_drained, members, text
from tests.unit.core.test_core_migrations import TICK_S, land
from tests.unit.core.test_core_suspensions import answered

both = pytest.mark.parametrize("memory", [0, 1000])


def go(driver: Driver, ticks: int = 8, failure: Failure | None = None) -> list[out.Effect]:
    """Ticks in which hosts do what they are told: pulls arrive, arrays are spilled and come back; a0 may have no room."""
    found: list[out.Effect] = []
    for _ in range(ticks):
        effects = driver.pass_time(TICK_S)
        found += serve(driver, effects, failure)
    return found


def serve(driver: Driver, effects: list[out.Effect], failure: Failure | None = None) -> list[out.Effect]:
    """All that follows from these effects."""
    found, new = list(effects), effects
    while new:
        new = land(driver, new) + answered(driver, new, failure)
        found += new
    return found


def cluster(hosts: int = 2, memory: int = 0, **config: Any) -> Driver:
    """One island, two devices a host. Session 1 has slice 1 with array 10 on host a0, slice 2 with array 20 on host a1."""
    names = [f"a{index}" for index in range(hosts)]
    driver = Driver({"a": names}, devices=2, memory=memory, **{"pool_slices": 3, **config})
    driver.open(1)
    for slice_id, array in ((1, 10), (2, 20)):
        driver.add_slice(slice_id, 2)
        driver.put(array, devices=devices_of(driver, slice_id))
    return driver


def devices_of(driver: Driver, slice_id: int) -> tuple[int, ...]:
    return driver.core.state.sessions[SessionNumber(1)].slices[slice_id].devices


def positions_of(driver: Driver, slice_id: int) -> tuple[int, ...]:
    return driver.core.state.sessions[SessionNumber(1)].slices[slice_id].positions


def read(driver: Driver, array: int, fetch: int = 1, shard: int = 0) -> str:
    """The host that a shard is read from."""
    return only(sent(serve(driver, driver.fetch(array, fetch, shard)), out.FetchShard))[0]


@both
@pytest.mark.parametrize("host", ["a0", "a1"])
def test_the_other_host_of_the_island_takes_everything_and_then_it_is_drained(host: str, memory: int) -> None:
    driver = cluster(memory=memory)
    stays = "a1" if host == "a0" else "a0"
    driver.put(30, devices=(0,))
    driver.put(31, devices=(3,))
    driver.compile(1, devices=devices_of(driver, 1))
    driver.compile(2, devices=devices_of(driver, 2))
    drain(driver, host)
    effects = go(driver)
    assert is_drained(driver, host)
    assert members(driver) == [stays]
    assert not replies(driver.log, out.Notice)
    pulled = {pull.source for _, pull in sent(effects, out.PullShard)}
    assert pulled == {host}, "what lay on the host that goes came over before the epoch ended"
    driver.lose(host)
    assert {read(driver, array, array, shard) for array in (10, 20) for shard in (0, 1)} == {stays}
    assert {read(driver, array, array) for array in (30, 31)} == {stays}
    for executable, array in ((1, 10), (2, 20)):
        effects = serve(driver, driver.execute(executable, (array,), 40 + executable))
        assert [each for each, _ in sent(effects, out.Prepare)] == [stays]
    assert not replies(driver.log, out.FetchFailed)


@both
def test_hosts_that_stay_get_other_ranks_and_keep_what_they_have(memory: int) -> None:
    driver = cluster(3, memory=memory)
    driver.add_slice(3, 2)
    third = devices_of(driver, 3)
    assert [positions_of(driver, each) for each in (1, 2, 3)] == [(0, 1), (2, 3), (4, 5)]
    driver.put(50, devices=third)
    driver.view(51, (50, 1, 1))
    driver.compile(3, devices=third)
    driver.compile(4, devices=third[1:])
    drain(driver, "a0")
    go(driver)
    assert is_drained(driver, "a0")
    assert members(driver) == ["a1", "a2"]
    assert positions_of(driver, 3) == (2, 3), "the same devices of a2"
    assert [read(driver, array, array) for array in (20, 50, 51)] == ["a1", "a2", "a2"]
    effects = serve(driver, driver.execute(3, (50,), 60))
    assert [(host, load.devices) for host, load in sent(effects, out.Load)] == [("a2", (2, 3))]
    driver.finish("a2", 1)
    effects = serve(driver, driver.execute(4, (51,), 61))
    assert [(host, load.devices) for host, load in sent(effects, out.Load)] == [("a2", (3,))]


@pytest.mark.parametrize("host", ["a0", "a1", "a2"])
def test_traced_programs_go_on_also_of_a_slice_that_is_suspended_meanwhile(host: str) -> None:
    driver = cluster(3)
    driver.add_slice(3, 1)
    keeps = 2 if host != "a1" else 1
    lies = rows(*devices_of(driver, keeps))
    chain(driver, lies, lies)
    put(driver, 70, lies)
    driver.step(events.SuspendRequested(SessionNumber(1), keeps))
    go(driver, 3)
    drain(driver, host)
    go(driver)
    assert is_drained(driver, host)
    assert driver.core.state.sessions[SessionNumber(1)].slices[keeps].state is SliceState.SUSPENDED
    driver.step(events.ResumeRequested(SessionNumber(1), keeps))
    go(driver, 3)
    effects = serve(driver, run(driver, (70,), 80))
    expected = "a0" if keeps == 1 else "a1"
    assert [each for each, _ in sent(effects, out.RunPlan)] == [expected]
    assert read(driver, 70) == expected


def test_what_is_asked_for_meanwhile_is_done_afterwards_in_its_order() -> None:
    driver = cluster()
    driver.compile(1, devices=devices_of(driver, 1))
    drain(driver)
    seen: list[out.Effect] = []
    for number in range(12):
        seen += serve(driver, driver.execute(1, (10,), 100 + number))
        seen += go(driver, 1)
        seen += driver.finish("a0", driver.core.state.hosts[HostName("a0")].last_sequence)
    seen += go(driver)
    assert is_drained(driver)
    prepared = [command.execution_id - gid(5100) for _, command in sent(seen, out.Prepare)]
    assert prepared == list(range(12))


def test_sessions_that_are_under_way_are_waited_for_and_others_go_on_when_that_takes_too_long() -> None:
    driver = cluster(stuck_ns=0)
    driver.open(2)
    driver.add_slice(1, 1, session=2)
    driver.compile(1, devices=(0,), session=2)
    driver.execute(1, (), 20, session=2)
    drain(driver)
    go(driver, 16)
    assert not is_drained(driver)
    assert text(driver) == "session 2 (test) is being moved, which waits for work that runs on island a"
    driver.finish("a0", 1)
    while not driver.core.state.regroupings:
        go(driver, 1)
    driver.execute(1, (), 21, session=2)
    go(driver, 8)
    assert not is_drained(driver)
    assert text(driver) == "session 2 has work that runs on island a"
    driver.compile(9, devices=(0,))
    told = why.of_session(driver.core.state, driver.now_ns, SessionNumber(1), None).sentences
    assert (
        "waits until island a is formed without a host that is drained; 1 things that it asked for meanwhile are held back"
    ) in told[0]
    go(driver, 620)
    assert text(driver).startswith("island a was not formed without a host: after 60 s session 2 has work that runs on island a")
    assert driver.core.state.sessions[SessionNumber(1)].executables[gid(9)].announced
    driver.finish("a0", 2)
    go(driver, 120)
    assert is_drained(driver)


def test_a_slice_that_fits_on_no_other_host_is_named_and_nothing_else_is_touched() -> None:
    driver = cluster()
    driver.release_slice(2)
    driver.add_slice(3, 4)
    drain(driver)
    go(driver)
    assert not is_drained(driver)
    assert text(driver) == (
        "slice 3 of session 1 cannot be moved off island a: there is no other island; the other hosts of island a cannot take it"
        " either (they have 2 and it needs 4)"
    )
    assert members(driver) == ["a0", "a1"]
    driver.release_slice(3)
    go(driver, 120)
    assert is_drained(driver)


def test_an_array_over_all_devices_keeps_the_host_until_it_is_gone() -> None:
    driver = cluster()
    driver.put(30, devices=(0, 1, 2, 3))
    drain(driver)
    go(driver)
    assert not is_drained(driver)
    assert "an array or a program needs more devices than are left there" in text(driver)
    driver.release(30)
    go(driver, 120)
    assert is_drained(driver)


def test_primary_devices_become_one_only_of_a_session_that_has_slices() -> None:
    driver = Driver({"a": ["a0", "a1"]}, devices=2, pool_slices=3)
    driver.open(1)
    driver.compile(1, devices=(2, 3))
    drain(driver)
    go(driver)
    assert "it has no slices, so any program of it may use them together" in text(driver)
    drain(driver, on=False)
    driver.add_slice(1, 1)
    drain(driver)
    go(driver, 120)
    assert is_drained(driver)
    assert [host for host, _ in sent(serve(driver, driver.execute(1, (), 20)), out.Prepare)] == ["a0"]
    effects = driver.compile(2, devices=(0, 2))
    assert only(replies(effects, out.Compiled)).failure.message == (  # type: ignore[union-attr]
        "program 2 names devices 0 and 2, which share one physical device of island a since a host of it was drained; use one of"
        " them, or connect again"
    )


def test_a_program_on_devices_that_became_one_runs_and_is_not_kept_under_a_name() -> None:
    driver = cluster()
    chain(driver, rows(0), rows(2))
    put(driver, 60, rows(0))
    drain(driver)
    go(driver)
    assert is_drained(driver)
    effects = serve(driver, run(driver, (60,), 70))
    assert [host for host, _ in sent(effects, out.RunPlan)] == ["a0"]
    effects = driver.step(events.RegistrationRequested(SessionNumber(1), gid(900), "kept", False))
    failure = only(replies(effects, out.ProgramRegistered)).failure
    assert failure is not None
    assert "devices 0 and 2 of program" in failure.message
    assert "share one physical device since a host was drained" in failure.message


def test_a_host_without_room_leaves_everything_and_it_is_tried_again() -> None:
    driver = cluster()
    drain(driver)
    go(driver, 8, Failure(Reason.RESOURCE_EXHAUSTED, "no room", host="a0"))
    assert not is_drained(driver)
    assert "a host has no room for its arrays (spill_memory, spill_disk of its worker)" in text(driver)
    assert members(driver) == ["a0", "a1"]
    driver.compile(1, devices=devices_of(driver, 1))
    effects = serve(driver, driver.execute(1, (10,), 40))
    assert [host for host, _ in sent(effects, out.Prepare)] == ["a0"]
    driver.finish("a0", 1)
    go(driver, 120)
    assert is_drained(driver)
    assert read(driver, 20) == "a0"


def test_arrays_that_share_bytes_are_copied_apart_first() -> None:
    driver = cluster()
    session = driver.core.state.sessions[SessionNumber(1)]
    one = session.buffers[gid(10)]
    alias = buffers.make(session, gid(11), one.placement, one.shard_bytes, BufferState.PENDING)
    alias.spec, alias.epoch = one.spec, one.epoch
    buffers.link(alias, one)
    buffers.present(driver.core.state, alias)
    drain(driver)
    go(driver, 12)
    assert is_drained(driver)
    assert {read(driver, array, array) for array in (10, 11)} == {"a0"}


@pytest.mark.parametrize("token", [False, True])
def test_arrays_without_bytes_are_there_again_afterwards(token: bool) -> None:
    driver = cluster()
    empty = rows(*devices_of(driver, 1), size=0)
    put(driver, 90, empty)
    if token:  # as of a program without results: nobody said of what type it is
        driver.core.state.sessions[SessionNumber(1)].buffers[gid(90)].spec = None
    drain(driver)
    go(driver)
    assert is_drained(driver)
    host, placed = sent(driver.log, out.PlaceArray)[-1]
    assert (host, placed.spec.shard_bytes) == ("a0", 0)
    assert [piece.inline for piece in placed.pieces] == [b"\0" if token else b""] * 2, "executors hold a stand-in of a token"
    assert read(driver, 90) == "a0"


def test_a_drain_that_is_undone_while_sessions_are_being_quiet_leaves_everything() -> None:
    driver = cluster()
    driver.compile(1, devices=(0,))
    drain(driver)
    go(driver, 3)
    while not driver.core.state.regroupings:
        go(driver, 1)
    drain(driver, on=False)
    driver.execute(1, (), 40)
    go(driver, 2)
    assert not driver.core.state.regroupings
    assert not driver.core.state.migrations
    assert members(driver) == ["a0", "a1"]
    assert [host for host, _ in sent(driver.log, out.Prepare)] == ["a0"]


def begin_to_part(driver: Driver) -> None:
    """Up to the moment in which the island forms without a1, whose hosts do not answer yet."""
    driver.answer_membership = False
    for _ in range(20):
        go(driver, 1)
        if len(driver.core.state.islands[IslandName("a")].seated) == 1:
            return
    raise AssertionError(text(driver))


def test_a_drain_that_is_undone_while_the_island_forms_is_too_late_for_this_epoch_and_nothing_is_lost() -> None:
    driver = cluster()
    drain(driver)
    begin_to_part(driver)
    drain(driver, on=False)
    driver.answer_membership = True
    driver.step(driver.entered("a0", driver.epoch()))
    go(driver, 2)
    assert members(driver) == ["a0"]
    assert [read(driver, array, array) for array in (10, 20)] == ["a0", "a0"]


def test_a_host_that_dies_while_the_island_forms_takes_what_it_kept_and_the_drained_one_stays_out() -> None:
    driver = cluster(3)
    driver.add_slice(3, 2)
    driver.put(50, devices=devices_of(driver, 3))
    drain(driver, "a0")
    driver.answer_membership = False
    for _ in range(20):
        go(driver, 1)
        if len(driver.core.state.islands[IslandName("a")].seated) == 2:
            break
    driver.answer_membership = True
    driver.lose("a2")
    go(driver, 60)
    assert members(driver) == [], "the drained one does not take its place"
    driver.join("a2", "a")
    go(driver, 60)
    assert members(driver) == ["a1", "a2"]
    assert read(driver, 20, 20) == "a1"
    failed = only(replies(driver.fetch(50, 50), out.FetchFailed)).failure
    assert (failed.reason, failed.host) == (Reason.BUFFER_LOST, "a2")


@pytest.mark.parametrize("host", ["a0", "a1"])
def test_a_loss_before_the_epoch_ends_gives_it_up_and_names_the_cause(host: str) -> None:
    driver = cluster()
    drain(driver)
    go(driver, 2)
    for _ in range(10):
        driver.pass_time(TICK_S)
        if any(session.migration and session.migration.closed for session in driver.core.state.sessions.values()):
            break
    driver.kill_executor(host)
    go(driver, 40)
    assert not driver.core.state.regroupings or not any(driver.core.state.migrations)
    failure = only(replies(driver.fetch(10), out.FetchFailed)).failure
    assert (failure.reason, failure.host) == (Reason.BUFFER_LOST, host)
    go(driver, 200)
    assert is_drained(driver), "what is left is quiet"


def test_an_island_in_use_forms_again_without_a_host_that_was_drained_before() -> None:
    driver = Driver({"a": ["a0", "a1", "a2"]}, pool_slices=3)
    drain(driver, "a0")
    driver.pass_time(TICK_S)
    driver.open(1)
    driver.put(10, devices=(0, 1))
    driver.kill_executor("a1")
    driver.pass_time(TICK_S)
    assert members(driver) == ["a1", "a2"]
    drain(driver, "a0", on=False)
    driver.kill_executor("a1")
    driver.pass_time(TICK_S)
    assert members(driver) == ["a1", "a2"], "its session was shown these"


def test_two_hosts_go_together() -> None:
    driver = cluster(3)
    drain(driver, "a1")
    drain(driver, "a2")
    go(driver, 12)
    assert is_drained(driver, "a1")
    assert is_drained(driver, "a2")
    assert members(driver) == ["a0"]
    assert [read(driver, array, array) for array in (10, 20)] == ["a0", "a0"]


def test_a_session_that_closes_while_all_are_being_quiet_is_no_obstacle() -> None:
    driver = cluster()
    driver.open(2)
    driver.compile(1, devices=(0,), session=2)
    driver.execute(1, (), 20, session=2)
    drain(driver)
    go(driver, 6)
    driver.close(2)
    driver.finish("a0", 1)
    go(driver, 120)
    assert is_drained(driver)
    states = [buffer.state for buffer in driver.core.state.sessions[SessionNumber(1)].buffers.values()]
    assert set(states) <= {BufferState.SPILLED, BufferState.PRESENT}
