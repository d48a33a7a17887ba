"""Compiling: one island, agreeing members, memory, reload in a new epoch, release."""

from __future__ import annotations

from dataclasses import replace

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import Epoch, HostName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import Driver, facts, gid, only, replies, sent
from tests.unit.core.core_graphs import Writer, rows, two_islands


def test_every_member_and_nobody_else_loads_a_program() -> None:
    driver = Driver({"a": ["a0", "a1", "a2"]}, devices=2)
    driver.open()
    driver.answer_loads = False
    effects = driver.compile(1, devices=(5, 0))
    assert [(host, load.devices, load.program, load.epoch) for host, load in sent(effects, out.Load)] == [
        ("a0", (5, 0), "p", 1),
        ("a2", (5, 0), "p", 1),
    ]
    loads = [load for _, load in sent(effects, out.Load)]
    assert replies(driver.step(driver.loaded("a0", loads[0])), out.Compiled) == []
    compiled = only(replies(driver.step(driver.loaded("a2", loads[1])), out.Compiled))
    assert (compiled.executable_id, compiled.failure, compiled.facts) == (1, None, facts())


def test_an_id_is_not_used_again_while_hosts_still_load_what_it_named() -> None:
    """They load beside what they launch: their late answers would be taken for those of its successor."""
    driver = Driver()
    driver.open()
    driver.answer_loads = False
    loads = sent(driver.compile(1), out.Load)
    assert [host for host, _ in sent(driver.release(executables=(1,)), out.Unload)] == ["a0", "a1"]
    driver.step(driver.loaded("a0", loads[0][1]))
    failure = only(replies(driver.compile(1), out.Compiled)).failure
    assert failure is not None
    assert failure.message == "hosts are still loading what id 1 named before; use a new id"
    driver.step(driver.loaded("a1", loads[1][1]))
    assert [host for host, _ in sent(driver.compile(1), out.Load)] == ["a0", "a1"]


def dropped(driver: Driver, *executables: int, session: int = 1) -> list[tuple[str, out.Load]]:
    """The Loads of programs that nobody waits for any more."""
    loads: list[tuple[str, out.Load]] = []
    for executable in executables:
        loads += sent(driver.compile(executable, session=session), out.Load)
        driver.release(executables=(executable,), session=session)
    return loads


def refused(effects: list[out.Effect]) -> bool:
    failure = only(replies(effects, out.Compiled)).failure if replies(effects, out.Compiled) else None
    if failure is None:
        return False
    assert not sent(effects, out.Load)
    assert (failure.reason, failure.retryable, failure.message) == (
        Reason.RESOURCE_EXHAUSTED, True,
        "hosts are still loading 3 executables that the session dropped, the most allowed; try again when some are through, and"
        " drop executables after they were compiled",
    )  # fmt: skip
    return True


def test_what_a_session_drops_before_it_is_loaded_is_bounded() -> None:
    driver = Driver(dropped_loads_max=3)
    driver.open()
    driver.open(2)
    driver.answer_loads = False
    driver.compile(1)  # held, which another bound is for
    loads = dropped(driver, 2, 3, 4)
    assert refused(driver.compile(5))
    assert len(sent(driver.compile(5, session=2), out.Load)) == 2
    driver.step(driver.loaded("a0", loads[0][1]))
    assert refused(driver.compile(5)), "a1 is still at it"
    driver.step(driver.loaded("a1", loads[1][1]))
    assert len(dropped(driver, 5)) == 2
    assert refused(driver.compile(6))
    driver.kill_executor("a1")
    assert len(sent(driver.compile(6), out.Load)) == 2


def test_in_a_new_epoch_nobody_owes_an_answer_to_the_loads_of_the_last_one() -> None:
    driver = Driver()
    driver.open()
    driver.answer_loads = False
    (_, load), *_ = sent(driver.compile(1), out.Load)
    driver.release(executables=(1,))
    driver.kill_executor("a1")
    effects = driver.compile(1)
    assert [host for host, _ in sent(effects, out.Load)] == ["a0", "a1"]
    driver.step(driver.loaded("a0", load))  # of the epoch before
    assert gid(1) in driver.core.state.hosts[HostName("a0")].loads


