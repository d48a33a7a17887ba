"""Work that waits and has lost an argument fails at once, by the same cause, whatever it waits for and wherever it stands.

Its turn may be far away: an island whose host is gone, a program that is compiled, a quota. Looked at before a step ends in which
a value failed that somebody has a use for; what was granted, also in part, has had its arguments. Of long queues: see LOOKS.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure

from . import buffers, runs, scheduler
from .records import Execution, Session
from .run_records import Run
from .state import State
from .transitions import BufferState, ExecutionState
from .walk_records import Walk

# A value that failed costs looks at no more than so many works that wait, on the average: where values fail one by one beside a
# long queue, it is looked at when enough of them have failed. Until then what has lost an argument fails in its turn.
LOOKS = 64


def look(state: State) -> None:
    """What this fails may be an argument of other work, which is looked at next."""
    while state.failing:
        session = state.failing.pop(next(iter(state.failing)))
        if session.failed_values * LOOKS >= len(session.ungranted):
            session.failed_values = 0
            _look(state, session)


def _look(state: State, session: Session) -> None:
    owners: list[Session | Walk] = [session, *session.walks.values()]
    waiting = {id(work): work for owner in owners for lane in owner.lanes.values() for work in lane.queue}
    # In the order in which they were asked for: an argument is older than what needs it, so nothing is looked at twice.
    for work in sorted(waiting.values(), key=lambda work: work.order):
        failure = failure_of(work)
        if failure is None:
            continue
        if isinstance(work, Execution):
            scheduler.withdraw(state, work, failure)
        else:
            runs.fail(state, work, failure)


def failure_of(work: Execution | Run) -> Failure | None:
    """Why work that nothing was granted of will never be; None if it may."""
    if work.state is not ExecutionState.QUEUED:
        return None
    parts = (part for handle in work.arguments for part in buffers.parts_of(handle))
    return next((part.buffer.failure for part in parts if part.buffer.state is BufferState.POISONED), None)
