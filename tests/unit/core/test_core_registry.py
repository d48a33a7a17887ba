"""Programs under a name: versions, opening them on other devices and in other sessions, their bytes, and what is refused."""

from __future__ import annotations

from pathways_common.model import graph
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, SessionNumber, is_made_by_core, local_id
from pathways_common.model.registered import RegisteredProgram
from pathways_server.core import effects as out
from pathways_server.core import events, registry
from pathways_server.core.tenant_records import TenantName

from tests.unit.core.core_driver import Driver, gid, only, replies, sent
from tests.unit.core.core_graphs import Writer, columns, rows, two_islands

ONE = SessionNumber(1)


def define(driver: Driver, number: int = 900, callbacks: bool = False) -> graph.Program:
    """Session 1 defines program `number`: rows on devices 0 and 1 of island a, then columns on 2 and 3 of island b."""
    writer = Writer(driver, (rows(0, 1),), first_executable=number + 1)
    first = writer.computation((rows(0, 1),), (rows(0, 1),))
    second = writer.computation((columns(2, 3),), (columns(2, 3),))
    node = writer.node(first, (0, 0))
    node = writer.node(second, (node, 0))
    program = writer.program((node, 0))
    reply = only(replies(driver.step(events.DefinitionRequested(ONE, gid(number), program)), out.ProgramDefined))
    assert reply.failure is None
    return program


def register(driver: Driver, name: str = "team/step", replace: bool = False, number: int = 900) -> list[out.Effect]:
    return driver.step(events.RegistrationRequested(ONE, gid(number), name, replace))


def registered(driver: Driver, name: str = "team/step", replace: bool = False, number: int = 900) -> out.ProgramRegistered:
    return only(replies(register(driver, name, replace, number), out.ProgramRegistered))


def opened(
    driver: Driver, session: int = 1, devices: tuple[int, ...] = (), version: int = 0, number: int = 950, name: str = "team/step"
) -> list[out.Effect]:
    return driver.step(events.OpeningRequested(SessionNumber(session), gid(number, session), name, version, devices))


def unregister(driver: Driver, version: int = 0, name: str = "team/step") -> list[out.Effect]:
    return driver.step(events.UnregistrationRequested(ONE, 7, name, version))


def failure_of(reply: out.ProgramDefined | out.ProgramRegistered | out.ProgramUnregistered) -> Failure:
    assert reply.failure is not None
    return reply.failure


def test_a_program_is_kept_before_its_name_is_told() -> None:
    driver = two_islands()
    define(driver)
    effects = [effect for effect in register(driver) if not isinstance(effect, out.Log)]
    assert isinstance(effects[0], out.KeepProgram)
    assert effects[1] == out.SendToSession(ONE, out.ProgramRegistered(900, "team/step", 1, None))
    kept = effects[0].program
    assert kept.program.devices == (0, 1, 2, 3)
    assert [origin.devices for origin in kept.origins] == [(0, 1), (2, 3)]
    assert [computation.executable_id for computation in kept.program.computations] == [1, 2]


def test_a_taken_name_is_refused_unless_it_is_to_be_replaced() -> None:
    driver = two_islands()
    define(driver)
    assert registered(driver).version == 1
    assert "is taken, by version 1" in failure_of(registered(driver)).message
    assert registered(driver, replace=True).version == 2
    assert registered(driver, "other", replace=True).version == 1
    assert [(listed.name, listed.version) for listed in registry.listed(driver.core.state)] == [
        ("other", 1),
        ("team/step", 1),
        ("team/step", 2),
    ]


def test_a_program_that_is_not_defined_cannot_be_registered() -> None:
    driver = two_islands()
    assert "no program has id 900" in failure_of(registered(driver)).message


def test_a_program_outlives_the_session_that_registered_it() -> None:
    driver = two_islands()
    define(driver)
    register(driver)
    driver.close(1)
    driver.open(2, ("*",))
    effects = opened(driver, session=2)
    reply = only(replies(effects, out.ProgramDefined))
    assert (reply.program_id, reply.name, reply.version, reply.failure) == (950, "team/step", 1, None)
    assert (reply.arguments, reply.results) == ((rows(0, 1),), (columns(2, 3),))
    assert replies(effects, out.Compiled) == []
    loads = {load.executable_id: load.program for _, load in sent(effects, out.Load)}
    assert list(loads.values()) == ["program 901", "program 902"]
    assert all(is_made_by_core(identifier) for identifier in loads)


def test_a_program_is_opened_on_the_devices_that_were_named() -> None:
    driver = two_islands()
    define(driver)
    register(driver)
    effects = opened(driver, devices=(3, 2, 1, 0))
    reply = only(replies(effects, out.ProgramDefined))
    assert (reply.arguments[0].devices, reply.results[0].devices) == ((3, 2), (1, 0))
    assert [(host, load.devices) for host, load in sent(effects, out.Load)] == [("b0", (1, 0)), ("a0", (1, 0))]


