"""Ranges of steps: how far a grant of a run may go, and the grant itself, on all its islands in one step.

Ranges are cut by counting launches per island; a whole program costs work per host and result, never per node. Hosts get one
command per grant and chain their own launches by counting those of their island. A host that hears of a run late gets the number
from which that count leads to its own first launch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from pathways_common.model.ids import GlobalId, Sequence

from . import admission, bookings, buffers, estimates, quotas, shares, traces
from .effects import GrantRun, RunPlan, SendToHost
from .plan import Bound, Costs, Launch, Move, Plan, Shape
from .records import Host, Island, Placement
from .run_records import Run, Span
from .state import State
from .transitions import BufferState, ExecutionState, IslandState

# Ids that the core makes for values inside runs: the upper half of what a session has.
_VALUES = 1 << 39


def shape_of(plan: Plan) -> Shape:
    """Worked out at the first run of the plan."""
    if plan.shape is None:
        islands = tuple(sorted(plan.islands, key=lambda island: island.name))
        found: dict[str, list[int]] = {island.name: [] for island in islands}
        makers: dict[int, int] = {}
        for index, step in enumerate(plan.steps):
            if isinstance(step, Launch):
                found[step.executable.placement.island.name].append(index)
                makers.update((slot, index) for slot in step.results)
            elif isinstance(step, Move):
                makers[step.destination] = index
        launches = tuple(tuple(found[island.name]) for island in islands)
        order = tuple(sorted(step for steps in launches for step in steps))
        names = [island.name for island in islands]
        made_on = tuple(names.index(placed.placement.island.name) for placed in plan.result_specs)
        plan.shape = Shape(islands, launches, order, tuple(makers[slot] for slot in plan.results), made_on)
    return plan.shape


def is_bound(plan: Plan) -> bool:
    """Whether the plan is on the hosts of the current epochs."""
    bound = plan.bound
    if bound is None:
        return False
    return all(
        island.epoch == epoch and island.state is IslandState.ACTIVE
        for island, epoch in zip(plan.islands, bound.epochs, strict=True)
    )


def fill_bound(plan: Plan, bound: Bound) -> None:
    """Who launches what, once per set of epochs."""
    shape = shape_of(plan)
    own: list[dict[str, tuple[Host, list[int]]]] = [{} for _ in shape.islands]
    several = fallible = False
    for index, steps in enumerate(shape.launches):
        for position, number in enumerate(steps):
            step = plan.steps[number]
            assert isinstance(step, Launch)
            hosts = step.executable.placement.hosts
            several |= len(hosts) > 1
            fallible |= step.executable.fallible and len(hosts) > 1
            for host in hosts:
                own[index].setdefault(host.name, (host, []))[1].append(position)
    bound.members = tuple(tuple((host, tuple(found)) for host, found in members.values()) for members in own)
    if plan.sequential:
        bound.involved = _involved(plan, bound)
    # The bytes of a move may fail to reach one member of the gang that needs them.
    bound.doubtful = fallible or (several and any(isinstance(step, Move) for step in plan.steps))


def _involved(plan: Plan, bound: Bound) -> tuple[tuple[int, ...], ...]:
    found: dict[str, list[int]] = {host.name: [] for host in bound.hosts}
    for index, step in enumerate(plan.steps):
        placements: list[Placement] = []
        if isinstance(step, Launch):
            placements = [step.executable.placement]
        elif isinstance(step, Move):
            placements = [plan.specs[step.source_spec].placement, plan.specs[step.destination_spec].placement]
        for name in dict.fromkeys(host.name for placement in placements for host in placement.hosts):
            found[name].append(index)
    return tuple(tuple(found[host.name]) for host in bound.hosts)


# ---- how far ----------------------------------------------------------------------------------------------------------


def cut(plan: Plan, first_step: int, limit: int) -> int:
    """The end of the longest range with at most `limit` launches on every island."""
    end = len(plan.steps)
    for launches in shape_of(plan).launches:
        position = bisect_left(launches, first_step) + limit
        if position < len(launches):
            end = min(end, launches[position])
    return end


def cut_by_time(plan: Plan, costs: Costs, first_step: int, limit_ns: int) -> int:
    """The end of the longest range that is estimated to take no longer than this on any island."""
    end = len(plan.steps)
    for launches, durations in zip(shape_of(plan).launches, costs.durations, strict=True):
        before = bisect_left(launches, first_step)
        position = bisect_right(durations, durations[before] + limit_ns, before) - 1
        if position < len(launches):
            end = min(end, launches[position])
    return end


def next_launch(plan: Plan, first_step: int) -> int:
    """The end of the range of one launch with the moves that it needs; the last one takes what follows too."""
    order = shape_of(plan).order
    position = bisect_left(order, first_step)
    return order[position] + 1 if position + 1 < len(order) else len(plan.steps)


def needs(plan: Plan, first_step: int, end_step: int) -> tuple[tuple[int, int], ...]:
    """Launches of a range per island that has any, by the island's position in the shape."""
    found: list[tuple[int, int]] = []
    for index, launches in enumerate(shape_of(plan).launches):
        count = bisect_left(launches, end_step) - bisect_left(launches, first_step)
        if count:
            found.append((index, count))
    return tuple(found)


