"""What the core takes every host to hold now, given what was sent to it, and how that differs from what a host tells.

A host answers behind everything that was sent before, so work in flight is no difference: what was freed is gone, what
was placed is there. What a host does by itself meanwhile is allowed for by name: bytes that come ahead of their command have
numbers that were given out after the question, and what a launch makes may be missing until that is launched.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

from pathways_common.model.ids import Epoch, GlobalId, SessionNumber, session_of

from .leak_records import Belief, Group, HeldKind, HeldObjects, HostBelief, Leak
from .placements import IN_EPOCH, bind
from .plan import Plan
from .records import Buffer, Execution, Host, Placement, Session, View
from .state import State
from .transitions import BufferState, ExecutableState

# Numbers of transfers of runs begin here; below it is the number of the run. See pathways_worker/core/plans.py.
_RUN_NUMBERS = 1 << 63
_COUNT_BITS = 24
_NO_EPOCH = Epoch(0)
# What is between a device and its host's store may be in either.
_MOVING = (BufferState.SPILLING, BufferState.RESTORING)
_MAY = (BufferState.PENDING, BufferState.POISONED, BufferState.CONSUMED, BufferState.SPILLED, *_MOVING)


def believe(state: State) -> Belief:
    """As of now, with the number of the question itself as the last one given out."""
    sessions = {number: session.tenant.name for number, session in state.sessions.items()}
    belief = Belief(state.number(), sessions, {}, {}, {}, {}, [])
    for host in state.hosts.values():
        active = host.island.state in IN_EPOCH and host in host.island.members
        belief.hosts[host.name] = HostBelief(host, host.island.epoch if active else _NO_EPOCH)
    for hosts, group in _groups(state).items():
        for host in hosts:
            belief.hosts[host.name].groups.append(group)
    for session in state.sessions.values():
        for plan in _plans(session):
            _add_plan(state, belief, plan)
        for buffer in session.buffers.values():
            if buffer.state is BufferState.SPILLED or buffer.state in _MOVING:
                _add_spilled(belief, buffer)
    for moving in state.moving.values():
        _add_spilled(belief, moving.buffer)
    for island in state.islands.values():
        for executable in island.executables.values():
            if island.state in IN_EPOCH and executable.epoch == island.epoch:
                for host in executable.members:
                    known = belief.hosts[host.name]
                    (known.loaded if executable.state is ExecutableState.LOADED else known.loading)[executable.id] = None
        for run in island.runs.values():
            belief.runs[run.id] = belief.run_numbers[run.number] = None
            belief.values.append((run.first_value_id, run.plan.slot_count))
        belief.executions.update((gang.id, None) for gang in island.inflight if isinstance(gang, Execution))
    for transfer in state.transfers.values():
        if transfer.host.name in belief.hosts:
            belief.hosts[transfer.host.name].transfers[transfer.id] = None
    return belief


def _groups(state: State) -> dict[tuple[Host, ...], Group]:
    """Values by the hosts that hold them: their number grows with buffers and with placements, never with shards."""
    groups: dict[tuple[Host, ...], Group] = {}
    placed: dict[Placement, Group | None] = {}

    def group_of(placement: Placement | None, epoch: int) -> Group | None:
        if placement is None or not epoch or epoch != placement.island.epoch:
            return None
        if placement not in placed:
            there = bind(placement)
            placed[placement] = groups.setdefault(placement.hosts, Group()) if there else None
        return placed[placement]

    for session in state.sessions.values():
        for buffer in session.buffers.values():
            group = group_of(buffer.placement, buffer.epoch)
            if group is not None:
                _add_buffer(group, buffer)
        for view in _views(session):
            group = group_of(view.placement, view.epoch)
            if group is not None:
                there = all(part.buffer.state is BufferState.PRESENT for part in view.parts)
                if there:
                    group.must[view.id] = max(part.buffer.sequence for part in view.parts)
                else:
                    group.may[view.id] = None
    return groups


def _add_buffer(group: Group, buffer: Buffer) -> None:
    if buffer.state is BufferState.PRESENT:
        group.must[buffer.id] = buffer.sequence
    elif buffer.state in _MAY:
        group.may[buffer.id] = None


def _add_spilled(belief: Belief, buffer: Buffer) -> None:
    """In the stores of the hosts that keep it, or of those that are about to."""
    keepers = [place.host for place in buffer.kept] or (buffer.placement.hosts if buffer.placement is not None else ())
    for host in keepers:
        known = belief.hosts.get(host.name)
        if known is not None:
            known.spilled[buffer.id] = None
            # Released while it is under way, or its session is over: it goes when its hosts have answered.
            if buffer.state is BufferState.FREED or buffer.session.number not in belief.sessions:
                known.groups.append(Group(may={buffer.id: None}))


def _views(session: Session) -> Iterator[View]:
    """Those that it can name, and those that work in its lanes still names."""
    lanes = [*session.lanes.values(), *(lane for walk in session.walks.values() for lane in walk.lanes.values())]
    waiting = (handle for lane in lanes for work in lane.queue for handle in work.arguments)
    walking = (handle for walk in session.walks.values() for handle in walk.arguments)
    for handle in chain(session.handles.values(), waiting, walking):
        if isinstance(handle, View):
            yield handle


def _plans(session: Session) -> Iterator[Plan]:
    for definition in session.definitions.values():
        if definition.plan is not None:
            yield definition.plan
        if definition.composite is not None:
            yield from definition.composite.plans


def _add_plan(state: State, belief: Belief, plan: Plan) -> None:
    bound = plan.bound
    if bound is None:
        return
    epochs = {island.name: epoch for island, epoch in zip(plan.islands, bound.epochs, strict=True)}
    for host in bound.hosts:
        known = belief.hosts.get(host.name)
        if known is not None and known.host is host and known.epoch == epochs[host.island.name]:
            known.plans[bound.command.plan_id] = None


# ---- what differs -----------------------------------------------------------------------------------------------------


def differences(belief: Belief, known: HostBelief, daemon: bool, objects: list[HeldObjects], launched: int) -> list[Leak]:
    """Leaks of one process of a host, and what is missing there. `launched` is the last sequence that its executor launched."""
    leaks: dict[tuple[HeldKind, int], Leak] = {}
    held: dict[HeldKind, dict[int, None]] = {}
    for each in objects:
        sizes = each.sizes_bytes or repeat(0)
        sessions = each.sessions or repeat(-1)
        held.setdefault(each.kind, {}).update(dict.fromkeys(each.ids))
        # Sizes and owners are one per id or none at all.
        for identifier, size_bytes, owner in zip(each.ids, sizes, sessions, strict=False):
            session = _owner(each.kind, identifier, owner)
            if not _is_owned(belief, known, each.kind, identifier, session):
                leaks[each.kind, identifier] = _leak(belief, known, each.kind, identifier, size_bytes, session)
    missing = _missing(known, daemon, held, launched)
    return [*leaks.values(), *(_leak(belief, known, *each, missing=True) for each in missing)]


def _leak(
    belief: Belief,
    known: HostBelief,
    kind: HeldKind,
    identifier: int,
    size_bytes: int,
    session: SessionNumber,
    missing: bool = False,
) -> Leak:
    tenant = belief.sessions.get(session, "")
    return Leak(known.host.name, kind.name, identifier, size_bytes, session, session in belief.sessions, tenant, missing)


def _owner(kind: HeldKind, identifier: int, told: int) -> SessionNumber:
    """The session of an object: as it was told, else from its id; plans and transfers have numbers that tell nothing."""
    if told >= 0:
        return SessionNumber(told)
    return SessionNumber(0) if kind in (HeldKind.PLAN, HeldKind.TRANSFER) else session_of(GlobalId(identifier))


def _is_owned(belief: Belief, known: HostBelief, kind: HeldKind, identifier: int, session: SessionNumber) -> bool:
    match kind:
        case HeldKind.VALUE | HeldKind.FAILED | HeldKind.PENDING:
            if any(identifier in group.must or identifier in group.may for group in known.groups):
                return True
            return any(first <= identifier < first + count for first, count in belief.values)
        case HeldKind.EXECUTABLE:
            return identifier in known.loaded or identifier in known.loading
        case HeldKind.PLAN:
            return identifier in known.plans
        case HeldKind.RUN:
            # The last moves of a run may go on when all of its gangs have ended; they end with the session at the latest.
            return identifier in belief.runs or session in belief.sessions
        case HeldKind.EXECUTION:
            return identifier in belief.executions
        case HeldKind.TRANSFER:
            if identifier >= _RUN_NUMBERS:
                number = (identifier - _RUN_NUMBERS) >> _COUNT_BITS
                return number in belief.run_numbers or number > belief.last_number
            return identifier in known.transfers or identifier > belief.last_number
        case HeldKind.TICKET:
            # Of no session: an image for another host, which has a deadline of seconds.
            return not session or session in belief.sessions
        case HeldKind.SPILLED:
            return identifier in known.spilled
        case HeldKind.LOCAL:
            return False


def _missing(
    known: HostBelief, daemon: bool, held: dict[HeldKind, dict[int, None]], launched: int
) -> Iterator[tuple[HeldKind, int, int, SessionNumber]]:
    plans = held.get(HeldKind.PLAN, {})
    for plan in known.plans:
        if plan not in plans:
            yield HeldKind.PLAN, plan, 0, SessionNumber(0)
    if daemon:
        return
    for executable in known.loaded:
        if executable not in held.get(HeldKind.EXECUTABLE, {}):
            yield HeldKind.EXECUTABLE, executable, 0, session_of(GlobalId(executable))
    present = [held.get(kind, {}) for kind in (HeldKind.VALUE, HeldKind.FAILED, HeldKind.PENDING)]
    for group in known.groups:
        for identifier, sequence in group.must.items():
            if sequence <= launched and not any(identifier in each for each in present):
                yield HeldKind.VALUE, identifier, 0, session_of(GlobalId(identifier))
