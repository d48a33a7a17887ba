"""Other physical devices behind the same virtual ones: placements, arrays, views, executables and programs of a quiet session.

Hosts know an array that was moved under the id of its copy; to the client it stays what it was. Plans are lowered anew, and
executables are loaded at their next use, from images where there are any.
"""

from __future__ import annotations

from collections.abc import Iterator

from pathways_common.model.failure import Failure

from . import buffers, definitions, fusion, irregular, loaded_sets, plans
from .composite_plan import CompositePlan
from .composites import is_regular
from .effects import Unload
from .lowering import lower
from .migration_records import Migration
from .placements import IN_EPOCH, intern, owners_of
from .plan import Plan
from .records import NO_EPOCH, Buffer, Definition, Executable, Execution, Island, Part, Placement, Session, View, VirtualDevice
from .state import State
from .transitions import ExecutableState, SliceState


def concerns(migration: Migration, placement: Placement | None) -> bool:
    """Whether something lies on the devices that move, with all of it or a part."""
    if placement is None or placement.island is not migration.origin:
        return False
    return migration.owner is None or migration.owner in owners_of(placement)


def moved(migration: Migration, placement: Placement) -> Placement:
    """The placement on the new devices of something that `concerns` the migration."""
    assert _whole(migration, placement), "what lies on several slices is not moved"
    positions = tuple(migration.places[position] for position in placement.positions)
    return intern(migration.target, positions, placement.owners)


def mixed(migration: Migration) -> str:
    """What lies on the devices that move and on others of their island too, in words; empty if nothing does."""
    session = migration.session
    for executable in session.executables.values():
        if concerns(migration, executable.placement) and not _whole(migration, executable.placement):
            return "a program"
    for buffer in session.buffers.values():
        if concerns(migration, buffer.placement) and buffer.placement is not None and not _whole(migration, buffer.placement):
            return "an array"
    return ""


def collides(migration: Migration) -> str:
    """What lies on devices that would become one, in words; empty if nothing does."""
    places = migration.places
    if len(set(places.values())) == len(places):
        return ""
    for placement in laid_out(migration.session, migration.origin):
        if concerns(migration, placement):
            new = [places[position] for position in placement.positions]
            if len(set(new)) < len(new):
                return "an array or a program"
    return ""


def has_python(migration: Migration) -> bool:
    """Whether colocated Python is loaded there: what its objects hold is in a process of the hosts, and cannot be moved."""
    return any(
        concerns(migration, executable.placement) and executable.facts is not None and executable.facts.holds_state
        for executable in migration.session.executables.values()
    )


def _whole(migration: Migration, placement: Placement) -> bool:
    return migration.owner is None or all(owner == migration.owner for owner in owners_of(placement))


def rebind(state: State, migration: Migration) -> None:
    """Everything at once; the copies are there and nothing of the session is under way."""
    session = migration.session
    forget_finished(migration)
    touched = [definition for definition in session.definitions.values() if _touches(migration, definition)]
    _devices(state, migration)
    rename(state, migration)
    for executable in list(session.executables.values()):
        if concerns(migration, executable.placement):
            _executable(state, executable, moved(migration, executable.placement))
    for definition in touched:
        definition.stale = True
    define_stale(state, session)


def rename(state: State, migration: Migration) -> None:
    """What the client calls by the originals are the copies from here on."""
    session = migration.session
    taken = [buffer for buffer in session.buffers.values() if buffer in migration.copies]
    _views(state, migration)
    for buffer in taken:
        buffers.drop_handle(state, session, migration.copies[buffer].id)  # its own name; the client's name it now
        buffers.settle(state, buffer)


def renumber(state: State, migration: Migration) -> None:
    """The hosts of its island have other ranks: all that the session has there lies where it lay, under other positions.

    What is over and lay on devices that are gone stays as it is: nobody asks for it any more.
    """
    session, places = migration.session, migration.places

    def stays(placement: Placement | None) -> bool:
        return concerns(migration, placement) and placement is not None and all(each in places for each in placement.positions)

    touched = [definition for definition in session.definitions.values() if _touches(migration, definition)]
    for index, device in enumerate(session.devices):
        if device is not None and device.island is migration.origin:
            session.devices[index] = device._replace(position=places[device.position])
    for held in session.slices.values():
        if held.island is migration.origin:
            held.positions = tuple(places[position] for position in held.positions)
            positions = ",".join(map(str, held.positions))
            name = migration.origin.name
            state.log("slice renumbered", session=session.number, slice=held.request.slice_id, island=name, positions=positions)
    for buffer in session.buffers.values():
        if stays(buffer.placement) and buffer.placement is not None:
            buffer.placement = moved(migration, buffer.placement)
    for handle in session.handles.values():
        if isinstance(handle, View) and concerns(migration, handle.placement):
            handle.placement = buffers.view_of(handle.id, handle.parts).placement
    for executable in list(session.executables.values()):
        if stays(executable.placement):
            _executable(state, executable, moved(migration, executable.placement))
        elif concerns(migration, executable.placement):
            unload(state, executable)
    for definition in touched:
        definition.stale = True
    define_stale(state, session)


def define_stale(state: State, session: Session) -> None:
    """Lowers what has other devices since it was lowered; on slices that are suspended when all of them are resumed."""
    suspended = [held.number for held in session.slices.values() if held.state is SliceState.SUSPENDED]
    for definition in session.definitions.values():
        if definition.stale and not any(number in suspended for number in definitions.slices_of(definition)):
            definition.stale = False
            _define_again(state, definition)


def unload_all(state: State, migration: Migration) -> None:
    """Of programs that touch the devices, hosts forget their plans."""
    for definition in migration.session.definitions.values():
        if _touches(migration, definition):
            unload_plans(state, definition)


