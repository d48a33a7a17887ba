"""Fences: answered when everything that its session asked for before was granted or has failed.

Operations that are not granted at once carry an order number; numbers only rise, so the oldest one left decides. The
release of a slice waits for those before it that use the slice, and for no others: a long loop elsewhere does not hold it up.
"""

from __future__ import annotations

from .effects import FenceReached
from .events import FenceRequested
from .records import Fence, Session, Slice
from .state import State


def enter(session: Session, slices: tuple[int, ...]) -> int:
    """The order number of an operation that is not granted yet; `slices` are the numbers of those that it uses, or 0."""
    session.order += 1
    session.ungranted[session.order] = slices
    return session.order


def leave(state: State, session: Session, order: int) -> None:
    """The operation was granted or failed."""
    session.ungranted.pop(order, None)
    if session.fences:
        _answer(state, session)
    if session.releases:
        for released, before in list(session.releases.items()):
            before.pop(order, None)
            _release(state, session, released, before)


def _answer(state: State, session: Session) -> None:
    oldest = next(iter(session.ungranted), None)
    while session.fences and (oldest is None or session.fences[0].order <= oldest):
        state.reply(session, FenceReached(session.fences.popleft().fence_id))


def _release(state: State, session: Session, released: Slice, before: dict[int, None]) -> None:
    if not before:
        del session.releases[released]
        state.woken.append(released)


def release_behind(state: State, session: Session, ended: Slice) -> None:
    """Has the slice looked at once everything on it that was asked for before was granted or has failed."""
    before = {order: None for order, slices in session.ungranted.items() if ended.number in slices}
    session.releases[ended] = before
    _release(state, session, ended, before)


def on_fence_requested(state: State, event: FenceRequested, session: Session) -> None:
    """Beyond the bound the oldest fence is dropped: the door has stopped reading answers long before."""
    if len(session.fences) >= state.config.fences_max:
        session.fences.popleft()
        state.log("fence dropped", session=session.number, fences=state.config.fences_max)
    session.fences.append(Fence(event.fence_id, session.order + 1))
    _answer(state, session)
