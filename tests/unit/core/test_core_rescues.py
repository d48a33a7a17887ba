"""What outlives an epoch by hand: which arrays are kept, who waits for whom, and what is lost by name after all."""

from __future__ import annotations

from typing import Any

import pytest
from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import KEPT, Failure, Reason
from pathways_common.model.ids import GlobalId, HostName, Sequence, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events, resource_manager
from pathways_server.core.records import Buffer
from pathways_server.core.transitions import BufferState, IslandState

from tests.unit.core.core_driver import F32, Driver, gid, only, replies, sent

FULL = Failure(Reason.RESOURCE_EXHAUSTED, "the store is full", host="a1")


def ready(**options: Any) -> Driver:
    """Two hosts; arrays 10 on a1 alone, 11 on a0 alone, 12 on both. Hosts answer nothing at the end of an epoch."""
    driver = Driver(**options)
    driver.open(1, ("*",))
    driver.compile(1)
    driver.compile(2, (1,))
    driver.put(10, (1,))
    driver.put(11, (0,))
    driver.put(12)
    driver.answer_ends = False
    return driver


def buffer(driver: Driver, number: int) -> Buffer:
    return driver.core.state.sessions[SessionNumber(1)].buffers[gid(number)]


def keeps(effects: list[out.Effect], host: str) -> list[out.Keep]:
    return [keep for name, command in sent(effects, out.EpochEnd) if name == host for keep in command.keep]


def island_state(driver: Driver) -> IslandState:
    return next(iter(driver.core.state.islands.values())).state


def back(driver: Driver, effects: list[out.Effect]) -> list[out.Effect]:
    """Hosts put back what they are told to."""
    seen: list[out.Effect] = []
    for host, command in sent(effects, out.RestoreArray):
        seen += driver.step(events.ArrayRestored(HostName(host), command.buffer_id, command.spill_number, None))
    return seen


def give_up(driver: Driver, how: str, number: int) -> None:
    """The client lets go of an array: by itself, of its bytes, or with everything."""
    if how == "release":
        driver.release(number)
    elif how == "delete":
        driver.delete(number)
    else:
        driver.close()


def test_whose_executor_is_gone_keeps_the_coordination_service_for_the_others() -> None:
    effects = ready().kill_executor("a0")
    told = dict(sent(effects, out.EpochEnd))
    assert told["a0"].timeout_ns == told["a1"].timeout_ns > 0
    assert not told["a0"].keep


def test_what_lies_on_survivors_is_put_away_before_the_next_epoch_and_comes_back_when_it_is_read() -> None:
    driver = ready()
    effects = driver.kill_executor("a0")
    keep = only(keeps(effects, "a1"))
    assert (keep.buffer_id, keep.stored_id) == (gid(10), gid(10))
    assert not keeps(effects, "a0")
    timeout = only([command.timeout_ns for _, command in sent(effects, out.EpochEnd) if command.keep])
    assert 0 < timeout < driver.core.state.config.rescue_ns
    assert buffer(driver, 10).state is BufferState.SPILLING
    assert [buffer(driver, number).failure.reason for number in (11, 12)] == [Reason.BUFFER_LOST] * 2  # type: ignore[union-attr]
    assert not sent(effects, out.StartCoordinator)
    driver.step(driver.kept("a1", keep))
    assert buffer(driver, 10).state is BufferState.SPILLED
    assert island_state(driver) is IslandState.WAITING
    driver.step(driver.left("a1", 1))
    assert island_state(driver) is IslandState.ACTIVE
    effects = driver.fetch(10)
    assert [host for host, _ in sent(effects, out.RestoreArray)] == ["a1"]
    fetch = only(sent(back(driver, effects), out.FetchShard))[1]
    answer = driver.step(events.ShardFetched(HostName("a1"), fetch.fetch_id, b"12345678", None))
    assert only(replies(answer, out.Fetched)).data == b"12345678"


def test_with_nothing_to_keep_the_island_forms_at_once() -> None:
    driver = ready()
    driver.release(10)
    effects = driver.kill_executor("a0")
    assert [command.keep for _, command in sent(effects, out.EpochEnd)] == [(), ()]
    assert sent(effects, out.StartCoordinator)


