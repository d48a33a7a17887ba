"""Programs whose nodes wait for values: branches, loops, their results, failures, and what others may do meanwhile."""

from __future__ import annotations

import pytest
from pathways_common.model import graph
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, IslandName, Sequence, SessionNumber, is_made_by_core
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.transitions import BufferState

from tests.unit.core.core_driver import Driver, gid, replies, sent
from tests.unit.core.core_runs import PROGRAM, A, buffer, driver_of, kill, put, run
from tests.unit.core.core_walks import COUNT, FLAG, Graphs, answer, asked, branching, looping, node

PRESENT, PENDING, POISONED = BufferState.PRESENT, BufferState.PENDING, BufferState.POISONED


def steps_of(driver: Driver, effects: list[out.Effect]) -> list[int]:
    """How many launches each granted run has, by the plans that hosts were ever told."""
    plans = {command.plan_id: command for _, command in sent(driver.log, out.LoadPlan)}
    seen: dict[int, int] = {}
    for _, command in sent(effects, out.RunPlan):
        seen[command.execution_id] = sum(isinstance(step, out.PlanLaunch) for step in plans[command.plan_id].steps)
    return list(seen.values())


def nothing_is_left(driver: Driver, *held: int) -> None:
    """The walk is over, and only these buffers of the client exist besides what their names refer to."""
    session = driver.core.state.sessions[SessionNumber(1)]
    assert not session.walks
    assert not session.ungranted
    assert all(not lane.walk for island in driver.core.state.islands.values() for lane in island.lanes.values())
    own = [identifier for identifier in session.buffers if not is_made_by_core(identifier)]
    assert own == [gid(number) for number in held]
    assert all(found.uses for identifier, found in session.buffers.items() if is_made_by_core(identifier))


@pytest.mark.parametrize(("value", "launches"), [(-7, 1), (0, 1), (1, 2), (99, 1)])
def test_a_value_chooses_a_graph_by_its_position_clamped(value: int, launches: int) -> None:
    driver = driver_of()
    assert branching(driver).define().failure is None
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    assert steps_of(driver, effects) == [2], "the first node and what stands beside the branch run ahead of it"
    assert buffer(driver, 20).state is PRESENT
    assert (buffer(driver, 21).state, buffer(driver, 22).state) == (PENDING, PENDING)
    question = asked(effects)
    assert question[0] == "a0"
    effects = answer(driver, question, value)
    if value == 99:
        assert steps_of(driver, effects) == [], "the third graph lies on island b and waits for its bytes"
        effects = _landed(driver, effects)
        assert steps_of(driver, effects) == [1]
        effects = _landed(driver, effects)
        assert steps_of(driver, effects) == [1], "what comes after the branch"
    else:
        assert steps_of(driver, effects) == [launches, 1]
    assert (buffer(driver, 21).state, buffer(driver, 22).state) == (PRESENT, PRESENT)
    placed = [command.view_id for host, command in sent(effects, out.PlaceView) if host == "a0"]
    assert placed == [gid(21), gid(22)]
    nothing_is_left(driver, 10, 20, 21, 22)


def _landed(driver: Driver, effects: list[out.Effect]) -> list[out.Effect]:
    """The bytes of all pulls arrive."""
    found: list[out.Effect] = []
    for host, pull in sent(effects, out.PullShard):
        found += driver.landed(host, pull.transfer_id)
    return found


@pytest.mark.parametrize(("count", "launches"), [(0, 1), (4, 1), (5, 2), (8, 2)])
def test_a_count_chooses_the_first_limit_that_is_large_enough(count: int, launches: int) -> None:
    driver = driver_of()
    branching(driver, (4, 8, 16)).define()
    put(driver, 10, A)
    question = asked(run(driver, (10,), 20))
    assert steps_of(driver, answer(driver, question, count)) == [launches, 1]