# ---- granting ---------------------------------------------------------------------------------------------------------


def grant(state: State, run: Run, end_step: int, fused: bool) -> None:
    """Gives the launches of a range their sequences on every island and tells every host. Room for them was taken before.

    `fused`: groups that lie in it whole are launched as one.
    """
    plan = run.plan
    shape = shape_of(plan)
    first_step = run.next_step
    run.next_step = end_step
    if run.state is ExecutionState.QUEUED:
        _begin(state, run, shape)
    made: list[Span | None] = []
    befores: dict[str, tuple[int, Span | None]] = {}
    costs = estimates.costs_of(state, plan)
    for index, (island, launches) in enumerate(zip(shape.islands, shape.launches, strict=True)):
        before = bisect_left(launches, first_step)
        after = bisect_left(launches, end_step)
        span = None
        if after > before:
            sequence = island.sequence + 1
            island.sequence = Sequence(island.sequence + after - before)
            share = run.lanes[index].share
            span = Span(
                run, island, share, first_step, end_step, sequence, island.sequence,
                costs.durations[index][after] - costs.durations[index][before],
                shares.contended(state, island, share), plan.groups if fused else (),
            )  # fmt: skip
        made.append(span)
        befores[island.name] = (before, span)
    _tell(state, run, first_step, befores, fused)
    for index, span in enumerate(made):
        if span is not None:
            _place(state, run, index, span, costs, befores[span.island.name][0])
    _make(state, run, first_step, made)


def _begin(state: State, run: Run, shape: Shape) -> None:
    session = run.definition.session
    run.first_value_id = GlobalId(session.number << 40 | _VALUES | session.values)
    session.values += run.plan.slot_count
    run.granted_ns = state.now_ns
    state.move(run, ExecutionState.GRANTED)
    for island in shape.islands:
        island.runs[run.number] = run
    traces.remember(state, run)


def _tell(state: State, run: Run, first_step: int, befores: dict[str, tuple[int, Span | None]], fused: bool) -> None:
    """One command per host; in sequential dispatch a host hears of the run with its first own step."""
    bound = run.bound
    assert bound is not None
    sequential, end_step = run.plan.sequential, run.next_step
    known: tuple[Island, int, bool] | None = None
    command: RunPlan | GrantRun | None = None
    for position, host in enumerate(bound.hosts):
        told = host.name in run.told
        if sequential and not told:
            own = bound.involved[position]
            if bisect_left(own, first_step) == bisect_left(own, end_step):
                continue
        island = host.island
        if command is None or known != (island, host.last_sequence, told):
            known = (island, host.last_sequence, told)
            before, span = befores[island.name]
            sequence = span.sequence if span is not None else 0
            timed = span is not None and span.timed
            if told:
                command = GrantRun(
                    run.id, first_step, end_step, Sequence(sequence), host.last_sequence, island.epoch, fused, timed
                )
            else:
                sequence = max(sequence - before, 0)
                command = RunPlan(
                    run.id, bound.command.plan_id, run.argument_ids, run.first_result_id, run.first_value_id, run.donated,
                    run.number, state.config.read_ns, end_step, Sequence(sequence), host.last_sequence, island.epoch, fused,
                    timed,
                )  # fmt: skip
        run.told[host.name] = None
        send = SendToHost(host.name, command)
        state.effects.append(send)
        span = befores[island.name][1]
        if span is not None:
            span.sent.append(send)


