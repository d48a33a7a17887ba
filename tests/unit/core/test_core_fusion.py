"""Fused groups: offered, checked against their nodes, granted where a range has all of one, counted and named as their nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from pathways_common.model import graph
from pathways_common.model.array import ArraySpec, ExecutableFacts
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, IslandName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import estimates, events
from pathways_server.core.transitions import BufferState

from tests.unit.core.core_driver import Driver, gid, only, replies, sent
from tests.unit.core.core_graphs import Writer, columns
from tests.unit.core.core_runs import A0, PROGRAM, A, B, buffer, chain, define, driver_of, kill, node_failed, put, run
from tests.unit.core.core_walks import answer, asked, branching

ONE = SessionNumber(1)
FUSED = 700
BROKEN = Failure(Reason.EXECUTION_ERROR, "out of memory", host="a0", id="h1")


def group(
    driver: Driver,
    first: int,
    last: int,
    executable: int = FUSED,
    spec: ArraySpec = A,
    donated: tuple[int, ...] = (),
    fallible: bool = False,
) -> graph.FusedGroup:
    """Compiled, for nodes of a chain: takes the first input of the first one, returns the last one's value."""
    facts = ExecutableFacts(b"f", 1, (spec.shard_bytes,), frozenset(donated), fallible, 0, b"info", 1)
    driver.facts[f"program {executable}"] = facts
    driver.compile(executable, spec.devices, f"program {executable}")
    computation = graph.Computation(gid(executable), (spec,), (spec,))
    return graph.FusedGroup(0, first, last, computation, (graph.NodeInput(first, 0),), (graph.Edge(last, 0),))


def offer(driver: Driver, *groups: graph.FusedGroup, program: int = PROGRAM) -> out.ProgramFused:
    return only(replies(driver.step(events.FusionRequested(ONE, gid(program), groups)), out.ProgramFused))


def in_flight(driver: Driver, island: str = "a") -> int:
    return driver.core.state.islands[IslandName(island)].inflight_gangs


def fused_chain(count: int = 4, sessions: int = 1, **config: int) -> Driver:
    """A chain on a whose nodes are all one group, and array 10 for it."""
    driver = driver_of(sessions, **config)
    chain(driver, *[A] * count)
    assert offer(driver, group(driver, 1, count)) == out.ProgramFused(PROGRAM, 1, None)
    put(driver, 10, A)
    return driver


def test_a_group_is_told_once_and_granted_whole_and_counts_as_its_nodes() -> None:
    driver = fused_chain()
    effects = run(driver, (10,), 20)
    kinds = [type(e.command).__name__ for e in effects if isinstance(e, out.SendToHost) and e.host == "a1"]
    assert kinds == ["LoadPlan", "GroupPlan", "RunPlan"]
    plan, told = only(sent(effects, out.LoadPlan), lambda pair: pair[0] == "a1")[1], sent(effects, out.GroupPlan)[0][1]
    last = max(index for index, step in enumerate(plan.steps) if isinstance(step, out.PlanLaunch))
    launch = out.PlanLaunch(1, gid(FUSED), (0,), plan.results, (), (0, 1))
    assert told == out.GroupPlan(plan.plan_id, (out.PlanGroup(0, last + 1, 4, launch),))
    assert [command.fused for _, command in sent(effects, out.RunPlan)] == [True, True]
    assert in_flight(driver) == 4
    again = run(driver, (10,), 30)
    assert [(c.fused, c.sequence, c.previous) for _, c in sent(again, out.RunPlan)] == [(True, 5, 4)] * 2
    assert len(again) == 2, "nothing else is sent"
    assert in_flight(driver) == 8
    driver.finish("a0", 4)
    driver.finish("a1", 4)
    assert in_flight(driver) == 4