def test_an_opened_program_runs_and_its_executables_go_with_it() -> None:
    driver = two_islands()
    define(driver)
    register(driver)
    opened(driver)
    piece = events.Piece((0,), 128, b"x" * 128, 0), events.Piece((1,), 128, b"y" * 128, 0)
    driver.step(events.ArrayMade(ONE, gid(1), rows(0, 1), piece))
    effects = driver.step(events.RunRequested(ONE, gid(2), gid(950), (gid(1),), gid(3), (), 1))
    assert sorted(host for host, _ in sent(effects, out.RunPlan)) == ["a0", "b0"]
    before = len(driver.core.state.sessions[ONE].executables)
    driver.step(events.Released(ONE, (), (), (gid(950),)))
    assert len(driver.core.state.sessions[ONE].executables) == before - 2


def test_the_wrong_number_of_devices_is_one_sentence() -> None:
    driver = two_islands()
    define(driver)
    register(driver)
    reply = only(replies(opened(driver, devices=(0, 1)), out.ProgramDefined))
    assert failure_of(reply).message == "program 'team/step' runs on 4 devices and 2 were named; name 4 devices of the session"


def test_devices_of_two_islands_under_one_computation_leave_nothing_behind() -> None:
    driver = two_islands()
    define(driver)
    register(driver)
    before = dict(driver.core.state.sessions[ONE].executables)
    reply = only(replies(opened(driver, devices=(0, 1, 2, 1)), out.ProgramDefined))
    assert failure_of(reply).reason is Reason.PROGRAM_REFUSED
    assert failure_of(reply).message == (
        "program 'team/step' computes with places 2 and 3 of its list of devices together, and devices 2 and 1, named there,"
        " lie on islands b and a; name devices of one island there, in the order in which the program was registered"
    )
    assert driver.core.state.sessions[ONE].executables == before


def test_a_computation_that_does_not_compile_fails_the_opening_and_not_the_name() -> None:
    driver = two_islands()
    define(driver)
    register(driver)
    driver.answer_loads = False
    loads = sent(opened(driver), out.Load)
    cause = Failure(Reason.COMPILE_ERROR, "no such operation", host="a0")
    host, load = loads[0]
    effects = driver.step(events.ExecutableLoaded(HostName(host), load.epoch, load.executable_id, None, cause))
    assert only(replies(effects, out.ProgramDefined)).failure is cause
    assert replies(effects, out.Compiled) == []
    driver.answer_loads = True
    assert only(replies(opened(driver), out.ProgramDefined)).failure is None


def test_an_opening_waits_until_its_computations_are_loaded() -> None:
    driver = two_islands()
    define(driver)
    register(driver)
    driver.answer_loads = False
    effects = opened(driver)
    assert replies(effects, out.ProgramDefined) == []
    loads = sent(effects, out.Load)
    assert replies(driver.step(driver.loaded(*loads[0])), out.ProgramDefined) == []
    assert only(replies(driver.step(driver.loaded(*loads[1])), out.ProgramDefined)).failure is None


def test_an_opening_that_is_never_answered_times_out() -> None:
    driver = two_islands()
    define(driver)
    register(driver)
    driver.answer_loads = False
    opened(driver)
    effects = driver.pass_time(driver.core.state.config.load_ns / 1e9)
    assert failure_of(only(replies(effects, out.ProgramDefined))).reason is Reason.TIMED_OUT
    assert replies(effects, out.Compiled) == []


def test_older_versions_stay_until_they_are_unregistered() -> None:
    driver = two_islands()
    define(driver)
    register(driver)
    define(driver, 910)
    register(driver, replace=True, number=910)
    assert only(replies(opened(driver, version=1, number=960), out.ProgramDefined)).version == 1
    assert only(replies(opened(driver, number=961), out.ProgramDefined)).version == 2
    effects = unregister(driver, version=1)
    assert only([e for e in effects if isinstance(e, out.ForgetProgram)]) == out.ForgetProgram("default", "team/step", 1)
    reply = only(replies(opened(driver, version=1, number=962), out.ProgramDefined))
    assert failure_of(reply).message == "program 'team/step' has no version 1; it has 2"


def test_an_unregistered_program_stays_with_those_who_opened_it() -> None:
    driver = two_islands()
    define(driver)
    register(driver)
    opened(driver)
    effects = unregister(driver)
    assert only(replies(effects, out.ProgramUnregistered)) == out.ProgramUnregistered(7, None)
    assert driver.core.state.sessions[ONE].definitions[gid(950)].plan is not None
    assert "no program is registered as" in failure_of(only(replies(opened(driver, number=951), out.ProgramDefined))).message
    assert failure_of(only(replies(unregister(driver), out.ProgramUnregistered))).reason is Reason.INVALID_ARGUMENT


