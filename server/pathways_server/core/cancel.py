"""Cancelling: what makes the named values and is not wholly granted ends with CANCELLED. What was granted is never withdrawn.

A walk goes no further: a loop ends between two iterations.
"""

from __future__ import annotations

from pathways_common.model.failure import Reason

from . import buffers, runs, scheduler, walks
from .events import CancelRequested
from .records import Buffer, Execution, Session
from .state import State


def on_cancel_requested(state: State, event: CancelRequested, session: Session) -> None:
    named: dict[int, Buffer] = {}
    for identifier in event.views:
        handle = session.handles.get(identifier)
        if handle is not None:
            named.update((part.buffer.id, part.buffer) for part in buffers.parts_of(handle))
    failure = None
    for lane in list(session.lanes.values()):
        for work in list(lane.queue):
            if not any(result.id in named for result in work.results):
                continue
            if failure is None:
                failure = state.failure(Reason.CANCELLED, "the client cancelled what makes the array; run it again")
            if isinstance(work, Execution):
                scheduler.withdraw(state, work, failure)
            elif work.queued:
                runs.stop(state, work, failure)
    for walk in session.walks.values():
        if any(result.id in named and walks.owes(result) for result in walk.results):
            walks.cancel(state, walk)
