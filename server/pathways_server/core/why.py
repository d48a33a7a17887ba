"""Why something does not go on, in sentences and as data: a session, a piece of work, or a slice.

`tenant` is who asks, None for an administrator: it is shown what is its own, and of others only that there is somebody.
The first sentence is the answer. Each further one names one thing that is waited for, who has it, since when, and until when.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from pathways_common.model.ids import GlobalId, SessionNumber, local_id, session_of

from . import drains, listening, migrations, obstacles, resource_manager, sessions, slices, work
from .obstacles import Reason, WaitKind
from .records import Session, Slice
from .state import State
from .tenant_records import TenantName
from .transitions import BufferState, IslandState, SliceState
from .work import WorkRow

_WORK_SHOWN = 20
SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Answer:
    """`estimate_ns`: about how long until it begins; None: not known. `known`: False if there is no such thing."""

    sentences: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()
    rows: tuple[WorkRow, ...] = ()
    estimate_ns: int | None = None
    known: bool = True


def of_session(state: State, now_ns: int, number: SessionNumber, tenant: TenantName | None) -> Answer:
    """A session by its number; of another tenant as if it did not exist."""
    session = _visible(state, number, tenant)
    if session is None:
        return _unknown(f"session {number} is not open")
    if number in state.pending:
        return _pending(state, now_ns, session)
    rows = tuple(work.of_session(state, session, _WORK_SHOWN, tenant))
    requests = [wanted for wanted in session.slices.values() if wanted.state is SliceState.WAITING]
    waiting = [row for row in rows if row.reason is not None and row.reason.kind is not WaitKind.EARLIER_WORK]
    reasons = [row.reason for row in waiting if row.reason is not None]
    reasons += [reason for wanted in requests for reason in obstacles.of_slice(state, wanted, tenant)]
    pending = sum(buffer.state is BufferState.PENDING for buffer in session.buffers.values())
    known = {reason.what for reason in reasons}
    # A client waits for a program of several, and asks for work when it has it.
    loads = [reason for reason in islice(obstacles.of_loads(state, session), _WORK_SHOWN) if reason.what not in known]
    moving = [*loads, *([] if reasons else islice(obstacles.of_bytes(state, session), _WORK_SHOWN))]
    running = sum(row.state == "RUNNING" for row in rows)
    client = f" ({session.client})" if session.client else ""
    what = f"session {number}{client} of tenant {session.tenant.name}{_absent(state, session, now_ns)}{migrations.words(session)}"
    if not rows and not requests:
        tail = f"; the bytes of {pending} arrays are on their way" if pending else ""
        head = "has no work" if moving else "waits for nothing here: it has no work"
        head = f"{what} {head} in line or in flight, its client asks for none{tail}"
        return Answer((head, *(_sentence(reason, now_ns) for reason in moving)), tuple(moving))
    more = " or more" if len(rows) == _WORK_SHOWN else ""
    pieces = "one piece" if len(rows) == 1 else f"{len(rows)}{more} pieces"
    head = f"{what} has {pieces} of work in line or in flight, {running} begun"
    head += f"; {len(requests)} of its requests for devices wait" if requests else ""
    if not reasons and not moving:
        head += "; nothing holds them up but the work itself"
    told = [_told(row, row.reason, now_ns) for row in waiting if row.reason is not None]
    told += [_sentence(reason, now_ns) for wanted in requests for reason in obstacles.of_slice(state, wanted, tenant)]
    told += [_sentence(reason, now_ns) for reason in moving]
    return Answer((head, *told), (*reasons, *moving), rows)


def of_work(state: State, now_ns: int, identifier: GlobalId, tenant: TenantName | None) -> Answer:
    """An execution or run by its global id."""
    number = session_of(identifier)
    session = _visible(state, number, tenant)
    name = obstacles.name_of(identifier)
    if session is None:
        return _unknown(f"{name} is of session {number}, which is not open")
    row = work.find(state, session, identifier, tenant)
    if row is None:
        if identifier <= session.last_execution and local_id(identifier):
            return _unknown(f"{name} is over, or was never asked for: it is neither in line nor in flight")
        return _unknown(f"session {number} has not asked for {name}")
    what = f"{row.kind.lower()} {name} ({row.name})"
    if row.reason is None:
        return Answer((f"{what} waits for nothing: {_running(row, now_ns)}",), (), (row,))
    begun = f"{row.steps_granted} of {row.steps} steps are granted; the next" if row.steps_granted else "it"
    place = f"; it is number {row.position} in its session's line" if row.position > 1 else ""
    head = f"{what} waits: {begun} waits for {row.reason.what}{place}"
    return Answer((head, _sentence(row.reason, now_ns)), (row.reason,), (row,), row.estimate_ns)


def of_slice(state: State, now_ns: int, number: SessionNumber, slice_id: int, tenant: TenantName | None) -> Answer:
    """A virtual slice by its session's number and its own."""
    session = _visible(state, number, tenant)
    wanted = session.slices.get(slice_id) if session is not None else None
    name = f"slice {number}.{slice_id}"
    if session is None or wanted is None:
        return _unknown(f"there is no {name}; it was refused, released, or never asked for")
    if wanted.state is SliceState.WAITING:
        reasons = tuple(obstacles.of_slice(state, wanted, tenant))
        ahead = [other for other in state.slices.values() if other.state is SliceState.WAITING]
        place = ahead.index(wanted) + 1
        line = f"; it is number {place} of {len(ahead)} requests that wait" if len(ahead) > 1 else ""
        head = f"{name} waits for {slices.words_for(state, wanted, tenant)}{line}"
        return Answer((head, *(_sentence(reason, now_ns) for reason in reasons)), reasons)
    where = f"{len(wanted.positions)} devices of island {wanted.island.name}" if wanted.island is not None else "no devices"
    if wanted.state is SliceState.RELEASING:
        left = len(session.releases.get(wanted, {}))
        return Answer(
            (f"{name} was given back and keeps {where} until {left} pieces of work that were asked for before are granted",)
        )
    return Answer((f"{name} waits for nothing: it has {where}, {_use(wanted)}",))


