"""Turns of runs: how much of one a grant covers, and room for it in the windows of all its islands.

Room is taken island by island in one fixed order, each at the lane's turn there, so that runs never wait for one another in a
circle. While others compete, a grant covers a quantum of estimated time, at least one gang, and the lane waits for its next turn;
alone, all that fits goes at once. Room that is taken counts in gangs; in time the window counts what is granted.
"""

from __future__ import annotations

from bisect import bisect_left

from . import estimates, fusion, policies, shares, spans, windows
from .plan import Costs, Plan
from .records import Island, Lane
from .run_records import Run
from .state import State
from .transitions import IslandState


def range_of(state: State, run: Run) -> tuple[int, Island | None]:
    """Where the next grant ends, or the island that lacks room for a worthwhile one."""
    plan, first = run.plan, run.next_step
    if plan.sequential:
        return spans.next_launch(plan, first), None
    window = state.config.window_gangs
    islands = spans.shape_of(plan).islands
    end = len(plan.steps)
    rest = spans.needs(plan, first, end)
    for index, _ in rest:
        if islands[index].line.lanes or shares.contended(state, islands[index], run.lanes[index].share):
            return _quantum(state, run), None
    if all(islands[index].inflight_gangs + count <= window for index, count in rest):
        return end, None
    end = spans.cut(plan, first, max(window // 2, 1))
    if fusion.is_ready(state, plan):
        end = fusion.aligned(plan, first, end)
    for index, count in spans.needs(plan, first, end):
        if islands[index].inflight_gangs + count > window:
            return end, islands[index]
    return end, None


def _quantum(state: State, run: Run) -> int:
    """A quantum of the run, with the rest of it if that is half a quantum at most; or its next gang if that is longer.

    It ends before a fused group that it would cut. A group that is longer than it falls apart; not if it is next and all who
    compete have work in line.
    """
    plan, first, config = run.plan, run.next_step, state.config
    most = min(config.quantum_gangs, config.window_gangs)
    costs = estimates.costs_of(state, plan)
    settled = all(windows.is_settled(state, island) for island in plan.islands)
    quantum_ns = config.settled_quantum_ns if settled else config.quantum_ns
    in_time = spans.cut_by_time(plan, costs, first, quantum_ns + quantum_ns // 2)
    if in_time < len(plan.steps):
        in_time = spans.cut_by_time(plan, costs, first, quantum_ns)
    end = min(spans.cut(plan, first, most), in_time)
    if fusion.is_ready(state, plan):
        end = fusion.aligned(plan, first, end)
        if settled:
            end = max(end, _end_of_group(state, plan, costs, first))
    return max(end, spans.next_launch(plan, first))


def _end_of_group(state: State, plan: Plan, costs: Costs, first: int) -> int:
    """The end of the fused group that begins with the next launch, if it is not too long to go whole; else 0."""
    config, after = state.config, spans.next_launch(plan, first)
    most = min(spans.cut_by_time(plan, costs, first, config.settled_group_ns), spans.cut(plan, first, config.window_gangs))
    order = spans.shape_of(plan).order
    for group in plan.groups:
        if first <= group.first_step < after and group.end_step <= most:
            # With what follows it up to the next launch, as every range.
            behind = bisect_left(order, group.end_step)
            return order[behind] if behind < len(order) else len(plan.steps)
    return 0


def wait_for_more(state: State, run: Run, lacking: Island, lane: Lane | None) -> bool:
    """It stays in line where it lacks room until some comes free or somebody joins. False: nobody else can go there either."""
    for waiting in run.lanes:
        if waiting.island is lacking:
            if waiting.blocked:
                waiting.blocked = False
                policies.join(state, waiting)
        else:
            waiting.blocked_on = f"room on island {lacking.name}"
    return lane is None or lane.island is not lacking


def acquire(state: State, run: Run, lane: Lane | None) -> bool:
    """Takes room on one island after another; where others are in line, at its turn. True if it has all of it."""
    islands = spans.shape_of(run.plan).islands
    for index, count in run.needs[run.acquired :]:
        island = islands[index]
        waiting = run.lanes[index]
        own_turn = lane is not None and lane.island is island
        if not own_turn and (island.line.lanes or not windows.has_room(state, island, waiting.share)):
            if waiting.blocked:
                waiting.blocked = False
                policies.join(state, waiting)
                state.woken.append(island)  # one that holds back for more room there has company now
            for other in run.lanes:
                if other is not waiting:
                    other.blocked_on = f"its turn on island {island.name}"
            return False
        island.inflight_gangs += count
        shares.hold(island, waiting.share)
        run.acquired += 1
    return True


def use(state: State, run: Run) -> None:
    """The room that it took becomes that of the gangs that are granted now."""
    islands = spans.shape_of(run.plan).islands
    for index, _ in run.needs[: run.acquired]:
        shares.release(state, islands[index], run.lanes[index].share)
    run.needs, run.acquired = (), 0


def let_go(state: State, run: Run) -> None:
    """Gives back the room of a grant that does not come about."""
    islands = spans.shape_of(run.plan).islands
    for index, count in run.needs[: run.acquired]:
        island = islands[index]
        shares.release(state, island, run.lanes[index].share)
        if island.state is IslandState.ACTIVE:
            island.inflight_gangs -= count
            state.woken.append(island)
    run.needs, run.acquired = (), 0


def let_go_of(state: State, island: Island) -> None:
    """The epoch of an island ends: runs that took room there give back all they took."""
    for lane in island.lanes.values():
        if lane.queue and isinstance(lane.queue[0], Run):
            let_go(state, lane.queue[0])
