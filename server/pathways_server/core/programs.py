"""Executables: loaded by every host that owns one of their devices, in every epoch again, and only when somebody needs them.

A compilation is one Load per member; one member compiles for those like it (images.py). All members must agree on the digest,
else the program is refused. In a new epoch an executable is loaded from the kept bytes by the first execution that wants it; its
executions wait un-granted.
"""

from __future__ import annotations

from pathways_common.model.agreement import first_difference
from pathways_common.model.array import ExecutableFacts
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId, is_made_by_core, local_id

from . import dropped_loads, estimates, images, loaded_sets, quarantine
from .effects import Compiled, DropProgram, Inspected, InspectExecutable, Unload
from .events import CompileRequested, ExecutableInspected, ExecutableLoaded, InspectRequested, Released
from .placements import IN_EPOCH, bind, device_memory, resolve
from .records import Executable, Inspect, Island, Loading, Placement, Session
from .state import State
from .transitions import ExecutableState, IslandState


def on_compile_requested(state: State, event: CompileRequested, session: Session) -> None:
    number = local_id(event.executable_id)
    failure = None
    if event.executable_id in session.executables:
        failure = state.failure(Reason.INVALID_ARGUMENT, f"id {number} names an executable already; use a new id")
    elif any(event.executable_id in host.loads for host in state.hosts.values()):
        # Their answers would be taken for those of the new one, and it would be launched before it is there.
        message = f"hosts are still loading what id {number} named before; use a new id"
        failure = state.failure(Reason.INVALID_ARGUMENT, message)
    elif len(session.executables) >= state.config.executables_max:
        message = f"the session holds {len(session.executables)} executables, the most allowed; drop some first"
        failure = state.failure(Reason.RESOURCE_EXHAUSTED, message, executables=len(session.executables))
    elif full := dropped_loads.refusal(state, session):
        failure = full
    elif quarantine.is_held(state, event.program):
        failure = quarantine.failure_of(state, event.program, session.tenant.name)
    placement = failure or resolve(state, session, event.devices, f"program {number}")
    if isinstance(placement, Failure):
        state.reply(session, Compiled(number, None, placement))
        not_taken(state, event)
        return
    make(state, session, event.executable_id, event.program, placement, event.callback_ids)


def not_taken(state: State, event: CompileRequested) -> None:
    """Nothing comes of it: the bytes are kept only if another executable is made of them."""
    if event.program not in state.programs:
        state.effects.append(DropProgram(event.program))


def make(
    state: State,
    session: Session,
    identifier: GlobalId,
    program: str,
    placement: Placement,
    callback_ids: tuple[int, ...] = (),
) -> Executable:
    """A new executable of the session, loaded as soon as its island is ACTIVE. `failure` is set if that went wrong at once."""
    deadline = state.now_ns + state.config.island_wait_ns
    executable = Executable(identifier, session, program, placement, callback_ids, estimates.of(state, program), deadline)
    session.executables[executable.id] = executable
    placement.island.executables[executable.id] = executable
    state.programs[program] = state.programs.get(program, 0) + 1
    if refused := quarantine.refusal(state, (executable,)):
        _fail(state, executable, refused)
    elif placement.island.state is IslandState.ACTIVE:
        load(state, executable)
    return executable


def load(state: State, executable: Executable) -> None:
    """Sends Load to every member, on an ACTIVE island."""
    placement = executable.placement
    island = placement.island
    if refused := quarantine.refusal(state, (executable,)):
        _fail(state, executable, refused)
        return
    if not bind(placement):
        message = f"island {island.name} has fewer hosts than when this session was opened; connect again"
        _fail(state, executable, state.failure(Reason.UNAVAILABLE, message, island=island.name))
        return
    state.move(executable, ExecutableState.LOADING)
    executable.epoch = island.epoch
    executable.members = placement.hosts
    executable.answers_due = {host.name: None for host in placement.hosts}
    executable.answered = None
    executable.deadline_ns = state.now_ns + state.config.load_ns
    loaded_sets.enter(state, executable)
    images.send_loads(state, executable)