def test_a_program_over_two_islands_is_refused_with_what_to_do() -> None:
    driver = Driver({"a": ["a0"], "b": ["b0"]})
    driver.open(1, ("*",))
    effects = driver.compile(7, devices=(0, 1))
    failure = only(replies(effects, out.Compiled)).failure
    assert failure is not None
    assert failure.reason is Reason.PROGRAM_REFUSED
    assert failure.message == (
        "program 7 names devices of islands a and b; one program runs on one island: put the arrays on one island's devices, "
        "or split it and move data with jax.device_put"
    )
    assert [effect.program for effect in effects if isinstance(effect, out.DropProgram)] == ["p"]


def test_devices_must_be_known_and_named_once() -> None:
    driver = Driver()
    driver.open()
    messages = [only(replies(driver.compile(1, devices=devices), out.Compiled)).failure for devices in ((0, 2), (1, 1), ())]
    assert [failure.reason for failure in messages if failure] == [Reason.INVALID_ARGUMENT] * 3
    assert messages[0] is not None
    assert "this session has devices 0 to 1" in messages[0].message


def test_members_that_disagree_refuse_the_program() -> None:
    driver = Driver()
    driver.open()
    driver.answer_loads = False
    loads = sent(driver.compile(1), out.Load)
    for (host, load), digest in zip(loads, (b"one", b"two"), strict=True):
        effects = driver.step(events.ExecutableLoaded(HostName(host), load.epoch, load.executable_id, facts(digest=digest), None))
    failure = only(replies(effects, out.Compiled)).failure
    assert failure is not None
    assert (failure.reason, failure.host) == (Reason.PROGRAM_REFUSED, "a1")
    assert "hosts a0 and a1" in failure.message
    assert [host for host, _ in sent(effects, out.Unload)] == ["a0", "a1"]


def test_a_compile_error_travels_unchanged() -> None:
    driver = Driver()
    driver.open()
    driver.answer_loads = False
    (host, load), _ = sent(driver.compile(1), out.Load)
    failure = Failure(Reason.COMPILE_ERROR, "bad shape", host=host)
    effects = driver.step(events.ExecutableLoaded(HostName(host), load.epoch, load.executable_id, None, failure))
    assert only(replies(effects, out.Compiled)).failure is failure


def test_a_program_larger_than_its_devices_is_refused_with_both_figures() -> None:
    driver = Driver(memory=1000)
    driver.facts["p"] = facts(peak=1001)
    driver.open()
    failure = only(replies(driver.compile(1), out.Compiled)).failure
    assert failure is not None
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert "1001 bytes" in failure.message
    assert "1000" in failure.message


def test_an_executable_is_loaded_again_by_its_first_use_in_a_new_epoch() -> None:
    driver = Driver()
    driver.open()
    driver.compile(1)
    effects = driver.kill_executor("a1")
    assert driver.epoch() == 2
    assert sent(effects, out.Load) == []
    driver.put(10)
    effects = driver.execute(1, (10,), 20)
    assert [load.epoch for _, load in sent(effects, out.Load)] == [2, 2]
    assert replies(effects, out.Compiled) == []
    assert [prepare.sequence for _, prepare in sent(effects, out.Prepare)] == [1, 1]


def test_a_compilation_under_way_starts_again_in_the_next_epoch() -> None:
    driver = Driver()
    driver.open()
    driver.answer_loads = False
    driver.compile(1)
    driver.answer_loads = True
    effects = driver.kill_executor("a0")
    assert only(replies(effects, out.Compiled)).failure is None


def test_a_program_whose_loading_ends_epochs_is_given_up() -> None:
    driver = Driver()
    driver.open()
    driver.answer_loads = False
    driver.compile(1)
    driver.kill_executor("a0")
    driver.kill_executor("a0")
    failure = only(replies(driver.kill_executor("a0"), out.Compiled)).failure
    assert failure is not None
    assert failure.reason is Reason.SLICE_LOST


def test_a_released_executable_is_unloaded_behind_its_queued_executions() -> None:
    driver = Driver()
    driver.open()
    driver.compile(1)
    targets = only(replies(driver.upload(10, upload=1), out.UploadGrant)).targets
    driver.execute(1, (10,), 20)
    assert sent(driver.release(executables=(1,)), out.Unload) == []
    driver.landed(*targets[0])
    effects = driver.landed(*targets[1])
    commands = [type(effect.command) for effect in effects if isinstance(effect, out.SendToHost)]
    assert commands == [out.Prepare, out.Prepare, out.Unload, out.Unload]
    assert [effect.program for effect in effects if isinstance(effect, out.DropProgram)] == ["p"]


