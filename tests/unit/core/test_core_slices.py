"""Virtual slices: asked for, shared, exclusive, waited for, given back behind earlier work, and what lies on them."""

from __future__ import annotations

from typing import Any

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import Driver, gid, only, replies, sent

FOUR = {"a": ["a0", "a1"], "b": ["b0"]}


def cluster(sessions: int = 1, islands: dict[str, list[str]] | None = None, devices: int = 2, **config: Any) -> Driver:
    """Islands a (4 devices) and b (2); each session is shown one island and has a pool of 3 groups of 4."""
    driver = Driver(islands or FOUR, devices=devices, **{"pool_slices": 3, **config})
    for number in range(1, sessions + 1):
        driver.open(number, ("a",))
    return driver


def added(effects: list[out.Effect]) -> out.SliceAdded:
    return only(replies(effects, out.SliceAdded))


def refused(effects: list[out.Effect]) -> Failure:
    failure = added(effects).failure
    assert failure is not None
    return failure


def test_the_pool_follows_the_primary_devices_with_an_island_number_per_group() -> None:
    driver = Driver(FOUR, devices=2, pool_slices=2)
    devices = only(replies(driver.open(1, ("b",)), out.WelcomeSession)).devices
    assert [(d.device_id, d.slice_index, d.island, d.host, d.pool) for d in devices] == [
        (0, 0, "b", "b0", False),
        (1, 0, "b", "b0", False),
        *[(2 + index, 1, "", "", True) for index in range(4)],
        *[(6 + index, 2, "", "", True) for index in range(4)],
    ]
    assert driver.core.snapshot(0).sessions[0].device_count == 2


def test_the_pool_is_bounded() -> None:
    driver = Driver(FOUR, devices=2, pool_slices=32, pool_devices_max=10)
    assert sum(d.pool for d in only(replies(driver.open(1), out.WelcomeSession)).devices) == 8


def test_slices_take_groups_in_turn_and_spread_over_the_least_loaded_devices() -> None:
    driver = cluster()
    answers = [added(driver.add_slice(number, 2)) for number in (1, 2, 3)]
    assert [answer.devices for answer in answers] == [(4, 5), (8, 9), (12, 13)]
    assert [(answer.island, answer.hosts) for answer in answers] == [
        ("a", ("a0", "a0")),
        ("a", ("a1", "a1")),
        ("b", ("b0", "b0")),
    ]


def test_a_released_group_comes_back_last() -> None:
    driver = cluster()
    assert added(driver.add_slice(1, 1)).devices == (4,)
    driver.release_slice(1)
    assert [added(driver.add_slice(number, 1)).devices for number in (2, 3, 4)] == [(8,), (12,), (4,)]


def test_programs_arrays_and_copies_live_on_slices() -> None:
    driver = cluster()
    driver.add_slice(1, 2, island="b")
    placed = only(sent(driver.put(10, devices=(4, 5)), out.PlaceArray))
    assert (placed[0], placed[1].spec.devices) == ("b0", (0, 1))
    load = only(sent(driver.compile(1, devices=(4, 5)), out.Load))
    assert (load[0], load[1].devices) == ("b0", (0, 1))
    assert [host for host, _ in sent(driver.execute(1, (10,), 20), out.Prepare)] == ["b0"]
    driver.copy(30, 20, (0, 1))
    assert [host for host, _ in sent(driver.log, out.PullShard)] == ["a0", "a0"]


def test_an_unbound_device_says_what_to_do() -> None:
    driver = cluster()
    failure = only(replies(driver.compile(1, devices=(7,)), out.Compiled)).failure
    assert failure is not None
    assert failure.reason is Reason.PROGRAM_REFUSED
    assert failure.message == "program 1 names a device of no slice: device 7 belongs to no slice; call add_slice"
    driver.put(10, devices=(7,))
    failure = only(replies(driver.fetch(10), out.FetchFailed)).failure
    assert (failure.reason, "device 7 belongs to no slice; call add_slice" in failure.message) == (Reason.INVALID_ARGUMENT, True)


def test_two_slices_on_the_same_physical_device_are_not_one_program() -> None:
    driver = cluster(islands={"a": ["a0"]})
    driver.add_slice(1, 2)
    driver.add_slice(2, 2)
    failure = only(replies(driver.compile(1, devices=(2, 4)), out.Compiled)).failure
    assert failure is not None
    assert failure.reason is Reason.PROGRAM_REFUSED
    assert "names devices 2 and 4, which share one physical device of island a" in failure.message


def test_a_program_over_slices_of_two_islands_is_refused() -> None:
    driver = cluster()
    driver.add_slice(1, 1, island="a")
    driver.add_slice(2, 1, island="b")
    failure = only(replies(driver.compile(1, devices=(4, 8)), out.Compiled)).failure
    assert failure is not None
    assert failure.message.startswith("program 1 names devices of islands a and b; one program runs on one island")


