"""Runs of programs: one command per host, turns with others, order with other work, sequential dispatch, cancelling."""

from __future__ import annotations

import pytest
from pathways_common.model.failure import Reason
from pathways_common.model.ids import HostName, Sequence, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.transitions import BufferState

from tests.unit.core.core_driver import Driver, gid, only, replies, sent
from tests.unit.core.core_graphs import Writer
from tests.unit.core.core_runs import A0, A1, PROGRAM, A, B, buffer, chain, define, driver_of, launched, put, run

VALUES = 1 << 40 | 1 << 39


def test_a_program_of_128_nodes_goes_to_every_host_as_one_command() -> None:
    driver = driver_of()
    chain(driver, *[A, B] * 64)
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    plans = sent(effects, out.LoadPlan)
    assert [host for host, _ in plans] == ["a0", "a1", "b0", "b1"]
    commands = sent(effects, out.RunPlan)
    assert [host for host, _ in commands] == ["a0", "a1", "b0", "b1"]
    steps = len(plans[0][1].steps)
    for _, command in commands:
        assert (command.end_step, command.sequence, command.previous) == (steps, 1, 0)
        assert (command.arguments, command.first_result_id, command.first_value_id) == ((gid(10),), gid(20), VALUES)
    again = run(driver, (10,), 30)
    assert sent(again, out.LoadPlan) == []
    second = sent(again, out.RunPlan)
    assert [(c.sequence, c.previous, c.first_value_id) for _, c in second] == [(65, 64, VALUES + plans[0][1].slot_count)] * 4
    assert len(again) == 4, "nothing else is sent"


def test_a_run_with_the_id_of_an_earlier_run_or_execution_is_refused() -> None:
    driver = driver_of()
    chain(driver, A, B)
    put(driver, 10, A)
    run(driver, (10,), 20)
    named = (gid(10),)
    again = events.RunRequested(SessionNumber(1), gid(5020), gid(PROGRAM), named, gid(30), (), 0)
    assert sent(driver.step(again), out.RunPlan) == []
    failure = buffer(driver, 30).failure
    assert failure is not None
    assert failure.message == "execution 5020 came after execution 5020; ids of executions and runs must rise"
    driver.compile(1)
    driver.put(11)
    assert sent(driver.execute(1, (11,), 40, execution=5020), out.Prepare) == []
    assert len(sent(run(driver, (10,), 50), out.RunPlan)) == 4


def test_previous_is_the_last_own_launch_of_the_host() -> None:
    driver = driver_of()
    chain(driver, A0, A1, A0)
    put(driver, 10, A0)
    run(driver, (10,), 20)
    commands = dict(sent(run(driver, (10,), 30), out.RunPlan))
    assert (commands["a0"].sequence, commands["a0"].previous) == (4, 3)
    assert (commands["a1"].sequence, commands["a1"].previous) == (4, 2)


def test_a_run_waits_for_its_bytes_on_one_island_and_keeps_its_session_behind_it_on_all() -> None:
    driver = driver_of(2)
    chain(driver, A, B)
    driver.compile(1, devices=(2, 3))
    driver.compile(1, devices=(2, 3), session=2)
    driver.put(11, devices=(2, 3))
    driver.put(11, devices=(2, 3), session=2)
    targets = only(replies(put(driver, 10, A, upload=1), out.UploadGrant)).targets
    assert sent(run(driver, (10,), 20), out.RunPlan) == []
    assert sent(driver.execute(1, (11,), 21), out.Prepare) == []
    assert len(sent(driver.execute(1, (11,), 21, session=2), out.Prepare)) == 2
    driver.landed(*targets[0])
    effects = driver.landed(*targets[1])
    kinds = [e.command for e in effects if isinstance(e, out.SendToHost) and isinstance(e.command, out.RunPlan | out.Prepare)]
    assert [type(kind).__name__ for kind in kinds] == ["RunPlan"] * 4 + ["Prepare"] * 2
    assert [kind.sequence for kind in kinds] == [1, 1, 2, 2, 3, 3]


