"""Sessions: what a client sees (one fixed list of virtual devices), and the end of everything that it owns.

Ids of devices are dense from 0: islands in name order, hosts by rank, devices by local index; then the pool, from which
slices take their devices. A client that comes before its island is ACTIVE waits for a bounded time and is then told which
hosts are missing.
"""

from __future__ import annotations

from pathways_common.model.cells import plain_name
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import IslandName

from . import (
    buffers,
    callbacks,
    cells,
    definitions,
    drains,
    migrations,
    programs,
    quotas,
    reads,
    resource_manager,
    scheduler,
    shares,
    slices,
    tenants,
    transfers,
    walks,
)
from .effects import CancelTransfer, RefuseSession, SendToSession, SessionDevice, WelcomeSession
from .events import SessionClosed, SessionOpened
from .natural_order import natural
from .read_records import Copy
from .records import HeldArray, Island, Session, VirtualDevice
from .state import State
from .transitions import BufferState, IslandState, SessionState


def on_session_opened(state: State, event: SessionOpened) -> None:
    if event.session in state.sessions:
        state.ignore(event, "the session is open already")
        return
    tenant = tenants.named(state, event.tenant)
    session = Session(
        event.session, tenant, event.client, event.islands, state.now_ns, state.now_ns + state.config.session_wait_ns
    )
    if len(tenant.sessions) + len(state.sessions) + 2 > state.config.sessions_max:  # as in `occupancy`
        message = (
            f"{len(tenant.sessions)} sessions of tenant {tenant.name} and {len(state.sessions)} of all tenants are open, and one"
            f" more would be beyond its share of the {state.config.sessions_max} allowed; close one first"
        )
        failure = state.failure(Reason.RESOURCE_EXHAUSTED, message, retryable=True, sessions=len(state.sessions))
        state.effects.append(SendToSession(session.number, RefuseSession(failure)))
        return
    state.sessions[session.number] = session
    tenant.sessions[session.number] = session
    state.pending[session.number] = session
    if not _refuse_unknown(state, session):
        _try_open(state, session)


def try_pending(state: State) -> None:
    """An island has become ACTIVE."""
    for session in list(state.pending.values()):
        _try_open(state, session)


def _choose(state: State, session: Session) -> list[Island]:
    """The islands of its wish; empty while they are not all ACTIVE."""
    usable = _usable(state, session)
    if not session.wanted:
        chosen = sorted(usable, key=lambda island: (_load(state, island), natural(island.name)))[:1]
    elif session.wanted == ("*",):
        chosen = sorted(usable, key=lambda island: natural(island.name))
    else:
        named = [island for island in usable if island.name in session.wanted]
        chosen = sorted(named, key=lambda island: natural(island.name)) if len(named) == len(set(session.wanted)) else []
    if session.tenant.declared.isolated:
        chosen = [cells.want(state, island, session.tenant) for island in chosen]
    return chosen if all(island.state is IslandState.ACTIVE and not island.closing for island in chosen) else []


def _usable(state: State, session: Session) -> list[Island]:
    """Islands that are ACTIVE, or where the session's tenant has a cell that is."""
    found: dict[IslandName, Island] = {}
    for island in state.islands.values():
        if drains.is_leaving(state, island):
            continue
        if island.state is IslandState.ACTIVE and (island.tenant is None or cells.serves(island, session.tenant)):
            found[island.ground.name] = cells.island_of(island)
    return list(found.values())


def _refuse_unknown(state: State, session: Session) -> bool:
    """Waiting for an island that nobody has heard of would be in vain once any island is there."""
    known = {*(island.ground.name for island in state.islands.values()), *state.config.island_hosts}
    unknown = [name for name in session.wanted if name != "*" and name not in known]
    if not unknown or not state.islands:
        return False
    names = ", ".join(sorted(known, key=natural))
    message = f"there is no island {unknown[0]!r}; the cluster has {names}: name one of these, or none to get the least loaded"
    _refuse(state, session, state.failure(Reason.INVALID_ARGUMENT, message, island=unknown[0], islands=names))
    return True


def _load(state: State, island: Island) -> int:
    """Sessions on its devices, also those that have executors of their own there."""
    return sum(any(each.ground is island.ground for each in session.islands) for session in state.sessions.values())


def _try_open(state: State, session: Session) -> None:
    islands = _choose(state, session)
    if not islands:
        session.blocked_on = ""
        return
    platforms = sorted({island.platform for island in islands})
    if len(platforms) > 1:
        message = f"a session has one platform and these islands have {' and '.join(platforms)}; name islands of one platform"
        _refuse(state, session, state.failure(Reason.INVALID_ARGUMENT, message, platforms=",".join(platforms)))
        return
    total = sum(len(island.members) * island.devices_per_host for island in islands)
    shown_count = quotas.view_of(session, total)
    held_up = quotas.opening_obstacle(state, session, shown_count)
    if isinstance(held_up, Failure):
        _refuse(state, session, held_up)
        return
    if session.blocked_on != held_up:
        state.log("session waits", session=session.number, tenant=session.tenant.name, needs=held_up)
    session.blocked_on = held_up
    if held_up:
        return
    del state.pending[session.number]
    state.move(session, SessionState.OPEN)
    islands = _shown_islands(islands, shown_count)
    session.islands = tuple(islands)
    session.used = {island.name: island for island in islands}
    devices = session.devices
    shown: list[SessionDevice] = []
    for slice_index, island in enumerate(islands):
        island.size_bound = len(island.members)
        for position in range(min(len(island.members) * island.devices_per_host, shown_count - len(devices))):
            host = plain_name(resource_manager.host_of(island, position))
            local_index = position % island.devices_per_host
            kind = island.device_kind
            shown.append(
                SessionDevice(
                    len(devices), slice_index, island.ground.name, host, local_index, island.platform, kind, island.memory_kinds
                )
            )
            devices.append(VirtualDevice(island, position))
    session.primary_count = len(devices)
    session.pool_size = slices.make_pool(state, session)
    shown += _pool(session, islands)
    state.reply(session, WelcomeSession(tuple(shown), islands[0].platform, islands[0].platform_version))
    names = ",".join(island.name for island in islands)
    state.log("session opened", session=session.number, islands=names, client=session.client)