def test_a_count_above_the_last_limit_names_the_line() -> None:
    driver = driver_of()
    branching(driver, (4, 8, 16)).define()
    put(driver, 10, A)
    answer(driver, asked(run(driver, (10,), 20)), 17)
    failure = buffer(driver, 22).failure
    assert failure is not None
    assert failure.reason is Reason.EXECUTION_ERROR
    assert "node choose, called at train.py:choose of program train failed: its value is 17" in failure.message
    assert buffer(driver, 20).state is PRESENT, "what was there before stays"
    nothing_is_left(driver, 10, 20, 21, 22)


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_loop_runs_as_often_as_its_condition_says(rounds: int) -> None:
    driver = driver_of()
    assert looping(driver).define().failure is None
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    assert steps_of(driver, effects) == [1, 1], "the first node and the condition"
    for _ in range(rounds):
        assert buffer(driver, 20).state is PENDING
        effects = answer(driver, asked(effects), 1, 1)
        assert steps_of(driver, effects) == [1, 1], "the body and the condition"
    effects = answer(driver, asked(effects), 0, 1)
    assert steps_of(driver, effects) == []
    assert [command.view_id for _, command in sent(effects, out.PlaceView)] == [gid(20)] * 2
    nothing_is_left(driver, 10, 20)
    driver.release(20)
    nothing_is_left(driver, 10)
    assert len(driver.core.state.sessions[SessionNumber(1)].buffers) == 1, "what the result named is gone with it"


def test_a_loop_that_does_not_end_names_its_line() -> None:
    driver = driver_of()
    looping(driver, most=2).define()
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    for _ in range(3):
        effects = answer(driver, asked(effects), 1, 1)
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.message.startswith(
        "node while, called at train.py:while of program train failed: the loop did not end within 2 iterations"
    )
    assert failure.metadata["source"] == "train.py:while"
    nothing_is_left(driver, 10, 20)


def test_what_uses_the_result_waits_for_it_and_others_do_not() -> None:
    driver = driver_of(2)
    looping(driver).define()
    driver.compile(1, session=2)
    driver.put(11, session=2)
    driver.compile(2)
    put(driver, 10, A)
    put(driver, 12, A)
    effects = run(driver, (10,), 20)
    assert len(sent(driver.execute(2, (12,), 30), out.Prepare)) == 2, "other work of the session does not wait"
    assert sent(driver.execute(2, (20,), 31), out.Prepare) == []
    assert len(sent(driver.execute(1, (11,), 30, session=2), out.Prepare)) == 2
    driver.step(events.FenceRequested(SessionNumber(1), 7))
    effects = answer(driver, asked(effects), 0, 1)
    order = [type(e.command).__name__ for e in effects if isinstance(e, out.SendToHost) and e.host == "a0"]
    assert order.index("PlaceView") < order.index("Prepare")
    assert [reply.fence_id for reply in replies(effects, out.FenceReached)] == [7]


def test_cancelling_ends_a_loop_between_two_iterations() -> None:
    driver = driver_of()
    looping(driver, most=1000).define()
    put(driver, 10, A)
    effects = answer(driver, asked(run(driver, (10,), 20)), 1, 1)
    question = asked(effects)
    driver.step(events.CancelRequested(SessionNumber(1), (gid(20),)))
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.reason is Reason.CANCELLED
    nothing_is_left(driver, 10, 20)
    assert steps_of(driver, answer(driver, question, 1, 1)) == [], "the late answer starts nothing"


def test_a_session_that_ends_takes_its_walks_along() -> None:
    driver = driver_of()
    looping(driver).define()
    put(driver, 10, A)
    question = asked(run(driver, (10,), 20))
    driver.close()
    assert steps_of(driver, answer(driver, question, 1, 1)) == []
    assert not driver.core.state.readers
    assert all(not island.lanes for island in driver.core.state.islands.values())


def test_a_lost_host_ends_the_walk_with_its_cause() -> None:
    driver = driver_of()
    looping(driver).define()
    put(driver, 10, A)
    run(driver, (10,), 20)
    kill(driver, "a0", 0)
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.reason is Reason.SLICE_LOST
    assert "of program train failed" in failure.message
    nothing_is_left(driver, 10, 20)


def test_a_lost_host_of_a_piece_that_was_granted_whole_ends_the_walk_at_once() -> None:
    driver = driver_of()
    branching(driver).define()
    put(driver, 10, A)
    question = asked(run(driver, (10,), 20))
    kill(driver, "a1", 0)
    failures = [buffer(driver, number).failure for number in (20, 21, 22)]
    assert all(failure is not None and failure.reason is Reason.SLICE_LOST for failure in failures)
    assert len({failure.id for failure in failures if failure is not None}) == 1
    nothing_is_left(driver, 10, 20, 21, 22)
    assert steps_of(driver, answer(driver, question, 1)) == []


