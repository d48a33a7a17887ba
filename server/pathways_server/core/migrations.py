"""Migrations: the arrays of a slice are copied to another island, and the same virtual devices get others behind them.

What the session asked for before comes to its end first; what it asks for meanwhile is held back and handled in order afterwards,
so its client sees a pause. Copies are made by the mover, beside the originals: until all of them are there everything can stay as
it was, and whatever goes wrong before ends the migration and nothing else. Callbacks and cancellations are never held back, and
nothing is while the session waits for memory or goes through a loop, since what it asks for next may be what ends that.
"""

from __future__ import annotations

from pathways_common.model.array import TOKEN, ArraySpec
from pathways_common.model.cells import plain_name
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, IslandName, moved_by_core

from . import buffers, copies, programs, rebinding, resource_manager, slices, suspensions
from .events import CallbackReturned, CancelRequested, CompileRequested
from .migration_records import HeldBack, Migration, MigrationEnded, MigrationRequested, Purpose
from .placer import Chosen, Never
from .records import Buffer, Execution, Island, Session, Slice
from .state import State
from .transitions import BufferState, ExecutableState, IslandState, MigrationState, SliceState

_UNDER_WAY = (BufferState.EXPECTED, BufferState.PENDING, BufferState.SPILLING, BufferState.RESTORING)
_THERE = (BufferState.PRESENT, BufferState.SPILLED)  # a copy may be idle for so long that others get its memory
_TOKEN = ArraySpec(TOKEN, (), b"", (), ())  # what tells how a program without results ended

# ---- asking -----------------------------------------------------------------------------------------------------------


def on_migration_requested(state: State, event: MigrationRequested) -> None:
    session = state.sessions.get(event.session)
    own = session is not None and event.tenant in (None, session.tenant.name)
    held = session.slices.get(event.slice_id) if session is not None and own else None
    if session is None or held is None or held.state is not SliceState.BOUND:
        message = f"session {event.session} holds no slice {event.slice_id}; `pathways status` lists those that are held"
        _answer(state, event.request_id, None, (), 0, 0, state.failure(Reason.INVALID_ARGUMENT, message))
        return
    found = begin(state, session, held, event.island)
    if isinstance(found, Failure):
        _answer(state, event.request_id, None, (), 0, 0, found)
    else:
        found.request_ids.append(event.request_id)


def begin(state: State, session: Session, held: Slice, island: str) -> Migration | Failure:
    """Starts to move a slice to an island; why it cannot be moved there."""
    name = f"slice {held.request.slice_id} of session {session.number}"
    assert held.island is not None
    if session.migration is not None:
        return state.failure(
            Reason.UNAVAILABLE, f"something of session {session.number} is being moved already; ask again then", retryable=True
        )
    if island == held.island.ground.name:
        return state.failure(Reason.INVALID_ARGUMENT, f"{name} lies on island {island}; name another one")
    answer = slices.elsewhere(state, held, island)
    if not isinstance(answer, Chosen):
        reason = Reason.INVALID_ARGUMENT if isinstance(answer, Never) else Reason.RESOURCE_EXHAUSTED
        where = f"to island {island}" if island else f"off island {held.island.name}"
        needs = "" if isinstance(answer, Never) else "it needs "
        message = f"{name} cannot be moved {where}: {needs}{answer.text}"
        return state.failure(reason, message, retryable=reason is Reason.RESOURCE_EXHAUSTED)
    target = slices.island_for(state, session, answer.island)
    places = dict(zip(held.positions, answer.positions, strict=True))
    return start(state, session, held.number, held.island, target, places, Purpose.MIGRATE)


def begin_view(state: State, session: Session, origin: Island) -> Migration | Failure:
    """Starts to move the primary devices that a session has on an island to whatever island has as many."""
    positions = [
        device.position for device in session.devices if device is not None and not device.owner and device.island is origin
    ]
    answer = slices.view_elsewhere(state, session, origin, len(positions))
    if not isinstance(answer, Chosen):
        message = (
            f"session {session.number} has its {len(positions)} devices on island {origin.name} and no other island can take"
            f" them ({answer.text}); start one, or wait until the session ends"
        )
        return state.failure(Reason.RESOURCE_EXHAUSTED, message, retryable=True)
    target = slices.island_for(state, session, answer.island)
    places = dict(zip(positions, answer.positions, strict=True))
    return start(state, session, 0, origin, target, places, Purpose.MIGRATE)