def _shown_islands(islands: list[Island], count: int) -> list[Island]:
    """Those that so many devices, taken in order, lie on."""
    found: list[Island] = []
    for island in islands:
        if count > 0:
            found.append(island)
        count -= len(island.members) * island.devices_per_host
    return found


def _pool(session: Session, islands: list[Island]) -> list[SessionDevice]:
    """The unbound devices, each group an island of its own to JAX. They look like those of the first island."""
    like = islands[0]
    kind, memory_kinds = like.device_kind, like.memory_kinds
    return [
        SessionDevice(first + index, len(islands) + number, "", "", 0, like.platform, kind, memory_kinds, True)
        for number, (first, size) in enumerate(session.pool)
        for index in range(size)
    ]


def awaited(state: State, session: Session) -> list[Island]:
    """The islands that it may be opened on, or that one of them is to be a cell of."""
    isolated = session.tenant.declared.isolated
    served = [island for island in state.islands.values() if cells.serves(island, session.tenant)]
    opened = {island.ground.name for island in served}
    served += [island for island in state.islands.values() if isolated and not island.tenant and island.name not in opened]
    return [island for island in served if session.wanted in ((), ("*",)) or island.ground.name in session.wanted]


def _refuse(state: State, session: Session, failure: Failure) -> None:
    del state.pending[session.number]
    del state.sessions[session.number]
    del session.tenant.sessions[session.number]
    state.move(session, SessionState.CLOSED)
    state.reply(session, RefuseSession(failure))
    state.log("session refused", session=session.number, reason=failure.message)


def expire(state: State) -> None:
    """Refuses those who waited long enough. All wait equally long, so the oldest are first."""
    while state.pending:
        session = next(iter(state.pending.values()))
        if session.deadline_ns > state.now_ns:
            return
        names = [name for name in session.wanted if name != "*"]
        islands = awaited(state, session)
        reasons = [
            resource_manager.lacks(state, island)
            for island in sorted(islands, key=lambda island: natural(island.name))
            if island.state is not IslandState.ACTIVE or drains.is_leaving(state, island)
        ]
        reasons += [f"no host of island {name} has joined" for name in names if name not in state.islands]
        if session.blocked_on:
            reasons = [f"it waits for {session.blocked_on}"]
        if not reasons:
            reasons = ["no host has joined"]
        text = "; ".join(reasons[:8])
        seconds = state.config.session_wait_ns // 1_000_000_000
        message = f"no island could be given within {seconds} s: {text}; start the missing workers and connect again"
        reason = Reason.UNAVAILABLE
        if session.blocked_on:
            message = f"the session could not be opened within {seconds} s: {text}; close another session and connect again"
            reason = Reason.RESOURCE_EXHAUSTED
        _refuse(state, session, state.failure(reason, message, retryable=True, seconds=seconds, lacking=text))


def on_session_closed(state: State, event: SessionClosed) -> None:
    session = state.sessions.get(event.session)
    if session is None:
        state.ignore(event, "the session is not open")
    else:
        close(state, session, event.reason)


def close(state: State, session: Session, reason: str) -> None:
    """Everything that the session owns goes, on every host."""
    del state.sessions[session.number]
    del session.tenant.sessions[session.number]
    state.pending.pop(session.number, None)
    state.move(session, SessionState.CLOSED)
    state.log("session closed", session=session.number, reason=reason)
    migrations.on_session_closed(state, session)
    callbacks.on_session_closed(state, session)
    for walk in list(session.walks.values()):
        walks.drop(state, walk)
    for lane in list(session.lanes.values()):
        scheduler.close_lane(state, lane)
    shares.on_session_closed(state, session)
    _close_reads(state, session)
    for host in session.serving.values():
        if state.hosts.get(host.name) is host:
            state.tell(host, CancelTransfer((), session.number))
    for identifier in list(session.handles):
        buffers.drop_handle(state, session, identifier)
    definitions.on_session_closed(state, session)
    for executable in list(session.executables.values()):
        programs.drop(state, executable)
    slices.on_session_closed(state, session)
    for island in session.used.values():
        if not any(island.name in other.used for other in state.sessions.values()):
            island.size_bound = 0
            resource_manager.consider(state, island)
    try_pending(state)


def _close_reads(state: State, session: Session) -> None:
    """Nobody waits for the answers; frees of this step are ordered behind what was sent."""
    for reader in [reader for reader in state.readers.values() if reader.session is session]:
        if reader.number in state.readers:
            reads.finish(state, reader)
    for inspect in [inspect for inspect in state.inspects.values() if inspect.session is session]:
        programs.forget_inspect(state, inspect)


def drop_held(state: State, item: HeldArray | Copy, island: Island, message: str) -> None:
    """What was kept for an island that did not become ACTIVE in time."""
    failure = state.failure(Reason.UNAVAILABLE, message, retryable=True, island=island.name)
    if isinstance(item, Copy):
        if item.number in state.readers:
            reads.fail(state, item, failure)
        return
    transfers.forget_inline(item)
    if item.buffer.state is BufferState.PENDING:
        buffers.poison(state, item.buffer, failure, tell_hosts=False)