def test_nothing_is_kept_where_there_is_no_time_for_it() -> None:
    driver = ready(rescue_ns=0)
    effects = driver.kill_executor("a0")
    assert [command.keep for _, command in sent(effects, out.EpochEnd)] == [(), ()]
    assert buffer(driver, 10).state is BufferState.POISONED


def test_a_gang_that_has_not_ended_leaves_nothing_nor_what_was_computed_from_it() -> None:
    driver = ready()
    driver.compile(3)
    driver.execute(3, (12,), 20)  # a0 has not ended it, a1 has, and the next one too
    driver.view(21, (20, 1, 1))
    driver.execute(2, (21,), 22)
    driver.execute(2, (10,), 23)
    driver.finish("a1", 3)
    effects = driver.kill_executor("a0")
    assert sorted(keep.buffer_id for keep in keeps(effects, "a1")) == [gid(10), gid(23)]
    assert buffer(driver, 22).state is BufferState.POISONED


def test_work_that_waits_takes_what_was_kept_in_the_next_epoch() -> None:
    driver = ready()
    keep = only(keeps(driver.kill_executor("a0"), "a1"))
    effects = driver.execute(2, (10,), 20)
    assert not sent(effects, out.Prepare)
    driver.step(driver.kept("a1", keep))
    effects = driver.step(driver.left("a1", 1))
    assert only(sent(effects, out.RestoreArray))[0] == "a1"
    prepare = only(sent(back(driver, effects), out.Prepare))[1]
    assert (prepare.arguments, prepare.epoch) == ((gid(10),), 2)


def test_a_read_that_was_under_way_is_asked_again_and_its_old_answer_is_nobodys() -> None:
    driver = ready()
    old = only(sent(driver.fetch(10), out.FetchShard))[1]
    wait = only(sent(driver.wait(10), out.AwaitReady))[1]
    effects = driver.kill_executor("a0")
    keep = only(keeps(effects, "a1"))
    assert not replies(effects, out.FetchFailed)
    assert not replies(effects, out.Ready)
    assert not replies(driver.step(events.ShardFetched(HostName("a1"), old.fetch_id, b"garbage!", None)), out.Fetched)
    assert not replies(driver.step(events.BecameReady(HostName("a1"), wait.wait_id, None)), out.Ready)
    assert only(replies(driver.step(driver.kept("a1", keep)), out.Ready)).failure is None
    effects = driver.step(driver.left("a1", 1))
    fetch = only(sent(back(driver, effects), out.FetchShard))[1]
    assert fetch.fetch_id != old.fetch_id
    answer = driver.step(events.ShardFetched(HostName("a1"), fetch.fetch_id, b"12345678", None))
    assert only(replies(answer, out.Fetched)).fetch_id == 1


def test_a_read_with_a_ticket_out_fails_and_says_that_the_array_is_kept() -> None:
    driver = ready(inline_bytes_max=4)
    ticket = only(replies(driver.fetch(10), out.FetchTicket))
    failure = only(replies(driver.kill_executor("a0"), out.FetchFailed)).failure
    assert ticket.source == "a1"
    assert (failure.reason, failure.retryable, failure.host) == (Reason.UNAVAILABLE, True, "a0")
    assert "it is kept, so read it again" in failure.message
    assert KEPT in failure.metadata


def test_a_host_that_does_not_keep_its_part_loses_the_array_by_name() -> None:
    driver = ready()
    keep = only(keeps(driver.kill_executor("a0"), "a1"))
    driver.step(driver.kept("a1", keep, FULL))
    failure = buffer(driver, 10).failure
    assert failure is not None
    assert (failure.reason, failure.host) == (Reason.BUFFER_LOST, "a0")
    assert "held by session 1" in failure.message
    assert failure.message.endswith("host a1 did not keep it: the store is full")
    driver.step(driver.left("a1", 1))
    assert island_state(driver) is IslandState.ACTIVE


