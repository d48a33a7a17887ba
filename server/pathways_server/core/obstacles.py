"""What work waits for, as data: found in the tables when somebody asks, so that it costs nothing before and is never out of date.

A reason is one thing that has to happen, who or what it depends on, since when it is waited for, and when that is given up. Whose
it is, it says as its audience may know it (audience.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from pathways_common.model.ids import GlobalId, local_id, session_of
from pathways_common.model.sizes import size_text

from . import buffers, claims, holders, resource_manager, slices, waits, windows
from .audience import Audience, Part, shares
from .records import Buffer, Executable, Execution, Gang, Island, Lane, Session, Slice
from .run_records import Run
from .state import State
from .transitions import BufferState, ExecutableState, ExecutionState, IslandState, SliceState
from .walk_records import Walk

_SHOWN_MAX = 4


class WaitKind(Enum):
    ISLAND = "ISLAND"
    BYTES = "BYTES"
    PROGRAM = "PROGRAM"
    EARLIER_WORK = "EARLIER_WORK"
    TURN = "TURN"
    ROOM = "ROOM"
    LAUNCH = "LAUNCH"
    SLICE = "SLICE"
    MEMORY = "MEMORY"
    QUOTA = "QUOTA"


class Reason(NamedTuple):
    """`holder` is in words and empty if nobody has it; `deadline_ns` 0: it is waited for without end."""

    kind: WaitKind
    what: str
    holder: str
    since_ns: int
    deadline_ns: int = 0


def name_of(identifier: int) -> str:
    """An execution, run, slice or array for people: the number of its session and its own there."""
    return f"{session_of(GlobalId(identifier))}.{local_id(GlobalId(identifier))}"


def listed(names: list[str]) -> str:
    """A few of these."""
    return ", ".join(names[:_SHOWN_MAX]) + (f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else "")


def of_work(state: State, work: Execution | Run, audience: Audience) -> list[Reason]:
    """What holds up the next grant of it; empty if all of it is granted."""
    lanes = work.lanes if isinstance(work, Run) else (work.lane,)
    if not (work.queued if isinstance(work, Run) else work.state is ExecutionState.QUEUED):
        return []
    behind = [reason for lane in lanes if (reason := _behind(work, lane)) is not None]
    if behind:
        return behind
    found = [*_missing(state, work), *_islands(state, work, lanes), *_programs(work)]
    if isinstance(work, Run) and work.due:
        hosts = listed([f"host {host.name}" for host in work.due])
        found.append(Reason(WaitKind.LAUNCH, "the launch of its last node", hosts, work.granted_ns))
    return found or [*_limits(state, work, lanes, audience)] or _turns(work, lanes, audience)


def of_slice(state: State, wanted: Slice, audience: Audience) -> list[Reason]:
    """What a request for devices waits for, and who holds it."""
    if wanted.state is not SliceState.WAITING:
        return []
    request = wanted.request
    since_ns = wanted.asked_ns
    return [
        Reason(
            WaitKind.SLICE,
            f"devices for slice {wanted.session.number}.{request.slice_id}",
            slices.words_for(state, wanted, audience),
            since_ns,
            wanted.deadline_ns,
        )
    ]


def _behind(work: Execution | Run, lane: Lane) -> Reason | None:
    first = lane.queue[0]
    if first is work:
        return None
    place = lane.queue.index(work)
    what = f"{place} earlier piece{'s' if place > 1 else ''} of work of its session on island {lane.island.name}"
    return Reason(WaitKind.EARLIER_WORK, what, f"{title(first)}, which is next", work.requested_ns)


def _missing(state: State, work: Execution | Run) -> Iterator[Reason]:
    if isinstance(work, Run) and work.next_step:
        return  # a run that has begun has its arguments
    seen: dict[int, Buffer] = {}
    for handle in work.arguments:
        for part in buffers.parts_of(handle):
            if part.buffer.state in (BufferState.PENDING, BufferState.EXPECTED):
                seen[part.buffer.id] = part.buffer
    for buffer in seen.values():
        yield _bytes(state, buffer, work.requested_ns)


def of_bytes(state: State, session: Session) -> Iterator[Reason]:
    """What is on its way to arrays of a session, whoever waits for it."""
    for buffer in session.buffers.values():
        if buffer.state is BufferState.PENDING and buffer.transfers:
            yield _bytes(state, buffer, min(transfer.since_ns for transfer in buffer.transfers.values()))


def _bytes(state: State, buffer: Buffer, since_ns: int) -> Reason:
    transfers = list((buffer.transfers or {}).values())
    deadline_ns = min((transfer.deadline_ns for transfer in transfers), default=0)
    hosts = listed(list(dict.fromkeys(f"host {transfer.host.name}" for transfer in transfers)))
    holder = _maker(state, buffer) or "its client, which uploads them"
    what = f"bytes of array {name_of(buffer.id)}" + (f" on {hosts}" if hosts else "")
    return Reason(WaitKind.BYTES, what, holder, since_ns, deadline_ns)


def _maker(state: State, buffer: Buffer) -> str:
    """Who makes an array whose bytes come neither from its client nor from work that is granted."""
    if buffer.maker is not None:
        source = buffer.maker.buffers[0]
        if not buffer.maker.sent:
            return f"a copy of array {name_of(source.id)}, which has not begun"
        hosts = source.placement.hosts if source.placement is not None else ()
        return f"a copy of array {name_of(source.id)}" + (
            f" on {listed([f'host {host.name}' for host in hosts])}" if hosts else ""
        )
    for walk in buffer.session.walks.values():
        if buffer in walk.results:
            return title(walk)
    placement = buffer.placement
    if placement is not None and placement.island.state is not IslandState.ACTIVE:
        return f"island {placement.island.name}: {resource_manager.lacks(state, placement.island)}"
    return ""


def _islands(state: State, work: Execution | Run, lanes: tuple[Lane, ...]) -> Iterator[Reason]:
    for lane in lanes:
        island = lane.island
        if island.state is not IslandState.ACTIVE:
            # What was granted before stays; only work of which nothing was granted is given up.
            begun = isinstance(work, Run) and work.next_step > 0
            deadline_ns = 0 if begun else work.requested_ns + state.config.island_wait_ns
            lacks = resource_manager.lacks(state, island)
            yield Reason(WaitKind.ISLAND, f"island {island.name} to be ACTIVE", lacks, work.requested_ns, deadline_ns)


def _programs(work: Execution | Run) -> Iterator[Reason]:
    executables = work.plan.executables if isinstance(work, Run) else (work.executable,)
    loading = [each for each in executables if each.state is ExecutableState.LOADING]
    for executable in loading[:_SHOWN_MAX]:
        yield _loading(executable, work.requested_ns)


def of_loads(state: State, session: Session) -> Iterator[Reason]:
    """What its programs wait for until hosts have compiled or loaded them, also if no work names them yet."""
    for executable in session.executables.values():
        island = executable.placement.island
        if executable.state is ExecutableState.LOADING:
            yield _loading(executable, executable.deadline_ns - state.config.load_ns)
        elif not executable.announced and executable.state is ExecutableState.IDLE and island.state is not IslandState.ACTIVE:
            what = f"island {island.name} to be ACTIVE, for program {name_of(executable.id)}"
            since_ns = executable.deadline_ns - state.config.island_wait_ns
            yield Reason(WaitKind.ISLAND, what, resource_manager.lacks(state, island), since_ns, executable.deadline_ns)


def _loading(executable: Executable, since_ns: int) -> Reason:
    hosts = listed([f"host {name}" for name in executable.answers_due])
    what = f"loading of program {name_of(executable.id)}"
    return Reason(WaitKind.PROGRAM, what, f"{hosts}, which compile or load it", since_ns, executable.deadline_ns)


def _limits(state: State, work: Execution | Run, lanes: tuple[Lane, ...], audience: Audience) -> Iterator[Reason]:
    """Limits of its tenant, and memory of devices."""
    tenant = lanes[0].session.tenant
    place = tenant.program_line.get(work) or tenant.memory_line.get(work)
    if place is not None:
        holder = f"tenant {tenant.name}: {tenant.running} programs in flight, {size_text(tenant.held_bytes)} held"
        what = place.text + _number(work, tenant.program_line if work in tenant.program_line else tenant.memory_line)
        yield Reason(WaitKind.QUOTA, what, holder, place.deadline_ns - state.config.quota_wait_ns, place.deadline_ns)
    for lane in lanes:
        memory = lane.island.memory
        claim = memory.claims.get(work) if memory is not None else None
        if memory is not None and claim is not None:
            host, local_device, _ = claims.lacking(memory, claim) or claim.needs[0]
            holder = holders.words(state, lane.island, host, local_device, audience).removeprefix("held by ")
            yield Reason(WaitKind.MEMORY, claims.short(memory, claim) + _number(work, memory.claims), holder, claim.since_ns)


def _number(work: Execution | Run, line: Iterable[object]) -> str:
    """Its place among several who wait for the same, the oldest first."""
    waiting = list(line)
    return f" (number {waiting.index(work) + 1} of {len(waiting)} in line)" if len(waiting) > 1 else ""


def _turns(work: Execution | Run, lanes: tuple[Lane, ...], audience: Audience) -> list[Reason]:
    found: list[Reason] = []
    for lane in lanes:
        island = lane.island
        if lane in island.line or not lane.blocked:
            ahead = list(island.line).index(lane) if lane in island.line else 0
            kind = WaitKind.TURN if ahead or len(island.line) > 1 else WaitKind.ROOM
            what = f"its turn on island {island.name}" if kind is WaitKind.TURN else f"room on island {island.name}"
            other = windows.busy_beside(island)
            if other is not None:
                kind = WaitKind.TURN
                what = (
                    f"the turn of island {island.name} on devices that other executors of island {island.ground.name} compute on"
                )
            found.append(Reason(kind, what, _holders(other or island, audience), work.requested_ns))
    if not found:
        found += [Reason(WaitKind.ROOM, lane.blocked_on, "", work.requested_ns) for lane in lanes if lane.blocked_on]
    return found


def estimate_ns(state: State, work: Execution | Run) -> int | None:
    """About how long until its first gang begins, if it is in line; None where hosts do not tell how long gangs take."""
    lanes = work.lanes if isinstance(work, Run) else (work.lane,)
    in_line = [lane for lane in lanes if lane in lane.island.line and lane.queue[0] is work]
    if not in_line or not all(lane.island.measures for lane in in_line):
        return None
    return max(waits.wait_ns(state, lane, 0) for lane in in_line)


def _holders(island: Island, audience: Audience) -> str:
    """Whose gangs are in flight."""
    counts: dict[int, int] = {}
    sessions: dict[int, Session] = {}
    for gang in island.inflight:
        session = session_of_gang(gang)
        sessions[session.number] = session
        counts[session.number] = counts.get(session.number, 0) + gang.last - gang.sequence + 1
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    parts = [Part(sessions[number].tenant.name, f"session {number}", count) for number, count in most]
    return listed([f"{name} ({count} in flight)" for name, count in shares(audience, parts)])


def session_of_gang(gang: Gang) -> Session:
    """Whose work it is."""
    return gang.lane.session if isinstance(gang, Execution) else gang.run.definition.session


def title(work: Execution | Run | Walk) -> str:
    """For people: what it is and its name."""
    if isinstance(work, Execution):
        return f"execution {name_of(work.id)}"
    plan = work.plan if isinstance(work, Run) else work.composite
    return f"run {name_of(work.id)} of program {plan.name or '(without a name)'}"