def granted_beside_another(driver: Driver, lengths: Sequence[int]) -> list[tuple[int, bool]]:
    """A run of one group after the other, of so many nodes each, beside another session, and then alone.

    Behind which node each grant ends, and whether groups go as one in it.
    """
    count, first, groups = sum(lengths), 1, []
    chain(driver, *[A] * count)
    for number, length in enumerate(lengths):
        groups.append(group(driver, first, first + length - 1, executable=FUSED + number))
        first += length
    assert offer(driver, *groups).group_count == len(lengths)
    driver.compile(1, devices=(0, 1), session=2)
    driver.put(11, devices=(0, 1), session=2)
    put(driver, 10, A)
    for index in range(2 * count):
        driver.execute(1, (11,), 100 + index, session=2)
    effects = run(driver, (10,), 20)
    for through in range(1, 3 * count + 1):
        last = driver.core.state.hosts[HostName("a0")].last_sequence
        effects += driver.finish("a0", min(through, last)) + driver.finish("a1", min(through, last))
    commands = [*sent(effects, out.RunPlan), *sent(effects, out.GrantRun)]
    granted = [(command.end_step, command.fused) for host, command in commands if host == "a0"]
    (plan,) = {plan.plan_id: plan for _, plan in sent(effects, out.LoadPlan)}.values()
    launches = [index for index, step in enumerate(plan.steps) if isinstance(step, out.PlanLaunch)]
    driver.pass_time(2)  # nobody competes any more
    (alone,) = (command for host, command in sent(run(driver, (10,), 30), out.RunPlan) if host == "a0")
    assert (alone.end_step, alone.fused) == (len(plan.steps), True)
    return [(sum(launch < end for launch in launches), fused) for end, fused in granted]


def test_with_others_in_line_a_group_goes_as_one_within_a_quantum_and_a_longer_one_falls_apart() -> None:
    """Nodes are guessed to take 1 ms each, a quantum is 4 ms, or 6 with the rest."""
    driver = driver_of(2, guess_ns=1_000_000, quantum_ns=4_000_000, settled_ns=10**15)
    assert granted_beside_another(driver, (2, 8)) == [(2, True), (6, False), (10, False)]


def test_while_all_have_work_in_line_a_group_goes_as_one_up_to_a_bound_of_its_own() -> None:
    """Nodes are guessed to take 1 ms each, a quantum is 6 ms, or 9 with the rest, and the bound of groups 16."""
    driver = driver_of(2, guess_ns=1_000_000, settled_ns=0)
    nodes = granted_beside_another(driver, (2, 16, 17, 12))
    assert nodes == [(2, True), (18, True), (24, False), (30, False), (35, False), (47, True)]


def test_a_group_that_once_took_too_long_is_tried_again_once_its_nodes_would_fit() -> None:
    """It took 20 ms, the bound is 16, and its 12 nodes are guessed to take 1 ms each: an eighth of the rest to 12 goes off a run.

    19, 18.1, 17.4, 16.7, 16.1, 15.6, 15.1; sums of estimates follow by an eighth: at 17.4 and at 15.1.
    """
    driver = fused_chain(12, 2, guess_ns=1_000_000, settled_ns=0)
    driver.compile(1, devices=(0, 1), session=2)
    driver.put(11, devices=(0, 1), session=2)
    host, whole = driver.core.state.hosts[HostName("a0")], []
    for turn in range(10):
        for index in range(24):
            driver.execute(1, (11,), 1000 + 100 * turn + index, session=2)
        effects = run(driver, (10,), 20 + turn)
        for _ in range(36):  # gangs of both
            effects += driver.finish("a0", host.last_sequence) + driver.finish("a1", host.last_sequence)
        commands = [*sent(effects, out.RunPlan), *sent(effects, out.GrantRun)]
        whole.append({command.fused for name, command in commands if name == "a0"})
        if not turn:
            plan = next(iter(driver.core.state.sessions[ONE].definitions.values())).plan
            assert plan is not None
            estimates.observe(driver.core.state, plan.groups[0].launch.executable.estimate, 20_000_000)
    assert whole == [{True}] + [{False}] * 7 + [{True}] * 2


