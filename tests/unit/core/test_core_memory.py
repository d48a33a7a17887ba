"""Admission of memory: what a grant takes of each device, when it is free again, who waits and for how long.

Hosts have one device each. Arrays of the driver's `put` take 8 bytes per device, uploads what the test says, and a program's
results 8 bytes each; the budgets below are multiples of that.
"""

from __future__ import annotations

from typing import Any

import pytest
from pathways_common.model.array import ExecutableFacts
from pathways_common.model.failure import Reason
from pathways_common.model.ids import HostName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import Driver, facts, gid, only, replies, sent, spec


def program(outputs: int = 1, temporary: int = 0, alias: int = 0, donated: tuple[int, ...] = ()) -> ExecutableFacts:
    known = facts(outputs, donated)
    return ExecutableFacts(
        known.digest, outputs, known.output_shard_bytes, known.donated, False, 0, b"", -1, temporary, alias
    )  # fmt: skip


def driver_of(memory: int, sessions: int = 1, **config: Any) -> Driver:
    driver = Driver(memory=memory, **{"spill": False, **config})
    for number in range(1, sessions + 1):
        driver.open(number)
    return driver


def held(driver: Driver, host: str = "a0") -> int:
    account = driver.core.state.hosts[HostName(host)].account
    assert account is not None
    return account.held[0]


