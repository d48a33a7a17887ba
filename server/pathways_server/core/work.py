"""What `pathways ps` shows: executions and runs that are in line or in flight, the oldest first. Taking it changes nothing.

The pieces of a walk are one row. Rows are made only for those that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice

from . import obstacles
from .audience import Audience
from .obstacles import Reason
from .plan import Launch
from .records import Execution, Host, Session
from .run_records import Run
from .state import State
from .tenant_records import TenantName
from .walk_records import Walk

ROWS_MAX = 1000
_Item = tuple[int, int, "Execution | Run | Walk", int]


@dataclass(frozen=True, slots=True)
class WorkRow:
    """`position`: place in its session's line, from 1; 0 = not in line. `device_ns` None: not measured.

    `finished` and `unfinished` are hosts, of what was granted.
    """

    id: int
    session: int
    tenant: str
    kind: str
    name: str
    islands: tuple[str, ...]
    state: str
    since_ns: int
    steps: int
    steps_granted: int
    position: int
    reason: Reason | None
    device_ns: int | None
    finished: tuple[str, ...]
    unfinished: tuple[str, ...]
    estimate_ns: int | None = None  # until its turn


def take(state: State, tenant: TenantName | None, audience: Audience, limit: int = 0) -> tuple[list[WorkRow], int]:
    """Rows of a tenant, or of all with None, and how many more there are. `audience`: whom they are shown."""
    limit = min(limit or ROWS_MAX, ROWS_MAX)
    shown = [session for session in state.sessions.values() if tenant in (None, session.tenant.name)]
    gone = {id(session): session for session in _closed(state) if tenant in (None, session.tenant.name)}
    found = [item for session in (*shown, *gone.values()) for item in _items(state, session, limit)]
    chosen = nsmallest(limit, found, key=_age)
    beyond = sum(_beyond(session, limit) for session in shown)
    return [row_of(state, work, position, audience) for _, _, work, position in chosen], len(found) + beyond - len(chosen)


def of_session(state: State, session: Session, limit: int, audience: Audience) -> list[WorkRow]:
    """The oldest rows of one session."""
    chosen = nsmallest(limit, _items(state, session, limit), key=_age)
    return [row_of(state, work, position, audience) for _, _, work, position in chosen]


def find(state: State, session: Session, identifier: int, audience: Audience) -> WorkRow | None:
    """The row of a session with this global id, if that is in line or in flight."""
    for _, number, work, position in _items(state, session, None):
        if number == identifier:
            return row_of(state, work, position, audience)
    return None


def _age(item: _Item) -> tuple[int, int]:
    return item[:2]


def _items(state: State, session: Session, limit: int | None) -> Iterator[_Item]:
    """Everything of a session once: when it was asked for, its id, itself, its place in line. Of each lane the first `limit`."""
    seen: dict[int, None] = {}
    for walk in session.walks.values():
        yield walk.asked_ns, walk.id, walk, 0
    for lane in session.lanes.values():
        for index, work in enumerate(islice(lane.queue, limit), 1):
            if work.id not in seen:
                seen[work.id] = None
                yield work.requested_ns, work.id, work, index
    for island in session.used.values():
        for gang in island.inflight:
            granted = gang if isinstance(gang, Execution) else gang.run
            if granted.id in seen or _session(granted) is not session:
                continue
            if not isinstance(granted, Run) or granted.walk is None:
                seen[granted.id] = None
                yield granted.requested_ns, granted.id, granted, 0


def _beyond(session: Session, limit: int) -> int:
    """How many stand in its lanes behind those that are looked at; a run in the first of its lanes."""
    return sum(
        1
        for lane in session.lanes.values()
        for work in islice(lane.queue, limit, None)
        if not isinstance(work, Run) or work.lanes[0] is lane
    )


def _closed(state: State) -> Iterator[Session]:
    """Sessions that are over and have work in flight still."""
    for island in state.islands.values():
        for gang in island.inflight:
            session = _session(gang if isinstance(gang, Execution) else gang.run)
            if session.number not in state.sessions:
                yield session


def _session(work: Execution | Run | Walk) -> Session:
    if isinstance(work, Execution):
        return work.lane.session
    return work.definition.session


def row_of(state: State, work: Execution | Run | Walk, position: int, audience: Audience) -> WorkRow:
    if isinstance(work, Walk):
        return _walk(state, work, audience)
    session = _session(work)
    reasons = obstacles.of_work(state, work, audience)
    if isinstance(work, Execution):
        granted = work.sequence > 0
        islands: tuple[str, ...] = (work.lane.island.name,)
        kind, name, steps, done = "EXECUTION", f"program {obstacles.name_of(work.executable.id)}", 1, int(granted)
    else:
        granted = work.next_step > 0
        islands = tuple(lane.island.name for lane in work.lanes)
        launches = [index for index, step in enumerate(work.plan.steps) if isinstance(step, Launch)]
        kind, name, steps = "RUN", work.plan.name, len(launches)
        done = sum(index < work.next_step for index in launches)
    finished, unfinished = _hosts(work)
    return WorkRow(
        work.id, session.number, session.tenant.name, kind, name, islands, "RUNNING" if granted else "WAITING",
        work.requested_ns, steps, done, position, reasons[0] if reasons else None, _device_ns(work), finished, unfinished,
        obstacles.estimate_ns(state, work),
    )  # fmt: skip


def _walk(state: State, walk: Walk, audience: Audience) -> WorkRow:
    """Its pieces so far; what holds up the first of them that waits holds up the walk."""
    runs = [run for lane in walk.lanes.values() for run in lane.queue]
    reasons = [reason for run in runs for reason in obstacles.of_work(state, run, audience)]
    inflight = [gang for lane in walk.lanes.values() for gang in lane.island.inflight]
    spans = [gang for gang in inflight if not isinstance(gang, Execution) and gang.run.walk is walk]
    unfinished = tuple(dict.fromkeys(host.name for span in spans for host in _unfinished(span.members, span)))
    begun = walk.traced is not None
    return WorkRow(
        walk.id, walk.session.number, walk.session.tenant.name, "WALK", walk.composite.name,
        tuple(walk.lanes), "RUNNING" if begun else "WAITING", walk.asked_ns, 0,
        walk.traced.count if walk.traced is not None else 0, 0, reasons[0] if reasons else None,
        walk.device_ns if begun else None, (), unfinished,
    )  # fmt: skip


def _device_ns(work: Execution | Run) -> int | None:
    """What hosts told so far; None where they tell nothing."""
    lanes = work.lanes if isinstance(work, Run) else (work.lane,)
    if not any(lane.island.measures for lane in lanes):
        return None
    return work.booked_ns if isinstance(work, Execution) else work.device_ns


def _hosts(work: Execution | Run) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Members that have finished what was granted, and those that have not."""
    if isinstance(work, Execution):
        members = work.executable.members if work.sequence else ()
        unfinished = _unfinished(members, work)
    else:
        members = tuple(dict.fromkeys(host for span in work.spans for host in span.members))
        unfinished = [host for span in work.spans for host in _unfinished(span.members, span)]
    late = dict.fromkeys(host.name for host in unfinished)
    return tuple(host.name for host in members if host.name not in late), tuple(late)


def _unfinished(members: tuple[Host, ...], gang: object) -> list[Host]:
    return [host for host in members if any(each is gang for _, each in host.unfinished)]
