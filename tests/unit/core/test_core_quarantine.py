"""Programs that end executors: what is blamed, which signals count, what is refused then, and that nothing is forgotten."""

from __future__ import annotations

import pytest
from pathways_common.model.failure import Reason
from pathways_common.model.ids import GlobalId, HostName, Sequence
from pathways_server.core import effects as out
from pathways_server.core import events, quarantine

from tests.unit.core.core_driver import Driver, gid, only, replies
from tests.unit.core.core_runs import A0, A1, A, chain, put
from tests.unit.core.core_runs import run as run_program
from tests.unit.core.test_core_fusion import fused_chain
from tests.unit.core.test_core_quotas import failure_of, granted

NOON_NS = 1796040000 * 10**9  # 2026-11-30 12:00:00 UTC
NOTHING = GlobalId(0)


def ready() -> Driver:
    driver = Driver()
    driver.open(1, tenant="ads")
    driver.compile(100, program="0123456789abcdef")
    driver.compile(200, program="fedcba9876543210")
    driver.put(1)
    return driver


def died(
    driver: Driver,
    host: str,
    exit_text: str,
    launched: int,
    finished: int = 0,
    time_ns: int = NOON_NS,
    entered: int = 0,
    loading: GlobalId = NOTHING,
) -> list[out.Effect]:
    """`entered`: the last launch that was begun; `loading`: what was being loaded."""
    epoch, through = driver.core.state.hosts[HostName(host)].island.epoch, (Sequence(launched), Sequence(finished))
    entered_through = Sequence(max(entered, launched))
    return driver.step(events.ExecutorLost(HostName(host), epoch, exit_text, "", *through, time_ns, entered_through, loading))


def kept(effects: list[out.Effect]) -> list[events.Death]:
    return [effect.death for effect in effects if isinstance(effect, out.KeepDeath)]


def twice(driver: Driver) -> None:
    """Executable 100 ends the executor of a1, twice."""
    for number, seconds in ((10, 0), (11, 60)):
        if number == 11:
            driver.put(2)
        driver.execute(100, (1 if number == 10 else 2,), number)
        assert kept(died(driver, "a1", "signal 11", 1, 0, NOON_NS + seconds * 10**9))
    driver.put(3)


def test_the_first_gang_that_was_not_finished_is_blamed() -> None:
    driver = ready()
    driver.execute(200, (1,), 10)
    driver.execute(100, (1,), 11)
    driver.execute(200, (1,), 12)
    driver.finish("a0", 1)
    deaths = kept(died(driver, "a1", "signal 11", 3, 1))
    assert deaths == [events.Death("0123456789abcdef", "of test", "ads", "a1", "SIGSEGV", NOON_NS)]


@pytest.mark.parametrize(
    ("exit_text", "signal"),
    [
        ("signal 4", "SIGILL"), ("signal 6", "SIGABRT"), ("signal 7", "SIGBUS"), ("signal 8", "SIGFPE"), ("signal 11", "SIGSEGV"),
        ("signal 9 (out of memory)", "SIGKILL for want of memory"), ("signal 9", ""), ("signal 15", ""), ("exit code 1", ""),
    ],
)  # fmt: skip
def test_only_what_code_can_cause_counts(exit_text: str, signal: str) -> None:
    driver = ready()
    driver.execute(100, (1,), 10)
    assert [death.signal for death in kept(died(driver, "a0", exit_text, 1))] == ([signal] if signal else [])


def test_a_gang_that_was_being_launched_is_blamed_and_one_that_had_finished_is_not() -> None:
    driver = ready()
    driver.execute(200, (1,), 10)
    driver.execute(100, (1,), 11)
    # The second runs inside its launch, of which nobody has heard.
    assert [death.program for death in kept(died(driver, "a0", "signal 11", 1, 1))] == ["0123456789abcdef"]
    driver.put(2)
    driver.execute(100, (2,), 12)
    assert not kept(died(driver, "a0", "signal 11", 1, 1))


def beside(driver: Driver, number: int, launched: int = 1, finished: int = 0, entered: int = 0) -> list[str]:
    """Executable 200 is granted, what session 2 compiles meanwhile is not answered, and a0 dies of either: who is blamed."""
    driver.put(number)
    driver.execute(200, (number,), 10 + number)
    driver.answer_loads = False
    if number == 2:
        driver.open(2, tenant="web")
        driver.compile(100, program="0badc0de0badc0de", session=2)
    time_ns = NOON_NS + number * 10**9
    effects = died(driver, "a0", "signal 6", launched, finished, time_ns, entered, loading=gid(100, 2))
    return [death.program for death in kept(effects)]


