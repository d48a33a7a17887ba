"""What hosts report of granted gangs: finished, failed, missed, out of order.

Gangs are retired in island order, so a failure that is reported late still finds everything that was computed from it.
A report costs work per gang it ends and never per host of the island.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import Epoch, GlobalId, HostName

from . import (
    accounts,
    bookings,
    copies,
    endings,
    follow_on,
    losses,
    quotas,
    reads,
    run_losses,
    runs,
    scheduler,
    shares,
    spans,
    windows,
)
from .events import HostProgressed, NodeFailed, OrderBroken, PrepareRefused, SequenceMissed, WindowDue
from .placements import IN_EPOCH
from .read_records import Fetch
from .records import Execution, Gang, Host, Island
from .run_records import Span
from .state import State
from .suspicions import BrokenGroup, SuspectedGang
from .transitions import ExecutionState
from .walk_records import Look

# Questions are told twice or late by links, so a few more than a host needs.
_ASKED_AGAIN_MAX = 8


def _active(state: State, name: HostName, epoch: Epoch) -> Host | None:
    """The host as a member of this epoch; None for anything older."""
    host = state.hosts.get(name)
    if host is None or host.rank < 0 or host.island.epoch != epoch or host.island.state not in IN_EPOCH:
        return None
    return host


def on_host_progressed(state: State, event: HostProgressed) -> None:
    host = state.hosts.get(event.host)
    if host is None:
        state.ignore(event, "unknown host")
        return
    island = host.island
    finished = event.finished_through
    if island.epoch != event.epoch or island.state not in IN_EPOCH or host.rank < 0:
        state.ignore(event, "older epoch")
        return
    if finished > host.last_sequence:
        losses.break_epoch(state, island, host, f"it reported gang {finished} finished, which it was never given")
        return
    if island.paced:
        host.launched_through = max(event.launched_through, finished, host.launched_through)
        runs.on_launched(state, host)
    if finished <= host.finished_through:
        return
    if event.busy_ns or event.times:
        bookings.book(state, host, event)
    before, host.finished_through = host.finished_through, finished
    host.moved_ns = state.now_ns
    unfinished = host.unfinished
    while unfinished and unfinished[0][0] <= finished:
        host.finished = unfinished.popleft()
        host.finished[1].remaining -= 1
    if host.account is not None:
        accounts.on_finished(state, host)
    if unfinished and island.line.lanes:
        last, gang = unfinished[0]
        if finished >= gang.sequence:
            assert isinstance(gang, Span)
            shares.went_on(state, gang, last, before, finished)
            if not windows.is_full(state, island):
                state.woken.append(island)
    retire(state, island)
    if island.ending is not None:
        endings.look(state, island)


def retire(state: State, island: Island) -> None:
    """Ends the gangs at the front that all members finished, then uses the room in the window."""
    inflight = island.inflight
    if not inflight or inflight[0].remaining:
        return
    while inflight and not inflight[0].remaining:
        execution = inflight[0]
        if execution.__class__ is not Execution:
            assert isinstance(execution, Span)
            if not spans.retire(state, execution):
                break
            continue
        inflight.popleft()
        island.inflight_gangs -= 1
        if execution.times:
            bookings.settle(state, execution)
        shares.retired(state, island, execution, execution.lane.share)
        content = execution.executable.estimate.content
        if content is not None:
            content.ended = True
        state.move(execution, ExecutionState.FINISHED)
        tenant = execution.lane.session.tenant
        tenant.running -= 1
        if tenant.program_line:
            quotas.look_again(state, tenant)
        execution.arguments = []
        execution.results = []
        execution.sent = []
        if island.fallible and island.fallible[0] is execution:
            island.fallible.popleft()
    use_room(state, island)


def use_room(state: State, island: Island) -> None:
    """What waited for the end of a gang, or for a place in the window."""
    if island.doubted:
        _look_at_doubted(state, island)
    if island.line.lanes:
        scheduler.pump(state, island)


def on_window_due(state: State, event: WindowDue) -> None:
    island = state.islands.get(event.island)
    if island is not None and island.line.lanes:
        scheduler.pump(state, island)


def look_again(state: State, island: Island) -> None:
    """Something has changed in its window from outside."""
    retire(state, island)
    use_room(state, island)


def _look_at_doubted(state: State, island: Island) -> None:
    """Reads that waited for the end of a fallible gang; those still in doubt register again."""
    doubted = list(island.doubted)
    island.doubted.clear()
    for reader in doubted:
        if isinstance(reader, Fetch):
            reads.try_fetch(state, reader)
        elif isinstance(reader, Look):
            reads.try_look(state, reader)
        else:
            copies.try_copy(state, reader)


def on_node_failed(state: State, event: NodeFailed) -> None:
    """Poisons the results, and those of every granted gang that used them, with the first cause."""
    host = state.hosts.get(event.host)
    gang = _find(host, event) if host is not None else None
    if host is None or gang is None:
        state.ignore(event, "no such gang in this epoch")
        return
    if _known_cause(gang, event) is None:
        reason = event.failure.reason
        if reason is Reason.SLICE_LOST:
            # Its collective lost a member: who it was is known in a moment, and nothing of this epoch can be mended.
            if host.island.ending is not None:
                endings.on_broken(state, host.island, gang)
                return
            follow_on.defer(state, BrokenGroup(host, host.island.epoch, gang), event.failure)
            gang.remaining += 1  # it is not finished, and fails with the epoch, by name
            return
        if follow_on.defer(state, SuspectedGang(host, gang, event), event.failure):
            gang.remaining += 1  # nobody reads what it made before the cause is known
            return
    _fail_gang(state, host, gang, event)


def _known_cause(gang: Gang, event: NodeFailed) -> Failure | None:
    if isinstance(gang, Span):
        return run_losses.known_cause(gang, event)
    return next((buffer.failure for buffer in run_losses.inputs(gang) if buffer.failure is not None), None)


def _fail_gang(state: State, host: Host, gang: Gang, event: NodeFailed) -> None:
    if isinstance(gang, Span):
        run_losses.on_node_failed(state, host, gang, event)
        return
    cause = _known_cause(gang, event) or event.failure
    state.history.failed(state.now_ns, gang, cause)
    run_losses.poison_results(state, gang.results, cause, host)
    run_losses.spread(state, [host.island])


def confirm(state: State, suspected: SuspectedGang) -> None:
    """Nothing better came: the host's report is the cause."""
    island = suspected.host.island
    if suspected.gang not in island.inflight:
        return
    suspected.gang.remaining -= 1
    _fail_gang(state, suspected.host, suspected.gang, suspected.report)
    retire(state, island)


