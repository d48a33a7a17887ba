"""Islands form, fail to form, end and form again."""

from __future__ import annotations

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import Epoch, HostName, IslandName
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.natural_order import natural
from pathways_server.core.transitions import IslandState

from tests.unit.core.core_driver import Driver, only, replies, sent


def test_names_sort_with_numbers_as_numbers() -> None:
    assert sorted(["a10", "b", "a2", "a", "2a"], key=natural) == ["2a", "a", "a2", "a10", "b"]


def test_an_island_forms_when_its_last_host_joins_with_ranks_in_natural_order() -> None:
    driver = Driver({"a": ["a10", "a2"]}, join=False)
    assert sent(driver.join("a10", "a"), out.EpochBegin) == []
    effects = driver.join("a2", "a")
    assert [host for host, _ in sent(effects, out.StartCoordinator)] == ["a2"]
    begins = sent(effects, out.EpochBegin)
    assert [(host, begin.rank, begin.rank_count, begin.coordinator_address) for host, begin in begins] == [
        ("a2", 0, 2, "127.0.0.1:1"),
        ("a10", 1, 2, "127.0.0.1:1"),
    ]
    assert driver.core.snapshot(0).islands[0].state == "ACTIVE"


def test_a_host_that_goes_while_the_coordination_service_starts_sends_the_island_back_to_waiting() -> None:
    driver = Driver(join=False)
    driver.answer_membership = False
    driver.join("a0", "a")
    driver.join("a1", "a")
    island = driver.core.state.islands[IslandName("a")]
    assert island.state is IslandState.COORDINATING
    driver.lose("a1")
    assert island.state is IslandState.WAITING


def test_one_host_needs_no_coordination_service() -> None:
    driver = Driver({"a": ["a0"]}, join=False)
    effects = driver.join("a0", "a")
    assert sent(effects, out.StartCoordinator) == []
    assert only(sent(effects, out.EpochBegin))[1].coordinator_address == ""


def test_an_island_of_no_fixed_size_grows_only_while_no_session_uses_it() -> None:
    driver = Driver({"a": []}, island_hosts={"a": 0})
    driver.join("a0", "a")
    assert driver.epoch() == 1
    driver.open()
    assert sent(driver.join("a1", "a"), out.EpochBegin) == []
    effects = driver.close()
    assert [host for host, _ in sent(effects, out.EpochBegin)] == ["a0", "a1"]
    assert driver.epoch() == 2


def test_an_island_in_use_waits_for_as_many_hosts_as_its_sessions_were_shown() -> None:
    driver = Driver({"a": []}, island_hosts={"a": 0})
    driver.join("a0", "a")
    driver.join("a1", "a")
    driver.open()
    assert sent(driver.lose("a1"), out.EpochBegin) == []
    assert driver.core.snapshot(0).islands[0].state == "WAITING"
    assert len(sent(driver.join("a1", "a"), out.EpochBegin)) == 2


def test_a_host_that_enters_too_late_ends_the_try_and_the_next_has_a_new_number() -> None:
    driver = Driver(join=False)
    driver.answer_membership = False
    driver.join("a0", "a")
    driver.join("a1", "a")
    driver.step(events.CoordinatorStarted(HostName("a0"), Epoch(1), "127.0.0.1:1", None))
    driver.step(driver.entered("a0", 1))
    assert not sent(driver.pass_time(100), out.EpochEnd), "the controller stood still, and not the host"
    effects, ticks = driver.pass_time(0.5), 1
    while not sent(effects, out.EpochEnd):
        effects, ticks = driver.pass_time(0.5), ticks + 1
        assert ticks < 130
    assert ticks >= 118
    assert [host for host, _ in sent(effects, out.EpochEnd)] == ["a0", "a1"]
    text = only([effect for effect in effects if isinstance(effect, out.Log)])
    assert dict(text.fields)["host"] == "a1"
    assert "did not enter the epoch within 60 s" in dict(text.fields)["reason"]
    assert sent(driver.pass_time(0.1), out.StartCoordinator) == []
    assert only(sent(driver.pass_time(1), out.StartCoordinator))[1].epoch == 2


@pytest.mark.parametrize("step", ["start the coordination service", "enter the epoch"])
def test_a_try_that_begins_right_behind_a_pause_of_the_controller_has_all_of_its_time(step: str) -> None:
    driver = Driver(join=False)
    driver.answer_membership = False
    driver.join("a0", "a")
    driver.pass_time(0.1)
    if step == "enter the epoch":
        driver.join("a1", "a")
        driver.now_ns += 100 * 10**9
        driver.step(events.CoordinatorStarted(HostName("a0"), Epoch(1), "127.0.0.1:1", None))
    else:
        driver.now_ns += 100 * 10**9
        driver.join("a1", "a")
    effects, began_ns = driver.pass_time(0.1), driver.now_ns
    while not (logs := [dict(each.fields) for each in effects if isinstance(each, out.Log)]):
        effects = driver.pass_time(0.1)
        assert driver.now_ns - began_ns < 61 * 10**9
    assert driver.now_ns - began_ns >= 59.9 * 10**9
    assert f"did not {step} within 60 s" in logs[0]["reason"]


def test_pauses_between_tries_grow_to_a_ceiling() -> None:
    driver = Driver(join=False)
    driver.answer_membership = False
    driver.join("a0", "a")
    driver.join("a1", "a")
    pauses = []
    island = driver.core.state.islands[IslandName("a")]
    for _ in range(9):
        failure = Failure(Reason.INTERNAL, "no socket")
        driver.step(events.CoordinatorStarted(HostName("a0"), island.epoch, "", failure))
        pauses.append((island.retry_at_ns - driver.now_ns) / 1e9)
        driver.pass_time(pauses[-1])
    assert pauses == [0.25, 0.5, 1, 2, 4, 8, 15, 15, 15]


def test_reports_of_older_epochs_are_ignored_with_a_reason() -> None:
    driver = Driver()
    driver.kill_executor("a0")
    assert driver.epoch() == 2
    late = driver.step(events.ExecutorLost(HostName("a0"), Epoch(1), "signal 9", ""))
    assert [type(effect) for effect in late] == [out.Log]
    assert driver.core.state.islands[IslandName("a")].state is IslandState.ACTIVE
    assert isinstance(driver.step(events.HostLost(HostName("a0"), 77, "old"))[0], out.Log)


def test_a_host_that_joins_again_ends_its_earlier_life() -> None:
    driver = Driver()
    effects = driver.join("a1", "a")
    assert driver.epoch() == 2
    assert [host for host, _ in sent(effects, out.EpochBegin)] == ["a0", "a1"]


def test_a_host_with_another_number_of_devices_is_turned_away() -> None:
    driver = Driver()
    host, command = only(sent(driver.join("a2", "a", devices=4), out.Shutdown))
    assert (host, command.reason) == ("a2", "host a2 has 4 devices and island a has 1 per host; start it alike")


def test_a_broken_order_ends_the_epoch() -> None:
    driver = Driver()
    driver.open()
    effects = driver.step(
        events.OrderBroken(HostName("a1"), Epoch(1), driver.core.state.islands[IslandName("a")].sequence, "7 after 9")
    )
    assert driver.epoch() == 2
    assert "order of launches broke" in only(replies(effects, out.Notice)).text
