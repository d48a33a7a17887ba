"""Runs of programs with irregular nodes, from the request to the end: a walk takes no place in the session's own lanes.

Its results are PENDING until it has them, so everything that uses them waits for data alone. It ends when all its work was
granted and all its results are there, or with its first failure, which all missing results get. Events only note what
happened and wake the walk; what follows is done once, at the end of the step.
"""

from __future__ import annotations

from pathways_common.model.failure import Reason
from pathways_common.model.ids import GlobalId

from . import buffers, definitions, fences, runs, scheduler, walk_frames, walk_values
from .events import RunRequested
from .records import Buffer, Definition, Handle, Session
from .run_records import Run
from .state import State
from .transitions import BufferState
from .walk_records import Value, Walk


def start(state: State, event: RunRequested, session: Session, definition: Definition, arguments: list[Handle]) -> None:
    """Takes in a run with nothing wrong."""
    composite = definition.composite
    assert composite is not None
    body = composite.bodies[0]
    values = [Value(handle, body.laid[index], made=False) for index, handle in enumerate(arguments)]
    order = fences.enter(session, composite.slices)
    walk = Walk(
        event.run_id, state.number(), definition, composite, session, arguments, event.launch_id, order,
        walk_frames.frame_of(body, values), asked_ns=state.now_ns,
    )  # fmt: skip
    session.walks[walk.number] = walk
    definition.queued += 1
    for handle in arguments:
        walk_values.hold_argument(handle)
    for index, placed in enumerate(composite.result_specs):
        identifier = GlobalId(event.first_result_id + index)
        result = buffers.make(session, identifier, placed.placement, placed.spec.shard_bytes, BufferState.PENDING)
        result.spec = placed.spec
        result.pending = 1  # the walk
        walk.results.append(result)
    runs.end_donated(state, composite.name, arguments, event.donated)
    state.woken.append(walk)


def wake(state: State, walk: Walk) -> None:
    """Something that the walk may have waited for has come, or has failed."""
    if walk.over:
        return
    if walk.failure is None:
        complete = walk_frames.advance(state, walk, walk.root)
        if walk.failure is None:
            complete = walk_values.publish(state, walk) and complete
            if complete and not any(lane.queue for lane in walk.lanes.values()):
                _end(state, walk)
            return
    _fail(state, walk)


def owes(result: Buffer) -> bool:
    """Whether its walk has not given it a value; also of a result that was deleted before, or whose slice was released."""
    return result.state is BufferState.PENDING or (result.state is BufferState.FREED and result.failure is not None)


def cancel(state: State, walk: Walk) -> None:
    """It goes no further. What was granted is carried out."""
    if walk.failure is None:
        message = f"the client cancelled program {walk.composite.name}; run it again"
        walk.failure = state.failure(Reason.CANCELLED, message, program=walk.composite.name)
    state.woken.append(walk)


def drop(state: State, walk: Walk) -> None:
    """Its session has ended."""
    if walk.failure is None:
        walk.failure = state.failure(Reason.CANCELLED, "the session ended before the program was run")
    _fail(state, walk)


def _fail(state: State, walk: Walk) -> None:
    failure = walk.failure
    assert failure is not None
    for lane in walk.lanes.values():
        for run in list(lane.queue):
            assert isinstance(run, Run)
            if run.queued:
                runs.stop(state, run, failure)
    for result in walk.results:
        if result.state is BufferState.PENDING:
            buffers.poison(state, result, failure, tell_hosts=False)
    _end(state, walk)


def _end(state: State, walk: Walk) -> None:
    walk.over = True
    state.history.walk_over(state.now_ns, walk)
    session = walk.session
    del session.walks[walk.number]
    walk_frames.leave(state, walk.root)
    for lane in walk.lanes.values():
        scheduler.close_lane(state, lane)
    for handle in walk.arguments:
        walk_values.release_argument(state, handle)
    walk.arguments, walk.results = [], []
    fences.leave(state, session, walk.order)
    walk.definition.queued -= 1
    definitions.release_if_unused(state, walk.definition)
