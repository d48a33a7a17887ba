"""The island scheduler: one order per island, made at the grant and never before.

Each session has a first-in first-out lane on each island; among lanes that nothing blocks a policy chooses. The head of a lane is
granted when its executable is loaded and every argument is present: one atomic step gives it the next island sequence
and tells every member, with the sequence that this member launched before (D7, D8). A grant is never withdrawn.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId, Sequence, local_id

from . import admission, buffers, colocated, fences, policies, programs, quarantine, quotas, runs, shares, turns, windows
from .effects import LocalShard, PlaceView, Prepare, SendToHost
from .events import ExecuteRequested, RunRequested
from .placements import bind
from .records import Buffer, Executable, Execution, Handle, Island, Lane, Placement, Session, View
from .run_records import Run
from .state import State
from .transitions import BufferState, ExecutableState, ExecutionState, IslandState

_PRESENT = BufferState.PRESENT
_ACTIVE = IslandState.ACTIVE
_LOADED = ExecutableState.LOADED


def on_execute_requested(state: State, event: ExecuteRequested, session: Session) -> None:
    executable = session.executables.get(event.executable_id)
    if executable is None or executable.facts is None or executable.released:
        refuse(state, session, event, 1, programs.unknown(state, event.executable_id))
        return
    if event.execution_id <= session.last_execution:
        refuse(state, session, event, executable.facts.output_count, reused(state, session, event.execution_id))
        return
    session.last_execution = event.execution_id
    session.executions += 1
    placement = executable.placement
    handles = session.handles
    arguments: list[Handle] = []
    plain = True
    failure: Failure | None = None
    for identifier in event.arguments:
        handle = handles.get(identifier)
        if handle.__class__ is Buffer and handle.placement is placement and handle.ended is None and handle.failure is None:
            arguments.append(handle)
            continue
        plain = False
        failure = _argument_failure(state, handle, identifier, placement, len(arguments), executable)
        if failure is not None:
            break
        assert handle is not None
        arguments.append(handle)
    if failure is None:
        failure = _request_failure(state, event, session, executable)
    if failure is not None:
        refuse(state, session, event, executable.facts.output_count, failure)
        return
    island = placement.island
    lane = session.lanes.get(island.name) or lane_of(state, session, island)
    execution = Execution(
        event.execution_id, executable, event.arguments, arguments, plain, event.first_result_id, event.non_donatable,
        event.launch_id, lane, state.now_ns, event.stream,
    )  # fmt: skip
    if lane.queue or island.line.lanes or not windows.has_room(state, island, lane.share):
        _enqueue(state, execution)
        if not lane.blocked and len(lane.queue) == 1:
            policies.join(state, lane)
            pump(state, island)
        return
    if _advance(state, execution):
        windows.ran_dry(state, island)
        return
    _enqueue(state, execution)
    lane.blocked = True
    state.history.blocked(state.now_ns, execution, lane.blocked_on)


def lane_of(state: State, session: Session, island: Island) -> Lane:
    """The session's own lane on an island."""
    lane = session.lanes.get(island.name)
    if lane is None:
        lane = Lane(session, island, shares.of(state, session, island))
        session.lanes[island.name] = island.lanes[session.number] = lane
    return lane


def reused(state: State, session: Session, identifier: GlobalId) -> Failure:
    """Hosts take a second message about an execution for the first one again, so an id must never come twice."""
    last = local_id(GlobalId(session.last_execution))
    message = f"execution {local_id(identifier)} came after execution {last}; ids of executions and runs must rise"
    return state.failure(Reason.INVALID_ARGUMENT, message, execution=local_id(identifier), last=last)


def refuse(state: State, session: Session, event: ExecuteRequested | RunRequested, result_count: int, failure: Failure) -> None:
    """The results exist and carry the cause; nothing is sent."""
    identifier = event.execution_id if isinstance(event, ExecuteRequested) else event.run_id
    state.history.refused(state.now_ns, identifier, session, failure)
    results = (GlobalId(event.first_result_id + index) for index in range(max(result_count, 1)))
    buffers.make_all_poisoned(state, session, results, failure)


def _argument_failure(
    state: State, handle: Handle | None, identifier: GlobalId, placement: Placement, index: int, executable: Executable
) -> Failure | None:
    if handle is None:
        return buffers.unknown(state, identifier)
    if failure := buffers.defect(handle):
        return failure
    if handle.placement is placement:
        return None
    message = (
        f"argument {index} of program {local_id(executable.id)} does not lie on the program's devices in their order;"
        " move it with jax.device_put"
    )
    return state.failure(Reason.INVALID_ARGUMENT, message, argument=index, executable=local_id(executable.id))


