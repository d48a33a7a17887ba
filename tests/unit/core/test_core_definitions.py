"""Definitions: when a program is answered, what it keeps alive, and what hosts are told of its plan.

These call the modules and not `Core.step`, which has its own tests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pathways_common.model import graph
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import SessionNumber
from pathways_server.core import definitions, events, plans, programs
from pathways_server.core import effects as out
from pathways_server.core.plan import Bound
from pathways_server.core.records import Definition

from tests.unit.core.core_driver import Driver, gid, only, replies, sent
from tests.unit.core.core_graphs import Writer, collected, columns, plan_of, rows, session_of, two_islands

PROGRAM = 50


def one_step(driver: Driver, first_executable: int = 1) -> tuple[Writer, graph.Program]:
    writer = Writer(driver, (rows(0, 1),), first_executable=first_executable)
    writer.node(writer.computation((rows(0, 1),), (rows(0, 1),)), (0, 0))
    return writer, writer.program((1, 0))


def define(driver: Driver, program: graph.Program, number: int = PROGRAM) -> list[out.Effect]:
    collected(driver)
    event = events.DefinitionRequested(SessionNumber(1), gid(number), program)
    definitions.on_definition_requested(driver.core.state, event, session_of(driver))
    return collected(driver)


def release(driver: Driver, executables: tuple[int, ...] = (), defined: tuple[int, ...] = ()) -> list[out.Effect]:
    collected(driver)
    state, session = driver.core.state, session_of(driver)
    event = events.Released(SessionNumber(1), (), tuple(map(gid, executables)), tuple(map(gid, defined)))
    definitions.on_released(state, event, session)
    programs.on_released(state, event, session)
    return collected(driver)


def work_off(driver: Driver) -> None:
    state = driver.core.state
    while state.woken:
        woken = state.woken.popleft()
        assert isinstance(woken, Definition)
        definitions.try_define(state, woken)


def loaded(driver: Driver, command: out.Load, host: str, **changes: Any) -> list[out.Effect]:
    collected(driver)
    programs.on_executable_loaded(driver.core.state, replace(driver.loaded(host, command), **changes))
    work_off(driver)
    return collected(driver)


def answer(effects: list[out.Effect]) -> out.ProgramDefined:
    return only(replies(effects, out.ProgramDefined))


def refused(effects: list[out.Effect]) -> Failure:
    failure = answer(effects).failure
    assert failure is not None
    return failure


def test_a_program_is_answered_with_how_its_arguments_and_results_lie_on_the_sessions_devices() -> None:
    driver = two_islands()
    writer = Writer(driver, (rows(1, 0),))
    writer.node(writer.computation((columns(3, 2),), (rows(3, 2), columns(3, 2))), (0, 0))
    effects = define(driver, writer.program((1, 1), (1, 0)))
    assert answer(effects) == out.ProgramDefined(PROGRAM, (rows(1, 0),), (columns(3, 2), rows(3, 2)), "", 0, None)
    assert sent(effects, out.LoadPlan) == []
    definition = definitions.get(session_of(driver), gid(PROGRAM))
    assert definition is not None
    assert definition.plan is not None
    assert definitions.defect(definition) is None


def test_a_program_waits_until_its_executables_are_loaded() -> None:
    driver = two_islands()
    driver.answer_loads = False
    writer = Writer(driver, (rows(0, 1),))
    first, second = (writer.computation((rows(0, 1),), (rows(0, 1),)) for _ in range(2))
    writer.node(first, (0, 0))
    writer.node(second, (1, 0))
    assert define(driver, writer.program((2, 0))) == []
    assert definitions.get(session_of(driver), gid(PROGRAM)) is None
    loads = [command for _, command in sent(driver.log, out.Load)]
    assert replies(loaded(driver, loads[1], "a0"), out.ProgramDefined) == []
    assert answer(loaded(driver, loads[0], "a0")).failure is None


def test_a_program_whose_executable_cannot_be_compiled_is_answered_with_the_reason() -> None:
    driver = two_islands()
    driver.answer_loads = False
    _, program = one_step(driver)
    define(driver, program)
    load = only(sent(driver.log, out.Load))[1]
    cause = Failure(Reason.COMPILE_ERROR, "no such operation")
    assert refused(loaded(driver, load, "a0", failure=cause)) is cause
    assert session_of(driver).definitions == {}


def test_a_program_keeps_executables_that_the_client_has_released() -> None:
    driver = two_islands()
    _, program = one_step(driver)
    define(driver, program)
    assert sent(release(driver, executables=(1,)), out.Unload) == []
    assert refused(define(driver, program, 51)).reason is Reason.INVALID_ARGUMENT
    assert sent(release(driver, defined=(PROGRAM,)), out.Unload) == [("a0", out.Unload((gid(1),)))]
    assert session_of(driver).executables == {}


def test_two_programs_share_an_executable_until_both_are_gone() -> None:
    driver = two_islands()
    _, program = one_step(driver)
    define(driver, program)
    define(driver, program, 51)
    release(driver, executables=(1,))
    assert sent(release(driver, defined=(PROGRAM,)), out.Unload) == []
    assert len(sent(release(driver, defined=(51,)), out.Unload)) == 1


def test_a_released_program_stays_until_its_last_waiting_run_is_granted() -> None:
    driver = two_islands()
    _, program = one_step(driver)
    define(driver, program)
    state, session = driver.core.state, session_of(driver)
    definition = session.definitions[gid(PROGRAM)]
    definition.queued = 1
    release(driver, executables=(1,), defined=(PROGRAM,))
    assert definitions.get(session, gid(PROGRAM)) is None
    assert list(session.definitions) == [gid(PROGRAM)]
    definition.queued = 0
    definitions.release_if_unused(state, definition)
    assert session.definitions == {}
    assert session.executables == {}


def test_a_refused_program_leaves_nothing_behind() -> None:
    driver = two_islands()
    _, program = one_step(driver)
    failure = refused(define(driver, replace(program, devices=())))
    assert failure.reason is Reason.INVALID_ARGUMENT
    assert session_of(driver).definitions == {}
    assert session_of(driver).executables[gid(1)].queued == 0


def test_ids_are_used_once_and_by_a_program_or_an_executable() -> None:
    driver = two_islands()
    _, program = one_step(driver)
    define(driver, program)
    assert "names a program already" in refused(define(driver, program)).message
    assert "names a program already" in refused(define(driver, program, 1)).message
    assert definitions.unknown(driver.core.state, gid(77)).reason is Reason.INVALID_ARGUMENT


def test_a_session_holds_no_more_programs_than_is_allowed() -> None:
    driver = Driver({"a": ["a0"]}, devices=2, definitions_max=1)
    driver.open(1)
    _, program = one_step(driver)
    define(driver, program)
    assert refused(define(driver, program, 51)).reason is Reason.RESOURCE_EXHAUSTED


def test_programs_of_a_released_slice_fail_with_that() -> None:
    driver = Driver({"a": ["a0"]}, devices=2, pool_slices=2)
    driver.open(1)
    devices = only(replies(driver.add_slice(1, 2), out.SliceAdded)).devices
    writer = Writer(driver, (rows(*devices),))
    writer.node(writer.computation((rows(*devices),), (rows(*devices),)), (0, 0))
    driver.release_slice(1)
    failure = refused(define(driver, writer.program((1, 0))))
    assert (failure.reason, "slice was released" in failure.message) == (Reason.DELETED, True)


def test_the_end_of_a_session_ends_its_programs() -> None:
    driver = two_islands()
    _, program = one_step(driver)
    define(driver, program)
    session = session_of(driver)
    definition = session.definitions[gid(PROGRAM)]
    assert definition.plan is not None
    assert isinstance(plans.load(driver.core.state, definition.plan), Bound)
    collected(driver)
    definitions.on_session_closed(driver.core.state, session)
    assert [host for host, _ in sent(collected(driver), out.UnloadPlan)] == ["a0"]
    assert session.executables[gid(1)].queued == 0


# ---- plans on hosts -------------------------------------------------------------------------------------------------


def two_stages(driver: Driver) -> Writer:
    """Island a hands over to island b."""
    writer = Writer(driver, (rows(0, 1),))
    writer.node(writer.computation((rows(0, 1),), (rows(0, 1),)), (0, 0))
    writer.node(writer.computation((columns(3, 2),), (columns(3, 2),)), (1, 0))
    return writer


def test_every_host_is_told_the_same_plan_once_per_epoch_of_its_islands() -> None:
    driver = two_islands(hosts=2, devices=1)
    plan = plan_of(driver, two_stages(driver).program((2, 0)))
    collected(driver)
    state = driver.core.state
    bound = plans.load(state, plan)
    assert isinstance(bound, Bound)
    told = sent(collected(driver), out.LoadPlan)
    assert [host for host, _ in told] == ["a0", "a1", "b0", "b1"]
    assert all(command is bound.command for _, command in told)
    assert bound.command.hosts == tuple(out.PlanHost(host.name, host.island.name, host.island.epoch) for host in bound.hosts)
    source, destination = bound.command.specs
    assert (source.spec.devices, source.hosts, source.local_devices) == ((0, 1), (0, 1), (0, 0))
    assert (destination.spec.devices, destination.hosts, destination.local_devices) == ((1, 0), (3, 2), (0, 0))
    launches = [step for step in bound.command.steps if isinstance(step, out.PlanLaunch)]
    assert [(step.node, step.hosts) for step in launches] == [(1, (0, 1)), (2, (2, 3))]
    assert bound.launches == {"a": (0,), "b": (3,)}
    assert bound.own == ((0,), (0,), (3,), (3,))
    assert plans.load(state, plan) is bound
    assert collected(driver) == []


def test_a_plan_is_bound_anew_when_one_of_its_islands_has_a_new_epoch() -> None:
    driver = two_islands(hosts=2, devices=1)
    plan = plan_of(driver, two_stages(driver).program((2, 0)))
    state = driver.core.state
    old = plans.load(state, plan)
    assert isinstance(old, Bound)
    driver.lose("b1")
    waiting = plans.load(state, plan)
    assert isinstance(waiting, Failure)
    assert (waiting.reason, waiting.retryable) == (Reason.UNAVAILABLE, True)
    driver.join("b1", "b")
    collected(driver)
    new = plans.load(state, plan)
    assert isinstance(new, Bound)
    effects = collected(driver)
    assert sent(effects, out.UnloadPlan) == [(host, out.UnloadPlan((old.command.plan_id,))) for host in ("a0", "a1", "b0")]
    assert [host for host, _ in sent(effects, out.LoadPlan)] == ["a0", "a1", "b0", "b1"]
    assert new.command.plan_id != old.command.plan_id
    assert new.command.hosts[2].epoch == driver.epoch("b") != old.command.hosts[2].epoch


def test_a_host_that_launches_nothing_takes_part_if_it_holds_an_argument() -> None:
    driver = two_islands()
    writer = Writer(driver, (rows(2, 3), rows(0, 1)))
    writer.node(writer.computation((rows(0, 1),), (rows(0, 1),)), (0, 1))
    bound = plans.load(driver.core.state, plan_of(driver, writer.program((1, 0))))
    assert isinstance(bound, Bound)
    assert ([host.name for host in bound.hosts], bound.launches, bound.own) == (["a0", "b0"], {"a": (0,), "b": ()}, ((0,), ()))
