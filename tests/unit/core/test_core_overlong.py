"""A gang that all are in is only long: what ends it, and which host is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, IslandName, Sequence, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.run_records import Span

from tests.unit.core.core_driver import Driver, gid, only, replies, sent
from tests.unit.core.core_runs import A, buffer, chain, driver_of, put, run
from tests.unit.core.test_core_stuck import SECOND_NS, Hosts, ended, waiting


def measured(**options: object) -> tuple[Driver, Hosts]:
    """The gang took a second before, and now all are in it."""
    driver, hosts = waiting(**options)
    (executable,) = driver.core.state.sessions[SessionNumber(1)].executables.values()
    estimate = executable.estimate
    estimate.measured, estimate.duration_ns = True, SECOND_NS
    hosts.enter("a0", 1)
    hosts.enter("a1", 1)
    return driver, hosts


def until_ended(hosts: Hosts, seconds: float) -> list[out.Effect]:
    for _ in range(int(seconds)):
        effects = hosts.wait(1, tick_s=0.5)
        if ended(effects):
            return effects
    return []


def test_a_gang_that_all_are_in_fails_when_it_takes_ten_times_as_long_as_before_and_ten_minutes() -> None:
    driver, hosts = measured()
    driver.compile(2, program="q")
    driver.execute(2, (10,), 21)
    effects = until_ended(hosts, 700)
    assert 600 * SECOND_NS <= driver.now_ns <= 602 * SECOND_NS
    (why,) = ended(effects)
    assert why.startswith("program 1 of test ran for 60")
    assert why.endswith("too long for a program that took 1.0 s before")
    failed = only(replies(effects, out.FetchFailed)).failure
    assert (failed.reason, failed.message) == (Reason.TIMED_OUT, f"{why}; it was ended with island a")
    # Whoever came behind it lost an executor.
    behind = only(replies(driver.fetch(21, fetch=2), out.FetchFailed)).failure
    assert behind.reason is Reason.SLICE_LOST
    assert behind.message.endswith(f"its executor was ended because {why}")
    assert len(sent(effects, out.EpochBegin)) == 2


@pytest.mark.parametrize(
    ("shares", "name", "told"),
    [
        ({"a0": 0.01, "a1": 0.9}, "a1", "; a1 used its processors in it and a0 did not, as in an endless loop on a1"),
        ({"a0": 0.4, "a1": 0.02}, "a0", "; a0 used its processors in it and a1 did not, as in an endless loop on a0"),
        ({"a0": 0.9, "a1": 0.9}, "a0", ""),
        ({}, "a0", ""),
    ],
)
def test_of_a_gang_that_takes_too_long_the_member_that_computes_is_named_if_the_others_wait(
    shares: dict[str, float], name: str, told: str
) -> None:
    driver, hosts = measured()
    driver.compile(2, program="q")
    driver.execute(2, (10,), 21)
    hosts.cpu_share |= shares
    effects = until_ended(hosts, 700)
    (why,) = ended(effects)
    assert why.endswith(f"too long for a program that took 1.0 s before{told}")
    failed = only(replies(effects, out.FetchFailed)).failure
    assert (failed.reason, failed.host) == (Reason.TIMED_OUT, name)
    behind = only(replies(driver.fetch(21, fetch=2), out.FetchFailed)).failure
    assert (behind.reason, behind.host) == (Reason.SLICE_LOST, name)


@pytest.mark.parametrize(("before_s", "after_s"), [(0.01, 10), (0.5, 50), (2, 200)])
def test_an_endless_loop_on_one_member_is_ended_at_the_deadline_or_after_a_hundred_times(before_s: float, after_s: int) -> None:
    driver, hosts = measured()
    (executable,) = driver.core.state.sessions[SessionNumber(1)].executables.values()
    executable.estimate.duration_ns = int(before_s * SECOND_NS)
    hosts.cpu_share |= {"a0": 0.01, "a1": 0.9}
    effects = until_ended(hosts, 300)
    assert after_s * SECOND_NS <= driver.now_ns <= (after_s + 2) * SECOND_NS
    assert only(replies(effects, out.FetchFailed)).failure.host == "a1"
    assert ended(effects)[0].endswith("; a1 used its processors in it and a0 did not, as in an endless loop on a1")


@pytest.mark.parametrize("shares", [{"a0": 0.9, "a1": 0.9}, {"a0": 0.01, "a1": 0.01}])
def test_a_gang_in_which_all_compute_or_all_wait_is_only_long(shares: dict[str, float]) -> None:
    driver, hosts = measured()
    (executable,) = driver.core.state.sessions[SessionNumber(1)].executables.values()
    executable.estimate.duration_ns = SECOND_NS // 100
    hosts.cpu_share |= shares
    assert until_ended(hosts, 590) == []


def test_who_compiles_beside_a_gang_is_not_said_to_compute_in_it() -> None:
    """Its session has ended, a1 compiles for another one, and nobody loops."""
    driver, hosts = waiting()
    driver.open(2, ("*",))
    hosts.enter("a0", 1)
    hosts.enter("a1", 1)
    driver.answer_loads = False
    for host, load in sent(driver.compile(2, program="q", session=2), out.Load):
        if host == "a0":
            driver.step(driver.loaded(host, load))
    hosts.cpu_share |= {"a0": 0.01, "a1": 0.9}
    driver.close(1)
    (why,) = ended(until_ended(hosts, 100))
    assert why.endswith("and nobody waits for it any more")


@pytest.mark.parametrize("loading", ["to the end", "almost to the end"])
def test_who_loops_is_named_though_another_member_compiles(loading: str) -> None:
    driver, hosts = measured()
    driver.answer_loads = False
    loads = dict(sent(driver.compile(2, program="q"), out.Load))
    driver.step(driver.loaded("a1", loads["a1"]))
    hosts.cpu_share |= {"a0": 0.9, "a1": 0.9}
    if loading == "almost to the end":
        assert not ended(until_ended(hosts, 580))
        driver.step(driver.loaded("a0", loads["a0"]))
        used = hosts.pulse
        compiled_ns = driver.now_ns
        # From here on a0 waits: what it has used stays what it was.
        hosts.pulse = lambda host, probe: (  # type: ignore[method-assign]
            replace(used(host, probe), cpu_ns=int(0.9 * compiled_ns)) if host == "a0" else used(host, probe)
        )
    effects = until_ended(hosts, 700)
    (why,) = ended(effects)
    assert why.endswith("; a1 used its processors in it and a0 did not, as in an endless loop on a1")
    assert only(replies(effects, out.FetchFailed)).failure.host == "a1"


def test_a_load_that_ended_right_before_the_gang_is_ended_is_not_the_gangs() -> None:
    """Of the time since the last answer with a load half was compiling."""
    driver, hosts = measured(stuck_ns=10 * SECOND_NS)
    driver.answer_loads = False
    loads = dict(sent(driver.compile(2, program="q"), out.Load))
    driver.step(driver.loaded("a0", loads["a0"]))
    hosts.cpu_share |= {"a1": 0.9}
    hosts.wait(599, tick_s=0.5)
    driver.step(driver.loaded("a1", loads["a1"]))
    (why,) = ended(until_ended(hosts, 700))
    assert why.endswith("too long for a program that took 1.0 s before")


def test_a_member_that_is_through_is_not_said_to_compute() -> None:
    """a0 ended the gang long ago and uses its CPUs for something else."""
    driver, hosts = measured()
    driver.finish("a0", 1)
    hosts.cpu_share |= {"a0": 0.9, "a1": 0.01}
    (why,) = ended(until_ended(hosts, 700))
    assert why.endswith("too long for a program that took 1.0 s before")


@pytest.mark.parametrize("case", ["was never measured", "took a quarter of an hour before", "may take for ever"])
def test_a_gang_that_may_take_long_goes_on(case: str) -> None:
    driver, hosts = measured(long_ns=0) if case == "may take for ever" else measured()
    (executable,) = driver.core.state.sessions[SessionNumber(1)].executables.values()
    estimate = executable.estimate
    estimate.measured = case != "was never measured"
    estimate.duration_ns = 900 * SECOND_NS if case == "took a quarter of an hour before" else SECOND_NS
    assert until_ended(hosts, 1200) == []


def test_a_gang_that_nobody_waits_for_any_more_is_ended_after_a_minute() -> None:
    driver, hosts = waiting()
    driver.open(2, ("*",))
    driver.put(30, session=2)
    hosts.enter("a0", 1)
    hosts.enter("a1", 1)
    hosts.wait(20)
    driver.close(1)
    (why,) = ended(until_ended(hosts, 100))
    assert why.endswith("and nobody waits for it any more")
    assert 60 * SECOND_NS <= driver.now_ns <= 62 * SECOND_NS
    lost = only(replies(driver.fetch(30, session=2), out.FetchFailed)).failure
    assert "was ended because program 1 of test ran for 6" in lost.message


@pytest.mark.parametrize("traced", [False, True])
def test_a_gang_that_failed_on_one_member_does_not_keep_the_others_for_more_than_a_minute(traced: bool) -> None:
    """The runtime of a1 found no memory for it, before its collective: a1 is through, and a0 waits there for ever."""
    if traced:
        driver = driver_of()
        chain(driver, A)
        put(driver, 10, A)
        run(driver, (10,), 20)
        hosts = Hosts(driver)
        (span,) = driver.core.state.islands[IslandName("a")].inflight
        assert isinstance(span, Span)
        execution_id = span.run.id
    else:
        driver, hosts = waiting()
        execution_id = gid(5020)
    driver.open(2, ("*",))
    driver.put(30, session=2)
    hosts.enter("a0", 1)
    hosts.wait(5)
    cause = Failure(Reason.EXECUTION_ERROR, "Out of memory allocating 2147483648 bytes.", host="a1", id="f1")
    began_ns = driver.now_ns
    hosts.enter("a1", 1)
    driver.step(events.NodeFailed(HostName("a1"), execution_id, Sequence(1), cause))
    driver.finish("a1", 1)
    (why,) = ended(until_ended(hosts, 100))
    assert why.endswith("though it had failed on host a1")
    assert driver.now_ns - began_ns <= 62 * SECOND_NS
    # The member where it failed is named, and what failed keeps its own cause.
    lost = only(replies(driver.fetch(30, session=2), out.FetchFailed)).failure
    assert (lost.host, "was ended because" in lost.message) == ("a1", True)
    failed = buffer(driver, 20).failure
    assert failed is not None
    assert failed.message.endswith("Out of memory allocating 2147483648 bytes.")