def test_bytes_are_dropped_once_neither_a_session_nor_a_name_needs_them() -> None:
    driver = two_islands()
    define(driver)
    register(driver)
    closing = [e.program for e in driver.close(1) if isinstance(e, out.DropProgram)]
    assert closing == []
    driver.open(1, ("*",))
    dropped = [e.program for e in unregister(driver) if isinstance(e, out.DropProgram)]
    assert dropped == ["program 901", "program 902"]


def test_a_program_with_callbacks_is_refused_with_a_sentence() -> None:
    driver = two_islands()
    program = define(driver)
    executable = driver.core.state.sessions[ONE].executables[program.computations[0].executable_id]
    executable.callback_ids = (5,)
    failure = failure_of(registered(driver))
    assert failure.reason is Reason.UNSUPPORTED
    assert "calls back into test" in failure.message


def test_more_programs_than_the_bound_are_refused() -> None:
    driver = Driver({"a": ["a0"], "b": ["b0"]}, devices=2, registered_max=1)
    driver.open(1, ("*",))
    define(driver)
    register(driver)
    assert failure_of(registered(driver, replace=True)).reason is Reason.RESOURCE_EXHAUSTED


def test_what_an_earlier_life_kept_is_there_again() -> None:
    driver = two_islands()
    define(driver)
    kept: list[RegisteredProgram] = [e.program for e in register(driver) if isinstance(e, out.KeepProgram)]
    later = two_islands()
    for position in (901, 902):
        later.facts[f"program {position}"] = driver.facts[f"program {position}"]
    later.step(events.ProgramsRestored(tuple(kept)))
    assert registry.listed(later.core.state) == registry.listed(driver.core.state)
    assert only(replies(opened(later), out.ProgramDefined)).results == (columns(2, 3),)
    assert local_id(gid(950)) == 950


def test_names_are_those_of_a_tenant() -> None:
    driver = two_islands()
    driver.open(2, ("*",), tenant="ads")
    define(driver)
    assert registered(driver).version == 1
    answer = only(replies(opened(driver, session=2), out.ProgramDefined))
    assert "no program is registered as 'team/step'" in failure_of(answer).message
    theirs = driver.core.state.registry["default"]["team/step"][1]._replace(tenant="ads", version=5)
    driver.step(events.ProgramsRestored((theirs,)))
    answer = only(replies(opened(driver, session=2), out.ProgramDefined))
    assert (answer.version, answer.failure) == (5, None)
    assert only(replies(opened(driver, number=960), out.ProgramDefined)).version == 1
    assert [listed.version for listed in registry.listed(driver.core.state)] == [1, 5]
    assert [listed.version for listed in registry.listed(driver.core.state, "ads")] == [5]
    gone = driver.step(events.UnregistrationRequested(SessionNumber(2), 7, "team/step", 0))
    assert [(effect.tenant, effect.version) for effect in gone if isinstance(effect, out.ForgetProgram)] == [("ads", 5)]
    assert [(listed.tenant, listed.version) for listed in registry.listed(driver.core.state)] == [("default", 1)]


def test_the_names_of_a_removed_tenant_go_with_it() -> None:
    driver = two_islands()
    define(driver)
    register(driver)
    mine = driver.core.state.registry["default"]["team/step"][1]
    driver.step(events.ProgramsRestored((mine._replace(tenant="ads"), mine._replace(tenant="ads", version=2))))
    gone = driver.step(events.TenantRemoved(TenantName("ads")))
    assert [(effect.tenant, effect.version) for effect in gone if isinstance(effect, out.ForgetProgram)] == [
        ("ads", 1),
        ("ads", 2),
    ]
    assert [listed.tenant for listed in registry.listed(driver.core.state)] == ["default"]
    assert driver.core.state.programs[mine.origins[0].program] > 0


def test_nothing_is_opened_while_hosts_load_too_much_that_the_session_dropped() -> None:
    driver = Driver({"a": ["a0"], "b": ["b0"]}, devices=2, dropped_loads_max=2)
    driver.open(1, ("*",))
    define(driver)
    register(driver)
    driver.answer_loads = False
    for executable in (31, 32):
        driver.compile(executable)
        driver.release(executables=(executable,))
    effects = opened(driver)
    failure = only(replies(effects, out.ProgramDefined)).failure
    assert failure is not None
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert failure.message.startswith("hosts are still loading 2 executables that the session dropped, the most allowed; ")
    assert not sent(effects, out.Load)