def ran(driver: Driver) -> Driver:
    """Executable 200 has come to its end, and it is known how long it took."""
    driver.execute(200, (1,), 10)
    for host in ("a0", "a1"):
        driver.step(events.HostProgressed(HostName(host), driver.epoch(), Sequence(1), Sequence(1), 5_000_000))
    return driver


def test_a_compiler_that_dies_is_blamed_on_what_it_compiled_and_not_on_what_has_run_before() -> None:
    driver = ran(ready())
    assert beside(driver, 2, 2, 1) == ["0badc0de0badc0de"]
    driver.answer_loads = True
    driver.put(3)
    # The same in the next epoch: what is not loaded yet is loaded again, and what ran before runs beside it.
    assert beside(driver, 4) == ["0badc0de0badc0de"]
    (answer,) = [each for each in replies(driver.log, out.Compiled) if each.failure is not None]
    assert answer.failure is not None
    assert answer.failure.message.startswith("program 0badc0de0bad (of test) ended 2 executors")
    assert not quarantine.is_held(driver.core.state, "fedcba9876543210")


def test_what_was_not_begun_is_not_blamed_for_a_compiler_that_dies() -> None:
    assert beside(ready(), 2, launched=0) == ["0badc0de0badc0de"]


@pytest.mark.parametrize("granted", [False, True])
def test_what_came_through_a_load_before_is_not_blamed_where_nothing_was_launched(granted: bool) -> None:
    """Session 2 loads what session 1 has loaded, while the executor places the bytes of somebody's array."""
    driver = ready()
    if granted:
        driver.execute(200, (1,), 10)
    assert dies_loading(driver, "0123456789abcdef", 0, 0) == []
    assert dies_loading(ready(), "0badc0de0badc0de", 0, 0) == ["0badc0de0badc0de"]


def test_a_launch_that_did_not_come_back_went_on_beside_a_compiler_that_dies() -> None:
    """Launches go on beside loads, and a small program runs inside its launch."""
    assert beside(ready(), 2, launched=0, entered=1) == []  # neither came through before
    assert beside(ran(ready()), 2, launched=1, finished=1, entered=2) == ["0badc0de0badc0de"]


def test_what_is_being_loaded_is_blamed_and_not_what_was_told_first() -> None:
    """A daemon may hold a Load back until its image is there; the one behind it goes first."""
    driver = ready()
    driver.answer_loads = False
    driver.open(2, tenant="web")
    driver.compile(100, program="0000000000000001", session=2)
    driver.pass_time(1)
    driver.compile(101, program="0000000000000002", session=2)
    assert [each.program for each in kept(died(driver, "a0", "signal 11", 0, loading=gid(101, 2)))] == ["0000000000000002"]


def test_who_leaves_while_its_program_is_compiled_is_blamed_for_what_it_does() -> None:
    driver = ready()
    driver.answer_loads = False
    driver.open(2, tenant="web")
    driver.compile(100, program="0badc0de0badc0de", session=2)
    driver.close(2)
    driver.execute(200, (1,), 10)
    assert [each.program for each in kept(died(driver, "a0", "signal 11", 0, loading=gid(100, 2)))] == ["0badc0de0badc0de"]


def test_nobody_is_blamed_where_two_programs_may_have_ended_an_executor() -> None:
    driver = ready()
    assert beside(driver, 2) == []  # neither came through before
    assert driver.core.state.deaths == {}
    (said,) = [each for each in driver.log if isinstance(each, out.Log) and each.phrase.startswith("two programs may")]
    assert dict(said.fields) == {"programs": "0badc0de0bad,fedcba987654", "host": "a0"}


def test_what_runs_for_the_first_time_is_blamed_beside_what_was_loaded_before() -> None:
    driver = ready()
    # Both executables were loaded in the first epoch, and are loaded again in the next one: 100 is not answered there.
    driver.answer_loads = False
    died(driver, "a1", "signal 9", 0)
    driver.put(2)
    told = driver.execute(200, (2,), 12)
    for sent in told:
        if isinstance(sent, out.SendToHost) and isinstance(sent.command, out.Load) and sent.command.executable_id == gid(200):
            driver.step(driver.loaded(sent.host, sent.command))
    driver.execute(100, (2,), 13)
    effects = died(driver, "a0", "signal 11", 1, loading=gid(100))
    assert [death.program for death in kept(effects)] == ["fedcba9876543210"]


def dies_loading(driver: Driver, program: str, launched: int, finished: int) -> list[str]:
    """Session 2 compiles it, nobody has answered, and a0 dies: who is blamed."""
    driver.answer_loads = False
    driver.open(2, tenant="web")
    driver.compile(100, program=program, session=2)
    return [death.program for death in kept(died(driver, "a0", "signal 6", launched, finished, loading=gid(100, 2)))]