def test_a_host_that_does_not_leave_in_time_is_ended_and_named_and_what_it_says_later_is_dropped() -> None:
    driver = ready()
    keep = only(keeps(driver.kill_executor("a0"), "a1"))
    island = driver.core.state.hosts[HostName("a1")].island
    assert resource_manager.lacks(driver.core.state, island) == (
        "island a waits until what outlives epoch 1 is in the stores of a1"
    )
    driver.pass_time(0.1)
    effects: list[out.Effect] = []
    for _ in range(25):
        effects += driver.pass_time(0.1)
    assert [(host, command.keep) for host, command in sent(effects, out.EpochEnd)] == [("a1", ())]
    failure = buffer(driver, 10).failure
    assert failure is not None
    assert failure.message.endswith("host a1 did not say within 2.0 s that it kept its part")
    assert island_state(driver) is IslandState.ACTIVE
    effects = driver.step(driver.kept("a1", keep))
    assert [command.ids for _, command in sent(effects, out.DropSpilled)] == [(gid(10),)]
    assert not driver.step(driver.left("a1", 1))


def test_a_host_that_is_lost_meanwhile_takes_its_part_with_it_and_is_not_waited_for() -> None:
    driver = ready()
    keep = only(keeps(driver.kill_executor("a0"), "a1"))
    driver.step(driver.kept("a1", keep))
    driver.lose("a1")
    assert buffer(driver, 10).state is BufferState.POISONED
    assert driver.core.state.hosts[HostName("a0")].island.rescue is None
    driver.join("a1", "a")
    assert island_state(driver) is IslandState.ACTIVE


def test_a_host_that_has_left_and_is_lost_takes_its_part_of_what_others_still_put_away() -> None:
    driver = Driver({"a": ["a0", "a1", "a2"]})
    driver.open(1, ("*",))
    driver.put(10, (1, 2))
    driver.answer_ends = False
    keep = only(keeps(driver.kill_executor("a0"), "a1"))
    driver.step(driver.kept("a1", keep))
    driver.step(driver.left("a1", 1))
    driver.lose("a1")
    failure = buffer(driver, 10).failure
    assert failure is not None
    assert failure.message.endswith("host a1, which was to keep a part of it, was lost: connection reset")


def test_an_answer_to_an_earlier_end_is_not_heard() -> None:
    driver = ready()
    first = only(keeps(driver.kill_executor("a0"), "a1"))
    driver.step(driver.kept("a1", first))
    driver.step(driver.left("a1", 1))
    back(driver, driver.fetch(10))
    second = only(keeps(driver.kill_executor("a0"), "a1"))
    assert second.spill_number != first.spill_number
    driver.step(driver.kept("a1", first))
    assert buffer(driver, 10).state is BufferState.SPILLING
    driver.step(driver.left("a1", 1))
    assert island_state(driver) is IslandState.WAITING, "it left an earlier epoch"
    driver.step(driver.left("a1", 2))
    assert buffer(driver, 10).state is BufferState.POISONED, "it left and did not answer"


@pytest.mark.parametrize("how", ["release", "delete", "close"])
def test_what_is_given_up_while_it_is_put_away_is_dropped(how: str) -> None:
    driver = ready()
    keep = only(keeps(driver.kill_executor("a0"), "a1"))
    give_up(driver, how, 10)
    effects = driver.step(driver.kept("a1", keep))
    assert [(host, command.ids) for host, command in sent(effects, out.DropSpilled)] == [("a1", (gid(10),))]
    driver.step(driver.left("a1", 1))
    assert not driver.core.state.moving
    assert island_state(driver) is IslandState.ACTIVE


def test_with_budgets_what_was_kept_takes_room_again_when_it_comes_back() -> None:
    driver = ready(memory=64)
    keep = only(keeps(driver.kill_executor("a0"), "a1"))
    driver.step(driver.kept("a1", keep))
    driver.step(driver.left("a1", 1))
    account = driver.core.state.hosts[HostName("a1")].account
    assert account is not None
    assert (account.held, account.spilled_bytes) == ([0], 8)
    back(driver, driver.fetch(10))
    assert (account.held, account.spilled_bytes) == ([8], 0)


def test_names_of_parts_are_made_again_in_the_next_epoch() -> None:
    driver = ready(devices=2)
    driver.put(30, (2, 3))
    driver.compile(4, (3,))
    driver.view(31, (30, 1, 1))
    driver.execute(4, (31,), 32)
    driver.finish("a1", 1)
    effects = driver.kill_executor("a0")
    for keep in keeps(effects, "a1"):
        driver.step(driver.kept("a1", keep))
    driver.step(driver.left("a1", 1))
    effects = driver.execute(4, (31,), 33)
    effects += back(driver, effects)
    view = only(sent(effects, out.PlaceView))[1]
    assert view.shards == (out.LocalShard(GlobalId(gid(30)), 1),)
    assert only(sent(effects, out.Prepare))[1].sequence == Sequence(1)


