"""What hosts report of granted gangs: finished, failed, missed, out of order.

Gangs are retired in island order, so a failure that is reported late still finds everything that was computed from it.
A report costs work per gang it ends and never per host of the island.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import Epoch, HostName

from . import buffers, follow_on, losses, reads, scheduler
from .copies import try_copy
from .effects import Poison
from .events import HostProgressed, NodeFailed, OrderBroken, PrepareRefused, SequenceMissed
from .records import BrokenGroup, Buffer, Execution, Fetch, Host, Island
from .state import State
from .transitions import BufferState, ExecutionState, IslandState

_ASKED_AGAIN_MAX = 3


def _active(state: State, name: HostName, epoch: Epoch) -> Host | None:
    """The host as a member of this epoch; None for anything older."""
    host = state.hosts.get(name)
    if host is None or host.rank < 0 or host.island.epoch != epoch or host.island.state is not IslandState.ACTIVE:
        return None
    return host


def on_host_progressed(state: State, event: HostProgressed) -> None:
    host = state.hosts.get(event.host)
    if host is None:
        state.ignore(event, "unknown host")
        return
    island = host.island
    finished = event.finished_through
    if island.epoch != event.epoch or island.state is not IslandState.ACTIVE or host.rank < 0:
        state.ignore(event, "older epoch")
        return
    if finished > host.last_sequence:
        losses.break_epoch(state, island, host, f"it reported gang {finished} finished, which it was never given")
        return
    if finished <= host.finished_through:
        return
    host.finished_through = finished
    unfinished = host.unfinished
    while unfinished and unfinished[0].sequence <= finished:
        unfinished.popleft().remaining -= 1
    retire(state, island)


def retire(state: State, island: Island) -> None:
    """Ends the gangs at the front that all members finished, then uses the room in the window."""
    inflight = island.inflight
    if not inflight or inflight[0].remaining:
        return
    while inflight and not inflight[0].remaining:
        execution = inflight.popleft()
        state.move(execution, ExecutionState.FINISHED)
        execution.arguments = []
        execution.results = []
        execution.sent = []
        if island.fallible and island.fallible[0] is execution:
            island.fallible.popleft()
    if island.doubted:
        _look_at_doubted(state, island)
    if island.ring:
        scheduler.pump(state, island)


def _look_at_doubted(state: State, island: Island) -> None:
    """Reads that waited for the end of a fallible gang; those still in doubt register again."""
    doubted = list(island.doubted)
    island.doubted.clear()
    for reader in doubted:
        if isinstance(reader, Fetch):
            reads.try_fetch(state, reader)
        else:
            try_copy(state, reader)


def on_node_failed(state: State, event: NodeFailed) -> None:
    """Poisons the results, and those of every granted gang that used them, with the first cause."""
    host = state.hosts.get(event.host)
    execution = _find(host, event) if host is not None else None
    if host is None or execution is None:
        state.ignore(event, "no such gang in this epoch")
        return
    failure = next((b.failure for b in _inputs(execution) if b.failure is not None), event.failure)
    if failure is event.failure and failure.reason is Reason.SLICE_LOST:
        # Its collective lost a member: who it was is known in a moment, and nothing of this epoch can be mended.
        follow_on.defer(state, BrokenGroup(host, host.island.epoch), failure)
        return
    _poison_results(state, execution, failure, reporter=host)
    inflight = host.island.inflight
    for later in [gang for gang in inflight if gang.sequence > execution.sequence]:
        cause = next((b.failure for b in _inputs(later) if b.failure is not None), None)
        if cause is not None:
            _poison_results(state, later, cause, reporter=None)


def _find(host: Host, event: NodeFailed) -> Execution | None:
    """The gang in the window: by position, since sequences have no gaps."""
    inflight = host.island.inflight
    if not inflight or host.rank < 0:
        return None
    index = event.sequence - inflight[0].sequence
    if 0 <= index < len(inflight) and inflight[index].id == event.execution_id and host in inflight[index].executable.members:
        return inflight[index]
    return None


def _inputs(execution: Execution) -> list[Buffer]:
    return [part.buffer for handle in execution.arguments for part in buffers.parts_of(handle)]


def _poison_results(state: State, execution: Execution, failure: Failure, reporter: Host | None) -> None:
    """Tells the other members too, so that a read that waits there ends. The reporter knows already."""
    live = [result for result in execution.results if result.state is BufferState.PRESENT]
    consumed = [result for result in execution.results if result.state is BufferState.CONSUMED and result.failure is None]
    if live:
        command = Poison(tuple(result.id for result in live), failure)
        for host in execution.executable.members:
            if host is not reporter:
                state.tell(host, command)
    for result in live:
        buffers.poison(state, result, failure, tell_hosts=False)
    for result in consumed:
        result.failure = failure  # so that the gang it was donated to inherits the cause


def on_prepare_refused(state: State, event: PrepareRefused) -> None:
    """Only a command that was not granted may be refused, and this core grants in the command: the member broke the order."""
    host = state.hosts.get(event.host)
    gang = None
    if host is not None:
        gang = next((gang for gang in host.unfinished if gang.id == event.execution_id), None)
    if host is None or gang is None:
        state.ignore(event, "no such gang in this epoch")
        return
    losses.break_epoch(state, host.island, host, f"it refused a granted gang: {event.failure.message}")


def on_order_broken(state: State, event: OrderBroken) -> None:
    host = _active(state, event.host, event.epoch)
    if host is None:
        state.ignore(event, "older epoch")
        return
    losses.break_epoch(state, host.island, host, f"its order of launches broke at gang {event.sequence}: {event.text}")


def on_sequence_missed(state: State, event: SequenceMissed) -> None:
    """Sends the gang again while it is in the window; a host that goes on asking has lost its place."""
    host = _active(state, event.host, event.epoch)
    if host is None:
        state.ignore(event, "older epoch")
        return
    gang = next((gang for gang in host.unfinished if gang.sequence == event.sequence), None)
    if gang is None or gang.resent >= _ASKED_AGAIN_MAX:
        losses.break_epoch(state, host.island, host, f"it asks for gang {event.sequence}, which cannot be sent again")
        return
    gang.resent += 1
    state.effects.extend(send for send in gang.sent if send.host == host.name)
    state.log("gang sent again", host=host.name, sequence=event.sequence)
