"""Leaks: what hosts tell against what the core took them to hold when it asked; work in flight is neither a leak nor missing."""

from __future__ import annotations

from collections.abc import Callable

from pathways_common.model.ids import Epoch, HostName, Sequence, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.effects import HeldKind, HeldObjects, Leak

from tests.unit.core.core_driver import Driver, gid, only, sent
from tests.unit.core.core_runs import A, chain, driver_of, put, run

VALUE, FAILED, EXECUTABLE, PLAN = HeldKind.VALUE, HeldKind.FAILED, HeldKind.EXECUTABLE, HeldKind.PLAN
Told = dict[str, list[HeldObjects]]


def ask(driver: Driver) -> int:
    effects = driver.step(events.LeaksRequested(7))
    asked = sent(effects, out.ReportHoldings)
    assert [host for host, _ in asked] == list(driver.core.state.hosts)
    return asked[0][1].request_id


def answer(driver: Driver, number: int, executors: Told, daemons: Told | None = None, launched: int = 100) -> out.LeaksFound:
    """Every host answers; an executor that is not named holds nothing."""
    effects: list[out.Effect] = []
    for name, host in driver.core.state.hosts.items():
        for daemon, told in ((True, daemons or {}), (False, executors)):
            objects, reached = tuple(told.get(name, [])), Sequence(0 if daemon else launched)
            event = events.HoldingsReported(name, number, daemon, host.island.epoch, reached, objects)
            effects += driver.step(event)
    return only([effect for effect in effects if isinstance(effect, out.LeaksFound)])


def everywhere(driver: Driver, *objects: HeldObjects) -> Told:
    return {name: list(objects) for name in driver.core.state.hosts}


def with_arrays() -> Driver:
    driver = Driver()
    driver.open()
    driver.compile(1)
    driver.put(10)
    driver.execute(1, (10,), 20)
    return driver


def test_what_open_sessions_hold_is_no_leak() -> None:
    driver = with_arrays()
    driver.view(40, (10, 1, 1))
    held = everywhere(driver, HeldObjects(VALUE, (gid(10), gid(20)), (8, 8)), HeldObjects(EXECUTABLE, (gid(1),)))
    found = answer(driver, ask(driver), held)
    assert (found.leaks, found.hosts, found.late_hosts, found.lost_hosts) == ((), ("a0", "a1"), (), ())
    assert (found.request_id, found.objects) == (7, 6)


def test_what_a_closed_session_left_is_named_with_host_kind_id_bytes_and_owner() -> None:
    driver = with_arrays()
    driver.close()
    held = {"a1": [HeldObjects(VALUE, (gid(10),), (8,)), HeldObjects(EXECUTABLE, (gid(1),))]}
    found = answer(driver, ask(driver), held)
    one = SessionNumber(1)
    assert found.leaks == (
        Leak("a1", "VALUE", gid(10), 8, one, False, ""),
        Leak("a1", "EXECUTABLE", gid(1), 0, one, False, ""),
    )


def test_a_value_that_its_open_session_released_is_a_leak() -> None:
    driver = with_arrays()
    driver.release(10)
    held = everywhere(driver, HeldObjects(VALUE, (gid(10), gid(20))), HeldObjects(EXECUTABLE, (gid(1),)))
    found = answer(driver, ask(driver), held)
    assert [(leak.host, leak.id, leak.session_open, leak.tenant) for leak in found.leaks] == [
        ("a0", gid(10), True, "default"),
        ("a1", gid(10), True, "default"),
    ]


def test_what_happens_after_the_question_changes_nothing() -> None:
    driver = with_arrays()
    number = ask(driver)
    driver.put(50)
    driver.close()  # frees are behind the question: the hosts still held everything
    held = everywhere(driver, HeldObjects(VALUE, (gid(10), gid(20))), HeldObjects(EXECUTABLE, (gid(1),)))
    assert answer(driver, number, held).leaks == ()


def test_what_is_gone_that_the_core_relies_on_is_told_as_missing() -> None:
    driver = with_arrays()
    held = everywhere(driver, HeldObjects(VALUE, (gid(20),)), HeldObjects(EXECUTABLE, (gid(1),)))
    held["a1"].append(HeldObjects(FAILED, (gid(10),)))  # a value or its failure: it is there
    found = answer(driver, ask(driver), held)
    assert found.leaks == (Leak("a0", "VALUE", gid(10), 0, SessionNumber(1), True, "default", missing=True),)


def test_results_of_what_is_not_launched_yet_may_be_missing() -> None:
    driver = with_arrays()
    held = everywhere(driver, HeldObjects(VALUE, (gid(10),)), HeldObjects(EXECUTABLE, (gid(1),)))
    assert answer(driver, ask(driver), held, launched=0).leaks == ()
    assert [leak.id for leak in answer(driver, ask(driver), held, launched=1).leaks] == [gid(20)] * 2