def on_executable_loaded(state: State, event: ExecutableLoaded) -> None:
    host = state.hosts.get(event.host)
    if host is not None and event.epoch == host.island.epoch:
        answering = host.loads.pop(event.executable_id, None)
        if answering is not None:
            dropped_loads.answered(answering)
    executable = host.island.executables.get(event.executable_id) if host is not None else None
    if host is None or executable is None or executable.epoch != event.epoch or event.host not in executable.answers_due:
        state.ignore(event, "no such load in this epoch")
        return
    del executable.answers_due[event.host]
    images.on_loaded(state, host, executable, event)
    if executable.state is not ExecutableState.LOADING:
        return
    if event.failure is not None:
        _fail(state, executable, event.failure)
        return
    facts = event.facts
    if facts is None:
        _fail(state, executable, state.failure(Reason.INTERNAL, f"host {event.host} loaded a program without saying what it is"))
        return
    reference = executable.facts or executable.answered
    if reference is not None and reference.digest != facts.digest:
        field = first_difference(reference.fields, facts.fields) or "digest"
        message = (
            f"hosts {executable.answered_by} and {event.host} compiled program {local_id(executable.id)} differently:"
            f" they differ in its {field}; run the same jaxlib and flags on every host of the island"
        )
        failure = state.failure(Reason.PROGRAM_REFUSED, message, host=event.host, other_host=executable.answered_by, field=field)
        _fail(state, executable, failure)
        return
    if executable.answered is None:
        executable.answered = facts
        executable.answered_by = event.host
    if executable.untold:
        images.go_on(state, executable, host)
    if not executable.answers_due:
        _loaded(state, executable, executable.answered)


def _loaded(state: State, executable: Executable, facts: ExecutableFacts) -> None:
    if facts.python and not state.config.python_allowed:
        message = "colocated Python is not run by a cluster that serves without tokens; start its controller without --no-auth"
        _fail(state, executable, state.failure(Reason.UNSUPPORTED, message))
        return
    limit = device_memory(executable.placement)
    largest = max([facts.peak_bytes, *facts.output_shard_bytes])
    if limit and largest > limit:
        island = executable.placement.island.name
        message = f"the program needs {largest} bytes per device and a device of island {island} has {limit}; use smaller arrays"
        _fail(state, executable, state.failure(Reason.RESOURCE_EXHAUSTED, message, peak_bytes=largest, device_memory_bytes=limit))
        return
    state.move(executable, ExecutableState.LOADED)
    executable.facts = facts
    if executable.estimate.content is not None:
        executable.estimate.content.loaded = True
    executable.donated = tuple(sorted(facts.donated))
    executable.fallible = facts.fallible or bool(executable.callback_ids)
    if not executable.announced:
        _announce(state, executable, facts, None)
    _wake(state, executable)


def _fail(state: State, executable: Executable, failure: Failure) -> None:
    """Refused. A program that was never announced is forgotten; one that could be used fails its executions."""
    state.move(executable, ExecutableState.FAILED)
    executable.failure = failure
    if not executable.announced:
        _announce(state, executable, None, failure)
        drop(state, executable)
    _wake(state, executable)


def _announce(state: State, executable: Executable, facts: ExecutableFacts | None, failure: Failure | None) -> None:
    """Answers the client, unless the core made the executable for itself."""
    executable.announced = True
    if not is_made_by_core(executable.id):
        state.reply(executable.session, Compiled(local_id(executable.id), facts, failure))


def _wake(state: State, executable: Executable) -> None:
    state.woken.extend(executable.waiters)
    executable.waiters.clear()


def on_island_active(state: State, island: Island) -> None:
    """Compilations that were asked for while the island was forming start now."""
    for executable in list(island.executables.values()):
        if executable.state is ExecutableState.IDLE and (not executable.announced or executable.waiters):
            load(state, executable)


def on_epoch_ended(state: State, island: Island, failure: Failure) -> None:
    """Nothing is loaded any more. A program whose loading saw too many epochs end is taken to be the cause."""
    loaded_sets.on_epoch_ended(island)
    for executable in list(island.executables.values()):
        executable.answers_due.clear()
        executable.untold.clear()
        executable.members = ()
        if executable.state is ExecutableState.LOADING:
            executable.loads_lost += 1
            if executable.loads_lost >= state.config.loads_lost_max:
                _fail(state, executable, failure)
                continue
        if executable.state in (ExecutableState.LOADING, ExecutableState.LOADED):
            state.move(executable, ExecutableState.IDLE)
        executable.deadline_ns = state.now_ns + state.config.island_wait_ns


def release_if_unused(state: State, executable: Executable) -> None:
    """Unloads a released executable once its last execution was granted or failed."""
    if executable.released and not executable.queued:
        drop(state, executable)


def drop(state: State, executable: Executable) -> None:
    """Out of all tables; hosts that have it unload it behind the launches that use it."""
    if executable.session.executables.pop(executable.id, None) is None:
        return
    dropped_loads.note(executable)
    island = executable.placement.island
    island.executables.pop(executable.id, None)
    if island.state in IN_EPOCH and executable.epoch == island.epoch:
        loaded_sets.leave(executable)
        for host in executable.members:
            if host.name not in executable.untold:
                state.tell(host, Unload((executable.id,)))
    for waiter in list(executable.waiters):
        if isinstance(waiter, Inspect) and executable.failure is None:
            finish_inspect(state, waiter, b"", unknown(state, executable.id))
    left = state.programs[executable.program] - 1
    if left:
        state.programs[executable.program] = left
    else:
        del state.programs[executable.program]
        state.effects.append(DropProgram(executable.program))


