"""Runs of programs: queued in the lane of every island of the plan, granted on all of them in one step.

A run goes when it is at the head of all its lanes: the order of a session is total, so its earliest work always is. How much of
it goes at once, and how it gets its turn on several islands, is in turns.py.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId, local_id

from . import (
    admission,
    agreement,
    buffers,
    definitions,
    fences,
    fusion,
    plans,
    policies,
    programs,
    quarantine,
    quotas,
    scheduler,
    shares,
    spans,
    turns,
    windows,
)
from .effects import EndRun
from .plan import slices_of_plan
from .records import Buffer, Handle, Host, Lane, View
from .run_records import Run
from .state import State
from .transitions import BufferState, ExecutableState, ExecutionState, IslandState

_PRESENT = BufferState.PRESENT
_ACTIVE = IslandState.ACTIVE
_LOADED = ExecutableState.LOADED
_FAILED = ExecutionState.FAILED

# ---- in the lanes -----------------------------------------------------------------------------------------------------


def submit(state: State, run: Run) -> None:
    """Takes in a run with nothing wrong: granted at once, or in line."""
    donated = run.donated
    alone = not any(lane.queue for lane in run.lanes)
    if alone and _goes_at_once(state, run):
        _make_results(run, _PRESENT)
        _bring(state, run, len(run.plan.steps))
        end_donated(state, run.plan.name, run.arguments, donated)
        return
    _enqueue(state, run)
    end_donated(state, run.plan.name, run.arguments, donated)
    if alone:
        take_turn(state, run, None)


def _make_results(run: Run, result_state: BufferState) -> None:
    session = run.definition.session
    for index, placed in enumerate(run.plan.result_specs):
        identifier = GlobalId(run.first_result_id + index)
        result = buffers.make(session, identifier, placed.placement, placed.spec.shard_bytes, result_state)
        result.spec = placed.spec
        run.results.append(result)


def _enqueue(state: State, run: Run) -> None:
    """Arguments and results are kept until it is wholly granted: later steps may need them."""
    run.order = fences.enter(run.definition.session, _slices_of(run))
    run.definition.queued += 1
    run.queued = True
    run.definition.session.tenant.queued += 1
    for handle in run.arguments:
        if isinstance(handle, View):
            handle.uses += 1
        for part in buffers.parts_of(handle):
            part.buffer.uses += 1
    _make_results(run, BufferState.EXPECTED)
    for result in run.results:
        result.uses += 1
    for lane in run.lanes:
        lane.queue.append(run)
        if len(lane.queue) == 1:
            lane.blocked = True
            lane.blocked_on = "its turn on other islands"


def _slices_of(run: Run) -> tuple[int, ...]:
    if not run.definition.session.slices:
        return ()
    return slices_of_plan(run.plan)


def end_donated(state: State, name: str, arguments: list[Handle], donated: tuple[int, ...]) -> None:
    """New uses of a donated argument fail from here on; its data go when the program needs them no more."""
    if not donated:
        return
    message = f"the array was donated to program {name}; use the program's result instead"
    failure = state.failure(Reason.DELETED, message, program=name)
    for index in donated:
        for part in buffers.parts_of(arguments[index]):
            if part.buffer.ended is None:
                part.buffer.ended = failure
                buffers.settle(state, part.buffer)


def leave(state: State, run: Run) -> None:
    """Out of all lanes: wholly granted, failed, or its session has ended."""
    turns.let_go(state, run)
    session = run.definition.session
    run.queued = False
    if not run.next_step:
        session.tenant.queued -= 1
    quotas.leave(state, run, session.tenant)
    for lane in run.lanes:
        was_head = lane.queue[0] is run
        if was_head:
            lane.queue.popleft()
            next_head(state, lane)
        else:
            lane.queue.remove(run)
    for result in run.results:
        result.uses -= 1
        buffers.settle(state, result)
    for handle in run.arguments:
        if isinstance(handle, View):
            handle.uses -= 1
            buffers.settle_view(state, handle)
        for part in buffers.parts_of(handle):
            part.buffer.uses -= 1
            buffers.settle(state, part.buffer)
    fences.leave(state, session, run.order)
    run.definition.queued -= 1
    definitions.release_if_unused(state, run.definition)
    if run.walk is not None:
        state.woken.append(run.walk)


def next_head(state: State, lane: Lane) -> None:
    """The head of a lane has gone: the next one gets its turn, the lane leaves the line if there is none."""
    island = lane.island
    if not lane.queue:
        if not lane.blocked and lane in island.line:
            policies.leave(state, lane)
        lane.blocked = False
        windows.ran_dry(state, island)
        return
    if lane.blocked and island.state is _ACTIVE:
        lane.blocked = False
        policies.join(state, lane)
    if island.state is _ACTIVE:
        state.woken.append(island)


# ---- turns ------------------------------------------------------------------------------------------------------------


def take_turn(state: State, run: Run, lane: Lane | None) -> bool:
    """Tries to grant the head of a lane, which was taken out of the line. False: it waits for more room here, in line."""
    if lane is not None:
        lane.blocked = True
    obstacle = _obstacle(state, run)
    if run.state is _FAILED:
        return True
    if obstacle:
        turns.let_go(state, run)
        state.history.blocked(state.now_ns, run, obstacle)
        quotas.stalled(state, run, run.definition.session.tenant, obstacle)
        for waiting in run.lanes:
            if waiting.blocked and waiting.queue[0] is run:
                waiting.blocked_on = obstacle
        return True
    if not run.acquired:
        end_step, lacking = turns.range_of(state, run)
        if lacking is not None:
            return turns.wait_for_more(state, run, lacking, lane)
        run.end_step = end_step
        run.needs = spans.needs(run.plan, run.next_step, end_step)
    if turns.acquire(state, run, lane):
        _grant(state, run)
    return True


def _obstacle(state: State, run: Run) -> str:
    """What the run waits for; empty if nothing. Fails it if that will never come."""
    for lane in run.lanes:
        if lane.queue[0] is not run:
            return f"earlier work of its session on island {lane.island.name}"
    if run.next_step == 0:
        for handle in run.arguments:
            for part in buffers.parts_of(handle):
                if part.buffer.state is not _PRESENT:
                    return _missing(state, run, part.buffer)
    for island in spans.shape_of(run.plan).islands:
        if island.state is not _ACTIVE:
            return f"island {island.name}"
    if run.due:
        return f"the launch of a node on host {next(iter(run.due)).name}"
    obstacle = _unloaded(state, run)
    if not obstacle and state.deaths and (refused := quarantine.refusal(state, run.plan.executables)):
        stop(state, run, refused)
        return "failed"
    if obstacle or run.next_step:
        return obstacle
    tenant = run.definition.session.tenant
    held_up = quotas.obstacle(state, run, tenant) if tenant.limits_work else ""
    if held_up and state.budgets:
        for island in spans.shape_of(run.plan).islands:
            admission.step_back(island, run)
    if isinstance(held_up, Failure):
        fail(state, run, held_up)
        return "failed"
    return held_up or (admission.run_obstacle(state, run) if state.budgets else "")


def _missing(state: State, run: Run, buffer: Buffer) -> str:
    if buffer.state is BufferState.PENDING or (buffer.state is BufferState.EXPECTED and run.walk is not None):
        buffers.wait_for(buffer, run)
        return f"bytes of array {local_id(buffer.id)}"
    if buffer.state in admission.ELSEWHERE:
        return admission.bring(state, run)
    assert buffer.state is not BufferState.EXPECTED, "an expected argument is made by earlier work of one of its lanes"
    failure = buffer.failure or buffer.ended
    assert failure is not None
    fail(state, run, failure)
    return "failed"


def _unloaded(state: State, run: Run) -> str:
    """Has the plan on its hosts and its executables loaded, which holds as long as the epochs."""
    plan = run.plan
    if plan.bound is not None and plan.bound.ready and spans.is_bound(plan):
        run.bound = plan.bound
        return ""
    found = ""
    for executable in plan.executables:
        if executable.failure is not None:
            fail(state, run, executable.failure)
            return "failed"
    for executable in plan.executables:
        if executable.state is not _LOADED:
            found = f"loading of program {local_id(executable.id)}"
            programs.wait_for(state, executable, run)
    if found:
        return found
    bound = plans.load(state, plan)
    if isinstance(bound, Failure):
        fail(state, run, bound)
        return "failed"
    if waits := agreement.waits_for(state, plan, run):
        if isinstance(waits, str):
            return waits
        fail(state, run, waits)
        return "failed"
    spans.fill_bound(plan, bound)
    bound.ready = True
    run.bound = bound
    return ""


def _goes_at_once(state: State, run: Run) -> bool:
    """A run that nothing holds up and that nobody competes with never enters a queue."""
    plan = run.plan
    if state.deaths and quarantine.refusal(state, plan.executables):
        return False
    if plan.sequential or plan.bound is None or not plan.bound.ready or not spans.is_bound(plan):
        return False
    for handle in run.arguments:
        for part in buffers.parts_of(handle):
            if part.buffer.state is not _PRESENT:
                return False
    window = state.config.window_gangs
    shape = spans.shape_of(plan)
    for island, launches, lane in zip(shape.islands, shape.launches, run.lanes, strict=True):
        if island.line.lanes or island.inflight_gangs + len(launches) > window:
            return False
        if shares.contended(state, island, lane.share):
            return False
    tenant = run.definition.session.tenant
    if tenant.limits_work and not quotas.lets_through(run, tenant):
        return False
    if state.budgets and not admission.run_goes(run):
        return False
    for island, launches in zip(shape.islands, shape.launches, strict=True):
        island.inflight_gangs += len(launches)
    run.bound = plan.bound
    return True


def _grant(state: State, run: Run) -> None:
    end_step = run.end_step
    _bring(state, run, end_step)
    turns.use(state, run)
    if end_step == len(run.plan.steps):
        leave(state, run)
        return
    rest = spans.needs(run.plan, run.next_step, len(run.plan.steps))
    if run.plan.sequential:
        _wait_for_launches(run)
        return
    waiting = run.lanes[rest[0][0]]
    for lane in run.lanes:
        lane.blocked_on = f"its turn on island {waiting.island.name}"
    if waiting.blocked:
        waiting.blocked = False
        policies.join(state, waiting)
    state.woken.append(waiting.island)


def _bring(state: State, run: Run, end_step: int) -> None:
    """The grant; at the first one views are placed, and donated arguments that nobody else reads are consumed."""
    if run.next_step == 0:
        if any(handle.__class__ is not Buffer for handle in run.arguments):
            run.argument_ids = scheduler.place_views(state, run.arguments)
        run.donated = _consume(state, run)
        _count(state, run)
        if state.budgets:
            admission.run_granted(state, run)
    ready = fusion.is_ready(state, run.plan)
    fused = ready and fusion.whole_in(run.plan, run.next_step, end_step)
    if ready and end_step < len(run.plan.steps):
        fusion.learn_of_cut(state, run.plan, run.next_step, end_step)
    spans.grant(state, run, end_step, fused)


def _count(state: State, run: Run) -> None:
    """Among what its tenant has in use from the first grant on, and room for all its results with it."""
    tenant = run.definition.session.tenant
    if run.queued:
        tenant.queued -= 1
    run.counted = True
    tenant.running += 1
    quotas.leave(state, run, tenant)
    for result in run.results:
        quotas.book(result)


def _consume(state: State, run: Run) -> tuple[int, ...]:
    consumed: list[int] = []
    for index in run.donated:
        handle = run.arguments[index]
        buffer = handle if isinstance(handle, Buffer) else handle.whole
        repeated = run.argument_ids.count(run.argument_ids[index]) > 1
        if buffer is None or buffers.shared(buffer) or repeated or buffer.state is not _PRESENT:
            continue
        state.move(buffer, BufferState.CONSUMED)
        quotas.unbook(state, buffer)
        consumed.append(index)
    return tuple(consumed)


def _wait_for_launches(run: Run) -> None:
    """Sequential dispatch: the next node comes when every member has launched this one."""
    span = run.spans[-1]
    run.due = {host: host.last_sequence for host in span.members}
    span.island.paced[run.number] = run
    for lane in run.lanes:
        lane.blocked_on = "the launch of a node"


def on_launched(state: State, host: Host) -> None:
    """A host reported launches. Work per run that waits, never per member of it."""
    island = host.island
    for run in list(island.paced.values()):
        if host in run.due and host.launched_through >= run.due[host]:
            del run.due[host]
        if not run.due:
            del island.paced[run.number]
            if run.queued:
                state.woken.append(run)


def wake(state: State, run: Run) -> None:
    """What it waited for has come (or failed): it gets in line where it next needs room."""
    if not run.queued or any(lane.queue[0] is not run or not lane.blocked for lane in run.lanes):
        return
    rest = spans.needs(run.plan, run.next_step, len(run.plan.steps))
    lane = run.lanes[rest[0][0]]
    if lane.island.state is not _ACTIVE:
        return  # its lane takes part again when the island does
    lane.blocked = False
    policies.join(state, lane)
    state.woken.append(lane.island)


# ---- ends -------------------------------------------------------------------------------------------------------------


def fail(state: State, run: Run, failure: Failure) -> None:
    """Poisons the results of a run of which nothing was granted; hosts never hear of it."""
    state.move(run, _FAILED)
    _note(state, run, failure)
    for result in run.results:
        buffers.poison(state, result, failure, tell_hosts=False)
    leave(state, run)
    run.arguments = []


def stop(state: State, run: Run, failure: Failure) -> None:
    """Nothing more of it is granted: results that no granted step makes fail, and hosts let go of the rest."""
    if run.next_step == 0:
        fail(state, run, failure)
        return
    if run.state is _FAILED:
        return
    state.move(run, _FAILED)
    _note(state, run, failure)
    end_on_hosts(state, run, failure)
    for result in run.results:
        if result.state is BufferState.EXPECTED:
            buffers.poison(state, result, failure, tell_hosts=False)
    for island in spans.shape_of(run.plan).islands:
        island.paced.pop(run.number, None)
    if run.queued:
        leave(state, run)
    spans.forget_if_over(state, run)


def _note(state: State, run: Run, failure: Failure) -> None:
    """A walk goes no further than its first piece that failed."""
    run.failure = failure
    state.history.failed(state.now_ns, run, failure)
    if run.walk is not None:
        run.walk.failure = run.walk.failure or failure
        state.woken.append(run.walk)


def end_on_hosts(state: State, run: Run, failure: Failure) -> None:
    """EndRun to the hosts that know of the run and are in its epochs still."""
    bound = run.bound
    assert bound is not None
    epochs = {island.name: epoch for island, epoch in zip(run.plan.islands, bound.epochs, strict=True)}
    for host in bound.hosts:
        island = host.island
        alive = island.state is _ACTIVE and island.epoch == epochs[island.name] and state.hosts.get(host.name) is host
        if host.name in run.told and alive:
            state.tell(host, EndRun(run.id, failure))


def drop(state: State, run: Run) -> None:
    """Its session has ended."""
    failure = state.failure(Reason.CANCELLED, "the session ended before the program was run")
    if run.next_step:
        stop(state, run, failure)
    else:
        fail(state, run, failure)
