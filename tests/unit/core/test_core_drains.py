"""Drained hosts: what lies on their island goes elsewhere, the island forms again without them, and then they may go."""

from __future__ import annotations

from typing import Any

from pathways_common.model.ids import HostName, IslandName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events, why
from pathways_server.core.transitions import IslandState

from tests.unit.core.core_driver import Driver, only, replies, sent
from tests.unit.core.test_core_migrations import TICK_S, land
from tests.unit.core.test_core_suspensions import answered

TWO = {"a": ["a0", "a1"], "b": ["b0", "b1"]}


def drain(driver: Driver, host: str = "a1", on: bool = True) -> list[out.Effect]:
    return driver.step(events.DrainSet(HostName(host), on))


def text(driver: Driver, host: str = "a1") -> str:
    return driver.core.state.drains[HostName(host)].text


def is_drained(driver: Driver, host: str = "a1") -> bool:
    return driver.core.state.drains[HostName(host)].drained


def members(driver: Driver, island: str = "a") -> list[str]:
    return [host.name for host in driver.core.state.islands[IslandName(island)].members]


def pass_ticks(driver: Driver, count: int = 4) -> list[out.Effect]:
    """Ticks, in which everything that is pulled arrives."""
    found: list[out.Effect] = []
    for _ in range(count):
        effects = driver.pass_time(TICK_S)
        effects += land(driver, effects)
        found += effects
    return found


def cluster(islands: dict[str, list[str]] | None = None, **config: Any) -> Driver:
    return Driver(islands or TWO, **{"pool_slices": 3, **config})


def test_an_island_that_nobody_uses_forms_again_without_the_host_at_once() -> None:
    driver = cluster()
    drain(driver)
    assert members(driver) == ["a0"]
    driver.pass_time(TICK_S)
    assert is_drained(driver)
    effects = driver.lose("a1")
    assert not [effect for effect in effects if isinstance(effect, out.Log) and effect.phrase == "epoch ended"]
    assert members(driver) == ["a0"]


def test_primary_devices_and_slices_go_to_another_island_and_then_the_host_is_drained() -> None:
    driver = cluster({"a": ["a0", "a1"], "b": ["b0", "b1", "b2"]})
    driver.open(1, ("a",))
    driver.add_slice(1, 2, island="a")
    driver.put(10, devices=(0, 1))
    driver.put(11, devices=(2, 3))
    driver.compile(1, devices=(0, 1))
    drain(driver)
    assert text(driver) == "session 1 (test) is being moved"
    pass_ticks(driver, 8)
    assert is_drained(driver)
    assert members(driver) == ["a0"]
    driver.lose("a1")
    session = driver.core.state.sessions[SessionNumber(1)]
    assert list(session.used) == ["b"]
    assert [host for array in (10, 11) for host, _ in sent(driver.fetch(array), out.FetchShard)] == ["b0", "b0"]
    assert [host for host, _ in sent(driver.execute(1, (10,), 20), out.Prepare)] == ["b0", "b1"]


def test_what_fits_nowhere_else_is_named_and_goes_on_and_the_host_stays() -> None:
    driver = cluster({"a": ["a0", "a1"], "b": ["b0"]})
    driver.open(1, ("a",))
    driver.put(10)
    drain(driver)
    pass_ticks(driver)
    assert text(driver) == (
        "session 1 has its 2 devices on island a and no other island can take them (virtual slice needs 2 devices of kind 'cpu'"
        " in one island; the largest island has 1); start one, or wait until the session ends; the other hosts of island a cannot"
        " take it either (an array or a program needs more devices than are left there)"
    )
    assert not is_drained(driver)
    assert only(sent(driver.fetch(10), out.FetchShard))[0] == "a0"
    driver.close()
    pass_ticks(driver, 1)
    assert is_drained(driver)


