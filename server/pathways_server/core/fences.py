"""Fences: answered when everything that its session asked for before was granted or has failed.

Operations that are not granted at once carry an order number; numbers only rise, so the oldest one left decides. The
release of a slice waits in the same way.
"""

from __future__ import annotations

from .effects import FenceReached
from .events import FenceRequested
from .records import Fence, Session, Slice
from .state import State


def enter(session: Session) -> int:
    """The order number of an operation that is not granted yet."""
    session.order += 1
    session.ungranted[session.order] = None
    return session.order


def leave(state: State, session: Session, order: int) -> None:
    """The operation was granted or failed."""
    session.ungranted.pop(order, None)
    if session.fences or session.releases:
        _answer(state, session)


def _answer(state: State, session: Session) -> None:
    oldest = next(iter(session.ungranted), None)
    while session.fences and (oldest is None or session.fences[0].order <= oldest):
        state.reply(session, FenceReached(session.fences.popleft().fence_id))
    while session.releases and (oldest is None or session.releases[0][0] <= oldest):
        state.woken.append(session.releases.popleft()[1])


def release_behind(state: State, session: Session, ended: Slice) -> None:
    """Has the slice looked at once everything that was asked for before was granted or has failed."""
    session.releases.append((session.order + 1, ended))
    _answer(state, session)


def on_fence_requested(state: State, event: FenceRequested, session: Session) -> None:
    """Beyond the bound the oldest fence is dropped: the door has stopped reading answers long before."""
    if len(session.fences) >= state.config.fences_max:
        session.fences.popleft()
        state.log("fence dropped", session=session.number, fences=state.config.fences_max)
    session.fences.append(Fence(event.fence_id, session.order + 1))
    _answer(state, session)
