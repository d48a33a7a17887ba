"""Work that waits and has lost an argument fails at once, by the same cause, whatever it waits for and wherever it stands.

Its turn may be far away: an island whose host is gone, a program that is compiled, a quota. Looked at before a step ends in which
a value failed that somebody has a use for; what was granted, also in part, has had its arguments.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure

from . import buffers, runs, scheduler
from .records import Execution, Session
from .run_records import Run
from .state import State
from .transitions import BufferState, ExecutionState
from .walk_records import Walk


def look(state: State) -> None:
    """What this fails may be an argument of other work, which is looked at next."""
    while state.failing:
        number = next(iter(state.failing))
        _look(state, state.failing.pop(number))


def _look(state: State, session: Session) -> None:
    owners: list[Session | Walk] = [session, *session.walks.values()]
    for lane in [lane for owner in owners for lane in owner.lanes.values()]:
        for work in list(lane.queue):
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