def _find(host: Host, event: NodeFailed) -> Gang | None:
    """The gang in the window, or the span of a run with the gang."""
    if host.rank < 0:
        return None
    found = next((gang for gang in host.island.inflight if gang.sequence <= event.sequence <= gang.last), None)
    if found is None:
        return None
    if isinstance(found, Span):
        return found if found.run.id == event.execution_id and host in found.members else None
    return found if found.id == event.execution_id and host in found.executable.members else None


def on_prepare_refused(state: State, event: PrepareRefused) -> None:
    """Only a command that was not granted may be refused, and this core grants in the command: the member broke the order."""
    host = state.hosts.get(event.host)
    gang = None
    if host is not None:
        gang = next((gang for _, gang in host.unfinished if _name(gang) == event.execution_id), None)
    if host is None or gang is None:
        state.ignore(event, "no such gang in this epoch")
        return
    losses.break_epoch(state, host.island, host, f"it refused a granted gang: {event.failure.message}")


def _name(gang: Gang) -> GlobalId:
    return gang.run.id if isinstance(gang, Span) else gang.id


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
    missed = event.sequence
    if missed <= host.finished_through:
        state.ignore(event, "it has launched that gang since")
        return
    gang = next((gang for last, gang in host.unfinished if gang.sequence <= missed <= last), None)
    host.missed = {sequence: times for sequence, times in host.missed.items() if sequence > host.finished_through}
    times = host.missed.get(missed, 0)
    if gang is None or times >= _ASKED_AGAIN_MAX:
        losses.break_epoch(state, host.island, host, f"it asks for gang {event.sequence}, which cannot be sent again")
        return
    host.missed[missed] = times + 1
    state.effects.extend(send for send in gang.sent if send.host == host.name)
    state.log("gang sent again", host=host.name, sequence=event.sequence)