def test_a_run_at_the_head_on_one_island_waits_for_earlier_work_of_its_session_on_the_other() -> None:
    driver = driver_of()
    chain(driver, A, B)
    driver.compile(1, devices=(0, 1))
    driver.compile(2, devices=(2, 3))
    put(driver, 10, A)
    run(driver, (10,), 13)  # its hosts know the plan from here on
    near = only(replies(put(driver, 11, A, upload=1), out.UploadGrant)).targets
    far = only(replies(put(driver, 12, B, upload=2), out.UploadGrant)).targets
    assert sent(driver.execute(1, (11,), 21), out.Prepare) == []
    assert sent(driver.execute(2, (12,), 22), out.Prepare) == []
    assert sent(run(driver, (10,), 30), out.RunPlan) == []
    driver.landed(*near[0])
    effects = driver.landed(*near[1])
    assert (len(sent(effects, out.Prepare)), sent(effects, out.RunPlan)) == (2, [])
    driver.landed(*far[0])
    effects = driver.landed(*far[1])
    assert (len(sent(effects, out.Prepare)), len(sent(effects, out.RunPlan))) == (2, 4)


def test_a_result_is_expected_until_its_step_is_granted() -> None:
    driver = driver_of(2, window_gangs=8, quantum_gangs=1)
    driver.compile(1, devices=(0, 1), session=2)
    driver.put(11, devices=(0, 1), session=2)
    writer = Writer(driver, (A,), first_executable=PROGRAM + 1)
    first = writer.node(writer.computation((A,), (A,)), (0, 0))
    second = writer.node(writer.computation((A,), (A,)), (first, 0))
    define(driver, writer.program((first, 0), (second, 0)))
    put(driver, 10, A)
    for index in range(10):
        driver.execute(1, (11,), 100 + index, session=2)
    run(driver, (10,), 20)
    assert buffer(driver, 20).state is BufferState.EXPECTED
    for host in ("a0", "a1"):
        driver.finish(host, 2)  # room for one of the two that wait, for one node, and no more
    assert (buffer(driver, 20).state, buffer(driver, 21).state) == (BufferState.PRESENT, BufferState.EXPECTED)
    for host in ("a0", "a1"):
        driver.finish(host, 4)
    assert buffer(driver, 21).state is BufferState.PRESENT


def test_sessions_take_turns_with_a_long_run_after_every_quantum() -> None:
    driver = driver_of(2, window_gangs=8, quantum_gangs=4)
    driver.compile(1, devices=(0, 1), session=2)
    driver.put(11, devices=(0, 1), session=2)
    chain(driver, *[A] * 12)
    put(driver, 10, A)
    for index in range(8):
        driver.execute(1, (11,), 100 + index, session=2)
    run(driver, (10,), 20)
    for index in range(8):
        driver.execute(1, (11,), 110 + index, session=2)
    order: list[str] = []
    for through in range(1, 40):
        last = driver.core.state.hosts[HostName("a0")].last_sequence
        effects = [*driver.finish("a0", min(through, last)), *driver.finish("a1", min(through, last))]
        for host, command in [
            (e.host, e.command) for e in effects if isinstance(e, out.SendToHost) and not isinstance(e.command, out.Free)
        ]:
            if host == "a0" and isinstance(command, out.RunPlan | out.GrantRun | out.Prepare):
                order.append(type(command).__name__)
    assert order[:6] == ["RunPlan", "Prepare", "GrantRun", "Prepare", "GrantRun", "Prepare"]
    assert order.count("GrantRun") == 2
    assert order.count("Prepare") == 8


def test_what_is_done_of_a_range_makes_room_while_it_goes_on() -> None:
    """Ranges of four gangs that are guessed to take 1 ms each, in a window of 3 ms: at most three quarters may be unfinished."""
    driver = driver_of(2, quantum_gangs=4, quantum_ns=10_000_000, window_ns=3_000_000, guess_ns=1_000_000)
    chain(driver, *[A] * 8)
    driver.compile(1, devices=(0, 1), session=2)
    driver.put(11, devices=(0, 1), session=2)
    put(driver, 10, A)
    driver.execute(1, (11,), 100, session=2)  # alone on the island until the run comes
    assert len(sent(run(driver, (10,), 20), out.RunPlan)) == 2
    assert sent(driver.finish("a0", 1), out.GrantRun) == []
    assert sent(driver.finish("a1", 1), out.GrantRun) == []  # four are unfinished
    assert sent(driver.finish("a0", 3), out.GrantRun) == []  # three: two of them on both hosts, two on one
    assert len(sent(driver.finish("a1", 2), out.GrantRun)) == 2, "less than three are"