def on_released(state: State, event: Released, session: Session) -> None:
    for identifier in event.executables:
        executable = session.executables.get(identifier)
        if executable is not None:
            executable.released = True
            release_if_unused(state, executable)


def wait_for(state: State, executable: Executable, waiter: Loading) -> None:
    """Has the executable loaded and the waiter looked at afterwards. The island is ACTIVE."""
    if waiter not in executable.waiters:
        executable.waiters.append(waiter)
    if executable.state is ExecutableState.IDLE:
        load(state, executable)


# ---- inspection -----------------------------------------------------------------------------------------------------


def on_inspect_requested(state: State, event: InspectRequested, session: Session) -> None:
    executable = session.executables.get(event.executable_id)
    if executable is None:
        failure = unknown(state, event.executable_id)
        state.reply(session, Inspected(event.inspect_id, b"", failure))
        return
    if message := state.inspecting.refusal(session.number, session.tenant.name, "inspections"):
        failure = state.failure(Reason.RESOURCE_EXHAUSTED, message)
        state.reply(session, Inspected(event.inspect_id, b"", failure))
        return
    deadline = state.now_ns + state.config.inspect_ns
    inspect = Inspect(state.number(), session, event.inspect_id, executable, event.kind, deadline)
    state.inspects[inspect.number] = inspect
    state.inspecting.enter(session.number, session.tenant.name)
    try_inspect(state, inspect)


def try_inspect(state: State, inspect: Inspect) -> None:
    if inspect.number not in state.inspects or inspect.host is not None:
        return
    executable = inspect.executable
    if executable.failure is not None:
        finish_inspect(state, inspect, b"", executable.failure)
    elif executable.session.executables.get(executable.id) is not executable:
        # What woke it was also the last that others waited for: the hosts have been told to unload it.
        finish_inspect(state, inspect, b"", unknown(state, executable.id))
    elif executable.state is ExecutableState.LOADED:
        inspect.host = executable.members[0]
        state.tell(inspect.host, InspectExecutable(inspect.number, executable.id, inspect.kind))
    elif executable.placement.island.state is IslandState.ACTIVE:
        wait_for(state, executable, inspect)
    elif inspect not in executable.waiters:
        executable.waiters.append(inspect)


def finish_inspect(state: State, inspect: Inspect, inspection: bytes, failure: Failure | None) -> None:
    if forget_inspect(state, inspect):
        state.reply(inspect.session, Inspected(inspect.inspect_id, inspection, failure))


def forget_inspect(state: State, inspect: Inspect) -> bool:
    """Takes it out of the table, answered or not; False if it was out already."""
    if state.inspects.pop(inspect.number, None) is None:
        return False
    state.inspecting.leave(inspect.session.number, inspect.session.tenant.name)
    return True


def on_executable_inspected(state: State, event: ExecutableInspected) -> None:
    inspect = state.inspects.get(event.inspect_id)
    if inspect is None or inspect.host is None or inspect.host.name != event.host:
        state.ignore(event, "no such inspection")
        return
    finish_inspect(state, inspect, event.inspection, event.failure)


def unknown(state: State, identifier: GlobalId) -> Failure:
    number = local_id(identifier)
    message = f"no executable has id {number}; it was released or never compiled"
    return state.failure(Reason.INVALID_ARGUMENT, message, executable=number)


def expire(state: State) -> None:
    """Compilations, reloads and inspections past their deadline."""
    for island in state.islands.values():
        for executable in list(island.executables.values()):
            due = executable.state is ExecutableState.LOADING or not executable.announced
            if due and executable.deadline_ns <= state.now_ns:
                _fail(state, executable, _late(state, executable))
    for inspect in [inspect for inspect in state.inspects.values() if inspect.deadline_ns <= state.now_ns]:
        failure = state.failure(Reason.TIMED_OUT, "the executable was not inspected in time; try again", retryable=True)
        finish_inspect(state, inspect, b"", failure)


def _late(state: State, executable: Executable) -> Failure:
    number, island = local_id(executable.id), executable.placement.island
    if executable.state is not ExecutableState.LOADING:
        why = island.last_failure or island.state.value
        message = f"program {number} was not compiled: island {island.name} did not become ACTIVE in time ({why}); try again"
        return state.failure(Reason.UNAVAILABLE, message, retryable=True, island=island.name)
    seconds = state.config.load_ns // 1_000_000_000
    late = ", ".join(executable.answers_due)
    message = f"program {number} was not loaded within {seconds} s; still out: {late}"
    return state.failure(Reason.TIMED_OUT, message, seconds=seconds, late=late)
