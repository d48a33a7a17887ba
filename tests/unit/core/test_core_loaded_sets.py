"""An executor keeps a bounded number of executables: which goes, which stays, and how one comes back."""

from __future__ import annotations

from dataclasses import replace

from pathways_server.core import effects as out
from pathways_server.core.snapshot import take
from pathways_server.core.transitions import ExecutableState

from tests.unit.core.core_driver import Driver, facts, replies, sent


def driver_of(most: int, devices: int = 1) -> Driver:
    driver = Driver({"a": ["a0", "a1"]}, devices=devices, loaded_executables_max=most)
    driver.open(1, ("*",))
    driver.put(100)
    return driver


def loaded(driver: Driver) -> list[int]:
    executables = driver.core.state.sessions[1].executables  # type: ignore[index]
    return [number & 0xFF for number, each in executables.items() if each.state is ExecutableState.LOADED]


def used(driver: Driver, number: int, result: int) -> list[out.Effect]:
    """An execution from beginning to end, a moment later."""
    driver.now_ns += 1_000_000
    effects = driver.execute(number, (100,), result)
    for host in ("a0", "a1"):
        driver.finish(host, driver.core.state.islands["a"].sequence)  # type: ignore[index]
    return effects


def test_the_least_recently_used_goes_when_one_too_many_comes() -> None:
    driver = driver_of(3)
    for number in (1, 2, 3):
        driver.now_ns += 1_000_000
        driver.compile(number, program=f"p{number}")
    used(driver, 1, 50)
    effects = driver.compile(4, program="p4")
    assert [(host, unload.executable_ids[0] & 0xFF) for host, unload in sent(effects, out.Unload)] == [("a0", 2), ("a1", 2)]
    assert loaded(driver) == [1, 3, 4]
    figures = take(driver.core.state, 0).islands[0].hosts
    assert [(host.executables_loaded, host.executables_unloaded) for host in figures] == [(3, 1), (3, 1)]


def test_who_uses_an_unloaded_one_has_it_loaded_again_and_is_told_nothing_else() -> None:
    driver = driver_of(2)
    for number in (1, 2, 3):
        driver.now_ns += 1_000_000
        driver.compile(number, program=f"p{number}")
    assert loaded(driver) == [2, 3]
    effects = used(driver, 1, 50)
    kinds = [type(effect.command) for effect in effects if isinstance(effect, out.SendToHost) and effect.host == "a0"]
    wanted = [kind for kind in kinds if kind in (out.Unload, out.Load, out.Prepare)]
    assert wanted == [out.Unload, out.Load, out.Prepare], "room first, and granted only when it is loaded"
    assert replies(effects, out.Compiled) == []
    assert loaded(driver) == [1, 3]


def test_what_is_granted_stays_however_long_ago_it_was_used() -> None:
    driver = driver_of(1)
    driver.compile(1, program="p1")
    driver.execute(1, (100,), 50)
    effects = driver.compile(2, program="p2")
    assert sent(effects, out.Unload) == []
    assert loaded(driver) == [1, 2]
    for host in ("a0", "a1"):
        driver.finish(host, 1)
    driver.now_ns += 1_000_000
    assert {unload.executable_ids[0] & 0xFF for _, unload in sent(driver.compile(3, program="p3"), out.Unload)} == {1, 2}


def test_colocated_python_stays_with_what_its_functions_remember() -> None:
    driver = driver_of(1)
    driver.facts["python"] = replace(facts(1), python=True)
    driver.compile(1, program="python")
    driver.now_ns += 1_000_000
    driver.compile(2, program="p2")
    driver.now_ns += 1_000_000
    assert {unload.executable_ids[0] & 0xFF for _, unload in sent(driver.compile(3, program="p3"), out.Unload)} == {2}
    assert loaded(driver) == [1, 3]


def test_only_hosts_that_have_too_many_lose_any() -> None:
    driver = driver_of(1)
    driver.compile(1, (0,), "p1")
    effects = driver.compile(2, (1,), "p2")
    assert sent(effects, out.Unload) == []
    effects = driver.compile(3, (1,), "p3")
    assert [host for host, _ in sent(effects, out.Unload)] == ["a1"]
    assert loaded(driver) == [1, 3]


def test_an_unloaded_one_that_is_released_is_not_unloaded_again() -> None:
    driver = driver_of(1)
    driver.compile(1, program="p1")
    driver.now_ns += 1_000_000
    driver.compile(2, program="p2")
    assert sent(driver.release(executables=(1,)), out.Unload) == []


def test_a_new_epoch_begins_with_nothing_loaded() -> None:
    driver = driver_of(2)
    for number in (1, 2):
        driver.compile(number, program=f"p{number}")
    driver.kill_executor("a1")
    assert [host.executables_loaded for host in driver.core.state.hosts.values()] == [0, 0]
    driver.put(101)
    assert sent(driver.execute(1, (101,), 60), out.Unload) == []