def _request_failure(state: State, event: ExecuteRequested, session: Session, executable: Executable) -> Failure | None:
    facts = executable.facts
    assert facts is not None
    if executable.failure is not None or executable.ended is not None:
        return executable.failure or executable.ended
    expected = facts.parameter_count
    if expected >= 0 and expected != len(event.arguments):
        message = f"program {local_id(executable.id)} takes {expected} arguments and got {len(event.arguments)}"
        return state.failure(Reason.INVALID_ARGUMENT, message, expected=expected, got=len(event.arguments))
    if session.tenant.limits_work and (refused := quotas.refusal(state, session)):
        return refused
    return buffers.no_room(state, session, event.first_result_id, facts.output_count)


def _buffers_of(handle: Handle) -> list[Buffer]:
    return [part.buffer for part in buffers.parts_of(handle)]


def _enqueue(state: State, execution: Execution) -> None:
    """Not granted at once: its arguments are kept until it is, and its results are expected."""
    executable = execution.executable
    lane = execution.lane
    execution.order = fences.enter(lane.session, executable.placement.owners)
    executable.queued += 1
    for handle in execution.arguments:
        if isinstance(handle, View):
            handle.uses += 1
        for buffer in _buffers_of(handle):
            buffer.uses += 1
    execution.results = _make_results(execution, colocated.results_state(execution))
    for result in execution.results:
        result.uses = 1
    lane.queue.append(execution)
    lane.session.tenant.queued += 1


def _make_results(execution: Execution, result_state: BufferState) -> list[Buffer]:
    executable = execution.executable
    facts = executable.facts
    assert facts is not None
    session = execution.lane.session
    first = execution.first_result_id
    results = [
        buffers.make(session, GlobalId(first + index), executable.placement, size, result_state)
        for index, size in enumerate(facts.output_shard_bytes)
    ]
    for result, spec in zip(results, facts.outputs, strict=False):
        result.spec = spec
    if facts.python:
        colocated.hold(results)
    return results


def _leave_queue(state: State, execution: Execution) -> None:
    """Undoes `_enqueue` once the head was granted or has failed; it is out of the lane already."""
    executable = execution.executable
    tenant = execution.lane.session.tenant
    tenant.queued -= 1
    quotas.leave(state, execution, tenant)
    executable.queued -= 1
    for result in execution.results:
        result.uses -= 1
        buffers.settle(state, result)
    for handle in execution.arguments:
        if isinstance(handle, View):
            handle.uses -= 1
            buffers.settle_view(state, handle)
        for buffer in _buffers_of(handle):
            buffer.uses -= 1
            buffers.settle(state, buffer)
    if execution.state is ExecutionState.FAILED:
        execution.arguments = []
    fences.leave(state, execution.lane.session, execution.order)
    programs.release_if_unused(state, executable)


def pump(state: State, island: Island) -> None:
    """Grants heads as the policy has it, until the window is full or every lane is blocked or empty."""
    line = island.line
    while line.lanes and not windows.is_full(state, island):
        lane = policies.choose(state, island)
        share = lane.share
        if not windows.has_room(state, lane.island, share):
            break
        shares.hold(island, share)  # while it is out of line it keeps its place among the others
        policies.leave(state, lane)
        goes_on = _serve(state, lane)
        shares.release(state, island, share)
        if not goes_on:
            break
        if state.woken:
            # What is asked about its results goes right behind it, and not behind the next grants.
            state.woken.append(island)
            break
    if line.lanes:
        windows.look_in_time(state, island)


def _serve(state: State, lane: Lane) -> bool:
    """Tries to grant the head of a lane that is out of line. False: nobody else can go either."""
    execution = lane.queue[0]
    if execution.__class__ is not Execution:
        assert isinstance(execution, Run)
        return runs.take_turn(state, execution, lane)
    if not _advance(state, execution):
        lane.blocked = True
        state.history.blocked(state.now_ns, execution, lane.blocked_on)
        quotas.stalled(state, execution, lane.session.tenant, lane.blocked_on)
        return True
    lane.queue.popleft()
    _leave_queue(state, execution)
    if lane.queue:
        policies.join(state, lane)
    else:
        windows.ran_dry(state, lane.island)
    return True


def wake(state: State, execution: Execution) -> None:
    """What this head waited for has come (or failed)."""
    lane = execution.lane
    if lane.blocked and lane.queue and lane.queue[0] is execution and lane.island.state is _ACTIVE:
        lane.blocked = False
        policies.join(state, lane)
        pump(state, lane.island)


def resume(state: State, island: Island) -> None:
    """The island is ACTIVE again: every lane with work takes part."""
    policies.dissolve(state, island)
    for lane in island.lanes.values():
        lane.blocked = False
        if lane.queue:
            policies.join(state, lane)
    pump(state, island)


