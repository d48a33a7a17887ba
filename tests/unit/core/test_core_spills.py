"""Spilling by hand: which arrays leave the devices, how they come back, and what ends them on the way."""

from __future__ import annotations

from typing import Any

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, Sequence, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events, memory_view, work
from pathways_server.core.obstacles import WaitKind
from pathways_server.core.records import Buffer
from pathways_server.core.transitions import BufferState

from tests.unit.core.core_driver import Driver, gid, only, replies, sent, spec

FULL = Failure(Reason.RESOURCE_EXHAUSTED, "the store is full", host="a1")


def driver_of(memory: int = 32, sessions: int = 1, **config: Any) -> Driver:
    driver = Driver(memory=memory, **config)
    for number in range(1, sessions + 1):
        driver.open(number)
    driver.compile(1)
    return driver


def big(driver: Driver, number: int, size: int, session: int = 1) -> list[out.Effect]:
    """An array of `size` bytes per device whose bytes are here already; a little later than the one before."""
    driver.now_ns += 1000
    piece = events.Piece((0, 1), size, bytes(size), 0)
    wanted = spec(0, 1, elements=size // 4)
    return driver.step(events.ArrayMade(SessionNumber(session), gid(number, session), wanted, (piece,)))


def spilled(
    driver: Driver, number: int, host: str, failure: Failure | None = None, session: int = 1, which: int = -1
) -> list[out.Effect]:
    """The answer to the last SpillArray of an array, or to an earlier one."""
    command = [each for _, each in sent(driver.log, out.SpillArray) if each.buffer_id == gid(number, session)][which]
    return driver.step(events.ArraySpilled(HostName(host), command.buffer_id, command.spill_number, 8, failure))


def restored(driver: Driver, number: int, host: str, failure: Failure | None = None, which: int = -1) -> list[out.Effect]:
    command = [each for _, each in sent(driver.log, out.RestoreArray) if each.buffer_id == gid(number)][which]
    return driver.step(events.ArrayRestored(HostName(host), command.buffer_id, command.spill_number, failure))


def buffer(driver: Driver, number: int, session: int = 1) -> Buffer:
    return driver.core.state.sessions[SessionNumber(session)].buffers[gid(number, session)]


def asked(effects: list[out.Effect]) -> list[int]:
    """The local ids of what the hosts are to spill, each once."""
    return list(dict.fromkeys(command.buffer_id & 0xFFFF for _, command in sent(effects, out.SpillArray)))


def away(driver: Driver, number: int) -> None:
    """Has an array of 16 bytes spilled by one of 24."""
    big(driver, number, 16)
    assert asked(big(driver, 900, 24)) == [number]
    spilled(driver, number, "a0")
    assert sent(spilled(driver, number, "a1"), out.PlaceArray)
    assert buffer(driver, number).state is BufferState.SPILLED


def bring_back(driver: Driver, number: int) -> list[out.Effect]:
    """A read of it has the other array spilled in its place."""
    assert asked(driver.fetch(number, size=16)) == [900]
    spilled(driver, 900, "a0")
    return spilled(driver, 900, "a1")


def test_the_least_recently_used_idle_arrays_go_and_no_more_of_them_than_needed() -> None:
    driver = driver_of(memory=32, sessions=2)
    for number in (10, 11, 12, 13):
        big(driver, number, 8, session=1 + number % 2)
    driver.now_ns += 1000
    driver.fetch(10)
    driver.step(events.ShardFetched(HostName("a0"), driver.core.state.readers.copy().popitem()[0], bytes(8), None))  # type: ignore[arg-type]
    effects = big(driver, 20, 16)
    assert asked(effects) == [11, 12]
    for number in (11, 12):
        for host in ("a0", "a1"):
            effects = spilled(driver, number, host, session=1 + number % 2)
    assert [host for host, _ in sent(effects, out.PlaceArray)] == ["a0", "a1"]


def test_what_is_read_or_taken_or_named_in_parts_stays() -> None:
    driver = driver_of(memory=40)
    for number in (10, 11, 12, 13, 14):
        big(driver, number, 8)
    driver.fetch(10, fetch=1)  # read
    driver.view(30, (11, 0, 1))
    driver.compile(2, devices=(0,))
    driver.execute(2, (30,), 31)  # hosts know a part of 11 under another name; the result waits for memory
    assert driver.core.state.sessions[SessionNumber(1)].lanes
    driver.execute(1, (12,), 32)  # 12 is an argument of what waits in line
    assert asked(driver.pass_time(0.1)) == []  # 13 and 14 are on their way already
    going = {moving.buffer.id & 0xFFFF for moving in driver.core.state.moving.values()}
    assert going <= {12, 13, 14}
    assert 10 not in going
    assert 11 not in going


def test_a_spilled_array_is_restored_before_it_is_fetched() -> None:
    driver = driver_of()
    away(driver, 10)
    effects = bring_back(driver, 10)  # 24 of 32 were taken
    assert [host for host, _ in sent(effects, out.RestoreArray)] == ["a0", "a1"]
    restored(driver, 10, "a0")
    assert [host for host, _ in sent(restored(driver, 10, "a1"), out.FetchShard)] == ["a0"]


def test_an_answer_to_an_earlier_spill_or_restore_of_the_same_array_is_not_taken_for_the_present_one() -> None:
    driver = driver_of()
    away(driver, 10)
    bring_back(driver, 10)
    for host in ("a0", "a1"):
        restored(driver, 10, host)
    driver.step(events.ShardFetched(HostName("a0"), driver.core.state.readers.copy().popitem()[0], bytes(16), None))  # type: ignore[arg-type]
    assert asked(big(driver, 901, 24)) == [10]
    for host in ("a0", "a1"):
        assert spilled(driver, 10, host, which=0) == [driver.log[-1]], "the hosts have it still"
        assert isinstance(driver.log[-1], out.Log)
    assert buffer(driver, 10).state is BufferState.SPILLING
    for host in ("a0", "a1"):
        effects = spilled(driver, 10, host)
    assert sent(effects, out.PlaceArray), "now there is room"
    assert asked(driver.fetch(10, size=16)) == [901]
    for host in ("a0", "a1"):
        effects = spilled(driver, 901, host)
    assert len(sent(effects, out.RestoreArray)) == 2
    for host in ("a0", "a1"):
        assert sent(restored(driver, 10, host, which=0), out.FetchShard) == []
    assert buffer(driver, 10).state is BufferState.RESTORING


def test_an_answer_that_comes_twice_does_not_drop_what_is_spilled() -> None:
    driver = driver_of()
    away(driver, 10)
    assert sent(spilled(driver, 10, "a1"), out.DropSpilled) == []
    assert len(sent(bring_back(driver, 10), out.RestoreArray)) == 2
    assert sent(spilled(driver, 10, "a0"), out.DropSpilled) == []  # the store has it until it is back
    for host in ("a0", "a1"):
        restored(driver, 10, host)
    assert buffer(driver, 10).state is BufferState.PRESENT


def test_an_old_answer_does_not_drop_an_array_that_moves_again_though_its_session_is_over() -> None:
    driver = driver_of()
    away(driver, 10)
    bring_back(driver, 10)
    for host in ("a0", "a1"):
        restored(driver, 10, host)
    driver.step(events.ShardFetched(HostName("a0"), driver.core.state.readers.copy().popitem()[0], bytes(16), None))  # type: ignore[arg-type]
    assert asked(big(driver, 901, 24)) == [10]
    driver.close()
    assert sent(spilled(driver, 10, "a0", which=0), out.DropSpilled) == []
    spilled(driver, 10, "a0")
    refused = Failure(Reason.RESOURCE_EXHAUSTED, "no room for spilled arrays", host="a1")
    assert [host for host, _ in sent(spilled(driver, 10, "a1", refused), out.RestoreArray)] == ["a0"]


def test_an_answer_about_an_array_that_nobody_has_any_more_frees_the_store() -> None:
    driver = driver_of()
    away(driver, 10)
    driver.release(10)
    assert [host for host, _ in sent(spilled(driver, 10, "a1"), out.DropSpilled)] == ["a1"]


def test_a_wait_for_a_spilled_array_is_over_at_once() -> None:
    driver = driver_of()
    away(driver, 10)
    assert only(replies(driver.wait(10), out.Ready)).failure is None


def test_an_execution_has_its_spilled_arguments_restored_with_the_room_for_its_results() -> None:
    driver = driver_of()
    away(driver, 10)
    effects = driver.execute(1, (10,), 11)  # 16 and 8: the other array has to go for it
    assert asked(effects) == [900]
    spilled(driver, 900, "a0")
    assert len(sent(spilled(driver, 900, "a1"), out.RestoreArray)) == 2
    restored(driver, 10, "a0")
    assert len(sent(restored(driver, 10, "a1"), out.Prepare)) == 2


def test_a_refused_array_stays_and_another_one_is_tried() -> None:
    driver = driver_of(memory=32)
    big(driver, 10, 16)
    big(driver, 11, 16)
    assert asked(big(driver, 20, 8)) == [10]
    effects = spilled(driver, 10, "a0", FULL) + spilled(driver, 10, "a1", FULL)
    assert asked(effects) == [11]
    assert buffer(driver, 10).state is BufferState.PRESENT


def test_what_one_host_refuses_the_others_put_back() -> None:
    driver = driver_of(memory=32, spill_again_ns=1)
    big(driver, 10, 16)
    big(driver, 900, 24)
    spilled(driver, 10, "a0")
    effects = spilled(driver, 10, "a1", FULL)
    assert [host for host, _ in sent(effects, out.RestoreArray)] == ["a0"]
    assert buffer(driver, 10).state is BufferState.RESTORING
    restored(driver, 10, "a0")
    assert buffer(driver, 10).state in (BufferState.PRESENT, BufferState.SPILLING)


def test_an_array_that_cannot_be_restored_is_lost_and_freed_where_it_came_back() -> None:
    driver = driver_of()
    away(driver, 10)
    bring_back(driver, 10)
    restored(driver, 10, "a0")
    lost = Failure(Reason.BUFFER_LOST, "the file is broken", host="a1")
    effects = restored(driver, 10, "a1", lost)
    assert only(replies(effects, out.FetchFailed)).failure is lost
    assert [(host, command.ids) for host, command in sent(effects, out.Free)] == [("a0", (gid(10),))]
    assert [host for host, _ in sent(effects, out.DropSpilled)] == ["a0", "a1"]


def test_release_delete_and_the_end_of_the_session_drop_what_is_spilled() -> None:
    for end in ("release", "delete", "close"):
        driver = driver_of()
        away(driver, 10)
        effects = driver.close() if end == "close" else getattr(driver, end)(10)
        dropped = sent(effects, out.DropSpilled)
        assert [(host, command.ids) for host, command in dropped] == [("a0", (gid(10),)), ("a1", (gid(10),))]
        assert all(gid(10) not in command.ids for _, command in sent(effects, out.Free))


def test_an_array_that_is_released_while_it_is_spilled_goes_when_its_hosts_have_answered() -> None:
    driver = driver_of()
    big(driver, 10, 16)
    big(driver, 900, 24)
    assert not sent(driver.close(), out.DropSpilled)
    spilled(driver, 10, "a0")
    dropped = sent(spilled(driver, 10, "a1"), out.DropSpilled)
    assert [host for host, _ in dropped] == ["a0", "a1"]
    assert not driver.core.state.moving


def test_what_is_spilled_outlives_an_epoch() -> None:
    driver = driver_of()
    away(driver, 10)
    driver.kill_executor("a1")
    assert buffer(driver, 10).state is BufferState.SPILLED
    effects = driver.fetch(10, size=16)
    assert [host for host, _ in sent(effects, out.RestoreArray)] == ["a0", "a1"]
    restored(driver, 10, "a0")
    assert sent(restored(driver, 10, "a1"), out.FetchShard)


def test_what_is_spilled_is_lost_with_a_host_that_keeps_a_part() -> None:
    driver = driver_of()
    away(driver, 10)
    effects = driver.lose("a1")
    assert [host for host, _ in sent(effects, out.DropSpilled)] == ["a0"]
    failure = only(replies(driver.fetch(10), out.FetchFailed)).failure
    assert (failure.reason, failure.host) == (Reason.BUFFER_LOST, "a1")


def test_what_is_on_its_way_to_a_store_or_back_is_lost_with_the_epoch() -> None:
    driver = driver_of()
    big(driver, 10, 16)
    big(driver, 900, 24)
    driver.kill_executor("a1")
    failure = only(replies(driver.fetch(10), out.FetchFailed)).failure
    assert failure.reason is Reason.BUFFER_LOST
    late = spilled(driver, 10, "a0")  # nobody wants it any more
    assert [(host, command.ids) for host, command in sent(late, out.DropSpilled)] == [("a0", (gid(10),))]
    driver.release(900)
    away(driver, 11)
    bring_back(driver, 11)
    assert buffer(driver, 11).state is BufferState.RESTORING
    driver.kill_executor("a1")
    assert buffer(driver, 11).state is BufferState.POISONED


def test_nothing_is_spilled_where_that_is_off() -> None:
    driver = driver_of(spill=False, memory_stuck_ns=1_000_000_000)
    big(driver, 10, 32)
    driver.upload(11, upload=1, size=16)
    effects = [effect for _ in range(15) for effect in driver.pass_time(0.1)]
    assert not sent(effects, out.SpillArray)
    assert only(replies(effects, out.UploadWithdrawn)).failure.reason is Reason.RESOURCE_EXHAUSTED


# ---- as they are shown ----------------------------------------------------------------------------------------------


def leaks(driver: Driver, spilled_ids: tuple[int, ...], values: tuple[int, ...] = ()) -> list[tuple[str, str, int]]:
    """What a daemon that tells of these spilled arrays, and an executor that holds these values, give away."""
    (_, asked_for), *_ = sent(driver.step(events.LeaksRequested(1)), out.ReportHoldings)
    effects: list[out.Effect] = []
    for host in ("a0", "a1"):
        for daemon in (True, False):
            told = (
                out.HeldObjects(out.HeldKind.SPILLED, spilled_ids) if daemon else out.HeldObjects(out.HeldKind.VALUE, values),
            )
            reported = events.HoldingsReported(
                HostName(host), asked_for.request_id, daemon, driver.epoch(), Sequence(0), told
            )  # fmt: skip
            effects += driver.step(reported)
    found = only([effect for effect in effects if isinstance(effect, out.LeaksFound)])
    return [(leak.host, leak.kind, leak.id) for leak in found.leaks if not leak.missing]


def test_a_spilled_array_has_an_owner_until_it_is_released_and_counts_as_spilled() -> None:
    driver = driver_of()
    away(driver, 10)
    row = only(memory_view.take(driver.core.state, None))
    assert (row.live_bytes, row.spilled_bytes) == (2 * 24, 2 * 16)
    assert [(each.id, each.state) for each in row.largest] == [(gid(900), "PRESENT"), (gid(10), "SPILLED")]
    assert leaks(driver, (gid(10),)) == []
    driver.release(10)
    assert leaks(driver, (gid(10),)) == [("a0", "SPILLED", gid(10)), ("a1", "SPILLED", gid(10))]


def test_an_array_on_its_way_to_the_stores_is_no_leak_when_it_is_released() -> None:
    driver = driver_of()
    big(driver, 10, 16)
    assert asked(big(driver, 900, 24)) == [10]
    driver.release(10)
    assert leaks(driver, (gid(10),)) == []


def test_nor_is_it_one_when_its_session_is_over() -> None:
    driver = driver_of(sessions=2)
    big(driver, 10, 16)
    assert asked(big(driver, 900, 24, session=2)) == [10]
    spilled(driver, 10, "a1")
    driver.close(1)
    assert leaks(driver, (gid(10),), values=(gid(10),)) == []


def test_work_that_waits_for_memory_says_on_which_device_and_who_holds_it() -> None:
    driver = driver_of(memory=24, sessions=2, spill=False)
    driver.put(10, session=2)
    big(driver, 11, 12, session=2)
    driver.now_ns = 10**9
    driver.execute(1, (), 20)
    driver.now_ns = 3 * 10**9
    (row,) = work.take(driver.core.state, None, None)[0]
    assert row.reason is not None
    assert (row.reason.kind, row.reason.since_ns) == (WaitKind.MEMORY, 10**9)
    assert row.reason.what == "memory: needs 8 bytes on host a0 device 0, 4 of 24 are free"
    assert row.reason.holder == "tenant default session 2 (20 bytes)"