def start(
    state: State, session: Session, owner: int | None, origin: Island, target: Island, places: dict[int, int], purpose: Purpose
) -> Migration | Failure:
    """A migration whose places are chosen."""
    deadline_ns = state.now_ns + state.config.migration_ns
    migration = Migration(state.number(), session, owner, origin, target, places, deadline_ns, purpose)
    what = rebinding.mixed(migration)
    if what:
        message = (
            f"{what} of session {migration.session.number} lies on {_name(migration)} and on other devices of island"
            f" {migration.origin.name}; only what lies on one slice can be moved"
        )
        return state.failure(Reason.UNSUPPORTED, message)
    if rebinding.has_python(migration):
        return state.failure(Reason.UNSUPPORTED, _python(migration))
    migration.session.migration = migration
    state.migrations[migration.number] = migration
    state.log("migration begins", session=migration.session.number, to=migration.target.name, what=_name(migration))
    return migration


def _python(migration: Migration) -> str:
    return (
        f"session {migration.session.number} has colocated Python on {_name(migration)}, whose objects cannot be moved;"
        " delete the functions and objects of it first"
    )


def _name(migration: Migration) -> str:
    held = next((held for held in migration.session.slices.values() if held.number == migration.owner), None)
    return f"slice {held.request.slice_id}" if held is not None else f"its devices on island {migration.origin.name}"


def words(session: Session) -> str:
    """That something of a session is being moved, and what that waits for; empty if nothing is."""
    migration = session.migration
    if migration is None:
        return ""
    what = "copies its arrays" if migration.state is MigrationState.MOVING else f"waits for {migration.obstacle or 'a moment'}"
    held = f"; {len(migration.held_back)} things that it asked for meanwhile are held back" if migration.held_back else ""
    if migration.purpose is Purpose.REGROUP:
        return f", which waits until island {migration.origin.name} is formed without a host that is drained{held}"
    return f", of which {_name(migration)} is being {aim(migration)} (that {what}{held})"


def aim(migration: Migration) -> str:
    """What is done with it, in words that follow "is being" and "was not"."""
    match migration.purpose:
        case Purpose.SUSPEND:
            return "suspended"
        case Purpose.RESUME:
            return "resumed"
        case _ if migration.origin is migration.target:
            return f"moved to other hosts of island {migration.target.name}"
        case _:
            return f"moved to island {migration.target.name}"


# ---- holding back -----------------------------------------------------------------------------------------------------


def hold_back(state: State, migration: Migration, event: HeldBack | CallbackReturned) -> bool:
    """True if the event is handled when the migration has ended."""
    if not migration.closed or not isinstance(event, HeldBack):
        return False
    migration.held_back.append(event)
    if len(migration.held_back) > state.config.held_back_max:
        _end(state, migration, _too_much(state, migration))
    # What it cancels may be under way, or be held back itself.
    return not isinstance(event, CancelRequested)


def _too_much(state: State, migration: Migration) -> Failure:
    count = len(migration.held_back)
    message = (
        f"{_name(migration)} of session {migration.session.number} was not {aim(migration)}: its client asked for {count} things"
        " meanwhile, the most held back; try it again when there is less to do"
    )
    return state.failure(Reason.RESOURCE_EXHAUSTED, message, retryable=True)


def _open(state: State, migration: Migration) -> None:
    """What was held back is handled before this step ends, in its order."""
    migration.closed = False
    if migration.held_back:
        state.caught_up.append((migration.session, migration.held_back))
        migration.held_back = []


# ---- going on ---------------------------------------------------------------------------------------------------------


def expire(state: State) -> None:
    """Looks at every one, at each tick."""
    for migration in list(state.migrations.values()):
        if migration.state is MigrationState.GATHERING:
            _gather(state, migration)
        if migration.state is MigrationState.MOVING:
            _look(state, migration)
    for session, island in list(state.vacated):
        if state.sessions.get(session.number) is not session or island.name not in session.used:
            state.vacated.remove((session, island))
        elif rebinding.is_left(session, island) and not _still_reads(state, session, island):
            state.vacated.remove((session, island))
            _leave(state, session, island)