def test_a_run_alone_is_split_only_where_half_a_window_fits() -> None:
    driver = driver_of(window_gangs=8)
    chain(driver, *[A] * 10)
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    assert [plan.sequence for host, plan in sent(effects, out.RunPlan) if host == "a0"] == [1]
    assert [grant.sequence for host, grant in sent(effects, out.GrantRun) if host == "a0"] == [5]
    for through in (1, 2, 3):
        assert sent(driver.finish("a0", through) + driver.finish("a1", through), out.GrantRun) == []
    last = driver.finish("a0", 4) + driver.finish("a1", 4)
    assert [(grant.sequence, grant.previous) for host, grant in sent(last, out.GrantRun) if host == "a0"] == [(9, 8)]


def test_two_runs_that_need_room_on_two_islands_never_wait_for_one_another() -> None:
    driver = driver_of(2, window_gangs=4, quantum_gangs=2)
    chain(driver, *[A, B] * 6)
    chain(driver, *[B, A] * 6, program=800)
    put(driver, 10, A)
    put(driver, 11, B)
    for session_number, devices in ((2, (0, 1)), (2, (2, 3))):
        driver.compile(devices[0] + 1, devices=devices, session=session_number)
        driver.put(devices[0] + 50, devices=devices, session=session_number)
    for index in range(6):
        driver.execute(1, (50,), 100 + index, session=2)
        driver.execute(3, (52,), 200 + index, session=2)
    for index in range(4):
        run(driver, (10,), 20 + index)
        run(driver, (11,), 30 + index, program=800)
    state = driver.core.state
    for _ in range(200):
        for host in ("a0", "a1", "b0", "b1"):
            record = state.hosts[HostName(host)]
            driver.finish(host, min(record.finished_through + 1, record.last_sequence), record.island.name)
    session = state.sessions[SessionNumber(1)]
    assert not session.ungranted
    assert all(not island.inflight for island in state.islands.values())
    assert all(not island.runs for island in state.islands.values())


def test_sequential_dispatch_sends_a_node_when_the_one_before_was_launched_everywhere() -> None:
    driver = driver_of()
    chain(driver, A, B, A, sequential=True)
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    assert [host for host, _ in sent(effects, out.RunPlan)] == ["a0", "a1"]
    assert launched(driver, "a0", 1) == []
    effects = launched(driver, "a1", 1)
    assert [host for host, _ in sent(effects, out.GrantRun)] == ["a0", "a1"], "they send what b needs"
    plans = sent(effects, out.RunPlan)
    assert [(host, plan.sequence, plan.previous) for host, plan in plans] == [("b0", 1, 0), ("b1", 1, 0)]
    assert all(grant.sequence == 0 for _, grant in sent(effects, out.GrantRun))
    launched(driver, "b0", 1)
    last = launched(driver, "b1", 1)
    assert [(host, grant.sequence) for host, grant in sent(last, out.GrantRun)] == [("a0", 2), ("a1", 2), ("b0", 0), ("b1", 0)]
    assert not driver.core.state.sessions[SessionNumber(1)].ungranted


def test_a_host_that_hears_late_of_a_run_counts_to_the_right_sequence() -> None:
    driver = driver_of()
    chain(driver, A0, A1, sequential=True)
    driver.compile(1, devices=(0, 1))
    put(driver, 10, A0)
    driver.put(11, devices=(0, 1))
    run(driver, (10,), 20)
    driver.open(2, ("*",))
    driver.compile(1, session=2)
    driver.put(11, session=2)
    driver.execute(1, (11,), 21, session=2)  # takes sequence 2
    plans = sent(launched(driver, "a0", 1), out.RunPlan)
    # Its own launch is the second one of its island in the run, and has sequence 3: it counts from 2.
    assert [(host, plan.sequence, plan.previous) for host, plan in plans] == [("a1", 2, 2)]


