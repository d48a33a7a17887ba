"""An executor is gone: what it was in fails at once, what others run comes to its end first, and nothing new begins meanwhile."""

from __future__ import annotations

from pathways_common.model.failure import Reason
from pathways_common.model.ids import Epoch, HostName, IslandName, Sequence
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.resource_manager import lacks
from pathways_server.core.transitions import BufferState, IslandState

from tests.unit.core.core_driver import Driver, gid, only, replies, sent


def ready(**options: object) -> Driver:
    """Three hosts: program 1 is on the first two, 2 on the third, 3 on the last two."""
    driver = Driver({"a": ["a0", "a1", "a2"]}, **options)  # type: ignore[arg-type]
    driver.open(1, ("*",))
    for program, devices in ((1, (0, 1)), (2, (2,)), (3, (1, 2))):
        driver.compile(program, devices)
        driver.put(10 + program, devices)
    return driver


def state_of(driver: Driver) -> IslandState:
    return driver.core.state.islands[IslandName("a")].state


def kept(driver: Driver, buffer: int) -> BufferState:
    return driver.core.state.sessions[next(iter(driver.core.state.sessions))].buffers[gid(buffer)].state


def test_what_the_lost_member_was_in_fails_at_once_and_others_end_first() -> None:
    driver = ready()
    driver.execute(1, (11,), 20)
    driver.execute(2, (12,), 21)
    driver.fetch(20, fetch=1)
    driver.fetch(21, fetch=2)
    effects = driver.kill_executor("a1")
    assert only(replies(effects, out.FetchFailed)).failure.reason is Reason.SLICE_LOST
    assert not sent(effects, out.EpochEnd)
    assert len(replies(effects, out.Notice)) == 1
    assert state_of(driver) is IslandState.ENDING
    assert lacks(driver.core.state, driver.core.state.islands[IslandName("a")]) == (
        "island a lost host a1 and lets others end what they run: its executor ended (signal 9)"
    )
    fetch = only([command for _, command in sent(driver.log, out.FetchShard) if command.shard.id == gid(21)])
    effects = driver.step(events.ShardFetched(HostName("a2"), fetch.fetch_id, b"12345678", None))
    assert only(replies(effects, out.Fetched)).data == b"12345678"
    effects = driver.finish("a2", 2)
    assert [command.epoch for _, command in sent(effects, out.EpochEnd)] == [1, 1, 1]
    assert not replies(effects, out.Notice)


def test_nothing_is_granted_loaded_or_placed_while_others_end() -> None:
    driver = ready()
    driver.execute(2, (12,), 21)
    driver.execute(1, (11,), 20)
    driver.kill_executor("a1")
    effects = driver.execute(2, (12,), 22)
    effects += driver.put(30, (2,))
    effects += driver.compile(4, (2,))
    assert not sent(effects, out.Prepare)
    assert not sent(effects, out.PlaceArray)
    assert not sent(effects, out.Load)
    effects = driver.finish("a2", 1)
    assert {command.epoch for _, command in sent(effects, out.EpochBegin)} == {2}
    assert {host for host, _ in sent(effects, out.PlaceArray)} == {"a2"}


def test_the_moment_ends() -> None:
    driver = ready(ending_ns=10**9)
    driver.execute(1, (11,), 20)
    driver.execute(2, (12,), 21)
    driver.kill_executor("a0")
    assert not sent(driver.pass_time(0.9), out.EpochEnd)
    driver.fetch(21)
    effects = driver.pass_time(0.2)
    assert len(sent(effects, out.EpochEnd)) == 3
    assert only(replies(driver.log, out.FetchFailed)).failure.reason is Reason.SLICE_LOST


def test_without_work_of_others_the_epoch_ends_at_once() -> None:
    for executions in ((), (1,), (3,), (1, 3)):
        driver = ready()
        for index, program in enumerate(executions):
            driver.execute(program, (10 + program,), 20 + index)
        assert len(sent(driver.kill_executor("a1"), out.EpochEnd)) == 3


def test_a_second_executor_that_goes_takes_its_work_with_it() -> None:
    driver = ready()
    driver.execute(1, (11,), 20)
    driver.execute(2, (12,), 21)
    first = driver.kill_executor("a1")
    assert not sent(first, out.EpochEnd)
    effects = driver.kill_executor("a2")
    assert len(sent(effects, out.EpochEnd)) == 3
    failures = [only(replies(driver.fetch(array), out.FetchFailed)).failure for array in (20, 21)]
    assert [failure.host for failure in failures] == ["a1", "a1"], "the first one is the cause"


def test_a_host_that_is_gone_ends_it_at_once() -> None:
    driver = ready()
    driver.execute(1, (11,), 20)
    driver.execute(2, (12,), 21)
    driver.kill_executor("a1")
    assert len(sent(driver.lose("a0"), out.EpochEnd)) == 2


def test_a_collective_that_broke_is_no_cause_of_its_own() -> None:
    driver = ready()
    driver.execute(1, (11,), 20)
    driver.execute(2, (12,), 21)
    driver.kill_executor("a1")
    broken = only([command for host, command in sent(driver.log, out.Prepare) if host == "a0"])
    failure = driver.core.state.failure(Reason.SLICE_LOST, "connection closed by peer", host="a0")
    driver.step(events.NodeFailed(HostName("a0"), broken.execution_id, Sequence(1), failure))
    driver.finish("a0", 1)
    driver.pass_time(0.3)
    assert state_of(driver) is IslandState.ENDING
    driver.finish("a2", 2)
    told = [dict(log.fields)["host"] for log in driver.log if isinstance(log, out.Log) and log.phrase == "epoch ended"]
    assert told == ["a1"]


def test_what_is_put_away_before_a_host_answers_for_leaks_is_none() -> None:
    """The end of an epoch is urgent, and overtakes the question that was asked before it."""
    driver = ready()
    driver.execute(1, (11,), 20)
    driver.execute(2, (12,), 21)
    driver.kill_executor("a1")
    (number,) = {command.request_id for _, command in sent(driver.step(events.LeaksRequested(7)), out.ReportHoldings)}
    driver.answer_ends = False
    keeps = {host: command.keep for host, command in sent(driver.finish("a2", 2), out.EpochEnd)}
    stored = out.HeldObjects(out.HeldKind.SPILLED, tuple(keep.stored_id for keep in keeps["a2"]))
    assert stored.ids
    for host in ("a0", "a1", "a2"):
        told = (stored,) if host == "a2" else ()
        driver.step(events.HoldingsReported(HostName(host), number, True, Epoch(0), Sequence(0), told))
    found = only([effect for effect in driver.log if isinstance(effect, out.LeaksFound)])
    assert found.leaks == ()
    assert found.lost_hosts == ("a0", "a1", "a2")