def block_all(state: State, island: Island) -> None:
    """The epoch ended: lanes wait for the next one."""
    turns.let_go_of(state, island)
    policies.dissolve(state, island)
    for lane in island.lanes.values():
        lane.blocked = bool(lane.queue)
        lane.blocked_on = f"island {island.name}"
        if lane.queue:
            quotas.stalled(state, lane.queue[0], lane.session.tenant, lane.blocked_on)


def _advance(state: State, execution: Execution) -> bool:
    """Grants or fails the head of a lane; False if it has to wait (and will be woken)."""
    executable = execution.executable
    lane = execution.lane
    refused = executable.failure or (quarantine.refusal(state, (executable,)) if state.deaths else None)
    if refused is not None:
        fail(state, execution, refused)
        return True
    for handle in execution.arguments:
        if handle.__class__ is Buffer:
            if handle.state is not _PRESENT and not _resolved(state, execution, handle):
                return execution.state is ExecutionState.FAILED
        else:
            for buffer in _buffers_of(handle):
                if buffer.state is not _PRESENT and not _resolved(state, execution, buffer):
                    return execution.state is ExecutionState.FAILED
    if lane.island.state is not _ACTIVE:
        lane.blocked_on = f"island {lane.island.name}"
        return False
    if executable.state is not _LOADED:
        lane.blocked_on = f"loading of program {local_id(executable.id)}"
        programs.wait_for(state, executable, execution)
        return False
    tenant = lane.session.tenant
    if tenant.limits_work and (held_up := quotas.obstacle(state, execution, tenant)):
        admission.step_back(lane.island, execution)
        if isinstance(held_up, Failure):
            fail(state, execution, held_up)
            return True
        lane.blocked_on = held_up
        return False
    if lane.island.memory is not None and (lacking := admission.obstacle(state, execution)):
        lane.blocked_on = lacking
        return execution.state is ExecutionState.FAILED
    _grant(state, execution)
    if lane.island.memory is not None:
        admission.granted(state, execution)
    return True


def _resolved(state: State, execution: Execution, buffer: Buffer) -> bool:
    """Looks at an argument that is not present: always False; the execution has failed or waits for it."""
    if buffer.state is BufferState.PENDING:
        execution.lane.blocked_on = f"bytes of array {local_id(buffer.id)}"
        buffers.wait_for(buffer, execution)
        return False
    if buffer.state in admission.ELSEWHERE:
        execution.lane.blocked_on = admission.bring(state, execution)
        return False
    assert buffer.state is not BufferState.EXPECTED, "an expected argument is made by an earlier execution of the same lane"
    failure = buffer.failure or buffer.ended
    assert failure is not None
    fail(state, execution, failure)
    return False


def fail(state: State, execution: Execution, failure: Failure) -> None:
    """Poisons the results of an execution that was never granted; hosts never hear of it."""
    state.move(execution, ExecutionState.FAILED)
    state.history.failed(state.now_ns, execution, failure)
    if not execution.results:
        facts = execution.executable.facts
        count = facts.output_count if facts is not None else 0
        session = execution.lane.session
        for index in range(count):
            execution.results.append(buffers.make_poisoned(session, GlobalId(execution.first_result_id + index), failure))
        return
    for result in execution.results:
        buffers.poison(state, result, failure, tell_hosts=False)


def _grant(state: State, execution: Execution) -> None:
    executable = execution.executable
    island = execution.lane.island
    sequence = Sequence(island.sequence + 1)
    island.sequence = sequence
    epoch = island.epoch
    ids = execution.argument_ids if execution.plain else place_views(state, execution.arguments)
    non_donatable = execution.non_donatable
    if executable.donated:
        non_donatable = _donate(state, execution, ids)
    members = executable.members
    effects = state.effects
    share = execution.lane.share
    timed = execution.timed = shares.contended(state, island, share)
    landings = colocated.NONE
    if executable.facts is not None and executable.facts.python:
        execution.results = execution.results or _make_results(execution, BufferState.PENDING)
        landings = colocated.begin(state, execution)
    prepare: Prepare | None = None
    previous = -1
    for host in members:
        if prepare is None or host.last_sequence != previous or landings:
            previous = host.last_sequence
            prepare = Prepare(
                execution.id, executable.id, ids, execution.first_result_id, non_donatable, execution.launch_id, sequence,
                Sequence(previous), epoch, timed, execution.stream, landings.get(host.name, ()),
            )  # fmt: skip
        send = SendToHost(host.name, prepare)
        effects.append(send)
        execution.sent.append(send)
        host.last_sequence = sequence
        host.unfinished.append((sequence, execution))
        host.gangs_granted += 1
    executable.used_ns = state.now_ns
    execution.sequence = sequence
    execution.remaining = len(members)
    tenant = execution.lane.session.tenant
    tenant.running += 1
    if tenant.program_line or tenant.memory_line:
        quotas.leave(state, execution, tenant)
    state.move(execution, ExecutionState.GRANTED)
    island.inflight.append(execution)
    island.inflight_gangs += 1
    duration_ns = executable.estimate.duration_ns
    execution.duration_ns = windows.stay_ns(state, executable.estimate)
    shares.granted(state, island, execution, share, duration_ns * len(executable.placement.positions))
    if executable.fallible and len(members) > 1:
        island.fallible.append(execution)
    if execution.results:
        for result in execution.results:
            result.sequence = sequence
            result.epoch = epoch
            if result.state is BufferState.EXPECTED:
                buffers.present(state, result)
    else:
        execution.results = results = _make_results(execution, _PRESENT)
        for result in results:
            result.sequence = sequence
            result.epoch = epoch


