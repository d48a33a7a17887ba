"""Memory is admitted: a grant takes at once all that the work may need on any device, and what does not fit waits.

An execution takes its results and temporary bytes, less what it is given by donated arguments; a run takes the peak of its plan.
Arguments that are spilled are part of what is asked for, and are restored before the grant. What cannot fit beside its own
arguments, whatever else goes, fails at once. scheduler.py and runs.py ask before a grant and tell of it afterwards.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure
from pathways_common.model.ids import GlobalId, local_id

from . import accounts, buffers, claims, plan_memory, runs, scheduler, spans, spills
from .memory_records import Need, Release, Reserved
from .placements import bind
from .records import Buffer, Execution, Host, Island, Placement
from .run_records import Run
from .state import State
from .transitions import BufferState, ExecutionState, IslandState

ELSEWHERE = (BufferState.SPILLING, BufferState.SPILLED, BufferState.RESTORING)

# ---- executions -------------------------------------------------------------------------------------------------------


def obstacle(state: State, execution: Execution) -> str:
    """Asked right before the grant: what it waits for in words, empty if nothing. Fails it if that will never be there."""
    memory = execution.lane.island.memory
    assert memory is not None
    placement = execution.executable.placement
    size_bytes = _size(execution, _consumable(execution))
    if memory.aside_for is None and execution not in memory.claims:
        for place in placement.shards:  # the way without competition
            account = place.host.account
            if account is not None and account.used[place.local_device] + size_bytes > account.budget_bytes:
                break
        else:
            return ""
    needs = _needs(placement, size_bytes)
    if claims.room(memory, needs, execution):
        return ""
    return _wait(state, execution, needs, _needs(placement, _size(execution, None)))


def step_back(island: Island, work: Execution | Run) -> None:
    """It waits for something else first: nobody waits for memory behind work that could not go anyway."""
    if island.memory is not None:
        claims.settle(island.memory, work)


def _wait(state: State, execution: Execution, needs: list[Need], least: list[Need]) -> str:
    island, session = execution.lane.island, execution.lane.session
    what = f"execution {local_id(execution.id)} of program {local_id(execution.executable.id)}"
    own = _own_bytes(execution)
    if failure := claims.never(state, island, session, what, least, own):
        _fail(state, execution, failure)
        return "failed"
    return claims.wait(state, island, session, execution, what, needs, least)


def _needs(placement: Placement, size_bytes: int) -> list[Need]:
    return [Need(place.host, place.local_device, size_bytes) for place in placement.shards]


def _size(execution: Execution, consumed: list[Buffer] | None) -> int:
    """Per device, with these donated arguments taken; None: as if it got all that it may take."""
    facts = execution.executable.facts
    assert facts is not None
    total = sum(facts.output_shard_bytes) + facts.temporary_bytes
    if not facts.alias_bytes or not execution.executable.donated:
        return total
    if consumed is None:
        return total - facts.alias_bytes
    return total - min(facts.alias_bytes, sum(buffer.charged for buffer in consumed))


def _consumable(execution: Execution) -> list[Buffer]:
    """The arguments that a grant now would consume: those of `scheduler._donate`."""
    donated = execution.executable.donated
    if not donated:
        return []
    whole = [handle if isinstance(handle, Buffer) else handle.whole for handle in execution.arguments]
    ids = [handle.id if found is None else found.id for handle, found in zip(execution.arguments, whole, strict=True)]
    found: list[Buffer] = []
    for index in donated:
        if index in execution.non_donatable or index >= len(ids):
            continue
        buffer = whole[index]
        if buffer is not None and not buffers.shared(buffer) and ids.count(ids[index]) == 1:
            found.append(buffer)
    return found


def wants(work: Execution | Run, island: Island) -> list[Need] | None:
    """What work that has not begun takes of an island at least, with arguments that are not there; None: not known yet."""
    if isinstance(work, Execution):
        if work.executable.facts is None:
            return None
        needs = _needs(work.executable.placement, _size(work, None)) if bind(work.executable.placement) else []
    elif work.next_step:
        return []
    else:
        needs = _run_needs(work, spans.shape_of(work.plan).islands.index(island), tuple(work.donated))
    for buffer in work.arguments:
        if isinstance(buffer, Buffer) and buffer.state is BufferState.PENDING and not buffer.charged:
            placement = buffer.placement
            if placement is not None and placement.island is island and bind(placement):
                needs += _needs(placement, buffer.shard_bytes)
    return needs


def _inputs(work: Execution | Run) -> dict[GlobalId, Buffer]:
    return {part.buffer.id: part.buffer for handle in work.arguments for part in buffers.parts_of(handle)}


def _own_bytes(work: Execution | Run) -> dict[tuple[Host, int], int]:
    """What its arguments take of each device."""
    found: dict[tuple[Host, int], int] = {}
    for buffer in _inputs(work).values():
        if buffer.placement is not None and not buffer.origins and bind(buffer.placement):
            for place in buffer.placement.shards:
                key = (place.host, place.local_device)
                found[key] = found.get(key, 0) + buffer.shard_bytes
    return found


def granted(state: State, execution: Execution) -> None:
    """Takes what was admitted. Temporary bytes and consumed arguments go when the gang has ended on their host."""
    executable = execution.executable
    facts = executable.facts
    memory = execution.lane.island.memory
    assert facts is not None
    assert memory is not None
    now_ns = state.now_ns
    consumed = 0
    for handle in execution.arguments:
        for part in buffers.parts_of(handle):
            buffer = part.buffer
            buffer.used_ns = now_ns
            if buffer.state is BufferState.CONSUMED and buffer.charged:
                consumed += buffer.charged
                buffer.charged = 0
    aliased = min(facts.alias_bytes, consumed)
    taken = -aliased + facts.temporary_bytes
    for result in execution.results:
        result.charged = result.shard_bytes
        result.used_ns = now_ns
        taken += result.shard_bytes
    later = facts.temporary_bytes + consumed - aliased
    for place in executable.placement.shards:
        account = place.host.account
        if account is not None:
            account.add(place.local_device, taken)
            if later:
                account.letting.append(Release(execution.sequence, place.local_device, later))
    memory.moved_ns = now_ns
    if memory.claims:
        claims.settle(memory, execution)
    _let_copies_look(state, execution.lane.island)


def _let_copies_look(state: State, island: Island) -> None:
    """They may wait for the work before them."""
    if island.memory is not None and island.memory.placing:
        state.relieved[island.name] = island


# ---- runs -------------------------------------------------------------------------------------------------------------


def run_obstacle(state: State, run: Run) -> str:
    """As `obstacle`, for the first grant of a run: later ones need nothing more."""
    consumed = _run_consumes(run)
    asked: list[tuple[Island, list[Need]]] = []
    for index, island in enumerate(spans.shape_of(run.plan).islands):
        if island.memory is not None:
            asked.append((island, _run_needs(run, index, consumed)))
    for island, needs in asked:
        assert island.memory is not None
        if not claims.room(island.memory, needs, run):
            return _run_waits(state, run, island, needs)
    return ""


def run_goes(run: Run) -> bool:
    """Whether there is room for it now; without a claim to any."""
    consumed = _run_consumes(run)
    return all(
        island.memory is None or claims.room(island.memory, _run_needs(run, index, consumed), run)
        for index, island in enumerate(spans.shape_of(run.plan).islands)
    )


def _run_waits(state: State, run: Run, island: Island, needs: list[Need]) -> str:
    index = spans.shape_of(run.plan).islands.index(island)
    session = run.definition.session
    what = f"a run of program {run.plan.name}"
    least = _run_needs(run, index, tuple(run.donated))
    own = _own_bytes(run)
    if failure := claims.never(state, island, session, what, least, own):
        _fail(state, run, failure)
        return "failed"
    for other in spans.shape_of(run.plan).islands:
        if other is not island and other.memory is not None:
            claims.settle(other.memory, run)
    return claims.wait(state, island, session, run, what, needs, least)


def _run_needs(run: Run, index: int, consumed: tuple[int, ...]) -> list[Need]:
    island = spans.shape_of(run.plan).islands[index]
    per_host = island.devices_per_host
    return [
        Need(island.members[position // per_host], position % per_host, size_bytes)
        for position, size_bytes in enumerate(plan_memory.peaks(run.plan, consumed)[index])
        if size_bytes > 0
    ]


def _run_consumes(run: Run) -> tuple[int, ...]:
    """The arguments that a grant now would consume: those of `runs._consume`."""
    if not run.donated:
        return ()
    whole = [handle if isinstance(handle, Buffer) else handle.whole for handle in run.arguments]
    ids = [handle.id if found is None else found.id for handle, found in zip(run.arguments, whole, strict=True)]
    return tuple(
        index
        for index in run.donated
        if (buffer := whole[index]) is not None
        and not buffers.shared(buffer)
        and ids.count(ids[index]) == 1
        and buffer.state is BufferState.PRESENT
        and buffer.charged
    )


def run_granted(state: State, run: Run) -> None:
    """Takes the peak of its plan, and over the memory of the arguments that it consumes.

    Its hosts let go of those when it is over. That holds also for the result of a run that is not over yet, in whose peak it is.
    """
    inputs = _inputs(run)
    consumed = [buffer for buffer in inputs.values() if buffer.state is BufferState.CONSUMED and buffer.charged]
    indices = tuple(
        index
        for index in run.donated
        if any(part.buffer in consumed for part in buffers.parts_of(run.arguments[index]))
    )  # fmt: skip
    for buffer in inputs.values():
        buffer.used_ns = state.now_ns
    reserved: list[Reserved] = []
    for index, island in enumerate(spans.shape_of(run.plan).islands):
        if island.memory is None:
            continue
        needs = _run_needs(run, index, indices)
        accounts.take(needs)
        for buffer in consumed:
            if buffer.placement is not None and buffer.placement.island is island:
                needs += _needs(buffer.placement, buffer.charged)
        for index in run.donated:
            needs += _passed_on(island, [part.buffer for part in buffers.parts_of(run.arguments[index])])
        reserved.append(Reserved(island, island.epoch, tuple(needs)))
        island.memory.moved_ns = state.now_ns
        claims.settle(island.memory, run)
        _let_copies_look(state, island)
    for buffer in consumed:
        buffer.charged = 0
    run.reserved = tuple(reserved)


def _passed_on(island: Island, consumed: list[Buffer]) -> list[Need]:
    """What consumed results of runs that are not over take on an island: out of their reservations from here on."""
    passed: list[Need] = []
    for buffer in consumed:
        placement = buffer.placement
        if buffer.charged or placement is None or placement.island is not island:
            continue
        maker = next((run for run in island.runs.values() if run.made(buffer.id)), None)
        if maker is not None and maker.reserved:
            needs = _needs(placement, buffer.shard_bytes)
            given = [need._replace(size_bytes=-need.size_bytes) for need in needs]
            maker.reserved = tuple(
                held._replace(needs=(*held.needs, *given)) if held.island is island else held for held in maker.reserved
            )
            maker.passed_on.add(buffer.id)
            passed += needs
    return passed


def run_over(state: State, run: Run) -> None:
    """Of what it held its results are left; those that were freed or taken meanwhile go behind what is launched.

    Of a run that was ended, hosts let go of the rest with its EndRun, behind the launches before it.
    """
    reserved, run.reserved = run.reserved, ()
    for island, epoch, needs in reserved:
        if island.epoch != epoch or island.state is not IslandState.ACTIVE:
            continue
        left: dict[tuple[Host, int], int] = {}
        for host, local_device, size_bytes in needs:
            left[host, local_device] = left.get((host, local_device), 0) + size_bytes
        for result in run.results:
            placement = result.placement
            if placement is None or placement.island is not island or result.epoch != epoch or result.origins:
                continue
            if result.id in run.passed_on:
                continue
            freed = result.state in (BufferState.FREED, BufferState.CONSUMED)
            result.charged = 0 if freed else result.shard_bytes
            for place in placement.shards:
                left[place.host, place.local_device] = left.get((place.host, place.local_device), 0) - result.shard_bytes
                if freed:
                    accounts.leave(state, place.host, place.local_device, result.shard_bytes)
        for (host, local_device), size_bytes in left.items():
            if run.state is ExecutionState.FAILED:
                accounts.leave(state, host, local_device, size_bytes)
            else:
                accounts.give_back((Need(host, local_device, size_bytes),))
        accounts.moved(state, island)


# ---- arguments that are not on the devices ----------------------------------------------------------------------------


def bring(state: State, work: Execution | Run) -> str:
    """Has the spilled arguments of work at the head of its lanes restored, once all that it needs besides fits too."""
    inputs = list(_inputs(work).values())
    away = next((buffer for buffer in inputs if buffer.state in (BufferState.SPILLING, BufferState.RESTORING)), None)
    spilled = [buffer for buffer in inputs if buffer.state is BufferState.SPILLED]
    for island in dict.fromkeys(buffer.placement.island for buffer in spilled if buffer.placement is not None):
        if island.state is not IslandState.ACTIVE:
            return f"island {island.name}"
    if away is not None:
        buffers.wait_for(away, work)
        return f"array {local_id(away.id)}, which is {away.state.value}"
    for buffer in spilled:
        placement = buffer.placement
        assert placement is not None
        island = placement.island
        memory = island.memory
        if memory is None:
            continue  # of a slice that was suspended: there is room
        needs = _bringing(work, spilled, island)
        if not claims.room(memory, needs, work):
            return _waits_to_bring(state, work, island, needs)
    for buffer in spilled:
        spills.restore(state, buffer)
        buffers.wait_for(buffer, work)
    _keep_place(state, work)
    return f"array {local_id(spilled[0].id)}, which is {spilled[0].state.value}"


def _keep_place(state: State, work: Execution | Run) -> None:
    """What is being restored has its memory; a claim goes on for the rest."""
    lanes = (work.lane,) if isinstance(work, Execution) else work.lanes
    for island in [lane.island for lane in lanes]:
        memory = island.memory
        claim = memory.claims.get(work) if memory is not None else None
        if memory is None or claim is None:
            continue
        if least := _least(work, island):
            claims.wait(state, island, claim.session, work, claim.what, least)
        else:
            claims.settle(memory, work)


def _bringing(work: Execution | Run, spilled: list[Buffer], island: Island) -> list[Need]:
    """The spilled arguments, and what the work itself takes if that is known."""
    total: dict[tuple[Host, int], int] = {}
    for buffer in spilled:
        placement = buffer.placement
        if placement is not None and placement.island is island and bind(placement):
            for place in placement.shards:
                key = (place.host, place.local_device)
                total[key] = total.get(key, 0) + buffer.shard_bytes
    for host, local_device, size_bytes in _least(work, island):
        total[host, local_device] = total.get((host, local_device), 0) + size_bytes
    return [Need(host, local_device, size_bytes) for (host, local_device), size_bytes in total.items()]


def _least(work: Execution | Run, island: Island) -> list[Need]:
    if isinstance(work, Execution):
        placement = work.executable.placement
        return _needs(placement, max(_size(work, None), 0)) if bind(placement) else []
    if any(other.state is not IslandState.ACTIVE for other in spans.shape_of(work.plan).islands):
        return []
    return _run_needs(work, spans.shape_of(work.plan).islands.index(island), tuple(work.donated))


def _waits_to_bring(state: State, work: Execution | Run, island: Island, needs: list[Need]) -> str:
    session = work.lane.session if isinstance(work, Execution) else work.definition.session
    what = f"execution {local_id(work.id)}" if isinstance(work, Execution) else f"a run of program {work.plan.name}"
    if failure := claims.never(state, island, session, what, _least(work, island), _own_bytes(work)):
        _fail(state, work, failure)
        return "failed"
    return claims.wait(state, island, session, work, what, needs)


def _fail(state: State, work: Execution | Run, failure: Failure) -> None:
    if isinstance(work, Execution):
        scheduler.fail(state, work, failure)
    else:
        runs.fail(state, work, failure)