def test_a_missed_sequence_is_answered_with_the_run_for_that_host_alone() -> None:
    driver = driver_of()
    chain(driver, A, A, B)
    put(driver, 10, A)
    first = dict(sent(run(driver, (10,), 20), out.RunPlan))
    again = sent(driver.step(events.SequenceMissed(HostName("a1"), driver.epoch("a"), Sequence(2))), out.RunPlan)
    assert again == [("a1", first["a1"])]


def test_a_failed_argument_fails_all_results_of_a_run_that_waits() -> None:
    driver = driver_of()
    chain(driver, A, B)
    put(driver, 10, A, upload=1)
    run(driver, (10,), 20)
    driver.release(10)
    driver.pass_time(61)
    assert buffer(driver, 20).state is BufferState.POISONED
    assert not driver.core.state.sessions[SessionNumber(1)].ungranted


def test_a_donated_argument_ends_with_the_request_and_its_data_with_the_last_grant() -> None:
    driver = driver_of()
    chain(driver, A, B)
    put(driver, 10, A)
    effects = run(driver, (10,), 20, donated=(0,))
    assert all(command.donated == (0,) for _, command in sent(effects, out.RunPlan))
    assert [host for host, _ in sent(effects, out.Free)] == ["a0", "a1"]
    run(driver, (10,), 30)
    failure = buffer(driver, 30).failure
    assert failure is not None
    assert failure.reason is Reason.DELETED
    assert failure.message == "the array was donated to program train; use the program's result instead"


def test_an_argument_that_somebody_reads_is_kept_although_it_is_donated() -> None:
    driver = driver_of()
    chain(driver, A, B)
    put(driver, 10, A)
    driver.wait(10)
    assert all(command.donated == () for _, command in sent(run(driver, (10,), 20, donated=(0,)), out.RunPlan))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "program train takes 1 arguments and got 0"),
        ((11,), "argument 0 of program train does not lie on the devices that the program was traced for; move it there"),
        ((99,), "no array has id 99; it was released or never made"),
    ],
)
def test_a_wrong_request_makes_results_that_say_so(arguments: tuple[int, ...], words: str) -> None:
    driver = driver_of()
    chain(driver, A, B)
    put(driver, 10, A)
    put(driver, 11, B)
    assert sent(run(driver, arguments, 20), out.RunPlan) == []
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.message == words


def test_cancelling_ends_what_waits_and_leaves_what_was_granted() -> None:
    driver = driver_of()
    chain(driver, A, B)
    driver.compile(1)
    put(driver, 10, A)
    put(driver, 11, A, upload=1)
    run(driver, (10,), 20)
    run(driver, (11,), 30)
    driver.execute(1, (11,), 40)
    driver.execute(1, (10,), 50)
    effects = driver.step(events.CancelRequested(SessionNumber(1), (gid(20), gid(30), gid(40))))
    assert sent(effects, out.EndRun) == []
    assert [host for host, _ in sent(effects, out.Prepare)] == ["a0", "a1"], "what came behind goes on"
    assert buffer(driver, 20).state is BufferState.PRESENT
    for number in (30, 40):
        failure = buffer(driver, number).failure
        assert failure is not None
        assert failure.reason is Reason.CANCELLED


def partly_granted() -> Driver:
    """A run of 20 nodes of which 16 are granted."""
    driver = driver_of(window_gangs=8)
    chain(driver, *[A, B] * 10)
    put(driver, 10, A)
    run(driver, (10,), 20)
    assert buffer(driver, 20).state is BufferState.EXPECTED
    return driver


def test_cancelling_a_run_that_is_granted_in_part_ends_it_on_its_hosts() -> None:
    driver = partly_granted()
    effects = driver.step(events.CancelRequested(SessionNumber(1), (gid(20),)))
    ends = sent(effects, out.EndRun)
    assert [host for host, _ in ends] == ["a0", "a1", "b0", "b1"]
    assert ends[0][1].failure.reason is Reason.CANCELLED
    assert buffer(driver, 20).failure is ends[0][1].failure
    assert not driver.core.state.sessions[SessionNumber(1)].ungranted


