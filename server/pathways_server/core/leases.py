"""What lives on without its connection, and for how long: a session for its lease, a host for its grace.

Only time in which the controller was listening counts: it is added up from timer ticks, and of a pause between two ticks that no
listening controller makes, only a moment. So nobody is given up because the controller was stopped.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason

from . import listening, resource_manager, sessions
from .effects import HostGivenUp, LeaseEnded
from .link_events import HostDetached, LinkEvent, SessionDetached, SessionResumed
from .records import Absence, Host, Session
from .state import State

SECOND_NS = 1_000_000_000


def on_link_event(state: State, event: LinkEvent) -> None:
    """A connection broke or came back."""
    if isinstance(event, SessionDetached | SessionResumed):
        session = state.sessions.get(event.session)
        if session is None:
            state.ignore(event, "the session is not open")
        elif isinstance(event, SessionDetached):
            _leave(state, session, event.reason, state.config.lease_ns)
            state.log("session without connection", session=session.number, reason=event.reason)
        else:
            _return(state, session)
            state.log("session resumed", session=session.number)
        return
    host = state.hosts.get(event.host)
    if host is None or host.incarnation != event.incarnation:
        state.ignore(event, "older incarnation")
    elif isinstance(event, HostDetached):
        _leave(state, host, event.reason, state.config.grace_ns)
        state.log("host without connection", host=host.name, incarnation=host.incarnation, reason=event.reason)
    else:
        _return(state, host)
        state.log("host resumed", host=host.name, incarnation=host.incarnation)


def _leave(state: State, away: Session | Host, reason: str, limit_ns: int) -> None:
    if away.absence is None:
        away.absence = Absence(reason, state.now_ns, listening.now_ns(state) + limit_ns)
    state.away[away] = None


def _return(state: State, back: Session | Host) -> None:
    back.absence = None
    state.away.pop(back, None)


def on_time_passed(state: State) -> None:
    """Gives up who was away for too long."""
    for away in list(state.away):
        absence = away.absence
        there = state.sessions.get(away.number) if isinstance(away, Session) else state.hosts.get(away.name)
        if there is not away or absence is None:
            del state.away[away]
        elif absence.until_ns <= state.listened_ns:
            del state.away[away]
            if isinstance(away, Session):
                _end_lease(state, away, absence)
            else:
                _end_grace(state, away, absence)


def _end_lease(state: State, session: Session, absence: Absence) -> None:
    seconds = state.config.lease_ns / SECOND_NS
    sentence = f"its lease of {seconds:g} s ended without its connection coming back ({absence.reason})"
    state.effects.append(LeaseEnded(session.number, Failure(Reason.UNAVAILABLE, sentence)))
    sessions.close(state, session, f"its lease of {seconds:g} s ended")


def _end_grace(state: State, host: Host, absence: Absence) -> None:
    seconds = state.config.grace_ns / SECOND_NS
    reason = f"{absence.reason}, and it did not come back within {seconds:g} s"
    # First: nothing of what follows is for this incarnation.
    state.effects.append(HostGivenUp(host.name, host.incarnation, reason))
    resource_manager.give_up(state, host, reason)
