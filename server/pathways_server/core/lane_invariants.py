"""What must hold of work that waits in lanes, after every step; invariants.py checks these with all the others."""

from __future__ import annotations

from collections.abc import Callable

from . import windows
from .records import Buffer, Execution, Session, View
from .run_records import Run
from .state import State
from .transitions import BufferState, ExecutionState, IslandState
from .walk_records import Walk


def waiting(session: Session) -> list[Execution | Run]:
    """What stands in the lanes, each once."""
    owners: list[Session | Walk] = [session, *session.walks.values()]
    queues = [lane.queue for owner in owners for lane in owner.lanes.values() if lane.queue]
    if not queues:
        return []
    return list({id(work): work for queue in queues for work in queue}.values())


def arguments(work: Execution | Run | Walk) -> list[Buffer]:
    found: list[Buffer] = []
    for handle in work.arguments:
        found.extend([part.buffer for part in handle.parts] if isinstance(handle, View) else [handle])
    return found


def lanes_are_blocked_or_in_line(state: State) -> None:
    """A lane with work is in line once, or blocked; nobody is in line unless the window is full or too full for a run."""
    for island in state.islands.values():
        ring = [lane for lane in island.line if lane.island is island]
        for lane in island.lanes.values():
            assert ring.count(lane) <= 1, f"island {island.name}: session {lane.session.number} is in line twice"
            assert not (lane.queue and lane.blocked == (lane in ring)), (
                f"island {island.name}: session {lane.session.number} is stuck"
            )
            for work in lane.queue:
                waits = work.state is ExecutionState.QUEUED or isinstance(work, Run)
                assert waits, f"execution {work.id} waits and is {work.state.name}"
        if any(lane.queue for lane in ring) and island.state is IslandState.ACTIVE:
            held = any(isinstance(lane.queue[0], Run) for lane in ring) and island.inflight_gangs > 0
            held = held or island.inflight_ns >= state.config.window_ns > 0
            held = held or island.inflight_joint >= state.config.window_joint_short  # by one policy, and by others twice as many
            held = held or (len(island.ground.islands) > 1 and windows.busy_of(island.ground) is not None)
            assert held or island.inflight_gangs >= state.config.window_gangs, (
                f"island {island.name}: work waits and there is room"
            )


def work_that_waits_may_still_be_done(state: State) -> None:
    """Nothing is in a lane that has lost an argument, but in a long queue: whoever asked for it hears of that at once."""
    for session in state.sessions.values():
        if session.failed_values:
            continue
        for work in waiting(session):
            for buffer in arguments(work) if work.state is ExecutionState.QUEUED else ():
                assert buffer.state is not BufferState.POISONED, f"execution {work.id} waits and has lost array {buffer.id}"


def expected_buffers_have_a_queued_execution(state: State) -> None:
    made: dict[int, None] = {}
    for session in state.sessions.values():
        for work in waiting(session):
            made.update((result.id, None) for result in work.results)
    for session in state.sessions.values():
        expected = [buffer for buffer in session.buffers.values() if buffer.state is BufferState.EXPECTED]
        for buffer in expected:
            assert buffer.id in made, f"nothing will make buffer {buffer.id}"


ALL: tuple[Callable[[State], None], ...] = (
    lanes_are_blocked_or_in_line,
    work_that_waits_may_still_be_done,
    expected_buffers_have_a_queued_execution,
)