def test_nothing_new_is_put_on_an_island_with_a_host_that_is_to_go() -> None:
    driver = cluster({"a": ["a0", "a1"], "b": ["b0"]})
    driver.open(1, ("a",))
    drain(driver)
    driver.open(2)
    driver.add_slice(1, 1, session=2)
    session = driver.core.state.sessions[SessionNumber(2)]
    assert list(session.used) == ["b"]
    driver.open(3, ("a",))
    assert SessionNumber(3) in driver.core.state.pending
    drain(driver, on=False)
    assert SessionNumber(3) not in driver.core.state.pending


def test_a_session_that_waits_is_told_that_the_host_is_drained() -> None:
    driver = cluster({"a": ["a0", "a1"]}, session_wait_ns=10**9)
    driver.open(1)
    drain(driver)
    driver.open(2, ("a",))
    driver.pass_time(0.5)
    told = why.of_session(driver.core.state, driver.now_ns, SessionNumber(2), None).sentences
    assert "waits for island a to be ACTIVE: host a1 of it is being drained" in told[1]
    effects = driver.pass_time(0.6)
    assert "host a1 of it is being drained" in only(replies(effects, out.RefuseSession)).failure.message


def test_a_drained_host_takes_part_in_nothing_when_it_joins_again_until_it_is_taken_back() -> None:
    driver = cluster()
    drain(driver, "a0")
    driver.pass_time(TICK_S)
    assert members(driver) == ["a1"]
    driver.lose("a0")
    driver.join("a0", "a")
    driver.pass_time(TICK_S)
    assert members(driver) == ["a1"]
    drain(driver, "a0", on=False)
    assert members(driver) == ["a0", "a1"]


def test_a_host_that_is_taken_back_waits_until_nobody_uses_its_island() -> None:
    driver = cluster()
    drain(driver)
    driver.pass_time(TICK_S)
    driver.open(1, ("a",))
    driver.put(10, devices=(0,))
    drain(driver, on=False)
    driver.pass_time(TICK_S)
    assert members(driver) == ["a0"]
    assert only(sent(driver.fetch(10), out.FetchShard))[0] == "a0"
    driver.close()
    assert members(driver) == ["a0", "a1"]


def test_the_last_host_of_an_island_can_be_drained() -> None:
    driver = cluster({"a": ["a0"], "b": ["b0"]})
    drain(driver, "a0")
    driver.pass_time(TICK_S)
    assert is_drained(driver, "a0")
    assert driver.core.state.islands[IslandName("a")].state is IslandState.WAITING
    driver.lose("a0")
    driver.join("a0", "a")
    assert members(driver) == []
    drain(driver, "a0", on=False)
    assert members(driver) == ["a0"]


def test_a_loss_while_a_host_is_drained_forms_the_island_again_with_it() -> None:
    driver = cluster({"a": ["a0", "a1"]})
    driver.open(1)
    drain(driver)
    driver.kill_executor("a0")
    driver.pass_time(1)
    assert members(driver) == ["a0", "a1"], "the session was shown both"


def test_a_host_that_joins_does_not_end_the_epoch_of_an_island_in_use_that_another_is_to_leave() -> None:
    driver = cluster({"a": ["a0", "a1"]})
    driver.open(1)
    driver.put(10)
    drain(driver)
    driver.join("a2", "a")
    assert members(driver) == ["a0", "a1"]
    assert only(sent(driver.fetch(10, shard=1), out.FetchShard))[0] == "a1"


def test_what_an_earlier_life_was_told_holds_before_the_host_has_joined() -> None:
    driver = Driver({"a": ["a0", "a1"]}, join=False)
    driver.step(events.DrainSet(HostName("a1"), True, IslandName("a")))
    driver.join("a0", "a")
    driver.join("a1", "a")
    assert members(driver) == ["a0"]


def test_a_host_that_joins_waits_for_work_that_outlives_its_session() -> None:
    driver = Driver({"a": ["a0", "a1"]}, join=False, island_hosts={})
    driver.join("a0", "a")
    driver.open(1)
    driver.compile(1, devices=(0,))
    driver.execute(1, (), 20)
    driver.close()
    driver.join("a1", "a")
    assert members(driver) == ["a0"], "a gang is under way"
    driver.finish("a0", 1)
    driver.pass_time(TICK_S)
    assert members(driver) == ["a0", "a1"]


