"""Suspended slices: their arrays are in the stores of their hosts' daemons, their devices are others', their programs wait.

Suspending waits for a quiet moment, as a migration does, and then spills. What is put on a suspended slice, or run there, fails
and says so; arrays may be read. Resuming takes the same devices if they are free, else others, to which the arrays are copied.
"""

from __future__ import annotations

from pathways_common.model.cells import plain_name
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName

from . import buffers, definitions, migrations, rebinding, resource_manager, slices, spills
from .effects import SliceResumed, SliceSuspended
from .events import ResumeRequested, SuspendRequested
from .migration_records import Migration, Purpose
from .placer import Chosen
from .records import Buffer, Session, Slice, View, VirtualDevice
from .state import State
from .transitions import BufferState, IslandState, SliceState

_THERE = (BufferState.PRESENT, BufferState.SPILLED)


def on_suspend_requested(state: State, event: SuspendRequested, session: Session) -> None:
    held = session.slices.get(event.slice_id)
    failure: Failure | None = None
    if held is None or held.island is None or held.state is not SliceState.BOUND:
        message = f"slice {event.slice_id} is not one that this session holds; suspend slices that were added and not released"
        failure = state.failure(Reason.INVALID_ARGUMENT, message)
    elif session.migration is not None:
        message = f"something of session {session.number} is being moved; suspend slice {event.slice_id} then"
        failure = state.failure(Reason.UNAVAILABLE, message, retryable=True)
    if held is None or held.island is None or failure is not None:
        state.reply(session, SliceSuspended(event.slice_id, failure))
        return
    places = {position: position for position in held.positions}
    found = migrations.start(state, session, held.number, held.island, held.island, places, Purpose.SUSPEND)
    if isinstance(found, Failure):
        state.reply(session, SliceSuspended(event.slice_id, found))


def on_resume_requested(state: State, event: ResumeRequested, session: Session) -> None:
    held = session.slices.get(event.slice_id)
    failure: Failure | None = None
    if held is None or held.state is not SliceState.SUSPENDED:
        failure = state.failure(Reason.INVALID_ARGUMENT, f"slice {event.slice_id} of this session is not suspended")
    elif session.migration is not None:
        message = f"something of session {session.number} is being moved; resume slice {event.slice_id} then"
        failure = state.failure(Reason.UNAVAILABLE, message, retryable=True)
    else:
        failure = _resume(state, session, held)
    if failure is not None:
        state.reply(session, SliceResumed(event.slice_id, "", (), failure))


def _resume(state: State, session: Session, held: Slice) -> Failure | None:
    answer = slices.place_again(state, held)
    origin = held.island
    assert origin is not None
    if not isinstance(answer, Chosen):
        message = f"slice {held.request.slice_id} cannot be resumed now: it needs {answer.text}; ask again later"
        return state.failure(Reason.RESOURCE_EXHAUSTED, message, retryable=True)
    target = slices.island_for(state, session, answer.island)
    if target is origin and sorted(answer.positions) == sorted(held.positions):
        wake(state, session, held)
        return None
    if origin.state is not IslandState.ACTIVE:
        message = f"slice {held.request.slice_id} cannot be resumed now: its arrays are on island {origin.name}"
        return state.failure(
            Reason.UNAVAILABLE, f"{message} ({resource_manager.lacks(state, origin)}); ask again later", retryable=True
        )
    places = dict(zip(held.positions, answer.positions, strict=True))
    found = migrations.start(state, session, held.number, origin, target, places, Purpose.RESUME)
    return found if isinstance(found, Failure) else None


# ---- out --------------------------------------------------------------------------------------------------------------


def spill_all(state: State, migration: Migration) -> Failure | None:
    """Its session is quiet: everything goes to the stores of its hosts."""
    if shares_bytes(migration):
        message = f"an array of slice {_slice_id(migration)} shares its bytes with another; copy it, and suspend the slice then"
        return state.failure(Reason.UNSUPPORTED, message)
    put_away(state, migration)
    return None


def shares_bytes(migration: Migration) -> bool:
    """Whether hosts know any of its arrays under a second name."""
    return any(buffer.origins or buffer.aliases for buffer in arrays_of(migration))


