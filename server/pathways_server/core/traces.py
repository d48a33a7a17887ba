"""Traces: what the hosts of a run remember of it, collected when a tool asks. The core itself remembers which runs there were.

A run with branches or loops is one trace of all its pieces, as many of the last ones as are remembered. What a session launched,
in runs or outside, is told by the executors of all islands that it uses or has used. To answer takes time of theirs: of
one session one question is open, until all have answered it or their epochs are over, however soon its asker was answered.
"""

from __future__ import annotations

from collections import deque

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId, SessionNumber, local_id, session_of

from .effects import CollectTrace, TracedNode, TracedPiece, TraceReady
from .events import TraceCollected, TraceRequested
from .plan import Launch
from .records import NO_SEQUENCE
from .run_records import Collection, Run, SessionQuestion, Traced, TracedRun
from .state import State

_NO_RUN = GlobalId(0)


def remember(state: State, run: Run) -> None:
    """A run is granted for the first time."""
    assert run.bound is not None
    walk = run.walk
    tenant = run.definition.session.tenant.name
    traced = TracedRun(run.id, run.plan, run.bound.hosts, run.label)
    if walk is None:
        state.traced.append(Traced(run.id, run.plan.name, run.requested_ns, state.now_ns, deque((traced,)), False, tenant))
    elif walk.traced is None:
        pieces = deque((traced,), state.config.traced_pieces_max)
        walk.traced = Traced(walk.id, walk.composite.name, run.requested_ns, state.now_ns, pieces, True, tenant)
        state.traced.append(walk.traced)
    else:
        walk.traced.runs.append(traced)
        walk.traced.granted_ns = state.now_ns
        walk.traced.count += 1


def on_trace_requested(state: State, event: TraceRequested) -> None:
    """By global id, or by the id that its session knows it by; 0 is the last run. A tenant is shown its own."""
    if event.session:
        _on_session_asked(state, event)
        return
    visible = [traced for traced in reversed(state.traced) if event.tenant in (None, traced.tenant)]
    found = next((traced for traced in visible if _is_asked(traced, event.execution_id)), None)
    if found is None:
        kept = state.config.traced_max
        message = f"run {event.execution_id} is not among the last {kept} that were granted; run the program again and ask soon"
        if not event.execution_id:
            message = "no program has been run yet; run one and ask again"
        _refuse(state, event, message)
        return
    runs = tuple(found.runs)
    collection = Collection(event.request_id, session_of(found.run_id), found, runs, state.now_ns + state.config.trace_ns)
    if not _is_room(state, collection):
        return
    for position, run in enumerate(runs):
        number = state.number()
        for index, host in enumerate(run.hosts):
            if state.hosts.get(host.name) is host:
                collection.due[host.name, number] = position, index
                state.tell(host, CollectTrace(number, run.run_id))
            else:
                collection.lost[host.name] = None
    _begin(state, collection)