def place_views(state: State, arguments: list[Handle]) -> tuple[GlobalId, ...]:
    """Names for hosts: a whole buffer by its own id; other views are made on the hosts at their first use in an epoch."""
    ids: list[GlobalId] = []
    for handle in arguments:
        if isinstance(handle, Buffer):
            ids.append(handle.id)
        elif handle.whole is not None:
            ids.append(handle.whole.id)
        else:
            if handle.placement is None or handle.epoch != handle.placement.island.epoch:
                _place_view(state, handle)
            ids.append(handle.id)
    return tuple(ids)


def _place_view(state: State, view: View) -> None:
    placement = view.placement
    assert placement is not None
    assert bind(placement), "a view is placed on an ACTIVE island"
    shards: dict[int, list[LocalShard]] = {}
    for part in view.parts:
        source = part.buffer.placement
        assert source is not None
        assert bind(source), "a present buffer lives on an ACTIVE island"
        for place in source.shards[part.start : part.start + part.length]:
            shards.setdefault(place.host.rank, []).append(LocalShard(part.buffer.id, place.local_index))
    view.epoch = placement.epoch
    for host in placement.hosts:
        state.tell(host, PlaceView(view.id, tuple(shards[host.rank])))


def _donate(state: State, execution: Execution, ids: tuple[GlobalId, ...]) -> tuple[int, ...]:
    """Marks donated arguments consumed; those that somebody else may still read are kept by naming them non-donatable."""
    executable = execution.executable
    kept = set(execution.non_donatable)
    repeated = len(set(ids)) != len(ids)
    if executable.donation is None:
        message = f"the array was donated to program {local_id(executable.id)}; use the program's result instead"
        executable.donation = state.failure(Reason.DELETED, message, executable=local_id(executable.id))
    consumed: list[Buffer] = []
    for index in executable.donated:
        if index in kept or index >= len(ids):
            continue
        handle = execution.arguments[index]
        buffer = handle if isinstance(handle, Buffer) else handle.whole
        if buffer is None or buffers.shared(buffer) or (repeated and ids.count(ids[index]) > 1):
            kept.add(index)
        else:
            consumed.append(buffer)
    for buffer in consumed:
        state.move(buffer, BufferState.CONSUMED)
        quotas.unbook(state, buffer)
        buffer.ended = executable.donation
    return tuple(sorted(kept))


def close_lane(state: State, lane: Lane) -> None:
    """The session has ended: what was not granted never will be."""
    while lane.queue:
        execution = lane.queue[0]
        if execution.__class__ is not Execution:
            assert isinstance(execution, Run)
            runs.drop(state, execution)
            continue
        lane.queue.popleft()
        state.move(execution, ExecutionState.FAILED)
        _leave_queue(state, execution)
        execution.results = []
    lane.island.lanes.pop(lane.key, None)
    if lane in lane.island.line:
        policies.leave(state, lane)


def expire(state: State) -> None:
    """Fails what has waited too long for an island that is not ACTIVE."""
    for island in state.islands.values():
        if island.state is _ACTIVE:
            continue
        for lane in list(island.lanes.values()):
            while lane.queue and lane.queue[0].requested_ns + state.config.island_wait_ns <= state.now_ns:
                execution = lane.queue[0]
                why = island.last_failure or island.state.value
                message = f"island {island.name} did not become ACTIVE in time ({why}); try again"
                failure = state.failure(Reason.UNAVAILABLE, message, retryable=True, island=island.name)
                if execution.__class__ is not Execution:
                    assert isinstance(execution, Run)
                    runs.fail(state, execution, failure)
                else:
                    lane.queue.popleft()
                    fail(state, execution, failure)
                    _leave_queue(state, execution)


def withdraw(state: State, execution: Execution, failure: Failure) -> None:
    """Fails an execution that waits, wherever it stands in its lane."""
    lane = execution.lane
    was_head = lane.queue[0] is execution
    lane.queue.remove(execution)
    fail(state, execution, failure)
    _leave_queue(state, execution)
    if was_head:
        runs.next_head(state, lane)