def _gather(state: State, migration: Migration) -> None:
    session = migration.session
    if _gone(migration):
        _end(state, migration, _lost(state, migration))
        return
    if migration.deadline_ns <= state.now_ns and migration.purpose is not Purpose.REGROUP:
        seconds = state.config.migration_ns // 1_000_000_000
        message = (
            f"{_name(migration)} of session {session.number} was not {aim(migration)}: after {seconds} s it still has"
            f" {migration.obstacle or 'work'}; cancel that (pw.cancel) or wait for its end, and ask again"
        )
        _end(state, migration, state.failure(Reason.TIMED_OUT, message, retryable=True))
        return
    loops = bool(session.walks)
    claims = any(
        claim.session is session
        for island in session.used.values() if island.memory is not None
        for claim in island.memory.claims.values()
    )  # fmt: skip
    migration.obstacle = "a loop or a choice that goes on" if loops else "work that waits for memory" if claims else ""
    if migration.obstacle:
        _open(state, migration)
        return
    migration.closed = True
    migration.obstacle = obstacle(state, session)
    if not migration.obstacle and migration.purpose is not Purpose.REGROUP:  # which waits for others
        _move(state, migration)


def _gone(migration: Migration) -> bool:
    """Whether there is nothing to be moved any more, or nowhere to go."""
    held = state_of(migration)
    expected = SliceState.SUSPENDED if migration.purpose is Purpose.RESUME else SliceState.BOUND
    if migration.owner and held is not expected:
        return True
    islands = (migration.origin, migration.target)
    target = migration.target
    if max(migration.places.values()) >= len(target.members) * target.devices_per_host:
        return True
    return any(island.state is not IslandState.ACTIVE or island.closing for island in islands)


def state_of(migration: Migration) -> SliceState | None:
    """Of its slice; None if that is gone."""
    return next((held.state for held in migration.session.slices.values() if held.number == migration.owner), None)


def _lost(state: State, migration: Migration) -> Failure:
    origin, target = migration.origin, migration.target
    which = f"island {origin.name}" if origin is target else f"island {origin.name} or {target.name}"
    message = (
        f"{_name(migration)} of session {migration.session.number} was not {aim(migration)}: {which} has lost a host, or it was"
        " released; everything is where it was"
    )
    return state.failure(Reason.UNAVAILABLE, message, retryable=True)


def obstacle(state: State, session: Session) -> str:
    """What of a session is still under way, in words; empty if it is quiet."""
    if session.walks or session.ungranted:
        return "work that waits"
    if session.calls or session.uploads or session.releases:
        return "callbacks, uploads or releases under way"
    for island in session.used.values():
        gangs = (gang.lane.session if isinstance(gang, Execution) else gang.run.definition.session for gang in island.inflight)
        if any(found is session for found in gangs):
            return f"work that runs on island {island.name}"
        if any(run.definition.session is session for run in island.runs.values()):
            return f"a run on island {island.name}"
    # What is pulled was copied by its host.
    stays = session.migration is not None and session.migration.purpose in (Purpose.MIGRATE, Purpose.RESUME)
    if any(reader.session is session and not (stays and number in state.pulls) for number, reader in state.readers.items()):
        return "reads under way"
    if any(inspect.session is session for inspect in state.inspects.values()):
        return "inspections under way"
    for executable in session.executables.values():
        if executable.state is ExecutableState.LOADING or executable.waiters or not executable.announced:
            return "a program that is being loaded"
    if any(definition.plan is None and definition.composite is None for definition in session.definitions.values()):
        return "a program that is being defined"
    if any(buffer.state in _UNDER_WAY for buffer in session.buffers.values()):
        return "arrays on their way"
    return ""


def _move(state: State, migration: Migration) -> None:
    """The copies are asked for; spilled arrays come back for it, in their turn."""
    session = migration.session
    what = rebinding.mixed(migration)
    if what:
        message = f"{what} of session {session.number} lies on several slices by now; only what lies on one slice can be moved"
        _end(state, migration, state.failure(Reason.UNSUPPORTED, message))
        return
    if rebinding.collides(migration):
        message = f"something of session {session.number} lies on devices by now that would share one; it is tried again"
        _end(state, migration, state.failure(Reason.UNAVAILABLE, message, retryable=True))
        return
    if rebinding.has_python(migration):
        _end(state, migration, state.failure(Reason.UNSUPPORTED, _python(migration)))
        return
    state.move(migration, MigrationState.MOVING)
    if migration.purpose is Purpose.SUSPEND:
        failure = suspensions.spill_all(state, migration)
        if failure is not None:
            _end(state, migration, failure)
        return
    session.used[migration.target.name] = migration.target
    migration.target.size_bound = len(migration.target.members)
    for buffer in list(session.buffers.values()):
        if not rebinding.concerns(migration, buffer.placement) or buffer.ended is not None:
            continue
        if buffer.state in _THERE:
            failure = _copy(state, migration, buffer)
            if failure is not None:
                _end(state, migration, failure)
                return


