"""The end of an epoch: what was launched and unfinished fails, what only the lost host held is lost, the rest stays.

The first cause is made into a failure once (host, epoch, exit, end of the error output) and travels unchanged into
everything that depends on it. The island re-forms by itself as soon as its hosts are there.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId, Sequence

from . import (
    accounts,
    buffers,
    callbacks,
    dropped_loads,
    lost_values,
    placing,
    programs,
    quotas,
    reads,
    rescues,
    resource_manager,
    run_losses,
    scheduler,
    shares,
    spills,
)
from .effects import Keep, Notice
from .lost_values import LostValues
from .placements import IN_EPOCH
from .records import Execution, Host, Island
from .state import State
from .suspicions import AbortedMember
from .transitions import BufferState, ExecutionState, HostState, IslandState

_LOST = (BufferState.PENDING, BufferState.PRESENT)


def end_epoch(
    state: State, island: Island, host: Host, text: str, exit_text: str, stderr_tail: str, finished_through: int = 0
) -> None:
    """Ends the epoch of a forming or ACTIVE island because of `host`; `text` goes on from "host a1 of island a: ".

    `finished_through` is what is known of the host's last gangs beyond its reports.
    """
    ending, island.ending = island.ending, None
    gone = [host, *aborted(state, island)]
    if ending is not None:  # whoever else goes meanwhile is not the cause
        gone += ending.gone
        host, text, finished_through = ending.host, ending.text, ending.finished_through
    was_active = island.state in IN_EPOCH
    island.last_failure = f"host {host.name}: {text}"
    state.log("epoch ended", island=island.name, epoch=island.epoch, host=host.name, reason=text, stderr_tail=stderr_tail[-200:])
    members = island.members
    keep: dict[Host, list[Keep]] = {}
    if was_active:
        slice_lost = ending.cause if ending is not None else cause_of(state, island, host, text, exit_text, stderr_tail)
        doubted = rescues.doubtful(island)
        resource_manager.leave_active(state, island)
        touched = run_losses.lose(state, island, host, max(host.finished_through, finished_through), slice_lost)
        keep = _fail_everything(state, island, gone, slice_lost, doubted)
        run_losses.spread(state, touched)
        if ending is None:
            tell_clients(state, island, host, slice_lost)
    else:
        resource_manager.leave_forming(state, island)
    for member in members:
        _reset(state, member)
        if state.hosts.get(member.name) is member:
            # Past the window: an executor that waits in a collective acknowledges nothing, and only this ends it.
            state.tell(member, rescues.end_command(state, island, keep.get(member)), urgent=was_active)
    island.members = ()
    _give_up_turn(state, island)


def aborted(state: State, island: Island) -> list[Host]:
    """Members whose executors have ended in this epoch, which waits for what made them end."""
    subjects = [suspicion.subject for suspicion in state.suspicions if isinstance(suspicion.subject, AbortedMember)]
    return [each.host for each in subjects if each.host.island is island and each.report.epoch == island.epoch]


def _give_up_turn(state: State, island: Island) -> None:
    """Nothing of it is in flight or in memory any more: others on its devices may go."""
    others = [other for other in island.ground.islands if other is not island]
    state.woken.extend(others)
    if others:
        accounts.moved(state, island)


def break_epoch(state: State, island: Island, host: Host, text: str) -> None:
    """Ends an ACTIVE epoch because a member broke a rule of it, and forms the next one."""
    end_epoch(state, island, host, text, "", "")
    resource_manager.consider(state, island)


def tell_clients(state: State, island: Island, host: Host, slice_lost: Failure) -> None:
    """All who use the island."""
    for session in state.sessions.values():
        if island.name in session.used:
            state.reply(session, Notice(host.name, f"{slice_lost.message}; island {island.name} re-forms"))


def cause_of(state: State, island: Island, host: Host, text: str, exit_text: str, stderr_tail: str) -> Failure:
    """The one cause; everything else that follows has its id and its facts.

    An executor's last words may be of any tenant's work: its story tells them to administrators, and no client hears them.
    """
    message = f"host {host.name} of island {island.name} was lost in epoch {island.epoch}: {text}"
    facts = {"island": island.name, "epoch": island.epoch, "exit": exit_text or text}
    slice_lost = state.failure(Reason.SLICE_LOST, message, host=host.name, retryable=True, **facts)
    last_words = {**slice_lost.metadata, "stderr_tail": stderr_tail[-state.config.stderr_tail_max :]}
    state.history.caused(state.now_ns, replace(slice_lost, metadata=MappingProxyType(last_words)))
    return slice_lost


def store_lost(state: State, island: Island, host: Host, reason: str) -> Failure:
    """What was spilled on a host went with its daemon."""
    message = f"the array was spilled on host {host.name} of island {island.name}, which was lost: {reason}"
    lost = state.failure(Reason.BUFFER_LOST, message, host=host.name, island=island.name)
    state.history.caused(state.now_ns, lost)
    return lost


def _fail_everything(
    state: State, island: Island, gone: list[Host], slice_lost: Failure, doubted: set[GlobalId]
) -> dict[Host, list[Keep]]:
    """Returns what survivors are to keep."""
    lost = LostValues(island, slice_lost)
    for execution in island.inflight:
        if not isinstance(execution, Execution):
            continue  # runs have been ended by name
        quotas.ended(state, execution.lane.session.tenant)
        unfinished = execution.remaining > 0
        state.move(execution, ExecutionState.FAILED if unfinished else ExecutionState.FINISHED)
        if unfinished:
            failure = lost_values.of_program(execution.executable, slice_lost)
            if not any(result.failure is not None for result in execution.results):
                state.history.failed(state.now_ns, execution, failure)
            for result in execution.results:
                buffers.poison(state, result, failure, tell_hosts=False)
        execution.arguments = []
        execution.results = []
        execution.sent = []
    shares.on_epoch_ended(state, island)
    island.inflight.clear()
    island.inflight_gangs = 0
    island.paced.clear()
    island.fallible.clear()
    state.woken.extend(island.doubted)
    island.doubted.clear()
    if island.memory is not None:
        placing.on_epoch_ended(state, island, island.memory)
    spills.on_epoch_ended(state, island, lost)  # also without budgets, where a slice is suspended or resumed
    ended = accounts.end_epoch(island) if island.memory is not None else {}
    keep = rescues.begin(state, island, gone, slice_lost, doubted, ended)
    for session in state.sessions.values():
        if island.name not in session.used:
            continue
        for buffer in list(session.buffers.values()):
            if buffer.placement is None or buffer.placement.island is not island or buffer.state not in _LOST:
                continue
            if buffer.epoch:  # else it waits for its island or its source and was placed nowhere
                buffers.poison(state, buffer, lost.failure_of(buffer), tell_hosts=False)
    reads.on_epoch_ended(state, island, lost)
    programs.on_epoch_ended(state, island, slice_lost)
    for inspect in [inspect for inspect in state.inspects.values() if inspect.host is not None and inspect.host.island is island]:
        programs.finish_inspect(state, inspect, b"", slice_lost)
    callbacks.on_epoch_ended(state, island)
    scheduler.block_all(state, island)
    return keep


def _reset(state: State, host: Host) -> None:
    """Out of the epoch; ready for the next one."""
    host.rank = -1
    host.busy_ns = 0
    host.unfinished.clear()
    host.finished = None
    host.last_sequence = Sequence(0)
    host.finished_through = Sequence(0)
    host.launched_through = Sequence(0)
    host.missed = {}
    dropped_loads.forget(host)
    host.watch = None
    if host.state is not HostState.JOINED:
        state.move(host, HostState.JOINED)


def dissolve(state: State, island: Island, why: str, harmless: str = "no session uses the island") -> None:
    """Ends an epoch without a loss, so that the island can re-form with other hosts: nobody uses it, or all is in stores."""
    reason = f"{why} and {harmless}"
    state.log("epoch ended", island=island.name, epoch=island.epoch, reason=reason)
    state.move(island, IslandState.WAITING)
    for member in island.members:
        _reset(state, member)
    if island.memory is not None:
        placing.on_epoch_ended(state, island, island.memory)
    accounts.end_epoch(island)
    island.members = ()
    run_losses.forget(state, island)
    shares.on_epoch_ended(state, island)
    for gang in island.inflight:
        if isinstance(gang, Execution):
            quotas.ended(state, gang.lane.session.tenant)
    island.inflight.clear()
    island.inflight_gangs = 0
    island.fallible.clear()
    island.doubted.clear()
    _give_up_turn(state, island)
