"""Programs under a name, beyond the session that defined them: names of a tenant, each with its versions.

A registered program holds no executable: it keeps what its computations were compiled from (`State.programs` counts it as a user
of the bytes) and where they lay, as positions in its list of devices. Opening one compiles it anew for devices of the session,
under ids of the core's own half. Whoever opened a version keeps it, whatever becomes of its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.graph import (
    ArgumentKind,
    BranchKind,
    Computation,
    ComputationKind,
    Graph,
    LoopKind,
    Node,
    Program,
    ResultKind,
)
from pathways_common.model.ids import GlobalId, local_id, made_by_core
from pathways_common.model.registered import ListedProgram, Origin, RegisteredProgram

from . import definitions, dropped_loads, fusion, programs
from .composites import outputs_of
from .effects import DropProgram, ForgetProgram, KeepProgram, ProgramDefined, ProgramRegistered, ProgramUnregistered
from .events import OpeningRequested, ProgramsRestored, RegistrationRequested, UnregistrationRequested
from .placements import owners_of, resolve
from .records import Definition, Executable, Session
from .state import State


def on_registration_requested(state: State, event: RegistrationRequested, session: Session) -> None:
    number = local_id(event.program_id)
    definition = definitions.get(session, event.program_id)
    if definition is None:
        found: RegisteredProgram | Failure = definitions.unknown(state, event.program_id)
    else:
        found = _copied(state, event, session, definition)
    if isinstance(found, Failure):
        state.reply(session, ProgramRegistered(number, event.name, 0, found))
        return
    _enter(state, found)
    # Kept before anybody is told.
    state.effects.append(KeepProgram(found))
    state.reply(session, ProgramRegistered(number, found.name, found.version, None))
    state.log("program registered", name=found.name, version=found.version, session=session.number)


def _copied(state: State, event: RegistrationRequested, session: Session, definition: Definition) -> RegisteredProgram | Failure:
    """What is to be kept of a definition, or why it cannot be."""
    tenant = session.tenant.name
    names = state.registry.setdefault(tenant, {})
    known = names.get(event.name, {})
    if known and not event.replace:
        message = f"the name {event.name!r} is taken, by version {max(known)}; choose another one, or register with replace"
        return state.failure(Reason.INVALID_ARGUMENT, message, name=event.name, version=max(known))
    count = sum(len(versions) for versions in names.values())
    if count >= state.config.registered_max:
        message = f"{count} programs are registered, the most allowed; unregister some first"
        return state.failure(Reason.RESOURCE_EXHAUSTED, message, programs=count)
    failure = definitions.defect(definition)
    if failure is not None:
        return failure
    program = definition.program
    positions = {device: index for index, device in enumerate(program.devices)}
    origins: list[Origin] = []
    computations: list[Computation] = []
    offered = fusion.checked(definition)
    fused = [group.computation for group in offered]
    for index, computation in enumerate((*program.computations, *fused)):
        executable = session.executables[computation.executable_id]
        origin = _origin(state, session, executable, program)
        if isinstance(origin, Failure):
            return origin
        origins.append(origin)
        computations.append(_moved(computation, positions, GlobalId(index + 1)))
    graphs = tuple(Graph(tuple(_moved_node(node, positions) for node in graph.nodes)) for graph in program.graphs)
    own = len(program.computations)
    groups = tuple(replace(group, computation=moved) for group, moved in zip(offered, computations[own:], strict=True))
    kept = Program(program.name, tuple(range(len(positions))), tuple(computations[:own]), graphs, program.sequential, groups)
    return RegisteredProgram(tenant, event.name, max(known, default=0) + 1, kept, tuple(origins))


def _origin(state: State, session: Session, executable: Executable, program: Program) -> Origin | Failure:
    if executable.callback_ids:
        name = executable.session.client or "its client"
        message = (
            f"a computation of program {program.name!r} calls back into {name}; a program under a name has no client:"
            " leave out pure_callback, io_callback and debug.print"
        )
        return state.failure(Reason.UNSUPPORTED, message, program=program.name)
    where: dict[tuple[object, int, int], int] = {}
    for index, device in enumerate(program.devices):
        found = session.devices[device] if 0 <= device < len(session.devices) else None
        if found is not None:
            other = where.setdefault((found.island, found.position, found.owner), index)
            if other != index:
                which = f"devices {program.devices[other]} and {device} of program {program.name!r}"
                message = f"{which} share one physical device since a host was drained; define it on devices that do not"
                return state.failure(Reason.INVALID_ARGUMENT, message, program=program.name)
    placement = executable.placement
    devices = [
        where.get((placement.island, position, owner), -1)
        for position, owner in zip(placement.positions, owners_of(placement), strict=True)
    ]
    if min(devices) < 0:
        message = f"a computation of program {program.name!r} runs on a device that the program does not list; add it there"
        return state.failure(Reason.INVALID_ARGUMENT, message, program=program.name)
    return Origin(executable.program, tuple(devices))


def _enter(state: State, program: RegisteredProgram) -> None:
    state.registry.setdefault(program.tenant, {}).setdefault(program.name, {})[program.version] = program
    for origin in program.origins:
        state.programs[origin.program] = state.programs.get(origin.program, 0) + 1


def on_programs_restored(state: State, event: ProgramsRestored) -> None:
    """What an earlier life of the controller kept. The shell has the bytes."""
    for program in event.programs:
        _enter(state, program)
    state.log("programs restored", count=len(event.programs))


# ---- opening --------------------------------------------------------------------------------------------------------


def on_opening_requested(state: State, event: OpeningRequested, session: Session) -> None:
    found = _find(state, session, event.name, event.version)
    failure = found if isinstance(found, Failure) else _open(state, event, session, found)
    if failure is not None:
        state.reply(session, ProgramDefined(local_id(event.program_id), (), (), event.name, event.version, failure))


def _open(state: State, event: OpeningRequested, session: Session, kept: RegisteredProgram) -> Failure | None:
    """Compiles and defines; the answer comes from the definition unless a failure is returned."""
    count = len(kept.program.devices)
    devices = event.devices or tuple(range(min(count, session.primary_count)))
    if len(devices) != count:
        has = f"{len(devices)} were named" if event.devices else f"this session has {session.primary_count}"
        message = f"program {kept.name!r} runs on {count} devices and {has}; name {count} devices of the session"
        return state.failure(Reason.INVALID_ARGUMENT, message, expected=count, got=len(devices))
    if len(session.executables) + len(kept.origins) > state.config.executables_max:
        message = f"the session holds {len(session.executables)} executables, the most allowed; drop some first"
        return state.failure(Reason.RESOURCE_EXHAUSTED, message, executables=len(session.executables))
    if full := dropped_loads.refusal(state, session):
        return full
    made: list[Executable] = []
    failure: Failure | None = None
    known: dict[Origin, Executable] = {}
    for origin in kept.origins:
        if origin in known:
            made.append(known[origin])
            continue
        placement = _apart(state, session, kept, origin, devices) or resolve(
            state, session, tuple(devices[position] for position in origin.devices), f"program {kept.name!r}"
        )
        if isinstance(placement, Failure):
            failure = placement
            break
        identifier = made_by_core(session.number, session.values)
        session.values += 1
        executable = programs.make(state, session, identifier, origin.program, placement)
        known[origin] = executable
        made.append(executable)
        failure = executable.failure
        if failure is not None:
            break
    if failure is None:
        positions = dict(enumerate(devices))
        definitions.define(state, session, event.program_id, _placed(kept.program, positions, made), kept.name, kept.version)
    # Only the definition, if there is one, holds them from here on.
    for executable in known.values():
        executable.released = True
        programs.release_if_unused(state, executable)
    return failure


def _apart(state: State, session: Session, kept: RegisteredProgram, origin: Origin, devices: tuple[int, ...]) -> Failure | None:
    """Devices of several islands where the program has those of one, as when a list mixes the slices of another order."""
    named = {position: devices[position] for position in origin.devices}
    known = {position: session.devices[device] for position, device in named.items() if 0 <= device < len(session.devices)}
    islands = {position: device.island.name for position, device in known.items() if device is not None}
    first = next(iter(islands), 0)
    other = next((position for position in islands if islands[position] != islands[first]), None)
    if other is None:
        return None
    message = (
        f"program {kept.name!r} computes with places {first} and {other} of its list of devices together, and devices"
        f" {named[first]} and {named[other]}, named there, lie on islands {islands[first]} and {islands[other]};"
        " name devices of one island there, in the order in which the program was registered"
    )
    return state.failure(Reason.PROGRAM_REFUSED, message, device=named[first], other_device=named[other])


def _placed(program: Program, devices: dict[int, int], made: list[Executable]) -> Program:
    own = len(program.computations)
    computations = tuple(
        _moved(computation, devices, executable.id)
        for computation, executable in zip(program.computations, made[:own], strict=True)
    )
    groups = tuple(
        replace(group, computation=_moved(group.computation, devices, executable.id))
        for group, executable in zip(program.fused, made[own:], strict=True)
    )
    graphs = tuple(Graph(tuple(_moved_node(node, devices) for node in graph.nodes)) for graph in program.graphs)
    return replace(program, devices=tuple(devices.values()), computations=computations, graphs=graphs, fused=groups)


# ---- devices renamed ------------------------------------------------------------------------------------------------


def _moved(computation: Computation, devices: dict[int, int], executable: GlobalId) -> Computation:
    return Computation(executable, _moved_specs(computation.parameters, devices), _moved_specs(computation.results, devices))


def _moved_specs(specs: tuple[ArraySpec, ...], devices: dict[int, int]) -> tuple[ArraySpec, ...]:
    return tuple(replace(spec, devices=tuple(devices[device] for device in spec.devices)) for spec in specs)


def _moved_node(node: Node, devices: dict[int, int]) -> Node:
    kind = node.kind
    match kind:
        case ArgumentKind():
            return replace(node, kind=ArgumentKind(_moved_specs(kind.specs, devices)))
        case BranchKind():
            return replace(node, kind=replace(kind, results=_moved_specs(kind.results, devices)))
        case LoopKind():
            return replace(node, kind=replace(kind, carried=_moved_specs(kind.carried, devices)))
        case ComputationKind() | ResultKind():
            return node
        case _:
            assert_never(kind)


# ---- names ----------------------------------------------------------------------------------------------------------


def _find(state: State, session: Session, name: str, version: int) -> RegisteredProgram | Failure:
    versions = state.registry.get(session.tenant.name, {}).get(name, {})
    if not versions:
        message = f"no program is registered as {name!r}; `pathways programs` lists those that are"
        return state.failure(Reason.INVALID_ARGUMENT, message, name=name)
    found = versions.get(version or max(versions))
    if found is None:
        has = ", ".join(map(str, list(versions)[-8:]))
        message = f"program {name!r} has no version {version}; it has {has}"
        return state.failure(Reason.INVALID_ARGUMENT, message, name=name, version=version)
    return found


def on_unregistration_requested(state: State, event: UnregistrationRequested, session: Session) -> None:
    found = _find(state, session, event.name, event.version)
    if isinstance(found, Failure):
        state.reply(session, ProgramUnregistered(event.request_id, found))
        return
    names = state.registry[session.tenant.name]
    going = [found] if event.version else list(names[event.name].values())
    for program in going:
        del names[event.name][program.version]
        _forget(state, program)
    if not names[event.name]:
        del names[event.name]
    state.log("program unregistered", name=event.name, versions=len(going), session=session.number)
    state.reply(session, ProgramUnregistered(event.request_id, None))


def forget_tenant(state: State, tenant: str) -> None:
    """Everything that is registered for a tenant goes."""
    for versions in state.registry.pop(tenant, {}).values():
        for program in versions.values():
            _forget(state, program)


def _forget(state: State, program: RegisteredProgram) -> None:
    state.effects.append(ForgetProgram(program.tenant, program.name, program.version))
    for origin in program.origins:
        _release_bytes(state, origin.program)


def _release_bytes(state: State, program: str) -> None:
    left = state.programs[program] - 1
    if left:
        state.programs[program] = left
    else:
        del state.programs[program]
        state.effects.append(DropProgram(program))


def registered(state: State) -> Iterator[RegisteredProgram]:
    """Every version of every program, by tenant and name."""
    for names in state.registry.values():
        for name in sorted(names):
            yield from names[name].values()


def listed(state: State, tenant: str | None = None) -> list[ListedProgram]:
    """What a view of the cluster, or of one tenant, shows. Specs name positions in the program's list of devices."""
    found: list[ListedProgram] = []
    for kept in registered(state):
        if tenant is not None and kept.tenant != tenant:
            continue
        program = kept.program
        nodes = program.graphs[0].nodes
        results = tuple(outputs_of(nodes[edge.node], program.computations)[edge.output] for edge in nodes[-1].inputs)
        arguments = outputs_of(nodes[0], program.computations)
        node_count = sum(isinstance(node.kind, ComputationKind | BranchKind | LoopKind) for node in nodes)
        found.append(ListedProgram(kept.tenant, kept.name, kept.version, len(program.devices), node_count, arguments, results))
    return found