def laid_out(session: Session, island: Island) -> Iterator[Placement]:
    """Every way in which something of a session that is not over lies on an island, some of them more than once."""
    placements = [executable.placement for executable in session.executables.values() if executable.ended is None]
    placements += [
        buffer.placement
        for buffer in session.buffers.values()
        if buffer.placement is not None and buffer.state not in buffers.DEAD
    ]
    placements += [
        handle.placement for handle in session.handles.values() if isinstance(handle, View) and handle.placement is not None
    ]
    for definition in session.definitions.values():
        for plan in _plans(definition) if definition.ended is None else ():
            placements += [each.placement for each in (*plan.arguments, *plan.specs, *plan.result_specs)]
    return (placement for placement in placements if placement.island is island)


def _devices(state: State, migration: Migration) -> None:
    session, target = migration.session, migration.target
    for index, device in enumerate(session.devices):
        if device is not None and device.island is migration.origin and device.owner == migration.owner:
            session.devices[index] = VirtualDevice(target, migration.places[device.position], device.owner)
    if not migration.owner:
        session.islands = tuple(target if island is migration.origin else island for island in session.islands)
        return
    held = next(held for held in session.slices.values() if held.number == migration.owner)
    held.island, held.positions = target, tuple(migration.places[position] for position in held.positions)
    for index, position in zip(held.devices, held.positions, strict=True):  # also of one that was suspended
        session.devices[index] = VirtualDevice(target, position, held.number)
    positions = ",".join(map(str, held.positions))
    state.log("slice moved", session=session.number, slice=held.request.slice_id, island=target.name, positions=positions)


def _views(state: State, migration: Migration) -> None:
    """Names of arrays that were copied name the copies."""
    session, copies = migration.session, migration.copies
    for identifier, handle in list(session.handles.items()):
        if isinstance(handle, Buffer):
            copy = copies.get(handle)
            if copy is None:
                continue
            assert copy.placement is not None
            view = buffers.view_of(identifier, (Part(copy, 0, len(copy.placement.positions)),))
            session.handles[identifier] = view
            handle.handles -= 1
            copy.handles += 1
        elif any(part.buffer in copies for part in (*handle.parts, *handle.copies)):
            if handle.epoch:
                buffers.forget_view(state, handle)
            parts, elsewhere = _renamed(handle.parts, copies), _renamed(handle.copies, copies)
            for old, new in zip((*handle.parts, *handle.copies), (*parts, *elsewhere), strict=True):
                old.buffer.handles -= 1
                new.buffer.handles += 1
            view = session.handles[identifier] = buffers.view_of(identifier, parts)
            view.copies = elsewhere


def _renamed(parts: tuple[Part, ...], copies: dict[Buffer, Buffer]) -> tuple[Part, ...]:
    return tuple(Part(copies.get(part.buffer, part.buffer), part.start, part.length) for part in parts)


def _touches(migration: Migration, definition: Definition) -> bool:
    placed = [each for plan in _plans(definition) for each in (*plan.arguments, *plan.specs, *plan.result_specs)]
    if definition.composite is not None:
        placed += [*definition.composite.arguments, *definition.composite.result_specs]
    placements = [each.placement for each in placed] + [executable.placement for executable in definition.executables]
    return any(concerns(migration, placement) for placement in placements)


def _executable(state: State, executable: Executable, placement: Placement) -> None:
    """Not loaded where it is to be."""
    unload(state, executable)
    del executable.placement.island.executables[executable.id]
    executable.placement = placement
    placement.island.executables[executable.id] = executable


def forget_finished(migration: Migration) -> None:
    """What its hosts did last for the session is told by executables and placements, which are others now."""
    for host in migration.origin.members:
        if host.finished is not None:
            gang = host.finished[1]
            session = gang.lane.session if isinstance(gang, Execution) else gang.run.definition.session
            if session is migration.session:
                host.finished = None


def unload(state: State, executable: Executable) -> None:
    """Hosts that have it unload it; it is loaded again at its next use."""
    island = executable.placement.island
    if island.state in IN_EPOCH and executable.epoch == island.epoch:
        for host in executable.members:
            state.tell(host, Unload((executable.id,)))
        loaded_sets.leave(executable)
    executable.epoch, executable.members = NO_EPOCH, ()
    if executable.state is ExecutableState.LOADED:
        state.move(executable, ExecutableState.IDLE)


def _define_again(state: State, definition: Definition) -> None:
    """Lowers it onto the new devices. It was lowered before, so only what `lower` says of devices can be wrong with it now."""
    unload_plans(state, definition)
    program = definition.program
    regular = not program.graphs or is_regular(program.graphs[0])
    found = lower(state, definition.session, program) if regular else irregular.lower(state, definition.session, program)
    match found:
        case Failure():
            definition.ended = definition.ended or found
            return
        case CompositePlan():
            definition.composite = found
        case _:
            definition.plan = found
    fusion.try_fuse(state, definition)


def unload_plans(state: State, definition: Definition) -> None:
    """A plan on hosts relies on executables that are loaded there as long as the epoch lasts."""
    for plan in _plans(definition):
        plans.unload(state, plan)


def _plans(definition: Definition) -> Iterator[Plan]:
    if definition.plan is not None:
        yield definition.plan
    if definition.composite is not None:
        yield from definition.composite.plans


def is_left(session: Session, island: Island) -> bool:
    """Whether nothing of a session lies on an island any more."""
    if any(device is not None and device.island is island for device in session.devices):
        return False
    if any(held.island is island for held in session.slices.values()):
        return False
    if any(executable.placement.island is island for executable in session.executables.values()):
        return False
    return not any(
        buffer.placement is not None and buffer.placement.island is island and buffer.epoch
        for buffer in session.buffers.values()
        if buffer.state not in buffers.DEAD
    )
