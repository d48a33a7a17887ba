"""Sessions: which island, which devices, when refused, and what is left after the end."""

from __future__ import annotations

from pathways_common.model.failure import Reason
from pathways_common.model.ids import HostName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import Driver, gid, only, replies, sent

TWO = {"a": ["a0", "a1"], "b": ["b0"]}


def test_a_session_gets_the_least_loaded_island() -> None:
    driver = Driver(TWO)
    islands = []
    for number in (1, 2, 3):
        welcome = only(replies(driver.open(number), out.WelcomeSession))
        islands.append({device.island for device in welcome.devices})
    assert islands == [{"a"}, {"b"}, {"a"}]


def test_a_session_on_all_islands_sees_dense_ids_in_name_and_rank_order() -> None:
    driver = Driver(TWO, devices=2)
    devices = only(replies(driver.open(1, ("*",)), out.WelcomeSession)).devices
    assert [(d.device_id, d.slice_index, d.island, d.host, d.local_index) for d in devices] == [
        (0, 0, "a", "a0", 0),
        (1, 0, "a", "a0", 1),
        (2, 0, "a", "a1", 0),
        (3, 0, "a", "a1", 1),
        (4, 1, "b", "b0", 0),
        (5, 1, "b", "b0", 1),
    ]
    assert devices[0].platform == "cpu"
    assert devices[0].memory_kinds == ("device", "pinned_host")


def test_a_named_island_comes_first_in_its_own_numbering() -> None:
    driver = Driver(TWO)
    devices = only(replies(driver.open(1, ("b",)), out.WelcomeSession)).devices
    assert [(d.device_id, d.slice_index, d.host) for d in devices] == [(0, 0, "b0")]


def test_an_island_that_nobody_has_heard_of_is_refused_at_once() -> None:
    driver = Driver(TWO)
    failure = only(replies(driver.open(1, ("a", "zz")), out.RefuseSession)).failure
    assert failure.reason is Reason.INVALID_ARGUMENT
    assert failure.message.startswith("there is no island 'zz'; the cluster has a, b: name one of these")


def test_an_early_session_waits_for_its_island() -> None:
    driver = Driver(TWO, join=False)
    assert replies(driver.open(1, ("a",)), out.WelcomeSession) == []
    driver.join("a0", "a")
    assert replies(driver.join("b0", "b"), out.WelcomeSession) == []
    assert only(replies(driver.join("a1", "a"), out.WelcomeSession)).platform == "cpu"


def test_a_session_is_refused_with_what_is_missing() -> None:
    driver = Driver(TWO, join=False)
    driver.join("a0", "a")
    driver.open(1, ("a",))
    assert replies(driver.pass_time(29), out.RefuseSession) == []
    failure = only(replies(driver.pass_time(1), out.RefuseSession)).failure
    assert failure.reason is Reason.UNAVAILABLE
    assert failure.message == (
        "no island could be given within 30 s: island a waits for 1 more host of 2; there: a0; "
        "start the missing workers and connect again"
    )
    assert driver.core.state.sessions == {}


def test_a_lost_host_is_named_to_a_session_that_waits() -> None:
    driver = Driver()
    driver.lose("a1", "no heartbeat for 20 s")
    driver.open()
    failure = only(replies(driver.pass_time(30), out.RefuseSession)).failure
    assert "last seen: a1 (no heartbeat for 20 s)" in failure.message


def test_the_end_of_a_session_frees_everything() -> None:
    driver = Driver(island_wait_ns=10**12)
    driver.open()
    driver.compile(1)
    driver.put(10)
    driver.execute(1, (10,), 20)
    driver.upload(11, upload=3)
    driver.execute(1, (11,), 30)  # waits for the upload
    driver.fetch(30)
    driver.wait(30)
    driver.view(40, (10, 1, 1))
    effects = driver.close()
    freed = {host: command.ids for host, command in sent(effects, out.Free)}
    assert set(freed["a0"]) == set(freed["a1"]) == {gid(10), gid(20), gid(11)}
    assert [command.executable_ids for _, command in sent(effects, out.Unload)] == [(gid(1),)] * 2
    assert [effect.program for effect in effects if isinstance(effect, out.DropProgram)] == ["p"]
    assert sent(effects, out.CallbackAbort) == []
    assert sum(len(command.transfer_ids) for _, command in sent(effects, out.CancelTransfer)) == 2
    state = driver.core.state
    left = [state.sessions, state.readers, state.transfers, state.programs, state.calls]
    assert not any(left)
    assert [execution.sequence for execution in state.islands[next(iter(state.islands))].inflight] == [1]


def test_only_hosts_that_may_call_back_hear_that_the_client_is_gone() -> None:
    driver = Driver(TWO)
    driver.open(1, ("*",))
    driver.compile(1, (0, 1))
    driver.compile(2, (2,), callbacks=(7,))
    driver.step(events.CallbackCalled(HostName("a1"), 4, SessionNumber(1), 7, b"", 0))  # of a program that was dropped since
    told = sent(driver.close(), out.CallbackAbort)
    assert sorted(host for host, _ in told) == ["a1", "b0"]
    assert {command.session for _, command in told} == {1}


def test_operations_of_an_unknown_session_are_ignored() -> None:
    driver = Driver()
    assert [type(effect) for effect in driver.put(10, session=9)] == [out.Log]


def test_a_fence_is_reached_when_everything_before_it_was_granted() -> None:
    driver = Driver()
    driver.open()
    driver.compile(1)
    number = next(iter(driver.core.state.sessions))
    assert only(replies(driver.step(events.FenceRequested(number, 1)), out.FenceReached)).fence_id == 1
    effects = driver.upload(10, upload=1)
    driver.execute(1, (10,), 20)
    assert replies(driver.step(events.FenceRequested(number, 2)), out.FenceReached) == []
    grants = only(replies(effects, out.UploadGrant)).targets
    driver.landed(*grants[0])
    assert only(replies(driver.landed(*grants[1]), out.FenceReached)).fence_id == 2