def test_each_impossible_request_has_its_own_sentence() -> None:
    driver = cluster()
    driver.add_slice(1, 4, island="a")
    driver.add_slice(2, 2, island="b")
    asked: list[tuple[int, dict[str, Any]]] = [
        (8, {"wait": True}), (0, {}), (3, {"mesh_shape": (2, 2)}), (0, {"mesh_shape": (1, 1, 1, 2)}), (2, {"with_slices": (9,)}),
        (2, {"with_slices": (1, 2)}), (1, {"with_slices": (1,), "apart_from_slices": (1,)}), (2, {"island": "c"}),
    ]  # fmt: skip
    failures = [refused(driver.add_slice(10 + index, count, **wish)) for index, (count, wish) in enumerate(asked)]
    assert {failure.reason for failure in failures} == {Reason.INVALID_ARGUMENT}
    assert [failure.message for failure in failures] == [
        "virtual slice needs 8 devices in one island; the largest island has 4",
        "a slice needs at least one device; give devices or mesh_shape",
        "devices is 3 and mesh_shape 2x2 has 4; give one of them, or make them agree",
        "mesh_shape is 1x1x1x2; give one to three sizes of at least 1",
        "slice 9 is not one that this session holds; name slices that were added and not released",
        "the slices that it must lie with are on islands a and b; one slice lies on one island",
        "the slices it must lie with and apart from contradict: they leave 0 devices on island a and it needs 1",
        "there is no island 'c'; the cluster has a, b: name one of these, or 'any'",
    ]
    assert list(driver.core.state.slices) == [
        slice_.number for slice_ in driver.core.state.sessions[SessionNumber(1)].slices.values()
    ]


def test_a_declared_shape_takes_meshes_and_a_line_does_not() -> None:
    driver = cluster(island_shapes={"a": (2, 2)})
    assert added(driver.add_slice(1, mesh_shape=(2, 2))).hosts == ("a0", "a0", "a1", "a1")
    failure = refused(driver.add_slice(2, mesh_shape=(2, 1, 2), island="b"))
    assert failure.message == "virtual slice needs 4 devices in one island; island b has 2"
    assert "cannot lie on island a, which is a line of 4 devices" in refused(cluster().add_slice(1, mesh_shape=(2, 2))).message


def test_slices_with_and_apart_from_others() -> None:
    driver = cluster()
    driver.add_slice(1, 2, island="a")
    assert added(driver.add_slice(2, 2, with_slices=(1,))).hosts == ("a0", "a0")
    assert added(driver.add_slice(3, 2, island="a", apart_from_slices=(1, 2))).hosts == ("a1", "a1")


def test_an_exclusive_slice_keeps_other_sessions_off_until_it_is_released() -> None:
    driver = cluster(sessions=2)
    driver.add_slice(1, 4, exclusive=True)
    assert added(driver.add_slice(1, 2, session=2)).island == "b"
    failure = refused(driver.add_slice(2, 4, session=2))
    assert (failure.reason, failure.retryable) == (Reason.RESOURCE_EXHAUSTED, True)
    assert failure.message == (
        "virtual slice cannot be had now: it needs 4 devices more of island a, held exclusively by slice 1 of session 1 (test);"
        " ask again later, or with wait"
    )
    waiting = only(replies(driver.add_slice(3, 4, session=2, wait=True), out.SliceWaiting))
    assert waiting == out.SliceWaiting(
        3, "virtual slice waits for 4 devices more of island a, held exclusively by slice 1 of session 1 (test)"
    )
    figures = driver.core.snapshot(0).slices
    assert [(f.session_number, f.slice_id, f.state, f.hosts, f.exclusive) for f in figures] == [
        (1, 1, "BOUND", ("a0", "a1"), True),
        (2, 1, "BOUND", ("b0",), False),
        (2, 3, "WAITING", (), False),
    ]
    assert figures[2].waits_for.endswith("held exclusively by slice 1 of session 1 (test)")
    assert added(driver.release_slice(1)).slice_id == 3


def test_a_waiting_request_gets_what_a_closed_session_leaves() -> None:
    driver = cluster(sessions=3)
    driver.add_slice(1, 4, session=1)
    driver.add_slice(1, 4, session=2, exclusive=True, wait=True)
    driver.add_slice(1, 3, session=3, exclusive=True, wait=True)
    effects = driver.close(1)
    assert [(e.session, e.reply.failure) for e in effects if isinstance(e, out.SendToSession)
            and isinstance(e.reply, out.SliceAdded)] == [(2, None)]  # fmt: skip
    assert added(driver.close(2)).island == "a"
    driver.close(3)
    assert driver.core.state.slices == {}


