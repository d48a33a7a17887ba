"""Hosts say how they understood a plan before its first grant; who understood it differently is named, with the field."""

from __future__ import annotations

from typing import Any

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import Epoch, HostName
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import Driver, facts, replies, sent
from tests.unit.core.core_runs import A, B, buffer, chain, driver_of, kill, put, run


def waiting_run() -> tuple[Driver, dict[str, out.LoadPlan]]:
    """A first run of a program on all four hosts, none of which has answered yet."""
    driver = driver_of()
    driver.answer_plans = False
    chain(driver, A, B)
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    assert sent(effects, out.RunPlan) == []
    return driver, dict(sent(effects, out.LoadPlan))


def test_nothing_is_granted_before_all_hosts_have_answered() -> None:
    driver, plans = waiting_run()
    assert sorted(plans) == ["a0", "a1", "b0", "b1"]
    for host in ("a0", "b1", "a1"):
        assert sent(driver.step(driver.plan_loaded(host, plans[host])), out.RunPlan) == []
    effects = driver.step(driver.plan_loaded("b0", plans["b0"]))
    assert sorted(host for host, _ in sent(effects, out.RunPlan)) == ["a0", "a1", "b0", "b1"]
    again = run(driver, (10,), 30)
    assert len(sent(again, out.RunPlan)) == 4
    assert sent(again, out.LoadPlan) == []


def test_a_waiting_run_says_for_whom() -> None:
    driver, plans = waiting_run()
    driver.step(driver.plan_loaded("a0", plans["a0"]))
    lanes = driver.core.state.sessions[next(iter(driver.core.state.sessions))].lanes
    assert {lane.blocked_on for lane in lanes.values()} == {"host a1 to say how it understood program train"}


@pytest.mark.parametrize("field", ["hosts", "layouts", "steps", "results", "launches"])
def test_a_host_that_understood_a_plan_differently_is_named_with_the_field(field: str) -> None:
    driver, plans = waiting_run()
    driver.step(driver.plan_loaded("a0", plans["a0"]))
    effects = driver.step(driver.plan_loaded("b0", plans["b0"], **{field: b"another"}))
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.reason is Reason.PROGRAM_REFUSED
    assert "host b0 understood program train otherwise than the controller: they differ in its " + field in failure.message
    assert (failure.host, failure.metadata["field"]) == ("b0", field)
    assert sent(effects, out.RunPlan) == []
    # Nor is any later run granted, and nobody is asked again.
    later = run(driver, (10,), 30)
    assert buffer(driver, 30).failure == failure
    assert sent(later, out.RunPlan) == sent(later, out.LoadPlan) == []


def test_a_host_that_cannot_carry_out_a_plan_says_why() -> None:
    driver, plans = waiting_run()
    cause = Failure(Reason.PROGRAM_REFUSED, "no such step", host="b1")
    plan_id = plans["b1"].plan_id
    driver.step(events.PlanLoaded(HostName("b1"), driver.epoch("b"), plan_id, (), cause))
    assert buffer(driver, 20).failure == cause


def test_an_answer_of_an_earlier_epoch_says_nothing() -> None:
    driver, plans = waiting_run()
    late = [driver.plan_loaded(host, plans[host]) for host in plans]
    driver.answer_plans = True
    kill(driver, "a1", 0)  # its island forms again, and the run is told anew
    before = len(driver.log)
    for answer in late:
        driver.step(answer)
    assert sent(driver.log[before:], out.RunPlan) == []


def test_a_host_that_says_nothing_is_named_in_time_and_asked_again() -> None:
    driver, plans = waiting_run()
    for host in ("a0", "a1", "b1"):
        driver.step(driver.plan_loaded(host, plans[host]))
    driver.pass_time(driver.core.state.config.agreement_ns / 1e9 + 1)
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.reason is Reason.TIMED_OUT
    assert "still out: b0" in failure.message
    driver.answer_plans = True
    assert len(sent(run(driver, (10,), 30), out.RunPlan)) == 4
    assert driver.core.state.agreements == {}


def test_members_that_compiled_differently_are_named_with_the_field() -> None:
    def compiled(digest: bytes, **fields: bytes) -> Any:
        made = facts(digest=digest)
        return made.__class__(
            made.digest, made.output_count, made.output_shard_bytes, made.donated, made.fallible, made.peak_bytes, made.payload,
            made.parameter_count, fields=tuple((name, value) for name, value in fields.items()),
        )  # fmt: skip

    driver = Driver()
    driver.answer_loads = False
    driver.open()
    loads = dict(sent(driver.compile(1), out.Load))
    answers = {"a0": compiled(b"1", code=b"c", donation=b"x"), "a1": compiled(b"2", code=b"c", donation=b"y")}
    for host, load in loads.items():
        effects = driver.step(events.ExecutableLoaded(HostName(host), Epoch(load.epoch), load.executable_id, answers[host], None))
    (answer,) = replies(effects, out.Compiled)
    assert answer.failure is not None
    assert "hosts a0 and a1 compiled program 1 differently: they differ in its donation;" in answer.failure.message
    metadata = answer.failure.metadata
    assert (answer.failure.host, metadata["other_host"], metadata["field"]) == ("a1", "a0", "donation")