def test_a_suspended_slice_is_named_and_goes_away_when_it_is_resumed() -> None:
    driver = cluster({"a": ["a0", "a1"], "b": ["b0", "b1", "b2", "b3"]})
    driver.open(1, ("a",))
    driver.add_slice(1, 2, island="a")
    driver.step(events.SuspendRequested(SessionNumber(1), 1))
    pass_ticks(driver, 2)
    drain(driver)
    pass_ticks(driver, 8)
    assert text(driver) == "slice 1 of session 1 (test) is suspended on island a; resume or release it"
    driver.step(events.ResumeRequested(SessionNumber(1), 1))
    pass_ticks(driver, 8)
    assert is_drained(driver)


def small_neighbour(beside: int = 1000) -> Driver:
    """Island b has two devices, with room for half a shard each. Slice 1 of session 1 is on host a0; a1 has `beside` bytes."""
    driver = Driver({"a": ["a0", "a1"], "b": ["b0"]}, devices=2, join=False, pool_slices=3)
    for host, memory in (("a0", 1000), ("a1", beside), ("b0", 4)):
        driver.memory = memory
        driver.join(host, host[0])
    driver.open(1, ("a",))
    driver.add_slice(1, 2, island="a")
    driver.put(10, devices=driver.core.state.sessions[SessionNumber(1)].slices[1].devices)
    return driver


def tries(driver: Driver) -> list[tuple[str, str]]:
    """Where something was to be moved, and how that ended."""
    ends = [each for each in driver.log if isinstance(each, out.Log) and each.phrase in ("migration ended", "migration failed")]
    return [(dict(each.fields)["to"], each.phrase.split()[1]) for each in ends if dict(each.fields)["what"].startswith("slice")]


def test_what_another_island_has_devices_but_no_memory_for_goes_to_the_hosts_beside() -> None:
    driver = small_neighbour()
    assert only(sent(driver.fetch(10), out.FetchShard))[0] == "a0"
    driver.step(events.ShardFetched(HostName("a0"), only(sent(driver.log, out.FetchShard))[1].fetch_id, b"12345678", None))
    drain(driver, "a0")
    for _ in range(8):
        effects = driver.pass_time(TICK_S)
        while effects:
            effects = land(driver, effects) + answered(driver, effects)
    assert tries(driver) == [("b", "failed"), ("a", "ended")], "and b is not asked again for what may stay"
    assert is_drained(driver, "a0")
    assert only(sent(answered(driver, driver.fetch(10, fetch=2)), out.FetchShard))[0] == "a1"


def test_what_neither_has_memory_for_is_named_with_both_reasons_and_asked_again_elsewhere() -> None:
    driver = small_neighbour(beside=4)
    drain(driver, "a0")
    for _ in range(3):
        pass_ticks(driver, 6)
        assert text(driver, "a0").count("has 4; use smaller shards") == 2, "on b0, and on the host beside"
        driver.pass_time(driver.core.state.config.drain_again_ns / 1e9)
    assert tries(driver)[:4] == [("b", "failed"), ("a", "failed")] * 2


def test_what_was_tried_for_a_session_is_forgotten_with_it() -> None:
    driver = cluster({"a": ["a0", "a1"], "b": ["b0"]}, stuck_ns=0)
    for number in (1, 2):
        driver.open(number, ("a",))
        driver.put(10, session=number)
    driver.open(3)
    driver.add_slice(1, 1, session=3, island="a")
    driver.compile(1, devices=driver.core.state.sessions[SessionNumber(3)].slices[1].devices, session=3)
    driver.execute(1, (), 20, session=3)
    drain(driver)
    pass_ticks(driver)
    found = driver.core.state.drains[HostName("a1")]
    assert list(found.again_ns) == [1, 2]
    assert list(found.begun) == [3]
    driver.close(1)
    driver.close(3)
    pass_ticks(driver, 1)
    assert list(found.again_ns) == [2]
    assert not found.begun