def replicated(driver: Driver, number: int, devices: tuple[int, ...], values: bytes = b"12345678") -> None:
    """An array of which every device holds all."""
    piece = events.Piece(tuple(range(len(devices))), 8, values, 0)
    driver.step(events.ArrayMade(SessionNumber(1), gid(number), ArraySpec(F32, (2,), b"", (2,), devices), (piece,)))


def test_what_has_an_equal_shard_on_a_survivor_is_made_again_of_that() -> None:
    driver = ready()
    replicated(driver, 13, (0, 1))
    driver.release(10)
    effects = driver.kill_executor("a0")
    keep = only(keeps(effects, "a1"))
    assert keep.buffer_id == gid(13)
    assert keep.stored_id != gid(13)
    assert buffer(driver, 13).state is BufferState.PENDING
    driver.step(driver.kept("a1", keep))
    effects = driver.step(driver.left("a1", 1))
    host, restore = only(sent(effects, out.RestoreArray))
    assert (host, restore.buffer_id) == ("a1", keep.stored_id)
    effects = back(driver, effects)
    host, fetch = only(sent(effects, out.FetchShard))
    assert (host, fetch.shard) == ("a1", out.LocalShard(keep.stored_id, 0))
    placed = dict(sent(effects, out.PlaceArray))
    assert only(list(placed["a1"].pieces)).local == out.LocalShard(keep.stored_id, 0)  # type: ignore[index]
    host, pull = only(sent(effects, out.PullShard))
    assert (host, pull.source) == ("a0", "a1")
    driver.landed("a0", pull.transfer_id)
    assert buffer(driver, 13).state is BufferState.PRESENT
    assert keep.stored_id not in driver.core.state.sessions[SessionNumber(1)].buffers
    assert ("a1", (keep.stored_id,)) in [(host, command.ids) for host, command in sent(driver.log, out.Free)]


def test_each_lost_shard_is_made_of_its_own_equal_one() -> None:
    driver = Driver({"a": ["a0", "a1"]}, devices=2)
    driver.open(1, ("*",))
    driver.answer_ends = False
    # Two tiles, each on one device of each host: devices 0 and 3 hold the first, 1 and 2 the second.
    tiles = b"\x08\x03\x1a\x02\x02\x02\x22\x04\x00\x03\x01\x02\x30\x01"  # xla.OpSharding, replicated over the last tiles
    pieces = (events.Piece((0, 3), 8, b"11111111", 0), events.Piece((1, 2), 8, b"22222222", 0))
    driver.step(events.ArrayMade(SessionNumber(1), gid(13), ArraySpec(F32, (4,), tiles, (2,), (0, 1, 2, 3)), pieces))
    keep = only(keeps(driver.kill_executor("a0"), "a1"))
    driver.step(driver.kept("a1", keep))
    effects = back(driver, driver.step(driver.left("a1", 1)))
    shards = {command.fetch_id: command.shard.local_index for _, command in sent(effects, out.FetchShard)}
    sources = {command.transfer_id: shards[command.fetch_id] for _, command in sent(effects, out.PullShard)}
    placed = dict(sent(effects, out.PlaceArray))
    assert [sources[piece.transfer_id] for piece in placed["a0"].pieces] == [1, 0]  # type: ignore[index]
    assert [piece.local.local_index for piece in placed["a1"].pieces] == [0, 1]  # type: ignore[index, union-attr]


