"""A host that owes anything but a gang is looked at, too: named if its executor shows no life, and never if it is only slow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pathways_common.model.failure import Reason
from pathways_common.model.ids import FetchId, HostName, SessionNumber, WaitId
from pathways_server.core import debts, events
from pathways_server.core import effects as out

from tests.unit.core.core_driver import Driver, facts, gid, only, replies, sent
from tests.unit.core.core_runs import A1, A, chain, driver_of, put, run
from tests.unit.core.test_core_stuck import LIMIT_S, SECOND_NS, Hosts, named, within

GIB = 1 << 30


def started(**options: object) -> Driver:
    options.setdefault("pull_linger_ns", SECOND_NS)
    driver = Driver({"a": ["a0", "a1"], "b": ["b0"]}, **options)  # type: ignore[arg-type]
    driver.facts["p"] = facts(outputs=1)
    driver.open(1, ("*",))
    return driver


def load(driver: Driver) -> None:
    """a0 has answered, and a1 has not."""
    driver.answer_loads = False
    first, _ = sent(driver.compile(1), out.Load)
    driver.step(driver.loaded("a0", first[1]))


def reload(driver: Driver) -> None:
    """In a new epoch, for what wants it, by its name."""
    driver.compile(1)
    driver.put(10)
    driver.kill_executor("a0")
    driver.put(11)
    driver.answer_loads = False
    first, _ = sent(driver.execute(1, (11,), 20), out.Load)
    driver.step(driver.loaded("a0", first[1]))


def small_read(driver: Driver) -> None:
    driver.put(10)
    driver.fetch(10, shard=1)


def large_read(driver: Driver) -> None:
    """Its bytes are pulled by the client. A host need not tell the end of that, so that such a read is over by itself one day."""
    driver.put(10)
    assert only(replies(driver.fetch(10, shard=1, size=GIB), out.FetchTicket)).source == "a1"


def wait(driver: Driver) -> None:
    driver.put(10)
    driver.wait(10)
    (number,) = driver.core.state.readers
    driver.step(events.BecameReady(HostName("a0"), WaitId(number), None))


def upload(driver: Driver) -> None:
    driver.upload(10, 1, devices=(1,))


def copy_from(driver: Driver) -> None:
    driver.put(10, devices=(1,))
    driver.copy(11, 10, (2,))


def copy_to(driver: Driver) -> None:
    driver.put(10, devices=(2,))
    driver.copy(11, 10, (1,))


def inspect(driver: Driver) -> None:
    driver.compile(1, devices=(1,))
    driver.step(events.InspectRequested(SessionNumber(1), 5, gid(1), 1))


DEBTS: dict[str, tuple[Callable[[Driver], object], str]] = {
    "load": (load, "did not load program 1"),
    "reload": (reload, "did not load program 1"),
    "small read": (small_read, "did not give shard 1 of array 10"),
    "large read": (large_read, "did not give shard 1 of array 10"),
    "wait": (wait, "did not say that array 10 is ready"),
    "upload": (upload, "did not take the bytes of an upload, array 10"),
    "copy from it": (copy_from, "did not give array 10, which is copied"),
    "copy to it": (copy_to, "did not take the bytes of a copy, array 11"),
    "inspection": (inspect, "was not inspected for program 1"),
}


@pytest.mark.parametrize("debt", DEBTS)
def test_an_executor_that_shows_no_life_is_named_with_what_it_owes(debt: str) -> None:
    owe, words = DEBTS[debt]
    driver = started()
    owe(driver)
    hosts = Hosts(driver, stopped_ns={"a1": 0})
    began_ns = driver.now_ns
    effects = hosts.wait(30)
    assert within(driver, began_ns)
    (host, why) = only(named(effects))
    assert host == "a1"
    assert why.startswith("its executor has not answered for 10.")
    assert why.endswith(f"s; it {words}")
    # Its daemon kills it, and the island forms again; the other island goes on.
    assert {host for host, _ in sent(effects, out.EpochEnd)} == {"a0", "a1"}
    assert [host for host, _ in sent(effects, out.EpochBegin)] == ["a0", "a1"]
    assert not debts.owed(driver.core.state) or debt in ("load", "reload")


@pytest.mark.parametrize("debt", DEBTS)
def test_an_executor_that_lives_may_owe_for_long(debt: str) -> None:
    """Compilations, clients that send slowly, values that are not computed yet."""
    driver = started(upload_ns=10**15, load_ns=10**15, read_ns=10**15, inspect_ns=10**15, pull_linger_ns=10**15)
    DEBTS[debt][0](driver)
    hosts = Hosts(driver)
    assert named(hosts.wait(100)) == []
    assert hosts.probes > 100
    assert set(debts.owed(driver.core.state)) >= {driver.core.state.hosts[HostName("a1")]}


@pytest.mark.parametrize("held", [False, True])
def test_a_read_that_is_held_is_awaited_for_as_long_as_its_host_holds_it(held: bool) -> None:
    driver = started(pull_ns=60 * SECOND_NS)
    driver.put(10)
    driver.fetch(10, shard=1, size=GIB, held=held)
    hosts = Hosts(driver)
    hosts.wait(30)
    assert len(driver.core.state.readers) == (1 if held else 0)
    hosts.wait(40)
    assert driver.core.state.readers == {}


def test_what_waited_fails_with_the_host_and_what_it_owed() -> None:
    driver = started()
    small_read(driver)
    effects = Hosts(driver, stopped_ns={"a1": 0}).wait(30)
    lost = only(replies(effects, out.FetchFailed)).failure
    assert (lost.reason, lost.host) == (Reason.BUFFER_LOST, "a1")
    assert "is lost: host a1 of island a was lost in epoch 1: its executor has not answered for 10." in lost.message
    assert lost.message.endswith("it did not give shard 1 of array 10")

    driver = started()
    inspect(driver)
    effects = Hosts(driver, stopped_ns={"a1": 0}).wait(30)
    failure = only(replies(effects, out.Inspected)).failure
    assert failure is not None
    assert (failure.reason, failure.host) == (Reason.SLICE_LOST, "a1")

    driver = started()
    upload(driver)
    (withdrawn,) = replies(Hosts(driver, stopped_ns={"a1": 0}).wait(30), out.UploadWithdrawn)
    assert (withdrawn.failure.reason, withdrawn.failure.host) == (Reason.BUFFER_LOST, "a1")


def test_a_compilation_goes_on_in_the_next_epoch() -> None:
    driver = started()
    load(driver)
    driver.answer_loads = True
    effects = Hosts(driver, stopped_ns={"a1": 0}).wait(30)
    assert [host for host, _ in sent(effects, out.Load)] == ["a0", "a1"]
    assert only(replies(effects, out.Compiled)).failure is None


def test_plans_and_arrays_that_move_count() -> None:
    driver = driver_of()
    driver.answer_plans = False
    chain(driver, A, A1)
    put(driver, 10, A)
    run(driver, (10,), 20)
    (_, why) = only(named(Hosts(driver, stopped_ns={"a1": 0}).wait(30)))
    assert why.endswith("it did not say how it understood program train")


@pytest.mark.parametrize("debt", DEBTS)
def test_a_daemon_that_does_not_answer_is_named_with_what_it_owes(debt: str) -> None:
    owe, words = DEBTS[debt]
    driver = started(upload_ns=10**15, load_ns=10**15, read_ns=10**15, inspect_ns=10**15, pull_linger_ns=10**15)
    owe(driver)
    began_ns = driver.now_ns
    effects = Hosts(driver, silent={"a1": None}).wait(30)
    assert within(driver, began_ns)
    (host, why) = only(named(effects))
    assert host == "a1"
    assert why.startswith("nothing has been heard of it for 10.")
    assert why.endswith(f"s, and it {words}")
    assert out.DropHost(HostName("a1")) in effects


def test_a_daemon_behind_a_slow_link_that_owes_something_gets_three_times_the_deadline() -> None:
    driver = started(read_ns=10**15)
    small_read(driver)
    hosts = Hosts(driver, silent={"a1": None})
    began_ns = driver.now_ns
    found: list[tuple[str, str]] = []
    while not found and driver.now_ns - began_ns < 100 * SECOND_NS:
        driver.step(events.HostHeard(HostName("a1"), driver.core.state.hosts[HostName("a1")].incarnation))
        found = named(hosts.wait(1))
    assert [host for host, _ in found] == ["a1"]
    assert 3 * LIMIT_S * SECOND_NS <= driver.now_ns - began_ns <= (3 * LIMIT_S + 1) * SECOND_NS


def test_a_gang_that_comes_later_has_its_own_deadline_and_a_stopped_executor_has_not() -> None:
    driver = started()
    driver.compile(1)
    small_read(driver)
    hosts = Hosts(driver)
    hosts.wait(9)
    driver.execute(1, (10,), 20)
    hosts.enter("a0", 1)
    began_ns = driver.now_ns
    (_, why) = only(named(hosts.wait(30)))
    assert within(driver, began_ns)
    assert why.startswith("it did not start program 1")

    driver = started()
    driver.compile(1)
    small_read(driver)
    began_ns = driver.now_ns
    hosts = Hosts(driver, stopped_ns={"a1": began_ns})
    hosts.wait(6)
    driver.execute(1, (10,), 20)
    hosts.enter("a0", 1)
    (host, why) = only(named(hosts.wait(30)))
    assert host == "a1"
    assert within(driver, began_ns)
    assert why.startswith("its executor has not answered for 10.")
    assert "it did not start program 1" in why


def test_of_a_gang_that_comes_to_a_silent_daemon_the_silence_counts_from_before() -> None:
    driver = started()
    driver.compile(1)
    small_read(driver)
    hosts = Hosts(driver, silent={"a1": None})
    began_ns = driver.now_ns
    hosts.wait(6)
    driver.execute(1, (10,), 20)
    hosts.enter("a0", 1)
    (host, why) = only(named(hosts.wait(30)))
    assert host == "a1"
    assert within(driver, began_ns)
    assert why.startswith("nothing has been heard of it for 10.")
    assert "it did not start program 1" in why


def test_who_owes_nothing_is_not_asked() -> None:
    driver = started()
    small_read(driver)
    (number,) = driver.core.state.readers
    driver.step(events.ShardFetched(HostName("a1"), FetchId(number), b"12345678", None))
    hosts = Hosts(driver, stopped_ns={"a1": 0})
    assert named(hosts.wait(100)) == []
    assert hosts.probes == 0
    assert driver.now_ns >= 100 * SECOND_NS