def big(driver: Driver, number: int, size: int, session: int = 1) -> list[out.Effect]:
    """An array of `size` bytes per device whose bytes are here already."""
    identifier = SessionNumber(session)
    piece = events.Piece((0, 1), size, bytes(size), 0)
    return driver.step(events.ArrayMade(identifier, gid(number, session), spec(0, 1, elements=size // 4), (piece,)))


def finish(driver: Driver, through: int) -> list[out.Effect]:
    return [*driver.finish("a0", through), *driver.finish("a1", through)]


def waits_on(driver: Driver, session: int = 1) -> str:
    return driver.core.state.sessions[SessionNumber(session)].lanes[next(iter(driver.core.state.islands))].blocked_on


# ---- what is taken --------------------------------------------------------------------------------------------------


def test_without_a_budget_nothing_is_counted() -> None:
    driver = driver_of(0)
    driver.compile(1)
    driver.put(10)
    driver.execute(1, (10,), 11)
    state = driver.core.state
    assert not state.budgets
    assert all(host.account is None for host in state.hosts.values())
    assert all(island.memory is None for island in state.islands.values())


def test_a_grant_takes_results_and_temporary_bytes_and_its_end_leaves_the_results() -> None:
    driver = driver_of(100)
    driver.facts["p"] = program(outputs=2, temporary=50)
    driver.compile(1)
    driver.put(10)
    assert held(driver) == 8
    driver.execute(1, (10,), 11)
    assert held(driver) == 8 + 2 * 8 + 50
    finish(driver, 1)
    assert held(driver) == 8 + 2 * 8


def test_views_take_nothing_and_a_freed_array_counts_once() -> None:
    driver = driver_of(100)
    driver.put(10)
    driver.view(11, (10, 0, 2))
    driver.view(12, (10, 0, 1))
    assert held(driver) == 8
    driver.release(10, 11)
    assert held(driver) == 8
    driver.release(12)
    assert held(driver) == 0


def test_a_donated_argument_gives_its_memory_to_the_result() -> None:
    driver = driver_of(24)
    driver.facts["p"] = program(temporary=8, alias=8, donated=(0,))
    driver.compile(1)
    driver.put(10)
    driver.execute(1, (10,), 11)
    assert held(driver) == 16  # 8 of both, 8 temporary
    finish(driver, 1)
    assert held(driver) == 8
    driver.release(10, 11)
    assert held(driver) == 0


def test_a_donation_that_somebody_reads_needs_the_room_of_a_copy() -> None:
    driver = driver_of(16)
    driver.facts["p"] = program(alias=8, donated=(0,), temporary=8)
    driver.compile(1)
    driver.put(10)
    driver.put(20)
    driver.release(20)
    fetch = only(sent(driver.fetch(10, size=8), out.FetchShard))[1]
    effects = driver.execute(1, (10,), 11)
    assert not sent(effects, out.Prepare)  # 8 + 8 + 8 > 16: it waits for the reader, after which it is donated
    driver.step(events.ShardFetched(HostName("a0"), fetch.fetch_id, b"12345678", None))
    prepared = sent(driver.pass_time(0.1), out.Prepare)
    assert [command.non_donatable for _, command in prepared] == [(), ()]


def test_freed_memory_counts_when_what_was_launched_before_has_ended() -> None:
    driver = driver_of(24)
    driver.compile(1)
    driver.put(10)
    driver.execute(1, (10,), 11)
    driver.release(10)  # its gang may not have begun
    assert held(driver) == 16
    assert not sent(big(driver, 20, 16), out.PlaceArray)
    driver.finish("a0", 1)
    assert (held(driver, "a0"), held(driver, "a1")) == (8, 16)
    placed = sent(driver.finish("a1", 1), out.PlaceArray)
    assert [host for host, _ in placed] == ["a0", "a1"]


def test_on_an_idle_host_freed_memory_goes_to_whoever_waits_behind_the_free() -> None:
    driver = driver_of(8)
    driver.put(10)
    driver.upload(20, upload=1)
    effects = driver.release(10)
    kinds = [type(effect.command) for effect in effects if isinstance(effect, out.SendToHost) and effect.host == "a0"]
    assert kinds == [out.Free, out.ExpectUpload, out.PlaceArray]


# ---- waiting --------------------------------------------------------------------------------------------------------


def test_an_execution_that_does_not_fit_says_what_it_waits_for_and_who_holds_it() -> None:
    driver = driver_of(32, sessions=2)
    driver.facts["p"] = program(temporary=8)
    driver.compile(1)
    driver.put(10)
    big(driver, 20, 16, session=2)
    assert not sent(driver.execute(1, (10,), 11), out.Prepare)
    assert waits_on(driver) == "memory: needs 16 bytes on host a0 device 0, 8 of 32 are free"
    driver.pass_time(1.1)
    text = waits_on(driver)
    assert "needs 16 bytes on host a0 device 0, 8 are free" in text
    assert "tenant default session 2 (16 bytes), tenant default session 1 (8 bytes)" in text
    assert sent(driver.release(20, session=2), out.Prepare)


def test_what_can_never_fit_beside_its_arguments_fails_at_once() -> None:
    driver = driver_of(32)
    driver.facts["p"] = program(temporary=8)
    driver.compile(1)
    big(driver, 10, 24)
    driver.execute(1, (10,), 11)
    failure = only(replies(driver.fetch(11), out.FetchFailed)).failure
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert "needs 16 bytes beside the 24 of its arguments on host a0 device 0, which has 32" in failure.message
    assert "tenant default session 1 (24 bytes)" in failure.message


def test_what_fits_only_without_others_waits() -> None:
    driver = driver_of(32)
    driver.compile(1)
    driver.put(10)
    big(driver, 20, 24)
    driver.execute(1, (10,), 11)
    assert "needs 8 bytes" in waits_on(driver)
    assert sent(driver.release(20), out.Prepare)


def test_smaller_work_of_others_goes_on_until_the_oldest_has_waited_its_turn() -> None:
    driver = driver_of(32, sessions=2, memory_turn_ns=1_000_000_000)
    big(driver, 10, 16)
    driver.upload(20, upload=1, size=24)
    assert sent(driver.put(30, session=2), out.PlaceArray)  # 16 + 8
    driver.pass_time(1.1)
    driver.release(30, session=2)
    assert not sent(driver.put(31, session=2), out.PlaceArray)  # 16 are free, 24 are set aside
    granted = driver.release(10)
    assert [command.size_bytes for _, command in sent(granted, out.ExpectUpload)] == [24, 24]
    assert [host for host, _ in sent(granted, out.PlaceArray)] == ["a0", "a1", "a0", "a1"]  # 24 + 8 fit


def test_arrays_of_one_session_are_given_room_in_their_order() -> None:
    driver = driver_of(32)
    big(driver, 10, 24)
    driver.upload(20, upload=1, size=16)
    assert not replies(driver.upload(21, upload=2, size=8), out.UploadGrant)  # it would fit, but came later
    granted = replies(driver.release(10), out.UploadGrant)
    assert [grant.upload_id for grant in granted] == [1, 2]


def test_a_waiting_upload_that_is_released_is_withdrawn_and_lets_the_next_one_go() -> None:
    driver = driver_of(32)
    big(driver, 10, 24)
    driver.upload(20, upload=1, size=16)
    driver.upload(21, upload=2, size=8)
    assert only(replies(driver.release(20), out.UploadWithdrawn)).upload_id == 1
    assert only(replies(driver.pass_time(0.1), out.UploadGrant)).upload_id == 2


def test_a_copy_waits_for_room_where_it_goes() -> None:
    driver = driver_of(24)
    big(driver, 10, 16)
    big(driver, 20, 8)
    assert not sent(driver.copy(21, 20, (0, 1)), out.PlaceArray)
    assert sent(driver.release(10), out.PlaceArray)


def test_inline_bytes_that_wait_are_bounded() -> None:
    driver = driver_of(16, held_bytes_max=60)  # of which a session gets a third
    big(driver, 10, 16)
    big(driver, 11, 16)
    withdrawn = driver.core.state.sessions[SessionNumber(1)].buffers
    big(driver, 12, 8)
    failure = withdrawn[gid(12)].failure
    assert failure is not None
    assert "16 bytes wait for memory of island a" in failure.message


# ---- hold and wait --------------------------------------------------------------------------------------------------


def test_two_that_hold_half_and_want_more_end_with_the_failure_of_the_younger() -> None:
    driver = driver_of(64, sessions=2, memory_stuck_ns=2_000_000_000)
    big(driver, 10, 32, session=1)
    big(driver, 10, 32, session=2)
    driver.upload(20, upload=1, size=16, session=1)
    driver.now_ns += 10_000_000
    driver.upload(20, upload=1, size=16, session=2)
    withdrawn: list[out.Effect] = []
    waited = 0
    while not replies(withdrawn, out.UploadWithdrawn):
        withdrawn = driver.pass_time(0.1)
        waited += 1
        assert waited < 40, "a silent wait"
    assert waited >= 20
    sessions = [effect.session for effect in withdrawn if isinstance(effect, out.SendToSession)]
    assert sessions == [2]
    failure = only(replies(withdrawn, out.UploadWithdrawn)).failure
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert "needs 16 bytes on host a0 device 0, 0 of 64 are free" in failure.message
    assert "tenant default session 1 (32 bytes), tenant default session 2 (32 bytes)" in failure.message
    granted = driver.release(10, session=2)  # its client lets go: the older one goes on
    assert only(replies(granted, out.UploadGrant)).upload_id == 1


def test_what_is_under_way_may_free_memory_and_is_waited_for() -> None:
    driver = driver_of(32, memory_stuck_ns=1_000_000_000)
    driver.facts["p"] = program(temporary=16)
    driver.compile(1)
    driver.put(10)
    driver.execute(1, (10,), 11)  # 8 + 8 + 16
    driver.upload(20, upload=1, size=16)
    for _ in range(100):
        assert not replies(driver.pass_time(0.1), out.UploadWithdrawn)
    assert only(replies(finish(driver, 1), out.UploadGrant)).upload_id == 1


def test_everything_that_a_session_asked_for_beyond_its_memory_fails_soon_after_the_first() -> None:
    driver = driver_of(32, memory_stuck_ns=1_000_000_000)
    big(driver, 10, 32)
    for number in range(20, 40):
        driver.upload(number, upload=number, size=16)
    failed = [driver.pass_time(0.1) for _ in range(15)]
    assert len([reply for effects in failed for reply in replies(effects, out.UploadWithdrawn)]) == 20
    driver.release(10)
    assert replies(driver.upload(50, upload=50, size=16), out.UploadGrant)  # puts succeed again


def test_a_lost_epoch_frees_everything_and_what_waited_waits_for_the_next_one() -> None:
    driver = driver_of(32)
    big(driver, 10, 24)
    driver.upload(20, upload=1, size=16)
    effects = driver.kill_executor("a1")
    assert held(driver) == 16
    assert only(replies(effects, out.UploadGrant)).upload_id == 1


@pytest.mark.parametrize("count", [1, 3])
def test_a_chain_waits_for_its_own_gangs_and_never_takes_more_than_there_is(count: int) -> None:
    driver = driver_of(8 * (count + 1))
    driver.compile(1)
    driver.put(100)
    granted = 0
    for index in range(10):
        granted += len(sent(driver.execute(1, (100 + index,), 101 + index), out.Prepare)) // 2
        driver.release(100 + index)
    assert granted == count
    for index in range(1, 11):
        finish(driver, index)
    assert held(driver) == 8


# ---- figures --------------------------------------------------------------------------------------------------------


def test_the_figures_say_what_is_held_and_reserved_and_who_waits_for_what() -> None:
    driver = driver_of(80, sessions=2)
    driver.facts["p"] = program(temporary=24)
    driver.compile(1, session=2)
    big(driver, 10, 24)
    big(driver, 10, 8, session=2)
    driver.put(13, session=2)
    driver.execute(1, (13,), 14, session=2)  # a result of 8, and 24 while it runs
    driver.upload(20, upload=1, size=32)
    figures = driver.core.snapshot(driver.now_ns + 500_000_000).memory
    assert [(host.host, host.budget_bytes, host.spilled_bytes) for host in figures.hosts] == [("a0", 80, 0), ("a1", 80, 0)]
    device = figures.hosts[0].devices[0]
    assert (device.local_device, device.held_bytes, device.reserved_bytes) == (0, 24 + 8 + 8 + 8, 24)
    assert [(each.session_number, each.held_bytes, each.spilled_bytes) for each in figures.sessions] == [(1, 48, 0), (2, 48, 0)]
    assert [(each.tenant, each.held_bytes) for each in figures.tenants] == [("default", 96)]
    (waiting,) = figures.waiting
    assert (waiting.session_number, waiting.what, waiting.position, waiting.waited_seconds) == (1, "array 20", 1, 0.5)
    assert (waiting.host, waiting.local_device, waiting.needed_bytes, waiting.free_bytes) == ("a0", 0, 32, 8)
    assert [(each.session_number, each.size_bytes) for each in waiting.holders] == [(1, 24), (2, 24)]


def test_without_budgets_there_are_no_figures() -> None:
    figures = driver_of(0).core.snapshot(0).memory
    assert (figures.hosts, figures.waiting) == ((), ())


def test_programs_of_two_sessions_that_wait_for_each_other_end_with_the_younger_and_the_older_runs() -> None:
    driver = driver_of(64, sessions=2, memory_stuck_ns=1_000_000_000)
    for session in (1, 2):
        driver.facts["p"] = program(temporary=24)
        driver.compile(1, session=session)
        big(driver, 10, 32, session=session)
    for session in (1, 2):
        driver.now_ns += 1000
        assert not sent(driver.execute(1, (10,), 11, session=session), out.Prepare)  # each has 32 and needs 32 more
    for _ in range(12):
        driver.pass_time(0.1)
    failure = only(replies(driver.fetch(11, session=2), out.FetchFailed)).failure
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert "tenant default session 1 (32 bytes), tenant default session 2 (32 bytes)" in failure.message
    assert not replies(driver.fetch(11), out.FetchFailed)
    assert len(sent(driver.release(10, session=2), out.Prepare)) == 2


def test_a_deleted_array_takes_its_views_along_which_would_keep_its_bytes() -> None:
    driver = driver_of(memory=100)
    big(driver, 10, 16)
    driver.view(11, (10, 0, 1))
    driver.compile(2, devices=(0,))
    driver.execute(2, (11,), 30)
    assert [host for host, _ in sent(driver.log, out.PlaceView)] == ["a0"]
    freed = {host: command.ids for host, command in sent(driver.delete(10), out.Free)}
    assert freed == {"a0": (gid(10), gid(11)), "a1": (gid(10),)}
    # Deleted with everything that names it, nothing is freed twice.
    assert not sent(driver.release(10, 11), out.Free)


# ---- ahead of work ----------------------------------------------------------------------------------------------------


def two_islands(memory: int, **config: Any) -> Driver:
    driver = Driver({"a": ["a0"], "b": ["b0"]}, memory=memory, spill=False, **config)
    driver.open(1, ("*",))
    return driver


def arrived(driver: Driver, effects: list[out.Effect]) -> list[out.Effect]:
    """What the host of b is told to pull has landed there."""
    pulled = [command for host, command in sent(effects, out.PullShard) if host == "b0"]
    return [effect for command in pulled for effect in driver.landed("b0", command.transfer_id)]


def ended(driver: Driver, effects: list[out.Effect]) -> list[out.Effect]:
    """What the host of b was told to launch has ended."""
    sequences = [command.sequence for host, command in sent(effects, out.Prepare) if host == "b0"]
    return driver.finish("b0", max(sequences), "b") if sequences else []


def test_copies_that_run_ahead_leave_room_for_the_work_before_them() -> None:
    driver = two_islands(40, memory_stuck_ns=1_000_000_000)
    driver.facts["p"] = program(temporary=8)
    driver.compile(1, (1,))
    driver.upload(10, upload=1, devices=(0,))  # it is late, so the others are there before the first
    (expected,) = [command for _, command in sent(driver.log, out.ExpectUpload)]
    moves: list[out.Effect] = []
    for number in range(10, 16):
        if number > 10:
            driver.put(number, (0,))
        moves += driver.copy(10 + number, number, (1,))
        moves += driver.execute(1, (10 + number,), 20 + number)
        moves += driver.release(number, 10 + number)  # each is freed behind its last use
    # Of 40 bytes 24 are for the argument, the result and the temporary bytes of the first one.
    assert len(sent(moves, out.PullShard)) == 2
    arrived(driver, moves)
    for _ in range(60):
        driver.pass_time(0.1)
    effects = arrived(driver, driver.landed("a0", expected.transfer_id))
    results = [30, 31, 32, 33, 34, 35]
    for _ in range(40):
        launched = len(sent(effects, out.Prepare))
        effects = [*ended(driver, effects), *driver.pass_time(0.3)]
        effects += driver.release(*results[:launched])
        del results[:launched]
        effects += arrived(driver, effects)
    assert not results
    assert not driver.core.state.sessions[SessionNumber(1)].buffers


def test_an_array_waits_for_no_work_before_it_that_only_the_client_can_help() -> None:
    driver = driver_of(40)
    driver.facts["p"] = program(temporary=16)
    driver.compile(1)
    driver.put(9)
    big(driver, 10, 12)
    driver.execute(1, (9,), 11)  # 8 for the result and 16 beside, of 20 that are free
    effects = driver.put(12)
    assert [command.buffer_id for _, command in sent(effects, out.PlaceArray)] == [gid(12)] * 2
    effects = driver.release(10)  # which the client does when it sees that
    assert len(sent(effects, out.Prepare)) == 2


def test_an_array_is_placed_while_a_gang_runs_that_may_wait_for_it() -> None:
    driver = driver_of(40)
    driver.facts["p"] = program(temporary=16)
    driver.compile(1)
    driver.put(9)
    assert len(sent(driver.execute(1, (9,), 11), out.Prepare)) == 2  # its callback makes an array
    driver.execute(1, (9,), 12)
    assert "needs 24 bytes" in waits_on(driver)
    placed = [command.buffer_id for _, command in sent(driver.put(13), out.PlaceArray)]
    assert placed == [gid(13)] * 2


def test_an_array_that_was_kept_for_a_forming_island_goes_before_the_work_that_takes_it() -> None:
    driver = driver_of(64)
    driver.facts["p"] = program(temporary=8)
    driver.compile(1)
    driver.answer_membership = False
    driver.kill_executor("a0")
    big(driver, 10, 24)
    driver.execute(1, (10,), 11)
    driver.answer_membership = True
    told = [effect for effect in driver.log if isinstance(effect, out.SendToHost)]
    for effect in [each for each in told if isinstance(each.command, out.StartCoordinator | out.EpochBegin)][-3:]:
        for event in driver._answer(effect):
            driver.step(event)
    placed = [command.buffer_id for _, command in sent(driver.log, out.PlaceArray)]
    assert placed == [gid(10)] * 2
