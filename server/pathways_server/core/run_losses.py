"""What goes wrong with runs: a failed node or a lost island, named by the node; and who depends on it, across islands.

A failure of a node poisons the results that need it and everything granted that was computed from those; nothing of the run
that is not granted yet is granted any more. The end of an epoch ends the runs of the island; what their gangs made whole
elsewhere stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId

from . import buffers, fusion, plans, runs, spans
from .effects import Poison
from .events import NodeFailed
from .plan import Group, Launch, Plan
from .records import Buffer, Execution, Host, Island, Placement
from .run_records import Run, Span
from .state import State
from .transitions import BufferState, ExecutionState

_CALLS_MAX = 4  # that a sentence about several nodes lists
MAY_FOLLOW = (Reason.UNAVAILABLE, Reason.SLICE_LOST, Reason.BUFFER_LOST)

# ---- names ------------------------------------------------------------------------------------------------------------


def words(plan: Plan, step: int) -> str:
    """Which node of which program a launch is, for people."""
    launch = plan.steps[step]
    assert isinstance(launch, Launch)
    node = plan.nodes[launch.node]
    order = spans.shape_of(plan).order
    where = f", called at {node.source}" if node.source else ""
    return f"node {order.index(step) + 1} of {len(order)} ({node.name}{where}) of program {plan.name}"


def named(span: Span, step: int, cause: Failure) -> Failure:
    """The same failure, saying which node of the program it happened to, or which nodes that ran as one executable."""
    plan = span.run.plan
    group = fusion.group_at(span, step)
    if group is not None:
        return _named_group(plan, group, cause)
    launch = plan.steps[step]
    assert isinstance(launch, Launch)
    node = plan.nodes[launch.node]
    order = spans.shape_of(plan).order
    number, count = order.index(step) + 1, len(order)
    message = f"{words(plan, step)} failed: {cause.message}"
    facts = {"node": str(number), "node_count": str(count), "program": plan.name, "source": node.source}
    return replace(cause, message=message, metadata=MappingProxyType({**cause.metadata, **facts}))


def _named_group(plan: Plan, group: Group, cause: Failure) -> Failure:
    order = spans.shape_of(plan).order
    first, count = order.index(group.first_step) + 1, len(order)
    last = order.index(group.end_step - 1) + 1
    nodes = [plan.nodes[launch.node] for step in order[first - 1 : last] if isinstance(launch := plan.steps[step], Launch)]
    calls = list(dict.fromkeys(f"{node.name}, called at {node.source}" if node.source else node.name for node in nodes))
    shown = "; ".join(calls if len(calls) <= _CALLS_MAX else (*calls[: _CALLS_MAX - 1], "...", calls[-1]))
    message = (
        f"nodes {first}-{last} of {count} ({shown}) of program {plan.name} failed; they ran as one executable, so which of them"
        f" it was is not known (pw.program(fuse=False) tells): {cause.message}"
    )
    facts = {
        "node": str(first), "last_node": str(last), "node_count": str(count), "program": plan.name, "source": nodes[0].source
    }  # fmt: skip
    return replace(cause, message=message, metadata=MappingProxyType({**cause.metadata, **facts}))


# ---- a failed node ----------------------------------------------------------------------------------------------------


def inputs(gang: Execution | Run) -> list[Buffer]:
    return [part.buffer for handle in gang.arguments for part in buffers.parts_of(handle)]


def on_node_failed(state: State, host: Host, span: Span, event: NodeFailed) -> None:
    """A host reports a node of a run. What follows from a failure that is known keeps that one."""
    run = span.run
    step = spans.step_at(span, event.sequence)
    failure = known_cause(span, event) or named(span, step, event.failure)
    affected = [run.results[index] for index in sorted(_affected(span, step))]
    touched = poison_results(state, affected, failure, host)
    if run.queued:
        runs.stop(state, run, failure)
    elif run.failure is None:
        run.failure = failure
        state.history.failed(state.now_ns, run, failure)
    spread(state, [host.island, *touched])


def _affected(span: Span, step: int) -> frozenset[int]:
    """Positions of the results that need what was launched for a step."""
    group = fusion.group_at(span, step)
    if group is None:
        return plans.affected_by_step(span.run.plan, step)
    return plans.affected_by_group(span.run.plan, group)


def known_cause(span: Span, event: NodeFailed) -> Failure | None:
    """What the node's failure follows from, if the core knows: a failed argument, or what ended the run."""
    run = span.run
    step = spans.step_at(span, event.sequence)
    group = fusion.group_at(span, step)
    affected = _affected(span, step)
    for index, handle in enumerate(run.arguments):
        cause = next((part.buffer.failure for part in buffers.parts_of(handle) if part.buffer.failure is not None), None)
        if cause is None:
            continue
        if group is None and affected <= plans.affected_by_argument(run.plan, index):
            return cause
        if group is not None and plans.group_needs(run.plan, group, index):
            return cause
    known = run.failure
    if known is None or (known.id and known.id == event.failure.id):
        return known
    return known if run.state is ExecutionState.FAILED and event.failure.reason in MAY_FOLLOW else None


def poison_results(state: State, results: Iterable[Buffer], failure: Failure, reporter: Host | None) -> list[Island]:
    """Tells members too, so that a read that waits there ends; the reporter knows already. Returns where something changed."""
    live: dict[int, tuple[Placement, list[Buffer]]] = {}
    touched: dict[str, Island] = {}
    for result in results:
        placement = result.placement
        if placement is None:
            continue
        if result.state is BufferState.PRESENT:
            live.setdefault(id(placement), (placement, []))[1].append(result)
        elif result.state is BufferState.CONSUMED and result.failure is None:
            result.failure = failure  # so that the gang it was donated to inherits the cause
        elif result.state is BufferState.EXPECTED:
            buffers.poison(state, result, failure, tell_hosts=False)
        else:
            continue
        touched[placement.island.name] = placement.island
    for placement, poisoned in live.values():
        command = Poison(tuple(GlobalId(result.id) for result in poisoned), failure)
        for host in placement.hosts:
            if host is not reporter:
                state.tell(host, command)
        for result in poisoned:
            buffers.poison(state, result, failure, tell_hosts=False)
    return list(touched.values())