def _copy(state: State, migration: Migration, buffer: Buffer) -> Failure | None:
    session = migration.session
    spec = buffer.spec or (None if buffer.shard_bytes else _TOKEN)
    if spec is None:
        message = f"an array of session {session.number} was made by a program that did not say of what type its results are"
        return state.failure(Reason.UNSUPPORTED, f"{message}; make it again before it is moved")
    assert buffer.placement is not None
    identifier = moved_by_core(session.number, session.values)
    session.values += 1
    copies.begin(state, session, identifier, buffer, spec, rebinding.moved(migration, buffer.placement), None, asked=0)
    migration.copies[buffer] = session.buffers[identifier]
    return None


def _look(state: State, migration: Migration) -> None:
    failure = next((copy.failure for copy in migration.copies.values() if copy.failure is not None), None)
    if failure is None and _gone(migration):
        failure = _lost(state, migration)
    if failure is not None:
        _end(state, migration, failure)
        return
    if migration.purpose is Purpose.REGROUP:
        return
    if any(copy.state not in _THERE for copy in migration.copies.values()) or obstacle(state, migration.session):
        return
    if migration.purpose is Purpose.SUSPEND:
        failure = suspensions.kept_on_devices(state, migration)
        if failure is None:
            suspensions.sleep(state, migration)
        _end(state, migration, failure)
        return
    resumed = state.slices.get(migration.owner or 0) if migration.purpose is Purpose.RESUME else None
    if resumed is not None:
        suspensions.allow(migration.session, resumed)
    rebinding.rebind(state, migration)
    if resumed is not None:
        suspensions.wake(state, migration.session, resumed)
    _end(state, migration, None)


# ---- the end ----------------------------------------------------------------------------------------------------------


def finish(state: State, migration: Migration, failure: Failure | None) -> None:
    """Ends one that goes on together with others."""
    _end(state, migration, failure)


def _end(state: State, migration: Migration, failure: Failure | None) -> None:
    session = migration.session
    what, moved = _name(migration), list(migration.copies.values())
    size_bytes = sum(copy.shard_bytes * len(copy.placement.positions) for copy in moved if copy.placement is not None)
    if failure is not None:
        for copy in moved:
            buffers.drop_handle(state, session, copy.id)
    if migration.purpose in (Purpose.SUSPEND, Purpose.RESUME):
        suspensions.ended(state, migration, failure)
    if migration.origin is not migration.target or migration.purpose in (Purpose.SUSPEND, Purpose.RESUME):
        state.vacated.append((session, migration.target if failure is not None else migration.origin))
    migration.failure = failure
    state.move(migration, MigrationState.ENDED)
    del state.migrations[migration.number]
    session.migration = None
    migration.copies = {}
    if failure is None:
        state.log("migration ended", session=session.number, to=migration.target.name, what=what, arrays=len(moved))
    else:
        state.log("migration failed", session=session.number, to=migration.target.name, what=what, reason=failure.message)
    target = migration.target
    answered = failure is None and migration.request_ids
    hosts = [resource_manager.host_of(target, position) for position in migration.places.values()] if answered else []
    for request_id in migration.request_ids:
        named = tuple(HostName(plain_name(host)) for host in hosts)
        _answer(state, request_id, target, named, len(moved), size_bytes, failure)
    _open(state, migration)
    if session.number in state.sessions:
        slices.retry_waiting(state)


def _answer(
    state: State, request_id: int, island: Island | None, hosts: tuple[HostName, ...], count: int, size_bytes: int,
    failure: Failure | None,
) -> None:  # fmt: skip
    name = IslandName(island.ground.name) if island is not None else IslandName("")
    state.effects.append(MigrationEnded(request_id, name, hosts, count, size_bytes, failure))


def on_session_closed(state: State, session: Session) -> None:
    """Its copies go with it; programs that were held back are nobody's."""
    migration = session.migration
    if migration is None:
        return
    for event in migration.held_back:
        if isinstance(event, CompileRequested):
            programs.not_taken(state, event)
    migration.held_back = []
    migration.copies = {}
    message = f"session {session.number} ended while {_name(migration)} was being moved"
    _end(state, migration, state.failure(Reason.CANCELLED, message))


def _still_reads(state: State, session: Session, island: Island) -> bool:
    readers = [reader for reader in state.readers.values() if reader.session is session]
    return any(
        buffer.placement is not None and buffer.placement.island is island for reader in readers for buffer in reader.buffers
    )


def _leave(state: State, session: Session, island: Island) -> None:
    """The session has nothing on the island any more."""
    del session.used[island.name]
    if not any(island.name in other.used for other in state.sessions.values()):
        island.size_bound = 0
        resource_manager.consider(state, island)