def test_a_waiting_request_ends_at_its_deadline_or_when_it_is_withdrawn() -> None:
    driver = cluster(sessions=2)
    driver.add_slice(1, 4, exclusive=True)
    driver.add_slice(1, 4, session=2, wait=True, timeout_ns=5_000_000_000)
    assert driver.pass_time(4) == []
    failure = refused(driver.pass_time(1))
    assert failure.reason is Reason.TIMED_OUT
    assert "held exclusively by slice 1 of session 1" in failure.message
    driver.add_slice(2, 4, session=2, wait=True)
    assert refused(driver.release_slice(2, session=2)).reason is Reason.CANCELLED


def test_a_slice_on_an_island_that_forms_waits_for_its_hosts() -> None:
    driver = cluster()
    driver.lose("b0", "gone")
    waiting = only(replies(driver.add_slice(1, 2, island="b", wait=True), out.SliceWaiting))
    assert "island b (island b waits for 1 more host of 1; there: none, last seen: b0 (gone))" in waiting.text
    assert added(driver.join("b0", "b")).island == "b"


def test_all_groups_in_use_are_waited_for() -> None:
    driver = cluster()
    for number in (1, 2, 3):
        driver.add_slice(number, 1)
    assert only(replies(driver.add_slice(4, 1, wait=True), out.SliceWaiting)).text == (
        "virtual slice waits for one of the 3 slices that this session holds, the most allowed"
    )
    assert added(driver.release_slice(2)).devices == (8,)


def test_a_release_ends_arrays_and_programs_of_the_slice_alone() -> None:
    driver = cluster()
    driver.add_slice(1, 2, island="b")
    driver.add_slice(2, 2, island="b")  # on the same devices
    driver.put(10, devices=(4, 5))
    driver.put(11, devices=(8, 9))
    driver.compile(1, devices=(4, 5))
    driver.compile(2, devices=(8, 9), program="q")
    effects = driver.release_slice(1)
    assert only(sent(effects, out.Free)) == ("b0", out.Free((gid(10),)))
    failure = only(replies(driver.fetch(10), out.FetchFailed)).failure
    assert (failure.reason, "the slice was released" in failure.message) == (Reason.DELETED, True)
    driver.execute(1, (), 20)
    assert only(replies(driver.wait(20), out.Ready)).failure.reason is Reason.DELETED  # type: ignore[union-attr]
    assert len(sent(driver.execute(2, (11,), 21), out.Prepare)) == 1
    failure = only(replies(driver.compile(3, devices=(4,)), out.Compiled)).failure  # type: ignore[assignment]
    assert failure.message.endswith("device 4 belongs to no slice; call add_slice")


def test_a_release_comes_behind_the_work_that_was_asked_for_before() -> None:
    driver = cluster(sessions=2)
    driver.add_slice(1, 2, island="b", exclusive=True)
    driver.compile(1, devices=(4, 5))
    grants = only(replies(driver.upload(10, upload=1, devices=(4, 5)), out.UploadGrant)).targets
    driver.execute(1, (10,), 20)
    driver.fetch(20)
    driver.release_slice(1)
    assert [figures.state for figures in driver.core.snapshot(0).slices] == ["RELEASING"]
    assert replies(driver.add_slice(1, 2, island="b", session=2, wait=True), out.SliceAdded) == []
    for grant in grants[:-1]:
        driver.landed(*grant)
    effects = driver.landed(*grants[-1])
    assert len(sent(effects, out.Prepare)) == 1
    assert len(sent(effects, out.FetchShard)) == 1
    assert added(effects).island == "b"
    kinds = [type(e.command) for e in effects if isinstance(e, out.SendToHost)]
    assert kinds.index(out.Free) > kinds.index(out.FetchShard) > kinds.index(out.Prepare)


def test_slices_stay_bound_when_their_island_loses_an_epoch() -> None:
    driver = cluster()
    driver.add_slice(1, 2, island="b")
    driver.put(10, devices=(4, 5))
    effects = driver.kill_executor("b0")
    assert any("re-forms" in notice.text for notice in replies(effects, out.Notice))
    assert only(replies(driver.fetch(10), out.FetchFailed)).failure.reason is Reason.BUFFER_LOST
    driver.put(11, devices=(4, 5))
    assert len(sent(driver.fetch(11, fetch=2), out.FetchShard)) == 1


def test_a_number_in_use_and_one_unknown() -> None:
    driver = cluster()
    driver.add_slice(1, 1)
    assert refused(driver.add_slice(1, 1)).message == "id 1 names a slice already; use a new id"
    assert [type(effect) for effect in driver.release_slice(9)] == [out.Log]
    assert isinstance(driver.step(events.SliceReleased(SessionNumber(9), 1))[0], out.Log)