def spread(state: State, islands: list[Island]) -> None:
    """Everything granted that was computed from a failed value has failed with the same cause, on whatever island."""
    due = deque(islands)
    while due:
        island = due.popleft()
        for gang in list(island.inflight):
            if isinstance(gang, Execution):
                cause = next((buffer.failure for buffer in inputs(gang) if buffer.failure is not None), None)
                if cause is not None and poison_results(state, gang.results, cause, None):
                    state.history.failed(state.now_ns, gang, cause)
            else:
                due.extend(other for other in _inherit(state, gang.run) if other is not island)


def _inherit(state: State, run: Run) -> list[Island]:
    """The results of a run that need a failed argument. Of one that was ended, what stayed is whole."""
    touched: list[Island] = []
    if run.state is ExecutionState.FAILED:
        return touched
    first = None
    for index, handle in enumerate(run.arguments):
        cause = next((part.buffer.failure for part in buffers.parts_of(handle) if part.buffer.failure is not None), None)
        if cause is not None:
            first = first or cause
            affected = [run.results[position] for position in sorted(plans.affected_by_argument(run.plan, index))]
            touched += poison_results(state, affected, cause, None)
    if first is not None and run.queued:
        runs.stop(state, run, first)
    return touched


# ---- a lost island ----------------------------------------------------------------------------------------------------


def lose(state: State, island: Island, lost: Host, finished_through: int, cause: Failure) -> list[Island]:
    """The epoch of an island has ended, and with it every run that has a part there. Returns other islands with failed values."""
    touched: list[Island] = []
    for run in list(island.runs.values()):
        failure = _cause_of(run, island, lost, finished_through, cause)
        gone = [result for index, result in enumerate(run.results) if not _is_made(run, index, island)]
        _leave(state, run, island)
        for result in gone:
            if result.placement is not None and result.placement.island is island:
                buffers.poison(state, result, failure, tell_hosts=False)
        touched += poison_results(state, [result for result in gone if result.state is not BufferState.POISONED], failure, None)
        if run.state is not ExecutionState.FAILED:
            runs.stop(state, run, failure)
        spans.forget_if_over(state, run)
    island.runs.clear()
    for other in touched:
        state.woken.append(other)
    return [other for other in touched if other is not island]


def fail_unmade(state: State, run: Run, island: Island, lost: Host, finished_through: int, cause: Failure) -> list[Island]:
    """What a run has not made will not be; its gangs keep their places until the epoch has ended. Returns as `lose` does."""
    failure = _cause_of(run, island, lost, max(lost.finished_through, finished_through), cause)
    gone = [result for index, result in enumerate(run.results) if not _is_made(run, index, island)]
    touched = poison_results(state, gone, failure, None)
    runs.stop(state, run, failure)
    return touched


def _leave(state: State, run: Run, island: Island) -> None:
    """Takes the gangs of a run off an island; those elsewhere that kept their place for them are looked at again."""
    run.spans = [span for span in run.spans if span.island is not island]
    state.woken.extend({span.island.name: span.island for span in run.spans}.values())


def forget(state: State, island: Island) -> None:
    """The epoch of an island ended that no session uses: nobody asks for what its runs would have made."""
    for run in list(island.runs.values()):
        _leave(state, run, island)
        spans.forget_if_over(state, run)
    island.runs.clear()
    island.paced.clear()


def _cause_of(run: Run, island: Island, lost: Host, finished_through: int, cause: Failure) -> Failure:
    """Names the first node that the lost host had not finished; else the first that nobody there had."""
    for span in run.spans:
        if span.island is not island:
            continue
        for step, sequence in spans.own_launches(span, lost):
            if sequence > finished_through:
                return named(span, step, cause)
    for span in run.spans:
        if span.island is island:
            return named(span, spans.step_at(span, span.sequence), cause)
    message = f"program {run.plan.name} could not go on: {cause.message}"
    facts = {**cause.metadata, "program": run.plan.name}
    return replace(cause, message=message, metadata=MappingProxyType(facts))


def _is_made(run: Run, position: int, lost: Island) -> bool:
    """Whether a result was computed by all members of its gang, as far as can be known, and does not live on the lost island."""
    assert run.bound is not None
    shape = spans.shape_of(run.plan)
    step, index = shape.made[position], shape.made_on[position]
    if step >= run.next_step:
        return False
    span = next(
        (span for span in run.spans if span.island is shape.islands[index] and span.first_step <= step < span.end_step), None
    )
    if span is None:
        return True  # retired; if it lived on the lost island, it is lost like every array there
    if run.bound.doubtful:
        return False
    sequence = spans.sequence_of(span, step)
    launch = run.plan.steps[step]
    assert isinstance(launch, Launch)
    return all(host.finished_through >= sequence for host in launch.executable.placement.hosts)


def failure_of(gang: Execution | Span, sequence: int) -> Failure | None:
    """Why nothing that is launched under this sequence can be read; None if something may be."""
    if isinstance(gang, Execution):
        made = gang.results
    else:
        made = [gang.run.results[index] for index in sorted(_affected(gang, spans.step_at(gang, sequence)))]
    failures = [buffer.failure for buffer in made]
    return failures[0] if failures and all(failure is not None for failure in failures) else None