def test_what_another_session_ran_is_not_blamed_when_it_is_loaded_beside_something_new() -> None:
    """Session 1 ran 100 to its end. Session 2 loads the same content while 200 runs for the first time."""
    driver = ready()
    driver.execute(100, (1,), 10)
    driver.finish("a0", 1)
    driver.finish("a1", 1)
    driver.execute(200, (1,), 11)
    assert dies_loading(driver, "0123456789abcdef", 2, 1) == ["fedcba9876543210"]


def test_a_group_that_ran_is_not_blamed_beside_a_program_that_nobody_has_loaded() -> None:
    """Its nodes went as one, alone on their island, so nobody told how long that took."""
    driver = fused_chain()
    run_program(driver, (10,), 20)
    driver.finish("a0", 4)
    driver.finish("a1", 4)
    run_program(driver, (10,), 21)
    assert dies_loading(driver, "0badc0de0badc0de", 8, 4) == ["0badc0de0badc0de"]


def test_after_the_second_death_nothing_of_that_content_is_run_or_compiled() -> None:
    driver = ready()
    driver.execute(100, (1,), 10)
    died(driver, "a1", "signal 11", 1)
    driver.put(2)
    assert granted(driver.execute(100, (2,), 11)) == [5011]  # once may be bad luck
    died(driver, "a0", "signal 6", 1, 0, NOON_NS + 60 * 10**9)
    driver.put(3)
    assert granted(driver.execute(100, (3,), 12)) == []
    failure = failure_of(driver, 12)
    assert failure.reason is Reason.PROGRAM_REFUSED
    assert failure.message == (
        "program 0123456789ab (of test) ended 2 executors (2026-11-30 12:00:00 UTC on host a1 by SIGSEGV;"
        " 2026-11-30 12:01:00 UTC on host a0 by SIGABRT) and is not run any more; mend it, or have an administrator allow it:"
        " pathways tenants allow 0123456789ab"
    )
    compiled = only(replies(driver.compile(300, program="0123456789abcdef"), out.Compiled))
    assert compiled.failure is not None
    assert compiled.failure.message.startswith("program 0123456789ab (of test) ended 2 executors")
    driver.open(2, tenant="web")
    driver.compile(100, program="0123456789abcdef", session=2)
    assert gid(100, 2) not in driver.core.state.sessions[2].executables  # type: ignore[index]
    assert granted(driver.execute(200, (3,), 13)) == [5013]  # others go on


def test_work_that_was_queued_before_is_refused_too() -> None:
    driver = ready()
    driver.execute(100, (1,), 10)
    died(driver, "a1", "signal 11", 1)
    driver.upload(2, 7)
    driver.execute(100, (2,), 11)  # waits for bytes
    driver.put(3)
    driver.open(3)
    driver.compile(100, program="0123456789abcdef", session=3)
    driver.put(1, session=3)
    driver.execute(100, (1,), 10, session=3)
    effects = died(driver, "a1", "signal 11", 1)
    assert kept(effects)
    assert failure_of(driver, 11) is not None
    assert granted(effects) == []


def test_a_program_that_is_allowed_runs_again_and_starts_from_nothing() -> None:
    driver = ready()
    twice(driver)
    driver.step(events.ProgramAllowed("0123456789abcdef"))
    assert granted(driver.execute(100, (3,), 12)) == [5012]
    died(driver, "a1", "signal 11", 1)
    assert not quarantine.is_held(driver.core.state, "0123456789abcdef")


def test_what_earlier_lives_saw_counts() -> None:
    before = ready()
    before.execute(100, (1,), 10)
    first = kept(died(before, "a1", "signal 11", 1))
    driver = ready()
    driver.step(events.DeathsRestored(tuple(first)))
    driver.execute(100, (1,), 10)
    died(driver, "a1", "signal 11", 1)
    driver.put(2)
    assert granted(driver.execute(100, (2,), 11)) == []
    assert "ended 2 executors" in failure_of(driver, 11).message


def test_of_a_traced_program_the_node_is_blamed() -> None:
    driver = Driver({"a": ["a0", "a1"], "b": ["b0", "b1"]})
    driver.open(1, ("*",), tenant="ads")
    chain(driver, A0, A1, A)
    put(driver, 300, A0)
    run_program(driver, (300,), 310)
    plan = driver.core.state.sessions[1].definitions[gid(900)].plan  # type: ignore[index]
    assert plan is not None
    wanted = plan.executables[1].program
    # a1 has launched the second node alone, which is its first.
    deaths = kept(died(driver, "a1", "signal 11", 2))
    assert [death.program for death in deaths] == [wanted]
    assert deaths[0].name.startswith("node ")
    died_again = events.DeathsRestored((deaths[0],))
    driver.step(died_again)
    put(driver, 400, A0)
    run_program(driver, (400,), 410)
    assert "ended 2 executors" in failure_of(driver, 410).message
