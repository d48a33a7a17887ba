"""Colocated Python: results are there when every host says so; what needs them waits in the controller, and others go on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, SessionNumber, TransferId
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import Driver, facts, gid, only, replies, sent

Landings = dict[str, tuple[TransferId, ...]]


def ready(outputs: int = 1) -> Driver:
    """Executable 1 is colocated Python, 2 is an ordinary program, and array 10 is there."""
    driver = Driver()
    driver.facts["python"] = replace(facts(outputs), python=True)
    driver.open()
    driver.compile(1, program="python")
    driver.compile(2)
    driver.put(10)
    return driver


def called(effects: list[out.Effect]) -> Landings:
    return {host: prepare.landings for host, prepare in sent(effects, out.Prepare)}


def test_a_result_is_there_when_every_host_has_said_so() -> None:
    driver = ready()
    landings = called(driver.execute(1, (10,), 20))
    assert set(landings) == {"a0", "a1"}
    for host in landings:
        driver.finish(host, 1)  # which ends the gang, and not the call
    assert not sent(driver.execute(2, (20,), 21), out.Prepare)
    assert not sent(driver.landed("a0", landings["a0"][0]), out.Prepare)
    assert [host for host, _ in sent(driver.landed("a1", landings["a1"][0]), out.Prepare)] == ["a0", "a1"]


def test_other_sessions_and_other_calls_do_not_wait_for_a_call() -> None:
    driver = ready()
    driver.execute(1, (10,), 20)
    assert called(driver.execute(1, (10,), 21))
    driver.open(2)
    driver.compile(1, session=2)
    driver.put(10, session=2)
    assert sent(driver.execute(1, (10,), 20, session=2), out.Prepare)


def test_the_clients_thread_goes_to_the_hosts() -> None:
    driver = ready()
    request = events.ExecuteRequested(SessionNumber(1), gid(9000), gid(1), (gid(10),), gid(20), (), 0, 77)
    assert {prepare.stream for _, prepare in sent(driver.step(request), out.Prepare)} == {77}


def test_a_call_that_failed_on_one_host_has_failed_and_the_other_host_need_not_tell() -> None:
    driver = ready()
    landings = called(driver.execute(1, (10,), 20))
    driver.execute(2, (20,), 21)
    cause = Failure(Reason.USER_ERROR, "ValueError: no", host="a1")
    driver.step(events.TransferLanded(HostName("a1"), landings["a1"][0], cause))
    driver.landed("a0", landings["a0"][0])
    assert only(replies(driver.fetch(20), out.FetchFailed)).failure == cause
    assert only(replies(driver.fetch(21, fetch=2), out.FetchFailed)).failure == cause


def test_a_call_waits_for_its_arguments_and_its_result_for_the_call() -> None:
    driver = ready()
    driver.upload(11, upload=1)
    targets = only(replies(driver.log, out.UploadGrant)).targets
    assert not called(driver.execute(1, (11,), 20))
    assert not replies(driver.fetch(20), out.FetchTicket)
    driver.landed(*targets[0])
    landings = called(driver.landed(*targets[1]))
    driver.landed("a0", landings["a0"][0])
    assert sent(driver.landed("a1", landings["a1"][0]), out.FetchShard)


def test_results_that_nobody_names_any_more_are_not_waited_for() -> None:
    driver = ready(outputs=2)
    driver.upload(11, upload=1)
    targets = only(replies(driver.log, out.UploadGrant)).targets
    driver.execute(1, (11,), 20)
    driver.release(20)
    driver.landed(*targets[0])
    landings = called(driver.landed(*targets[1]))
    for host, (first, second) in landings.items():
        assert first != second
        driver.landed(host, second)
    assert sent(driver.fetch(21), out.FetchShard)


def test_a_call_that_nobody_tells_of_is_late() -> None:
    driver = ready()
    landings = called(driver.execute(1, (10,), 20))
    driver.landed("a0", landings["a0"][0])
    driver.pass_time(driver.core.state.config.python_ns / 1e9 + 1)
    failure = only(replies(driver.fetch(20), out.FetchFailed)).failure
    assert failure.reason is Reason.TIMED_OUT
    assert failure.host == "a1"


@pytest.mark.parametrize("told", [(), ("a0",)])
def test_all_hosts_that_are_late_are_named_and_no_other(told: tuple[str, ...]) -> None:
    driver = ready()
    landings = called(driver.execute(1, (10,), 20))
    for host in told:
        driver.landed(host, landings[host][0])
    driver.pass_time(driver.core.state.config.python_ns / 1e9 + 1)
    failure = only(replies(driver.fetch(20), out.FetchFailed)).failure
    assert {host for host in landings if host in failure.message} == set(landings) - set(told)


@pytest.mark.parametrize("ended", [False, True])
def test_a_call_ends_with_the_epoch_of_its_island(ended: bool) -> None:
    driver = ready()
    driver.execute(1, (10,), 20)
    if ended:
        for host in ("a0", "a1"):
            driver.finish(host, 1)
    driver.kill_executor("a1")
    failure = only(replies(driver.fetch(20), out.FetchFailed)).failure
    assert failure.reason in (Reason.SLICE_LOST, Reason.BUFFER_LOST)
    assert failure.host == "a1"


def test_hosts_are_told_when_the_session_of_a_call_is_over() -> None:
    driver = ready()
    driver.execute(1, (10,), 20)
    ended = sent(driver.close(), out.CancelTransfer)
    assert [host for host, command in ended if command.session] == ["a0", "a1"]


def test_without_tokens_it_is_refused_whatever_hosts_allow() -> None:
    driver = Driver(python_allowed=False)
    driver.facts["python"] = replace(facts(1), python=True)
    driver.open()
    failure = only(replies(driver.compile(1, program="python"), out.Compiled)).failure
    assert (failure.reason, "without tokens" in failure.message) == (Reason.UNSUPPORTED, True)
    assert only(replies(driver.compile(2), out.Compiled)).failure is None
