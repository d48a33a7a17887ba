"""Traces: what the hosts of a run remember of it, collected when a tool asks. The core itself remembers which runs there were."""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import local_id, session_of

from .effects import CollectTrace, TracedNode, TraceReady
from .events import TraceCollected, TraceRequested
from .plan import Launch, Plan
from .run_records import Collection, Run, Traced
from .state import State


def remember(state: State, run: Run) -> None:
    """A run is granted for the first time."""
    assert run.bound is not None
    state.traced.append(Traced(run.id, run.plan, run.bound.hosts, run.requested_ns, state.now_ns))


def on_trace_requested(state: State, event: TraceRequested) -> None:
    """By global id, or by the id that its session knows it by; 0 is the last run."""
    found = next((traced for traced in reversed(state.traced) if _is_asked(traced, event.execution_id)), None)
    if found is None:
        kept = state.config.traced_max
        message = f"run {event.execution_id} is not among the last {kept} that were granted; run the program again and ask soon"
        if not event.execution_id:
            message = "no program has been run yet; run one and ask again"
        failure = state.failure(Reason.INVALID_ARGUMENT, message, run=event.execution_id)
        state.effects.append(TraceReady(event.request_id, event.execution_id, 0, "", (), (), 0, 0, failure))
        return
    if len(state.collections) >= state.config.calls_max:
        failure = state.failure(Reason.RESOURCE_EXHAUSTED, "too many traces are being collected; ask again later")
        _answer(state, Collection(event.request_id, found, 0, {}), failure)
        return
    collection = Collection(event.request_id, found, state.now_ns + state.config.trace_ns, {})
    number = state.number()
    for host in found.hosts:
        if state.hosts.get(host.name) is host:
            collection.due[host.name] = None
            state.tell(host, CollectTrace(number, found.run_id))
    if collection.due:
        state.collections[number] = collection
    else:
        _answer(state, collection, None)


def _is_asked(traced: Traced, identifier: int) -> bool:
    return identifier in (0, traced.run_id, local_id(traced.run_id))


def on_trace_collected(state: State, event: TraceCollected) -> None:
    collection = state.collections.get(event.trace_id)
    if collection is None or event.host not in collection.due:
        state.ignore(event, "no such trace is being collected")
        return
    del collection.due[event.host]
    island = next(host.island.name for host in collection.traced.hosts if host.name == event.host)
    collection.answers.append((event.host, island, event.payload))
    if not collection.due:
        del state.collections[event.trace_id]
        _answer(state, collection, None)


def _answer(state: State, collection: Collection, failure: Failure | None) -> None:
    traced = collection.traced
    order = {host.name: index for index, host in enumerate(traced.hosts)}
    answers = tuple(sorted(collection.answers, key=lambda answer: order[answer[0]]))
    state.effects.append(
        TraceReady(
            collection.request_id, traced.run_id, session_of(traced.run_id), traced.plan.name, _nodes(traced.plan), answers,
            traced.requested_ns, traced.granted_ns, failure,
        )
    )  # fmt: skip


def _nodes(plan: Plan) -> tuple[TracedNode, ...]:
    found: list[TracedNode] = []
    for step in plan.steps:
        if isinstance(step, Launch):
            node = plan.nodes[step.node]
            found.append(TracedNode(step.node, node.name, node.source, step.executable.placement.island.name))
    return tuple(found)


def expire(state: State) -> None:
    """Answers with what has come. All wait equally long, so the oldest are first."""
    while state.collections:
        number, collection = next(iter(state.collections.items()))
        if collection.deadline_ns > state.now_ns:
            return
        del state.collections[number]
        _answer(state, collection, None)