def _absent(state: State, session: Session, now_ns: int) -> str:
    """Nobody reads its answers for now, and how long it lives on like that."""
    absence = session.absence
    if absence is None:
        return ""
    left_ns = max(absence.until_ns - listening.now_ns(state), 0)
    gone = f"{absence.reason} {_seconds(now_ns - absence.since_ns)} ago"
    return f", which has no connection ({gone}; its lease has {_seconds(left_ns)} left)"


def _use(held: Slice) -> str:
    return "which no other session may use" if held.request.exclusive else "which other sessions may share"


def _visible(state: State, number: SessionNumber, tenant: TenantName | None) -> Session | None:
    session = state.sessions.get(number)
    return session if session is not None and tenant in (None, session.tenant.name) else None


def _unknown(sentence: str) -> Answer:
    return Answer((sentence,), known=False)


def _pending(state: State, now_ns: int, session: Session) -> Answer:
    """It has not been given an island yet."""
    named = [name for name in session.wanted if name != "*"]
    awaited = sessions.awaited(state, session)
    lacking = [each for each in awaited if each.state is not IslandState.ACTIVE or drains.is_leaving(state, each)]
    reasons = tuple(
        Reason(
            WaitKind.ISLAND,
            f"island {each.name} to be ACTIVE",
            resource_manager.lacks(state, each),
            session.opened_ns,
            session.deadline_ns,
        )
        for each in lacking
    )
    unknown = [f"island {name}, of which no host has joined" for name in named if name not in state.islands]
    if not reasons and not unknown:
        unknown = ["a first host"]
    what = obstacles.listed([*(reason.what for reason in reasons), *unknown])
    head = f"session {session.number} is not open yet: it waits for {what}"
    return Answer((head, *(_sentence(reason, now_ns) for reason in reasons)), reasons)


def _running(row: WorkRow, now_ns: int) -> str:
    hosts = f" on {obstacles.listed(list(row.islands))}" if row.islands else ""
    parts = [f"it runs{hosts}, asked for {_seconds(now_ns - row.since_ns)} ago"]
    if row.finished:
        parts.append(f"hosts {obstacles.listed(list(row.finished))} have finished")
    if row.unfinished:
        parts.append(f"hosts {obstacles.listed(list(row.unfinished))} have not")
    return ", ".join(parts)


def _told(row: WorkRow, reason: Reason, now_ns: int) -> str:
    begins = "" if row.estimate_ns is None else f"; it begins in about {_seconds(row.estimate_ns)}"
    return f"{row.kind.lower()} {obstacles.name_of(row.id)}: {_sentence(reason, now_ns)}{begins}"


def _sentence(reason: Reason, now_ns: int) -> str:
    """One reason in words."""
    words = f"waits for {reason.what}"
    if reason.holder:
        words += f": {reason.holder}"
    words += f"; for {_seconds(now_ns - reason.since_ns)} now"
    if reason.deadline_ns:
        words += f", given up in {_seconds(max(0, reason.deadline_ns - now_ns))}"
    return words


def _seconds(nanoseconds: int) -> str:
    seconds = nanoseconds / SECOND_NS
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"