def test_bytes_that_come_ahead_of_their_command_are_no_leak_and_withdrawn_ones_are() -> None:
    driver = with_arrays()
    uploads = sent(driver.upload(11, upload=3), out.ExpectUpload)
    early = {host: [HeldObjects(HeldKind.TRANSFER, (command.transfer_id,))] for host, command in uploads}
    number = ask(driver)
    later = int(number) + 1000  # given out after the question: the daemon is ahead of its executor
    base = everywhere(driver, HeldObjects(VALUE, (gid(10), gid(20))), HeldObjects(EXECUTABLE, (gid(1),)))
    told = {host: [*base[host], *early[host], HeldObjects(HeldKind.TRANSFER, (later,))] for host in base}
    assert answer(driver, number, told, early).leaks == ()
    driver.delete(11)
    number = ask(driver)
    told = {host: [*base[host], *early[host]] for host in base}
    kinds = [leak.kind for leak in answer(driver, number, told, early).leaks]
    assert kinds == ["TRANSFER"] * 4


def test_tickets_end_with_their_session_and_those_of_the_cluster_do_not() -> None:
    driver = with_arrays()
    driver.fetch(20, size=1 << 20)
    effects = driver.close()
    assert sent(effects, out.CancelTransfer) == [("a0", out.CancelTransfer((), 1))]
    held = {"a0": [HeldObjects(HeldKind.TICKET, (71, 72), (5, 6), (0, 1))]}
    found = answer(driver, ask(driver), {}, held)
    assert [(leak.kind, leak.id, leak.size_bytes) for leak in found.leaks] == [("TICKET", 72, 6)]


def test_values_inside_a_run_belong_to_it_until_it_is_over() -> None:
    driver = driver_of()
    chain(driver, A, A)
    put(driver, 10, A)
    granted = sent(run(driver, (10,), 20), out.RunPlan)
    command = granted[0][1]
    loaded = next(effect.command for effect in driver.log if isinstance(getattr(effect, "command", None), out.LoadPlan))  # type: ignore[attr-defined]
    executables = [each.executable_id for each in loaded.steps if isinstance(each, out.PlanLaunch)]
    inner = HeldObjects(VALUE, (command.first_value_id + 1,))
    whole = [
        HeldObjects(VALUE, (gid(10), gid(20))),
        HeldObjects(PLAN, (loaded.plan_id,)),
        HeldObjects(EXECUTABLE, tuple(executables)),
    ]
    told = {host: [*whole, inner] for host in ("a0", "a1")}
    daemons = {host: [whole[1]] for host in ("a0", "a1")}
    assert answer(driver, ask(driver), told, daemons).leaks == ()
    for host in ("a0", "a1"):
        driver.finish(host, 2)
    found = answer(driver, ask(driver), told, daemons)
    assert [(leak.host, leak.id) for leak in found.leaks] == [(host, command.first_value_id + 1) for host in ("a0", "a1")]
    assert [leak.kind for leak in answer(driver, ask(driver), dict.fromkeys(told, whole), {}).leaks] == ["PLAN"] * 2


def test_answers_come_in_parts_and_twice() -> None:
    driver = with_arrays()
    number = ask(driver)
    first = HeldObjects(VALUE, (gid(10),))
    epoch = driver.epoch()
    part = events.HoldingsReported(HostName("a0"), number, False, epoch, Sequence(9), (first,), more=True)
    assert not [e for e in driver.step(part) + driver.step(part) if isinstance(e, out.LeaksFound)]
    rest = everywhere(driver, HeldObjects(VALUE, (gid(20),)), HeldObjects(EXECUTABLE, (gid(1),)))
    rest["a1"].append(first)
    assert answer(driver, number, rest).leaks == ()


def silent(driver: Driver, change: Callable[[], object], seconds: float) -> out.LeaksFound:
    driver.step(events.LeaksRequested(7))
    change()
    return only([effect for effect in driver.pass_time(seconds) if isinstance(effect, out.LeaksFound)])


def test_hosts_that_are_silent_or_went_away_are_named() -> None:
    driver = with_arrays()
    found = silent(driver, lambda: None, 10)
    assert (found.hosts, found.late_hosts, found.lost_hosts) == ((), ("a0", "a1"), ())
    found = silent(driver, lambda: driver.lose("a1"), 10)
    assert (found.late_hosts, found.lost_hosts) == (("a0",), ("a0", "a1"))
    assert driver.core.state.censuses == {}


def test_an_executor_of_another_epoch_says_nothing_about_the_question() -> None:
    driver = with_arrays()
    number = ask(driver)
    other = Epoch(driver.epoch() + 1)
    driver.step(events.HoldingsReported(HostName("a0"), number, True, other, Sequence(0), ()))
    effects = driver.step(events.HoldingsReported(HostName("a1"), number, True, Epoch(0), Sequence(0), ()))
    found = only([effect for effect in effects if isinstance(effect, out.LeaksFound)])
    assert (found.leaks, found.lost_hosts) == ((), ("a0", "a1"))


def test_hosts_without_an_executor_answer_for_their_daemon() -> None:
    driver = Driver({"a": ["a0", "a1"]}, join=False)
    driver.join("a0", "a")
    number = ask(driver)
    effects = driver.step(events.HoldingsReported(HostName("a0"), number, True, Epoch(0), Sequence(0), ()))
    assert only([effect for effect in effects if isinstance(effect, out.LeaksFound)]).hosts == ("a0",)


def test_an_empty_cluster_has_no_leaks() -> None:
    driver = Driver({}, join=False)
    found = only([effect for effect in driver.step(events.LeaksRequested(1)) if isinstance(effect, out.LeaksFound)])
    assert (found.leaks, found.hosts) == ((), ())