def put_away(state: State, migration: Migration) -> None:
    """Hosts are told to spill all of it that is on devices."""
    for handle in migration.session.handles.values():
        if isinstance(handle, View) and handle.epoch and rebinding.concerns(migration, handle.placement):
            buffers.forget_view(state, handle)  # hosts would keep the bytes for it; it is made again at its next use
    state.flush_frees()  # before they are asked for the arrays
    for buffer in arrays_of(migration):
        if buffer.state is BufferState.PRESENT:
            spills.spill(state, buffer)


def arrays_of(migration: Migration) -> list[Buffer]:
    """Its arrays that have bytes."""
    found = [buffer for buffer in migration.session.buffers.values() if rebinding.concerns(migration, buffer.placement)]
    return [buffer for buffer in found if buffer.state in _THERE and buffer.shard_bytes and buffer.ended is None]


def is_put_away(migration: Migration) -> bool:
    """Whether all of it is in stores."""
    return all(buffer.state is BufferState.SPILLED for buffer in arrays_of(migration))


def kept_on_devices(state: State, migration: Migration) -> Failure | None:
    """Why it cannot be suspended, when all hosts have answered."""
    if is_put_away(migration):
        return None
    message = (
        f"slice {_slice_id(migration)} was not suspended: a host has no room for its arrays (spill_memory, spill_disk of its"
        " worker); delete some, or have it raised"
    )
    return state.failure(Reason.RESOURCE_EXHAUSTED, message, retryable=True)


def _slice_id(migration: Migration) -> int:
    return next(held.request.slice_id for held in migration.session.slices.values() if held.number == migration.owner)


def sleep(state: State, migration: Migration) -> None:
    """Its devices are free for others."""
    session = migration.session
    assert migration.owner is not None, "one slice is suspended"
    held = state.slices[migration.owner]
    message = f"slice {held.request.slice_id} is suspended; resume it first (pw.resume)"
    failure = held.suspended = state.failure(Reason.UNAVAILABLE, message, slice=held.request.slice_id)
    state.move(held, SliceState.SUSPENDED)
    rebinding.forget_finished(migration)
    for device in held.devices:
        session.devices[device] = None
    for executable in session.executables.values():
        if rebinding.concerns(migration, executable.placement):
            rebinding.unload(state, executable)
            executable.ended = executable.ended or failure
    for definition in session.definitions.values():
        if held.number in definitions.slices_of(definition):
            rebinding.unload_plans(state, definition)
            definition.ended = definition.ended or failure
    state.log("slice suspended", session=session.number, slice=held.request.slice_id)


# ---- and back ---------------------------------------------------------------------------------------------------------


def wake(state: State, session: Session, held: Slice) -> None:
    """It has devices again: those of `held`. Arrays come back when they are needed."""
    island = held.island
    assert island is not None
    state.move(held, SliceState.BOUND)
    for device, position in zip(held.devices, held.positions, strict=True):
        session.devices[device] = VirtualDevice(island, position, held.number)
    island.size_bound = island.size_bound or len(island.members)
    allow(session, held)
    rebinding.define_stale(state, session)
    names = [plain_name(resource_manager.host_of(island, position)) for position in held.positions]
    hosts = tuple(HostName(name) for name in names)
    state.reply(session, SliceResumed(held.request.slice_id, island.ground.name, hosts, None))
    positions = ",".join(map(str, held.positions))
    state.log("slice resumed", session=session.number, slice=held.request.slice_id, island=island.name, positions=positions)


def allow(session: Session, held: Slice) -> None:
    """Its programs may run, and may be lowered anew."""
    failure, held.suspended = held.suspended, None
    if failure is None:
        return
    for executable in session.executables.values():
        if executable.ended is failure:
            executable.ended = None
    for definition in session.definitions.values():
        if definition.ended is failure:
            definition.ended = None


def ended(state: State, migration: Migration, failure: Failure | None) -> None:
    """The answer to its client, unless `wake` has given it."""
    held = next((held for held in migration.session.slices.values() if held.number == migration.owner), None)
    if held is None or migration.session.number not in state.sessions:
        return
    if migration.purpose is Purpose.SUSPEND:
        state.reply(migration.session, SliceSuspended(held.request.slice_id, failure))
    elif failure is not None:
        state.reply(migration.session, SliceResumed(held.request.slice_id, "", (), failure))