def test_a_node_that_fails_late_fails_the_result_that_names_its_bytes() -> None:
    driver = driver_of()
    looping(driver).define()
    put(driver, 10, A)
    effects = answer(driver, asked(run(driver, (10,), 20)), 1, 1)
    body = next(command for _, command in sent(effects, out.RunPlan))
    answer(driver, asked(effects), 0, 1)
    assert buffer(driver, 20).state is PRESENT
    cause = Failure(Reason.EXECUTION_ERROR, "division by zero", host="a0", id="x1")
    effects = driver.step(events.NodeFailed(HostName("a0"), body.execution_id, Sequence(body.sequence), cause))
    assert buffer(driver, 20).state is POISONED
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.message.endswith("of program train failed: division by zero")
    assert "called at train.py:call" in failure.message
    told = [host for host, command in sent(effects, out.Poison) if gid(20) in command.ids]
    assert told == ["a0", "a1"]


def test_an_argument_of_the_walk_is_not_donated_by_others_and_is_kept_until_its_end() -> None:
    driver = driver_of()
    graphs = Graphs(driver)
    graphs.graph(1, (A, A), (graphs.call((A, A), (A,), (0, 0), (0, 1)),), (1, 0))
    first = graphs.call((A,), (COUNT,), (0, 0))
    choice = node("choose", graph.BranchKind((1,), (), (A,)), (1, 0), (0, 0), (0, 1))
    graphs.graph(0, (A, A), (first, choice), (2, 0))
    graphs.define()
    put(driver, 10, A)
    put(driver, 11, A)
    question = asked(run(driver, (10, 11), 20, donated=(1,)))
    driver.delete(10)
    assert sent(driver.log, out.Free) == [], "both are needed later"
    effects = answer(driver, question, 0)
    assert steps_of(driver, effects) == [1]
    freed = [identifier for host, command in sent(effects, out.Free) if host == "a0" for identifier in command.ids]
    assert {gid(10), gid(11)} <= set(freed)
    assert buffer(driver, 11).ended is not None


def test_a_program_released_during_a_walk_is_kept_until_its_end() -> None:
    driver = driver_of()
    looping(driver).define()
    put(driver, 10, A)
    question = asked(run(driver, (10,), 20))
    driver.step(events.Released(SessionNumber(1), (), (), (gid(PROGRAM),)))
    session = driver.core.state.sessions[SessionNumber(1)]
    assert gid(PROGRAM) in session.definitions
    effects = answer(driver, question, 0, 1)
    assert gid(PROGRAM) not in session.definitions
    assert len(sent(effects, out.UnloadPlan)) == 4, "two plans on two hosts"


def test_a_result_released_early_is_never_placed() -> None:
    driver = driver_of()
    looping(driver).define()
    put(driver, 10, A)
    question = asked(run(driver, (10,), 20))
    driver.release(20)
    assert sent(answer(driver, question, 0, 1), out.PlaceView) == []
    nothing_is_left(driver, 10)


def test_long_loops_of_two_sessions_take_turns_and_the_window_stays_bounded() -> None:
    driver = driver_of(2, window_gangs=4)
    looping(driver, most=50).define()
    driver.compile(1, session=2)
    driver.put(11, session=2)
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    for round_number in range(20):
        assert len(sent(driver.execute(1, (11,), 100 + round_number, session=2), out.Prepare)) == 2
        effects = answer(driver, asked(effects), 1, 1)
        for host in ("a0", "a1"):
            effects += driver.finish(host, driver.core.state.islands[IslandName("a")].sequence)
    session = driver.core.state.sessions[SessionNumber(1)]
    assert len(session.buffers) <= 5, "values of earlier iterations are gone"


def test_loops_in_branches_and_branches_in_loops() -> None:
    driver = driver_of()
    graphs = Graphs(driver)
    graphs.graph(1, (A,), (graphs.call((A,), (FLAG,), (0, 0)),), (1, 0))
    choice = node("inner", graph.BranchKind((3, 4), (), (A,)), (1, 0), (0, 0))
    graphs.graph(2, (A,), (graphs.call((A,), (COUNT,), (0, 0)), choice), (2, 0))
    graphs.graph(3, (A,), (graphs.call((A,), (A,), (0, 0)),), (1, 0))
    graphs.graph(4, (A,), (graphs.call((A,), (A,), (0, 0)), graphs.call((A,), (A,), (1, 0))), (2, 0))
    loop = node("while", graph.LoopKind(1, 2, 9, (A,)), (0, 0))
    graphs.graph(0, (A,), (loop,), (1, 0))
    assert graphs.define().failure is None
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    launched = steps_of(driver, effects)
    for choice_made in (0, 1, 1):
        effects = answer(driver, asked(effects), 1, 1)
        launched += steps_of(driver, effects)
        effects = answer(driver, asked(effects), choice_made)
        launched += steps_of(driver, effects)
    answer(driver, asked(effects), 0, 1)
    assert launched == [1, 1, 1, 1, 1, 2, 1, 1, 2, 1]
    assert buffer(driver, 20).state is PRESENT
    nothing_is_left(driver, 10, 20)