def _place(state: State, run: Run, index: int, span: Span, costs: Costs, before: int) -> None:
    """Into the window, and onto the list of every member that has a launch of its own in it."""
    bound = run.bound
    assert bound is not None
    island = span.island
    after = before + span.last - span.sequence + 1
    whole = not before and run.next_step == len(run.plan.steps)
    members: list[Host] = []
    for host, own in bound.members[index]:
        last = len(own) - 1 if whole else bisect_left(own, after) - 1
        first = 0 if whole else bisect_left(own, before)
        if last < first:
            continue
        members.append(host)
        host.last_sequence = Sequence(span.sequence + own[last] - before)
        host.unfinished.append((host.last_sequence, span))
        host.gangs_granted += last - first + 1
    span.members = tuple(members)
    span.remaining = len(members)
    run.spans.append(span)
    island.inflight.append(span)
    device_times = costs.device_times[index]
    shares.granted(state, island, span, span.share, device_times[after] - device_times[before])
    if bound.doubtful:
        island.fallible.append(span)


def _make(state: State, run: Run, first_step: int, made: list[Span | None]) -> None:
    """The results of the range exist from here on; those of a run that never waited are made now."""
    shape = shape_of(run.plan)
    for position, step in enumerate(shape.made):
        if not first_step <= step < run.next_step:
            continue
        index = shape.made_on[position]
        span = made[index]
        assert span is not None, "a result is made by a launch on its island"
        launches = shape.launches[index]
        result = run.results[position]
        result.sequence = span.sequence + bisect_left(launches, step) - bisect_left(launches, first_step)
        result.epoch = span.island.epoch
        if result.state is BufferState.EXPECTED:
            buffers.present(state, result)


# ---- the end of a range -----------------------------------------------------------------------------------------------


def sequence_of(span: Span, step: int) -> int:
    """The island sequence of a launch of the span."""
    launches = launches_of(span)
    return span.sequence + bisect_left(launches, step) - bisect_left(launches, span.first_step)


def step_at(span: Span, sequence: int) -> int:
    """The step that was launched under this sequence of the span."""
    launches = launches_of(span)
    return launches[bisect_left(launches, span.first_step) + sequence - span.sequence]


def own_launches(span: Span, host: Host) -> Iterator[tuple[int, int]]:
    """Of the span, what one of its members launches: steps and their sequences."""
    bound = span.run.bound
    assert bound is not None
    shape = shape_of(span.run.plan)
    index = shape.islands.index(span.island)
    launches = shape.launches[index]
    first = bisect_left(launches, span.first_step)
    for member, own in bound.members[index]:
        if member is host:
            for position in own[bisect_left(own, first) :]:
                if launches[position] >= span.end_step:
                    break
                yield launches[position], span.sequence + position - first


def steps_of(span: Span) -> tuple[int, ...]:
    """The launches of the span, in the order of their sequences."""
    launches = launches_of(span)
    first = bisect_left(launches, span.first_step)
    return launches[first : first + span.last - span.sequence + 1]


def launches_of(span: Span) -> tuple[int, ...]:
    """The steps that launch on the island of the span."""
    shape = shape_of(span.run.plan)
    return shape.launches[shape.islands.index(span.island)]


def siblings(span: Span) -> list[Span]:
    """What is in flight of the same grant, on all islands; the span itself among them."""
    return [other for other in span.run.spans if other.first_step == span.first_step]


def retire(state: State, span: Span) -> bool:
    """Ends the span at the front of its window; False if it has to stay for a sibling on another island.

    A gang that may fail on one member alone is known to be good only when all of it has ended, and so is what other islands
    computed from it: they keep their place in the window until then.
    """
    run = span.run
    assert run.bound is not None
    ended = siblings(span) if run.bound.doubtful else [span]
    if any(other.remaining or other.island.inflight[0] is not other for other in ended):
        return False
    for other in ended:
        island = other.island
        island.inflight.popleft()
        island.inflight_gangs -= other.last - other.sequence + 1
        if other.times:
            bookings.settle(state, other)
        shares.retired(state, island, other, other.share)
        bookings.note_end(other)
        if island.fallible and island.fallible[0] is other:
            island.fallible.popleft()
        run.spans.remove(other)
        other.sent = []
        if other is not span:
            state.woken.append(island)
    if not run.spans:
        forget_if_over(state, run)
    return True


def forget_if_over(state: State, run: Run) -> None:
    """Out of the tables once nothing of it is in flight and nothing more will be granted."""
    if run.spans or (run.next_step < len(run.plan.steps) and run.state is ExecutionState.GRANTED):
        return
    if run.state is ExecutionState.GRANTED:
        state.move(run, ExecutionState.FINISHED)
    if run.reserved:
        admission.run_over(state, run)
    if run.counted:
        run.counted = False
        quotas.ended(state, run.definition.session.tenant)
    for island in shape_of(run.plan).islands:
        island.runs.pop(run.number, None)
    run.arguments = []
    run.results = []