def test_closing_the_session_ends_a_run_that_is_granted_in_part() -> None:
    driver = partly_granted()
    effects = driver.close()
    assert [host for host, _ in sent(effects, out.EndRun)] == ["a0", "a1", "b0", "b1"]
    assert len(sent(effects, out.UnloadPlan)) == 4
    for island in ("a", "b"):
        for host in ("0", "1"):
            driver.finish(island + host, 8, island)
    assert [len(island.runs) + len(island.inflight) for island in driver.core.state.islands.values()] == [0, 0]


def test_a_fence_is_reached_when_the_run_before_it_is_wholly_granted() -> None:
    driver = partly_granted()
    assert replies(driver.step(events.FenceRequested(SessionNumber(1), 7)), out.FenceReached) == []
    reached: list[out.FenceReached] = []
    for _ in range(12):
        for name in ("a0", "a1", "b0", "b1"):
            host = driver.core.state.hosts[HostName(name)]
            reached += replies(driver.finish(name, host.last_sequence, host.island.name), out.FenceReached)
    assert [reply.fence_id for reply in reached] == [7]


def test_a_released_program_goes_when_its_last_run_was_granted() -> None:
    driver = driver_of()
    chain(driver, A, B)
    targets = only(replies(put(driver, 10, A, upload=1), out.UploadGrant)).targets
    run(driver, (10,), 20)
    driver.step(events.Released(SessionNumber(1), (), (), (gid(PROGRAM),)))
    assert gid(PROGRAM) in driver.core.state.sessions[SessionNumber(1)].definitions
    driver.landed(*targets[0])
    effects = driver.landed(*targets[1])
    kinds = [type(e.command).__name__ for e in effects if isinstance(e, out.SendToHost) and e.host == "a0"]
    assert kinds[:3] == ["LoadPlan", "RunPlan", "UnloadPlan"]
    assert gid(PROGRAM) not in driver.core.state.sessions[SessionNumber(1)].definitions


def test_the_trace_of_the_last_run_is_collected_from_all_its_hosts() -> None:
    driver = driver_of()
    chain(driver, A, B)
    put(driver, 10, A)
    driver.now_ns = 5
    run(driver, (10,), 20)
    asked = sent(driver.step(events.TraceRequested(3, 0)), out.CollectTrace)
    assert [host for host, _ in asked] == ["a0", "a1", "b0", "b1"]
    for host, command in asked[::-1]:
        effects = driver.step(events.TraceCollected(HostName(host), command.trace_id, host.encode()))
    ready = only([effect for effect in effects if isinstance(effect, out.TraceReady)])
    assert ready.hosts == (("a0", "a", b"a0"), ("a1", "a", b"a1"), ("b0", "b", b"b0"), ("b1", "b", b"b1"))
    assert [(node.node, node.source, node.island) for node in ready.nodes] == [(1, "train.py:1", "a"), (2, "train.py:2", "b")]
    assert {node.execution_id for node in ready.nodes} == {gid(5020)}
    assert (ready.pieces, ready.piece_count, ready.late_hosts) == ((), 0, ())
    assert (ready.request_id, ready.program, ready.granted_ns, ready.failure) == (3, "train", 5, None)


def test_a_trace_is_answered_without_the_hosts_that_are_silent_for_two_seconds() -> None:
    driver = driver_of()
    chain(driver, A, B)
    put(driver, 10, A)
    run(driver, (10,), 20)
    asked = sent(driver.step(events.TraceRequested(3, gid(5020))), out.CollectTrace)
    driver.step(events.TraceCollected(HostName("b0"), asked[0][1].trace_id, b"x"))
    ready = only([effect for effect in driver.pass_time(2) if isinstance(effect, out.TraceReady)])
    assert ready.hosts == (("b0", "b", b"x"),)
    assert (ready.late_hosts, ready.lost_hosts) == (("a0", "a1", "b1"), ())
    unknown = only([e for e in driver.step(events.TraceRequested(4, 77)) if isinstance(e, out.TraceReady)])
    assert unknown.failure is not None