def test_of_equal_shards_on_one_host_one_is_kept_and_only_its_device_holds_it_afterwards() -> None:
    driver = Driver({"a": ["a0", "a1"]}, devices=4, memory=1000)
    driver.open(1, ("*",))
    driver.answer_ends = False
    # Each host has all of it: devices 0 and 1 hold the first half, 2 and 3 the second.
    tiles = b"\x08\x03\x1a\x02\x02\x04\x22\x08\x00\x01\x04\x05\x02\x03\x06\x07\x30\x01"
    pieces = (events.Piece((0, 1, 4, 5), 8, b"11111111", 0), events.Piece((2, 3, 6, 7), 8, b"22222222", 0))
    driver.step(events.ArrayMade(SessionNumber(1), gid(13), ArraySpec(F32, (4,), tiles, (2,), tuple(range(8))), pieces))
    keep = only(keeps(driver.kill_executor("a0"), "a1"))
    assert keep.shards == (0, 2)
    driver.step(driver.kept("a1", keep))
    restoring = driver.step(driver.left("a1", 1))
    account = driver.core.state.hosts[HostName("a1")].account
    assert account is not None
    assert account.held == [8, 0, 8, 0]
    effects = back(driver, restoring)
    shards = {command.fetch_id: command.shard.local_index for _, command in sent(effects, out.FetchShard)}
    sources = {command.transfer_id: shards[command.fetch_id] for _, command in sent(effects, out.PullShard)}
    placed = dict(sent(effects, out.PlaceArray))
    assert [sources[piece.transfer_id] for piece in placed["a0"].pieces] == [0, 0, 1, 1]  # type: ignore[index]
    assert [piece.local.local_index for piece in placed["a1"].pieces] == [0, 0, 1, 1]  # type: ignore[index, union-attr]


def test_if_what_is_left_of_it_is_not_kept_the_array_itself_is_named() -> None:
    driver = ready()
    replicated(driver, 13, (0, 1))
    driver.release(10)
    keep = only(keeps(driver.kill_executor("a0"), "a1"))
    driver.step(driver.kept("a1", keep, FULL))
    failure = buffer(driver, 13).failure
    assert failure is not None
    assert failure.reason is Reason.BUFFER_LOST
    assert "on hosts a0, a1 of island a" in failure.message
    driver.step(driver.left("a1", 1))
    assert len(driver.core.state.sessions[SessionNumber(1)].buffers) == 3


@pytest.mark.parametrize("how", ["release", "delete", "close"])
def test_an_array_that_is_given_up_while_it_waits_for_its_copy_takes_what_was_kept_along(how: str) -> None:
    driver = ready()
    replicated(driver, 13, (0, 1))
    driver.release(10)
    keep = only(keeps(driver.kill_executor("a0"), "a1"))
    give_up(driver, how, 13)
    effects = driver.step(driver.kept("a1", keep))
    assert [(host, command.ids) for host, command in sent(effects, out.DropSpilled)] == [("a1", (keep.stored_id,))]
    driver.step(driver.left("a1", 1))
    assert not driver.core.state.readers


def test_a_wait_for_what_is_in_a_store_and_what_is_kept_goes_on() -> None:
    driver = ready()
    driver.step(driver.kept("a1", only(keeps(driver.kill_executor("a0"), "a1"))))
    driver.step(driver.left("a1", 1))
    driver.put(14, (1,))
    driver.wait(10, 14)
    effects = driver.kill_executor("a0")
    assert not replies(effects, out.Ready)
    assert only(replies(driver.step(driver.kept("a1", only(keeps(effects, "a1")))), out.Ready)).failure is None


def test_arrays_wait_for_their_island_for_as_long_as_it_takes() -> None:
    driver = ready()
    replicated(driver, 13, (0, 1))
    for keep in keeps(driver.lose("a0"), "a1"):
        driver.step(driver.kept("a1", keep))
    driver.step(driver.left("a1", 1))
    for _ in range(80):
        driver.pass_time(60)
    assert [buffer(driver, number).state for number in (10, 13)] == [BufferState.SPILLED, BufferState.PENDING]


def test_a_member_that_has_aborted_is_asked_for_nothing() -> None:
    driver = Driver({"a": ["a0", "a1", "a2"]})
    driver.open(1, ("*",))
    driver.answer_ends = False
    replicated(driver, 13, (0, 1, 2))
    driver.kill_executor("a1", signal=6)
    effects = driver.kill_executor("a0")
    assert not keeps(effects, "a1")
    assert keeps(effects, "a2")


def test_of_equal_shards_one_is_kept_so_that_one_host_has_to_stay() -> None:
    driver = Driver({"a": ["a0", "a1", "a2"]})
    driver.open(1, ("*",))
    driver.answer_ends = False
    replicated(driver, 13, (0, 1, 2))
    effects = driver.kill_executor("a0")
    (host,) = [name for name in ("a1", "a2") if keeps(effects, name)]
    driver.step(driver.kept(host, only(keeps(effects, host))))
    driver.lose("a2" if host == "a1" else "a1")
    assert buffer(driver, 13).failure is None