def test_nodes_that_go_as_one_are_estimated_by_what_that_took() -> None:
    driver = fused_chain()
    run(driver, (10,), 20)
    state = driver.core.state
    plan = next(iter(state.sessions[ONE].definitions.values())).plan
    assert plan is not None
    (four,) = plan.groups
    estimates.observe(state, four.launch.executable.estimate, 2_000_000)
    assert estimates.costs_of(state, plan).durations[0] == (0, 500_000, 1_000_000, 1_500_000, 2_000_000)


def test_a_range_ends_before_a_group_that_it_would_cut() -> None:
    driver = driver_of(window_gangs=8)
    chain(driver, *[A] * 12)
    groups = [group(driver, first, first + 2, executable=FUSED + first) for first in (1, 4, 7, 10)]
    assert offer(driver, *groups).group_count == 4
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    grants = [command for host, command in sent(effects, out.GrantRun) if host == "a0"]
    # Half a window would be nodes 1 to 4.
    assert [(grant.sequence, grant.fused) for grant in grants] == [(4, True)]
    assert in_flight(driver) == 6


def test_a_new_epoch_runs_nodes_until_the_executables_of_groups_are_loaded_again() -> None:
    driver = fused_chain()
    run(driver, (10,), 20)
    driver.kill_executor("a0")
    driver.answer_loads = False
    put(driver, 11, A)
    loads = sent(run(driver, (11,), 30), out.Load)
    assert {command.executable_id for _, command in loads} == {gid(PROGRAM + number) for number in range(1, 5)}
    effects = [effect for host, command in loads for effect in driver.step(driver.loaded(host, command))]
    assert [command.fused for _, command in sent(effects, out.RunPlan)] == [False, False]
    assert sent(effects, out.GroupPlan) == []
    loads = sent(effects, out.Load)
    assert {command.executable_id for _, command in loads} == {gid(FUSED)}
    for host, command in loads:
        driver.step(driver.loaded(host, command))
    effects = run(driver, (11,), 40)
    assert [host for host, _ in sent(effects, out.GroupPlan)] == ["a0", "a1"]
    assert [command.fused for _, command in sent(effects, out.RunPlan)] == [True, True]


def test_a_group_that_cannot_be_loaded_again_is_given_up() -> None:
    driver = fused_chain()
    driver.kill_executor("a0")
    driver.answer_loads = False
    put(driver, 11, A)
    effects = run(driver, (11,), 20)
    effects = [effect for host, command in sent(effects, out.Load) for effect in driver.step(driver.loaded(host, command))]
    host, command = sent(effects, out.Load)[0]
    driver.step(replace(driver.loaded(host, command), facts=None, failure=Failure(Reason.COMPILE_ERROR, "no room")))
    for number in (30, 40):
        again = run(driver, (11,), number)
        assert [command.fused for _, command in sent(again, out.RunPlan)] == [False, False]
        assert sent(again, out.Load) == []