def test_a_loop_without_iterations_gives_the_argument_another_name() -> None:
    driver = driver_of()
    graphs = looping(driver)
    loop = node("while", graph.LoopKind(1, 2, 9, (A,)), (0, 0))
    graphs.graph(0, (A,), (loop,), (1, 0))
    graphs.define()
    put(driver, 10, A)
    answer(driver, asked(run(driver, (10,), 20, donated=(0,))), 0, 1)
    assert buffer(driver, 20).state is PRESENT
    driver.release(10)
    assert buffer(driver, 10).state is PRESENT, "the result names its bytes"
    driver.release(20)
    nothing_is_left(driver)


def _wrong(kind: graph.Kind, *inputs: tuple[int, int]) -> str:
    driver = driver_of()
    graphs = looping(driver)
    first = graphs.call((A,), (COUNT, A), (0, 0))
    graphs.graph(0, (A,), (first, node("odd", kind, *inputs)), (2, 0))
    failure = graphs.define().failure
    assert failure is not None
    nothing_is_left(driver)
    return failure.message


def test_wrong_branches_and_loops_are_refused() -> None:
    assert "chooses a graph and is no integer or boolean" in _wrong(graph.BranchKind((2,), (), (A,)), (1, 1), (1, 1))
    assert "has no graphs to choose from" in _wrong(graph.BranchKind((), (), (A,)), (1, 0), (1, 1))
    assert "ascending" in _wrong(graph.BranchKind((2, 2), (8, 4), (A,)), (1, 0), (1, 1))
    assert "bodies of the program are graphs 1 to 2" in _wrong(graph.BranchKind((5,), (), (A,)), (1, 0), (1, 1))
    assert "bodies of the program are graphs 1 to 2" in _wrong(graph.BranchKind((0,), (), (A,)), (1, 0), (1, 1))
    assert "takes what the node does not name" in _wrong(graph.BranchKind((2,), (), (A,)), (1, 0))
    assert "returns what the node does not name" in _wrong(graph.BranchKind((2,), (), (FLAG,)), (1, 0), (1, 1))
    assert "returns something else than one boolean" in _wrong(graph.LoopKind(2, 2, 5, (A,)), (1, 1))
    assert "has no inputs" in _wrong(graph.BranchKind((2,), (), (A,)))


def test_a_body_of_itself_is_refused() -> None:
    driver = driver_of()
    graphs = looping(driver)
    again = node("again", graph.LoopKind(1, 2, 5, (A,)), (0, 0))
    graphs.graph(2, (A,), (again,), (1, 0))
    failure = graphs.define().failure
    assert failure is not None
    assert "graph 2 is a body of itself" in failure.message


def test_a_body_that_returns_its_argument_is_refused() -> None:
    driver = driver_of()
    graphs = looping(driver)
    graphs.graph(2, (A,), (graphs.call((A,), (A,), (0, 0)),), (0, 0))
    failure = graphs.define().failure
    assert failure is not None
    assert "is an argument of the graph" in failure.message
    assert failure.reason is Reason.INVALID_ARGUMENT


def test_what_a_walk_copies_for_itself_waits_for_no_work_that_takes_its_result() -> None:
    driver = driver_of(memory=648, spill=False)
    branching(driver).define()
    driver.compile(500, (2, 3))
    driver.compile(501, (0, 1))
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    question = asked(effects)
    driver.execute(501, (22,), 60)
    effects = answer(driver, question, 99)
    for _ in range(10):
        for host in ("a0", "a1", "b0", "b1"):
            effects += driver.finish(host, driver.core.state.hosts[HostName(host)].last_sequence, host[0])
        effects = [*_landed(driver, effects), *driver.pass_time(0.01)]
    assert buffer(driver, 22).state is PRESENT