def test_a_load_that_never_answers_times_out_naming_who_is_late() -> None:
    driver = Driver(load_ns=10**9)
    driver.open()
    driver.answer_loads = False
    load = sent(driver.compile(1), out.Load)[0][1]
    driver.step(driver.loaded("a0", load))
    failure = only(replies(driver.pass_time(1), out.Compiled)).failure
    assert failure is not None
    assert failure.reason is Reason.TIMED_OUT
    assert failure.metadata["late"] == "a1"


def test_a_compilation_for_an_island_that_never_comes_back_times_out() -> None:
    driver = Driver(island_wait_ns=10**9)
    driver.open()
    driver.lose("a1")
    driver.compile(1)
    failure = only(replies(driver.pass_time(1), out.Compiled)).failure
    assert failure is not None
    assert failure.reason is Reason.UNAVAILABLE
    assert failure.message.startswith("program 1 was not compiled: island a did not become ACTIVE in time (host a1: ")


def test_an_island_that_came_back_smaller_refuses_programs_for_what_is_gone() -> None:
    driver = Driver({"a": ["a0"]}, devices=2)
    driver.open()
    driver.lose("a0")
    driver.join("a0", "a", devices=1)
    failure = only(replies(driver.compile(1), out.Compiled)).failure
    assert failure is not None
    assert failure.reason is Reason.UNAVAILABLE
    assert "fewer hosts" in failure.message


def test_an_inspection_of_a_released_executable_is_answered() -> None:
    driver = Driver()
    driver.open()
    driver.compile(1)
    driver.lose("a1")
    number = next(iter(driver.core.state.sessions))
    driver.step(events.InspectRequested(number, 5, gid(1), 2))
    inspected = only(replies(driver.release(executables=(1,)), out.Inspected))
    assert inspected.failure is not None


def test_an_inspection_is_not_sent_behind_the_end_of_a_released_executable_that_others_waited_for() -> None:
    driver = two_islands(hosts=2, devices=1)
    driver.answer_loads = False
    writer = Writer(driver, (rows(0, 1),))
    writer.node(writer.computation((rows(0, 1),), (rows(0, 1),)), (0, 0))
    loads = sent(driver.log, out.Load)
    program = replace(writer.program((1, 0)), devices=())  # what is wrong with it is found when its executable is loaded
    driver.step(events.DefinitionRequested(SessionNumber(1), gid(50), program))
    driver.step(events.InspectRequested(SessionNumber(1), 5, gid(1), 2))
    driver.release(executables=(1,))
    for host, load in loads:
        effects = driver.step(driver.loaded(host, load))
    assert only(replies(effects, out.ProgramDefined)).failure is not None
    assert [host for host, _ in sent(effects, out.Unload)] == ["a0", "a1"]
    assert not sent(effects, out.InspectExecutable), "hosts do not have it any more"
    assert only(replies(effects, out.Inspected)).failure is not None
    assert not driver.core.state.inspects


def test_a_program_that_comes_behind_the_goodbye_of_its_session_is_not_kept() -> None:
    driver = Driver()
    driver.open()
    driver.compile(1)
    driver.close()
    effects = driver.compile(2, program="late")
    assert [effect.program for effect in effects if isinstance(effect, out.DropProgram)] == ["late"]
    driver.open(2)
    driver.compile(1, session=2)
    late = driver.compile(3)
    assert not [effect for effect in late if isinstance(effect, out.DropProgram)], "another session has it"


def test_an_inspection_goes_to_one_member_and_back() -> None:
    driver = Driver()
    driver.open()
    driver.compile(1)
    number = next(iter(driver.core.state.sessions))
    effects = driver.step(events.InspectRequested(number, 5, gid(1), 2))
    host, command = only(sent(effects, out.InspectExecutable))
    assert (host, command.executable_id, command.kind) == ("a0", gid(1), 2)
    effects = driver.step(events.ExecutableInspected(HostName(host), command.inspect_id, b"text", None))
    assert only(replies(effects, out.Inspected)) == out.Inspected(5, b"text", None)


def test_an_answer_of_an_older_epoch_is_ignored() -> None:
    driver = Driver()
    driver.open()
    driver.answer_loads = False
    driver.compile(1)
    late = events.ExecutableLoaded(HostName("a0"), Epoch(0), gid(1), facts(), None)
    assert [type(effect) for effect in driver.step(late)] == [out.Log]
