"""Migrations: a slice gets devices of another island, behind its work, and its client sees nothing but a pause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events, spills, why
from pathways_server.core.records import View

from tests.unit.core.core_driver import Driver, facts, gid, only, replies, sent

TWO = {"a": ["a0", "a1"], "b": ["b0", "b1"]}
TICK_S = 0.1


def cluster(islands: dict[str, list[str]] | None = None, **config: Any) -> Driver:
    """Islands a and b of two hosts with a device each; session 1 is shown a and has slice 1 there, devices 2 and 3."""
    driver = Driver(islands or TWO, **{"pool_slices": 3, **config})
    driver.open(1, ("a",))
    driver.add_slice(1, 2, island="a")
    return driver


def migrate(driver: Driver, island: str = "b", slice_id: int = 1, session: int = 1, **who: Any) -> list[out.Effect]:
    return driver.step(events.MigrationRequested(7, SessionNumber(session), slice_id, island, **who))


def ended(effects: list[out.Effect]) -> out.MigrationEnded:
    return only([effect for effect in effects if isinstance(effect, out.MigrationEnded)])


def refused(effects: list[out.Effect]) -> Failure:
    failure = ended(effects).failure
    assert failure is not None
    return failure


def land(driver: Driver, effects: list[out.Effect]) -> list[out.Effect]:
    """All pulls among these arrive."""
    found: list[out.Effect] = []
    for host, pull in sent(effects, out.PullShard):
        found += driver.landed(host, pull.transfer_id)
    return found


def move(driver: Driver) -> list[out.Effect]:
    """A migration from its request to its end, with nothing under way."""
    effects = migrate(driver)
    effects += driver.pass_time(TICK_S)
    land(driver, effects)
    return effects + driver.pass_time(TICK_S)


def where(driver: Driver, array: int) -> tuple[str, ...]:
    """The hosts behind an array of the client."""
    handle = driver.core.state.sessions[SessionNumber(1)].handles[gid(array)]
    assert isinstance(handle, View)
    assert handle.placement is not None
    return tuple(host.name for host in handle.placement.hosts)


def test_an_array_goes_host_to_host_and_keeps_its_name() -> None:
    driver = cluster()
    driver.put(10, devices=(2, 3))
    effects = migrate(driver)
    effects += driver.pass_time(TICK_S)
    pulls = sent(effects, out.PullShard)
    assert [(host, pull.source) for host, pull in pulls] == [("b0", "a0"), ("b1", "a1")]
    assert not sent(effects, out.Free), "the original is there until the copy is"
    land(driver, effects)
    effects = driver.pass_time(TICK_S)
    assert ended(effects) == out.MigrationEnded(7, "b", ("b0", "b1"), 1, 16, None)
    assert where(driver, 10) == ("b0", "b1")
    assert [(host, command.ids) for host, command in sent(effects, out.Free)] == [("a0", (gid(10),)), ("a1", (gid(10),))]
    assert only(sent(driver.fetch(10, shard=1), out.FetchShard))[0] == "b1"


def test_colocated_python_is_not_moved_and_says_so() -> None:
    driver = cluster()
    driver.facts["python"] = replace(facts(1), python=True)
    driver.compile(1, program="python", devices=(2, 3))
    failure = refused(migrate(driver))
    assert failure.reason is Reason.UNSUPPORTED
    assert "has colocated Python on slice 1, whose objects cannot be moved" in failure.message
    driver.step(events.Released(SessionNumber(1), (), (gid(1),), ()))
    driver.put(10, devices=(2, 3))
    assert ended(move(driver)).failure is None


def test_requests_for_storage_hold_nothing_and_are_moved_and_both_hosts_tell_of_what_they_read() -> None:
    driver = cluster()
    driver.facts["storage"] = replace(facts(1), python=True, stateless=True)
    driver.compile(1, program="storage", devices=(2, 3))
    driver.put(10, devices=(2, 3))
    assert ended(move(driver)).failure is None
    effects = driver.execute(1, (10,), 20)
    prepared = dict(sent(effects, out.Prepare))
    assert list(prepared) == ["b0", "b1"]
    assert not replies(driver.fetch(20), out.FetchTicket)
    for host, prepare in prepared.items():
        effects = driver.landed(host, prepare.landings[0])
    assert only(sent(effects, out.FetchShard))[0] == "b0"


def test_programs_run_where_the_slice_is_and_are_loaded_there_at_their_next_use() -> None:
    driver = cluster()
    driver.put(10, devices=(2, 3))
    driver.compile(1, devices=(2, 3))
    driver.execute(1, (10,), 20)
    driver.finish("a0", 1)
    driver.finish("a1", 1)
    effects = move(driver)
    assert ended(effects).array_count == 2
    assert [host for host, _ in sent(effects, out.Unload)] == ["a0", "a1"]
    effects = driver.execute(1, (20,), 30)
    assert [(host, load.devices) for host, load in sent(effects, out.Load)] == [("b0", (0, 1)), ("b1", (0, 1))]
    assert [host for host, _ in sent(effects, out.Prepare)] == ["b0", "b1"]
    driver.put(40, devices=(2, 3))
    assert [host for host, _ in sent(driver.log, out.PlaceArray)][-2:] == ["b0", "b1"]


def test_work_that_was_asked_for_before_ends_first_and_what_comes_meanwhile_is_held_back_in_order() -> None:
    driver = cluster()
    driver.put(10, devices=(2, 3))
    driver.compile(1, devices=(2, 3))
    driver.execute(1, (10,), 20)
    migrate(driver)
    assert not sent(driver.pass_time(TICK_S), out.PullShard), "a gang is under way"
    effects = driver.execute(1, (20,), 30)
    effects += driver.fetch(30, fetch=5)
    assert not effects, "held back"
    driver.finish("a0", 1)
    driver.finish("a1", 1)
    effects = driver.pass_time(TICK_S)
    assert len(sent(effects, out.PullShard)) == 4
    land(driver, effects)
    effects = driver.pass_time(TICK_S)
    assert ended(effects).failure is None
    assert [host for host, _ in sent(effects, out.Prepare)] == ["b0", "b1"]
    assert only(sent(effects, out.FetchShard))[0] == "b0"


def test_why_says_that_a_slice_is_being_moved_and_what_that_waits_for() -> None:
    driver = cluster()
    driver.compile(1, devices=(2, 3))
    driver.execute(1, (), 20)
    migrate(driver)
    driver.pass_time(TICK_S)
    driver.fetch(20)
    told = why.of_session(driver.core.state, driver.now_ns, SessionNumber(1), None).sentences[0]
    moved = "of which slice 1 is being moved to island b (that waits for work that runs on island a; 1 things that it asked for"
    assert moved in told


def test_a_callback_is_answered_meanwhile_because_the_work_before_waits_for_it() -> None:
    driver = cluster()
    driver.compile(1, devices=(2, 3), callbacks=(4,))
    driver.execute(1, (), 20)
    migrate(driver)
    driver.pass_time(TICK_S)
    driver.step(events.CallbackCalled(HostName("a0"), 9, SessionNumber(1), 4, b"", 10**9))
    called = only(replies(driver.log, out.CallbackRequest))
    effects = driver.step(events.CallbackReturned(SessionNumber(1), called.call_id, b"", None))
    assert only(sent(effects, out.CallbackReply))[0] == "a0"


def test_work_that_does_not_end_is_named_and_everything_goes_on_where_it_was() -> None:
    driver = cluster(migration_ns=3 * 10**9)
    driver.put(10, devices=(2, 3))
    driver.compile(1, devices=(2, 3))
    driver.execute(1, (10,), 20)
    migrate(driver)
    driver.pass_time(TICK_S)
    assert not driver.fetch(10)
    effects = driver.pass_time(3)
    failure = refused(effects)
    assert failure.reason is Reason.TIMED_OUT
    assert "after 3 s it still has work that runs on island a" in failure.message
    assert only(sent(effects, out.FetchShard))[0] == "a0"


def test_a_lost_target_leaves_everything_where_it_was() -> None:
    driver = cluster()
    driver.put(10, devices=(2, 3))
    migrate(driver)
    assert sent(driver.pass_time(TICK_S), out.PullShard)
    driver.lose("b1")
    effects = driver.pass_time(TICK_S)
    assert refused(effects).reason in (Reason.UNAVAILABLE, Reason.BUFFER_LOST)
    assert only(sent(driver.fetch(10), out.FetchShard))[0] == "a0"
    assert list(driver.core.state.sessions[SessionNumber(1)].buffers) == [gid(10)]


def test_a_lost_origin_loses_the_arrays_and_the_migration() -> None:
    driver = cluster()
    driver.put(10, devices=(2, 3))
    migrate(driver)
    driver.pass_time(TICK_S)
    driver.lose("a1")
    refused(driver.pass_time(TICK_S))
    assert only(replies(driver.fetch(10), out.FetchFailed)).failure.reason is Reason.BUFFER_LOST


def test_a_session_that_ends_takes_its_migration_along() -> None:
    driver = cluster()
    driver.put(10, devices=(2, 3))
    migrate(driver)
    driver.pass_time(TICK_S)
    driver.compile(1, devices=(2, 3), program="held")
    effects = driver.close()
    assert refused(effects).reason is Reason.CANCELLED
    assert out.DropProgram("held") in effects
    assert not driver.core.state.migrations


def test_views_and_their_parts_are_moved_along() -> None:
    driver = cluster()
    driver.put(10, devices=(2, 3))
    driver.view(11, (10, 1, 1))
    driver.compile(1, devices=(3,))
    driver.execute(1, (11,), 20)
    driver.finish("a1", 1)
    move(driver)
    effects = driver.execute(1, (11,), 30)
    assert [host for host, _ in sent(effects, out.PlaceView)] == ["b1"]
    assert [host for host, _ in sent(effects, out.Prepare)] == ["b1"]
    driver.release(10)
    assert only(sent(driver.fetch(11), out.FetchShard))[0] == "b1"


def test_a_copy_that_others_push_off_its_devices_meanwhile_is_there_all_the_same() -> None:
    driver = cluster()
    driver.put(10, devices=(2, 3))
    driver.put(11, devices=(2, 3))
    effects = migrate(driver) + driver.pass_time(TICK_S)
    pulls = sent(effects, out.PullShard)
    for host, pull in pulls[:2]:
        driver.landed(host, pull.transfer_id)
    state = driver.core.state
    session = state.sessions[SessionNumber(1)]
    assert session.migration is not None
    copy = session.migration.copies[session.buffers[gid(10)]]
    spills.spill(state, copy)
    for host in ("b0", "b1"):
        driver.step(events.ArraySpilled(HostName(host), copy.id, state.moving[copy.id].number, 8, None))
    for host, pull in pulls[2:]:
        driver.landed(host, pull.transfer_id)
    assert ended(driver.pass_time(TICK_S)).failure is None
    assert [host for host, _ in sent(driver.fetch(10), out.RestoreArray)] == ["b0", "b1"]


def test_what_lies_on_two_slices_is_not_moved() -> None:
    driver = cluster({"a": ["a0", "a1", "a2"], "b": ["b0", "b1", "b2"]})
    driver.add_slice(2, 1, island="a", apart_from_slices=(1,))
    driver.put(10, devices=(3, 6))
    failure = refused(migrate(driver))
    assert failure.reason is Reason.UNSUPPORTED
    assert failure.message == (
        "an array of session 1 lies on slice 1 and on other devices of island a; only what lies on one slice can be moved"
    )


def test_requests_that_cannot_be_met_are_refused_with_one_sentence() -> None:
    driver = cluster({"a": ["a0", "a1"], "b": ["b0"]})
    assert refused(migrate(driver)).message == (
        "slice 1 of session 1 cannot be moved to island b: virtual slice needs 2 devices in one island; island b has 1"
    )
    assert refused(migrate(driver, "a")).message == "slice 1 of session 1 lies on island a; name another one"
    assert "there is no island 'c'" in refused(migrate(driver, "c")).message
    assert refused(migrate(driver, slice_id=9)).message == (
        "session 1 holds no slice 9; `pathways status` lists those that are held"
    )
    assert refused(migrate(driver, tenant="other")).message == (
        "session 1 holds no slice 1; `pathways status` lists those that are held"
    )


def test_an_island_of_another_kind_is_refused() -> None:
    driver = cluster()
    driver.core.state.islands["b"].device_kind = "other"  # type: ignore[index]
    assert "island b has devices of kind other, not 'cpu'" in refused(migrate(driver)).message


def test_devices_that_somebody_holds_exclusively_are_not_taken() -> None:
    driver = cluster()
    driver.open(2, ("b",))
    driver.add_slice(1, 2, session=2, island="b", exclusive=True)
    failure = refused(migrate(driver))
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert "held exclusively by slice 1 of session 2" in failure.message


def test_devices_that_a_slice_is_on_its_way_to_are_not_given_to_others() -> None:
    driver = cluster()
    driver.open(2, ("b",))
    driver.put(10, devices=(2, 3))
    effects = migrate(driver)
    failure = only(replies(driver.add_slice(1, 1, session=2, island="b", exclusive=True), out.SliceAdded)).failure
    assert failure is not None
    assert "in use by slice 1 of session 1" in failure.message
    effects += driver.pass_time(TICK_S)
    land(driver, effects)
    assert ended(driver.pass_time(TICK_S)).failure is None


def test_one_at_a_time() -> None:
    driver = cluster()
    migrate(driver)
    assert "is being moved already" in refused(migrate(driver)).message


def test_an_island_that_is_left_is_not_used_any_more() -> None:
    driver = Driver(TWO, pool_slices=3)
    driver.open(1, ("a",))
    driver.add_slice(1, 2, island="b")
    driver.put(10, devices=(2, 3))
    move_to_a = driver.step(events.MigrationRequested(7, SessionNumber(1), 1, "a"))
    move_to_a += driver.pass_time(TICK_S)
    land(driver, move_to_a)
    driver.pass_time(TICK_S)
    driver.pass_time(TICK_S)
    state = driver.core.state
    assert list(state.sessions[SessionNumber(1)].used) == ["a"]
    assert state.islands["b"].size_bound == 0  # type: ignore[index]
    driver.lose("b0")
    assert only(sent(driver.fetch(10), out.FetchShard))[0] == "a0"


def test_what_is_asked_without_end_ends_the_migration_and_not_the_session() -> None:
    driver = cluster(held_back_max=2)
    driver.put(10, devices=(2, 3))
    driver.compile(1, devices=(2, 3))
    driver.execute(1, (10,), 20)
    migrate(driver)
    driver.pass_time(TICK_S)
    driver.fetch(10, fetch=1)
    driver.fetch(10, fetch=2)
    effects = driver.fetch(10, fetch=3)
    assert refused(effects).reason is Reason.RESOURCE_EXHAUSTED
    assert len(sent(effects, out.FetchShard)) == 3