def _on_session_asked(state: State, event: TraceRequested) -> None:
    """Everything that an open session launched; of what is not the tenant's nobody says whether it is there."""
    session = state.sessions.get(SessionNumber(event.session))
    if session is None or event.tenant not in (None, session.tenant.name):
        _refuse(state, event, f"session {event.session} is not open; `pathways status` lists those that are")
        return
    if _is_open(state, session.number):
        message = f"hosts are still answering an earlier question for session {session.number}; ask again when they have"
        _refuse(state, event, message, Reason.RESOURCE_EXHAUSTED)
        return
    islands = dict.fromkeys([*session.used.values(), *(lane.island for lane in session.lanes.values())])
    hosts = tuple(host for island in islands for host in island.members)
    everything = Traced(_NO_RUN, "", 0, 0, deque(), False, session.tenant.name)
    runs = (TracedRun(_NO_RUN, None, hosts, ""),)
    collection = Collection(event.request_id, session.number, everything, runs, state.now_ns + state.config.trace_ns)
    if not _is_room(state, collection):
        return
    for island in islands:
        there = [host.name for host in island.members]
        collection.lost.update(dict.fromkeys(name for name in island.seated if name not in there))
    number, after = state.number(), {(each.island, each.epoch): each.sequence for each in event.after}
    rows_max = max(1, state.config.trace_rows_max // max(1, len(hosts)))
    if hosts:
        state.asked[session.number] = SessionQuestion(number, {host.name: host.island.epoch for host in hosts})
    for index, host in enumerate(hosts):
        collection.due[host.name, number] = 0, index
        behind = after.get((host.island.name, host.island.epoch), NO_SEQUENCE)
        state.tell(host, CollectTrace(number, _NO_RUN, session.number, behind, rows_max))
    _begin(state, collection)


def _is_open(state: State, session: SessionNumber) -> bool:
    """Whether a host is still to answer the last question for the session; one whose epoch is over never does."""
    question = state.asked.get(session)
    if question is None:
        return False
    for name, epoch in question.due.items():
        host = state.hosts.get(name)
        if host is not None and host in host.island.members and host.island.epoch == epoch:
            return True
    del state.asked[session]
    return False


def _refuse(state: State, event: TraceRequested, message: str, reason: Reason = Reason.INVALID_ARGUMENT) -> None:
    failure = state.failure(reason, message, run=event.execution_id)
    state.effects.append(TraceReady(event.request_id, event.execution_id, 0, "", (), (), 0, 0, failure))


def _is_room(state: State, collection: Collection) -> bool:
    message = state.collecting.refusal(collection.session, collection.traced.tenant, "questions for traces")
    if not message:
        return True
    _answer(state, collection, state.failure(Reason.RESOURCE_EXHAUSTED, message))
    return False


def _begin(state: State, collection: Collection) -> None:
    if collection.due:
        state.collections[state.number()] = collection
        state.collecting.enter(collection.session, collection.traced.tenant)
    else:
        _answer(state, collection, None)


def _is_asked(traced: Traced, identifier: int) -> bool:
    return identifier in (0, traced.run_id, local_id(traced.run_id))


def on_trace_collected(state: State, event: TraceCollected) -> None:
    key = event.host, event.trace_id
    question = next((each for each in state.asked.values() if each.trace_id == event.trace_id), None)
    if question is not None:
        question.due.pop(event.host, None)
    number, collection = next(((each, found) for each, found in state.collections.items() if key in found.due), (0, None))
    if collection is None:
        state.ignore(event, "no such trace is being collected")
        return
    position, index = collection.due.pop(key)
    island = collection.runs[position].hosts[index].island.name
    collection.answers.append((position, index, event.host, island, event.payload))
    if not collection.due:
        _forget(state, number)
        _answer(state, collection, None)


def _forget(state: State, number: int) -> None:
    collection = state.collections.pop(number)
    state.collecting.leave(collection.session, collection.traced.tenant)


def _answer(state: State, collection: Collection, failure: Failure | None) -> None:
    traced, runs = collection.traced, collection.runs
    answers = tuple((host, island, payload) for _, _, host, island, payload in sorted(collection.answers))
    state.effects.append(
        TraceReady(
            collection.request_id, traced.run_id, collection.session, traced.program,
            tuple(node for run in runs for node in _nodes(run)), answers, traced.requested_ns, traced.granted_ns, failure,
            tuple(TracedPiece(run.run_id, run.label) for run in runs) if traced.walk else (), traced.count if traced.walk else 0,
            tuple(dict.fromkeys(host for host, _ in collection.due)), tuple(collection.lost),
        )
    )  # fmt: skip


def _nodes(run: TracedRun) -> list[TracedNode]:
    found: list[TracedNode] = []
    for step in run.plan.steps if run.plan is not None else ():
        if isinstance(step, Launch):
            assert run.plan is not None
            node = run.plan.nodes[step.node]
            found.append(TracedNode(step.node, node.name, node.source, step.executable.placement.island.name, run.run_id))
    return found


def expire(state: State) -> None:
    """Answers with what has come. All wait equally long, so the oldest are first."""
    for session in list(state.asked):
        _is_open(state, session)  # else forgotten
    while state.collections:
        number, collection = next(iter(state.collections.items()))
        if collection.deadline_ns > state.now_ns:
            return
        _forget(state, number)
        _answer(state, collection, None)