WRONG: dict[str, Callable[[Driver, graph.FusedGroup], graph.FusedGroup]] = {
    "one node": lambda _, right: replace(right, last_node=1, outputs=(graph.Edge(1, 0),)),
    "a node that is not there": lambda _, right: replace(right, last_node=9),
    "another graph": lambda _, right: replace(right, graph=1),
    "an executable that is not there": lambda _, right: replace(
        right, computation=replace(right.computation, executable_id=gid(999))
    ),
    "an input of a node outside": lambda _, right: replace(right, inputs=(graph.NodeInput(4, 0),)),
    "an input from inside": lambda _, right: replace(right, inputs=(graph.NodeInput(2, 0),)),
    "too many inputs": lambda _, right: replace(right, inputs=(graph.NodeInput(1, 0), graph.NodeInput(1, 0))),
    "no output": lambda _, right: replace(right, outputs=()),
    "an output that a node has not": lambda _, right: replace(right, outputs=(graph.Edge(3, 1),)),
    "not the output that others take": lambda _, right: replace(right, outputs=(graph.Edge(2, 0),)),
    "another layout": lambda driver, _: replace(group(driver, 1, 3, FUSED + 1, columns(0, 1)), first_node=1),
    "other devices": lambda driver, _: group(driver, 1, 3, FUSED + 1, B),
    "something that may fail": lambda driver, _: group(driver, 1, 3, FUSED + 1, fallible=True),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_group_that_does_not_fit_is_left_out_and_the_program_runs(what: str) -> None:
    driver = driver_of()
    chain(driver, *[A] * 4)
    put(driver, 10, A)
    wrong = WRONG[what](driver, group(driver, 1, 3))
    assert offer(driver, wrong) == out.ProgramFused(PROGRAM, 0, None)
    effects = run(driver, (10,), 20)
    assert [command.fused for _, command in sent(effects, out.RunPlan)] == [False, False]
    assert sent(effects, out.GroupPlan) == []


@pytest.mark.parametrize("what", [*WRONG, "an executable that cannot be compiled"])
def test_a_group_that_was_left_out_is_not_registered_and_its_executable_may_go(what: str) -> None:
    driver = driver_of()
    chain(driver, *[A] * 4)
    if what in WRONG:
        assert offer(driver, WRONG[what](driver, group(driver, 1, 3))).failure is None
    else:
        driver.answer_loads = False
        right = group(driver, 1, 3)
        assert offer(driver, right).failure is None
        load = next(e.command for e in reversed(driver.log) if isinstance(e, out.SendToHost) and isinstance(e.command, out.Load))
        broken = Failure(Reason.COMPILE_ERROR, "no room")
        driver.step(replace(driver.loaded("a0", load), facts=None, failure=broken))
    kept = only(effect.program for effect in register(driver) if isinstance(effect, out.KeepProgram))
    assert (kept.program.fused, len(kept.origins)) == ((), 4)
    executables = driver.core.state.sessions[ONE].executables
    offered = [number for number in (FUSED, FUSED + 1) if gid(number) in executables]
    driver.step(events.Released(ONE, (), tuple(gid(number) for number in offered)))
    assert not [number for number in offered if gid(number) in executables]


def test_a_program_is_registered_without_groups_that_are_not_checked_yet() -> None:
    driver = driver_of()
    chain(driver, *[A] * 4)
    driver.answer_loads = False
    elsewhere = group(driver, 1, 3)
    assert offer(driver, replace(elsewhere, computation=replace(elsewhere.computation, parameters=(B,)))).failure is None
    assert only(effect.program for effect in register(driver) if isinstance(effect, out.KeepProgram)).program.fused == ()


def register(driver: Driver) -> list[out.Effect]:
    return driver.step(events.RegistrationRequested(ONE, gid(PROGRAM), "team/chain", False))


def test_a_move_between_two_nodes_keeps_them_apart() -> None:
    driver = driver_of()
    turned = columns(0, 1)
    writer = Writer(driver, (A,), first_executable=PROGRAM + 1)
    first = writer.node(writer.computation((A,), (A,)), (0, 0))
    second = writer.node(writer.computation((turned,), (A,)), (first, 0))
    define(driver, writer.program((second, 0)))
    assert offer(driver, group(driver, 1, 2)).group_count == 0


def test_of_two_groups_that_overlap_the_first_is_taken() -> None:
    driver = driver_of()
    chain(driver, *[A] * 4)
    assert offer(driver, group(driver, 1, 3), group(driver, 2, 4, FUSED + 1)).group_count == 1


def test_a_program_is_fused_once_and_never_if_its_dispatch_is_sequential() -> None:
    driver = fused_chain()
    again = offer(driver, group(driver, 1, 2, FUSED + 1)).failure
    assert again is not None
    assert again.message == f"program {PROGRAM} has fused groups already; define another one"
    chain(driver, A, A, program=800, sequential=True)
    refused = offer(driver, group(driver, 1, 2, FUSED + 2), program=800).failure
    assert refused is not None
    assert refused.message == "program 800 is dispatched sequentially; define another one"
    unknown = offer(driver, program=801).failure
    assert unknown is not None
    assert unknown.reason is Reason.INVALID_ARGUMENT


def test_an_argument_that_a_group_donates_and_others_need_is_kept() -> None:
    driver = driver_of()
    writer = Writer(driver, (A,), first_executable=PROGRAM + 1)
    one, two = writer.computation((A,), (A,)), writer.computation((A, A), (A,))
    first = writer.node(one, (0, 0))
    second = writer.node(one, (first, 0))
    third = writer.node(one, (second, 0))
    last = writer.node(two, (third, 0), (first, 0))
    define(driver, writer.program((last, 0)))
    assert offer(driver, group(driver, 2, 3, donated=(0,))).group_count == 1
    put(driver, 10, A)
    told = sent(run(driver, (10,), 20), out.GroupPlan)[0][1]
    assert told.groups[0].launch.non_donatable == (0,)


# ---- failures ---------------------------------------------------------------------------------------------------------

SENTENCE = (
    "nodes {} of 6 ({}) of program train failed; they ran as one executable, so which of them it was is not known"
    " (pw.program(fuse=False) tells): {}"
)


def partly_fused() -> Driver:
    """Nodes 3 to 5 of 6 as one."""
    driver = driver_of()
    chain(driver, *[A] * 6)
    assert offer(driver, group(driver, 3, 5)).group_count == 1
    put(driver, 10, A)
    run(driver, (10,), 20)
    return driver


def test_a_failed_group_is_named_with_all_its_nodes() -> None:
    driver = partly_fused()
    node_failed(driver, "a0", 20, 5, BROKEN)
    failure = buffer(driver, 20).failure
    assert failure is not None
    calls = "; ".join(f"step {node}, called at train.py:{node}" for node in (3, 4, 5))
    assert failure.message == SENTENCE.format("3-5", calls, "out of memory")
    named = {name: failure.metadata[name] for name in ("node", "last_node", "node_count", "program")}
    assert named == {"node": "3", "last_node": "5", "node_count": "6", "program": "train"}


@pytest.mark.parametrize(("finished", "start"), [(1, "node 2 of 6 ("), (2, "nodes 3-5 of 6 ("), (5, "node 6 of 6 (")])
def test_a_kill_names_the_group_that_was_under_way(finished: int, start: str) -> None:
    driver = partly_fused()
    kill(driver, "a0", finished)
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.message.startswith(start)
    assert failure.reason is Reason.SLICE_LOST


def test_a_sentence_lists_a_few_of_many_calls() -> None:
    driver = fused_chain(64)
    run(driver, (10,), 20)
    kill(driver, "a0", 0)
    failure = buffer(driver, 20).failure
    assert failure is not None
    calls = [f"step {node}, called at train.py:{node}" for node in (1, 2, 3, 64)]
    assert failure.message.startswith(f"nodes 1-64 of 64 ({calls[0]}; {calls[1]}; {calls[2]}; ...; {calls[3]}) of program train")


def test_what_a_group_needs_and_had_failed_is_the_cause() -> None:
    driver = driver_of()
    chain(driver, A, program=800)
    chain(driver, *[A] * 4)
    assert offer(driver, group(driver, 2, 4)).group_count == 1
    put(driver, 10, A)
    run(driver, (10,), 20, program=800)
    run(driver, (20,), 30)
    node_failed(driver, "a0", 20, 1, BROKEN)
    cause = buffer(driver, 20).failure
    node_failed(driver, "a0", 30, 5, replace(BROKEN, id="h2"))
    assert buffer(driver, 30).failure is cause is not None


def test_all_results_of_a_group_fail_with_it_and_those_before_it_stay() -> None:
    driver = driver_of()
    writer = Writer(driver, (A,), first_executable=PROGRAM + 1)
    one = writer.computation((A,), (A,))
    nodes = [writer.node(one, (node, 0)) for node in range(4)]
    define(driver, writer.program(*((node, 0) for node in nodes)))
    right = group(driver, 2, 4)
    facts = ExecutableFacts(b"g", 3, (A.shard_bytes,) * 3, frozenset(), False, 0, b"info", 1)
    driver.facts["program 701"] = facts
    driver.compile(701, A.devices, "program 701")
    computation = graph.Computation(gid(701), (A,), (A, A, A))
    outputs = tuple(graph.Edge(node, 0) for node in (2, 3, 4))
    assert offer(driver, replace(right, computation=computation, outputs=outputs)).group_count == 1
    put(driver, 10, A)
    run(driver, (10,), 20)
    node_failed(driver, "a0", 20, 4, BROKEN)
    assert buffer(driver, 20).state is BufferState.PRESENT
    assert [buffer(driver, number).state for number in (21, 22, 23)] == [BufferState.POISONED] * 3


# ---- lives ------------------------------------------------------------------------------------------------------------


def test_the_executable_of_a_group_stays_as_long_as_the_program() -> None:
    driver = fused_chain()
    assert sent(driver.release(executables=(FUSED,)), out.Unload) == []
    assert [command.fused for _, command in sent(run(driver, (10,), 20), out.RunPlan)] == [True, True]
    gone = sent(driver.step(events.Released(ONE, (), (), (gid(PROGRAM),))), out.Unload)
    assert [(host, command.executable_ids) for host, command in gone] == [("a0", (gid(FUSED),)), ("a1", (gid(FUSED),))]


def test_a_registered_program_keeps_its_groups() -> None:
    driver = fused_chain()
    driver.step(events.RegistrationRequested(ONE, gid(PROGRAM), "team/step", False))
    driver.open(2, ("b",))
    two = SessionNumber(2)
    opened = driver.step(events.OpeningRequested(two, gid(50, 2), "team/step", 0, ()))
    assert only(replies(opened, out.ProgramDefined)).failure is None
    assert {command.program for _, command in sent(opened, out.Load)} == {f"program {PROGRAM + n}" for n in range(1, 5)} | {
        f"program {FUSED}"
    }
    piece = events.Piece((0, 1), A.shard_bytes, bytes(A.shard_bytes), 0)
    driver.step(events.ArrayMade(two, gid(10, 2), A, (piece,)))
    effects = driver.step(events.RunRequested(two, gid(60, 2), gid(50, 2), (gid(10, 2),), gid(61, 2), (), 0))
    assert [(host, command.fused) for host, command in sent(effects, out.RunPlan)] == [("b0", True), ("b1", True)]


def test_a_program_may_be_defined_with_its_groups() -> None:
    driver = driver_of()
    made = chain(driver, A0, A0, program=800)
    fused = replace(made, fused=(group(driver, 1, 2, spec=A0),))
    driver.step(events.DefinitionRequested(ONE, gid(PROGRAM), fused))
    put(driver, 10, A0)
    assert [command.fused for _, command in sent(run(driver, (10,), 20), out.RunPlan)] == [True]


def test_a_body_of_a_branch_has_groups_and_a_graph_with_branches_has_none() -> None:
    driver = driver_of()
    assert branching(driver).define().failure is None  # graph 2 is two nodes on a
    inside = replace(group(driver, 1, 2), graph=2)
    assert offer(driver, replace(group(driver, 1, 2, FUSED + 1)), inside).group_count == 1
    put(driver, 10, A)
    first = run(driver, (10,), 20)
    assert [command.fused for _, command in sent(first, out.RunPlan)] == [False, False]
    chosen = answer(driver, asked(first), 1)
    assert [command.fused for host, command in sent(chosen, out.RunPlan) if host == "a0"] == [True, False]
