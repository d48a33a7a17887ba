"""What must hold between the tables after every step, one function per sentence. For tests and simulation only.

`check(core)` raises `AssertionError` with the name of the broken invariant. It looks at everything and is not fast.
"""

from __future__ import annotations

from collections.abc import Callable

from .controller import Core
from .records import Buffer, Copy, Execution, HeldArray, Slice, View
from .state import State
from .transitions import BufferState, ExecutableState, ExecutionState, HostState, IslandState, SessionState, SliceState


def handles_are_counted(state: State) -> None:
    """A buffer's count is the number of handles of its session that name it."""
    for session in state.sessions.values():
        counts: dict[int, int] = {}
        for identifier, handle in session.handles.items():
            assert identifier == handle.id, f"handle {identifier} is filed under another id"
            for buffer in [handle] if isinstance(handle, Buffer) else [part.buffer for part in handle.parts]:
                counts[buffer.id] = counts.get(buffer.id, 0) + 1
                assert session.buffers.get(buffer.id) is buffer, f"a handle names buffer {buffer.id}, which is not in the table"
        for buffer in session.buffers.values():
            assert buffer.handles == counts.get(buffer.id, 0), f"buffer {buffer.id}: {buffer.handles} handles counted"


def buffers_exist_for_a_reason(state: State) -> None:
    """A buffer without a handle is needed by something that was asked for before; an ended one has given up its data."""
    for session in state.sessions.values():
        for buffer in session.buffers.values():
            assert buffer.handles or buffer.uses, f"buffer {buffer.id} is held by nobody"
            if buffer.ended is not None and not buffer.uses:
                assert buffer.state in (BufferState.FREED, BufferState.CONSUMED), f"ended buffer {buffer.id} keeps its data"
            failed = buffer.state is BufferState.POISONED
            assert not failed or buffer.failure is not None, f"poisoned buffer {buffer.id} has no cause"


def uses_are_counted(state: State) -> None:
    """`uses` are the arguments and results of queued executions and the reads that were not sent."""
    counts: dict[int, int] = {}
    for session in state.sessions.values():
        for lane in session.lanes.values():
            for execution in lane.queue:
                for buffer in _arguments(execution) + execution.results:
                    counts[buffer.id] = counts.get(buffer.id, 0) + 1
    for reader in state.readers.values():
        if not reader.sent:
            for buffer in reader.buffers:
                counts[buffer.id] = counts.get(buffer.id, 0) + 1
    for session in state.sessions.values():
        for buffer in session.buffers.values():
            assert buffer.uses == counts.get(buffer.id, 0), (
                f"buffer {buffer.id}: {buffer.uses} uses, {counts.get(buffer.id, 0)} found"
            )


def _arguments(execution: Execution) -> list[Buffer]:
    found: list[Buffer] = []
    for handle in execution.arguments:
        found.extend([part.buffer for part in handle.parts] if isinstance(handle, View) else [handle])
    return found


def pending_is_what_has_to_land(state: State) -> None:
    """A PENDING buffer waits for its transfers, and for its placement if that has not begun; no other buffer waits."""
    unplaced: dict[int, int] = {}
    for island in state.islands.values():
        for item in island.held:
            if isinstance(item, HeldArray):
                unplaced[item.buffer.id] = 1
    for reader in state.readers.values():
        if isinstance(reader, Copy) and not reader.sent:
            unplaced[reader.result.id] = 1
    for session in state.sessions.values():
        for buffer in session.buffers.values():
            transfers = len(buffer.transfers or {})
            if buffer.state is BufferState.PENDING:
                expected = transfers + unplaced.get(buffer.id, 0)
                assert buffer.pending == expected > 0, f"buffer {buffer.id} waits for {buffer.pending}, {expected} are out"
            else:
                assert not transfers, f"buffer {buffer.id} is {buffer.state.name} and has transfers"
                assert buffer.state is BufferState.EXPECTED or buffer.maker is None, f"buffer {buffer.id} is still being copied"


def transfers_belong_to_buffers(state: State) -> None:
    for transfer in state.transfers.values():
        assert (transfer.buffer.transfers or {}).get(transfer.id) is transfer, (
            f"transfer {transfer.id} is not known to its buffer"
        )
        assert state.hosts.get(transfer.host.name) is transfer.host, f"transfer {transfer.id} goes to a host that is gone"
        assert state.sessions.get(transfer.buffer.session.number) is transfer.buffer.session, (
            f"transfer {transfer.id} has no session"
        )


def reads_are_linked_both_ways(state: State) -> None:
    for number, fetch in state.pulls.items():
        assert state.readers.get(number) is fetch, f"pull {number} is no read"
    for reader in state.readers.values():
        assert state.sessions.get(reader.session.number) is reader.session, f"read {reader.number} has no session"
        for buffer in reader.buffers:
            assert buffer.readers is not None, f"read {reader.number} is not known to buffer {buffer.id}"
            assert buffer.readers.get(reader.number) is reader, f"read {reader.number} is not known to buffer {buffer.id}"
            assert buffer.state is not BufferState.POISONED, f"read {reader.number} waits for a poisoned buffer"
    for session in state.sessions.values():
        for buffer in session.buffers.values():
            for number in buffer.readers or {}:
                assert number in state.readers, f"buffer {buffer.id} knows read {number}, which has ended"


def unsent_reads_are_woken(state: State) -> None:
    """A read that is not sent waits for a buffer, for a gang in doubt, or for its island."""
    for reader in state.readers.values():
        if reader.sent:
            continue
        registered = any(buffer.waiters and reader in buffer.waiters for buffer in reader.buffers)
        doubted = any(reader in island.doubted for island in state.islands.values())
        held = any(reader in island.held for island in state.islands.values())
        assert registered or doubted or held, f"read {reader.number} waits for nothing"


def grants_are_in_order(state: State) -> None:
    """Sequences in the window have no gaps, end at the island's last one, and every member knows its share in order."""
    for island in state.islands.values():
        sequences = [execution.sequence for execution in island.inflight]
        expected = list(range(island.sequence - len(sequences) + 1, island.sequence + 1))
        assert sequences == expected, f"island {island.name}: window holds {sequences[:8]}"
        assert len(sequences) <= state.config.window_gangs, f"island {island.name}: {len(sequences)} gangs in flight"
        remaining: dict[int, int] = {}
        for host in island.members:
            own = [execution.sequence for execution in host.unfinished]
            assert own == sorted(set(own)), f"host {host.name}: unfinished gangs out of order"
            assert not own or own[-1] <= host.last_sequence <= island.sequence, f"host {host.name}: last sequence"
            for execution in host.unfinished:
                remaining[execution.sequence] = remaining.get(execution.sequence, 0) + 1
        for execution in island.inflight:
            assert execution.state is ExecutionState.GRANTED, f"gang {execution.sequence} is {execution.state.name}"
            assert execution.remaining == remaining.get(execution.sequence, 0), f"gang {execution.sequence}: members unfinished"


def fallible_gangs_are_in_the_window(state: State) -> None:
    for island in state.islands.values():
        inflight = list(island.inflight)
        for execution in island.fallible:
            assert execution in inflight, f"island {island.name}: fallible gang {execution.sequence} has ended"
        assert island.fallible or not island.doubted, f"island {island.name}: reads in doubt without a fallible gang"


def lanes_are_blocked_or_in_the_ring(state: State) -> None:
    """A lane with work is in the ring once, or blocked; the ring is empty unless the window is full."""
    for island in state.islands.values():
        ring = list(island.ring)
        for lane in island.lanes.values():
            assert ring.count(lane) <= 1, f"island {island.name}: session {lane.session.number} is in the ring twice"
            assert not (lane.queue and lane.blocked == (lane in ring)), (
                f"island {island.name}: session {lane.session.number} is stuck"
            )
            for execution in lane.queue:
                assert execution.state is ExecutionState.QUEUED, f"execution {execution.id} waits and is {execution.state.name}"
        if any(lane.queue for lane in ring) and island.state is IslandState.ACTIVE:
            assert len(island.inflight) >= state.config.window_gangs, f"island {island.name}: work waits and there is room"


def expected_buffers_have_a_queued_execution(state: State) -> None:
    made: dict[int, None] = {}
    for session in state.sessions.values():
        for lane in session.lanes.values():
            for execution in lane.queue:
                made.update((result.id, None) for result in execution.results)
    for session in state.sessions.values():
        for buffer in session.buffers.values():
            assert (buffer.state is BufferState.EXPECTED) <= (buffer.id in made), f"nothing will make buffer {buffer.id}"


def values_live_on_active_islands(state: State) -> None:
    """What is present or landing is on the hosts of the current epoch of an ACTIVE island."""
    for session in state.sessions.values():
        for buffer in session.buffers.values():
            if buffer.state is BufferState.PRESENT or buffer.transfers:
                assert buffer.placement is not None, f"buffer {buffer.id} is nowhere"
                island = buffer.placement.island
                assert island.state is IslandState.ACTIVE, f"buffer {buffer.id} lives on island {island.name}, not ACTIVE"
                assert buffer.epoch == island.epoch, f"buffer {buffer.id} lives in epoch {buffer.epoch} of island {island.name}"


def executables_follow_their_island(state: State) -> None:
    uses: dict[str, int] = {}
    for session in state.sessions.values():
        for executable in session.executables.values():
            uses[executable.program] = uses.get(executable.program, 0) + 1
            island = executable.placement.island
            assert island.executables.get(executable.id) is executable, f"executable {executable.id} is not on its island"
            if executable.state in (ExecutableState.LOADED, ExecutableState.LOADING):
                assert island.state is IslandState.ACTIVE, f"executable {executable.id} is loaded on no epoch"
                assert executable.epoch == island.epoch, f"executable {executable.id} is loaded in an older epoch"
            lane = session.lanes.get(island.name)
            queued = sum(1 for execution in (lane.queue if lane else ()) if execution.executable is executable)
            assert executable.queued == queued, f"executable {executable.id}: {executable.queued} queued"
    assert state.programs == uses, "programs are kept that nobody uses, or the other way round"
    for island in state.islands.values():
        for executable in island.executables.values():
            assert executable.session.executables.get(executable.id) is executable, f"executable {executable.id} has no session"


def islands_and_hosts_agree(state: State) -> None:
    for host in state.hosts.values():
        assert host.island.hosts.get(host.name) is host, f"host {host.name} is not in its island"
    for island in state.islands.values():
        forming = island.state in (IslandState.COORDINATING, IslandState.ENTERING, IslandState.ACTIVE)
        assert forming == bool(island.members), f"island {island.name} is {island.state.name} with {len(island.members)} members"
        assert (island.state is IslandState.EMPTY) == (not island.hosts), f"island {island.name}: EMPTY with hosts"
        for rank, host in enumerate(island.members):
            assert host.rank == rank, f"host {host.name}: rank"
            assert state.hosts.get(host.name) is host, f"member {host.name} of island {island.name} is gone"
            if island.state is IslandState.ACTIVE:
                assert host.state is HostState.ACTIVE, f"host {host.name} of an ACTIVE island is {host.state.name}"
        for host in island.hosts.values():
            assert host in island.members or (host.rank == -1 and not host.unfinished), f"host {host.name} is outside with work"


def sessions_own_what_is_out(state: State) -> None:
    for number, session in state.sessions.items():
        pending = number in state.pending
        assert session.state is (SessionState.PENDING if pending else SessionState.OPEN), (
            f"session {number} is {session.state.name}"
        )
        out = sum(1 for call in state.calls.values() if call.session is session)
        assert session.calls == out, f"session {number}: {session.calls} calls counted, {out} out"
        for upload in session.uploads.values():
            assert upload.buffer.state is BufferState.PENDING, f"upload {upload.upload_id} of session {number} goes nowhere"
    for call in state.calls.values():
        assert state.sessions.get(call.session.number) is call.session, f"call {call.id} has no session"
    for inspect in state.inspects.values():
        assert state.sessions.get(inspect.session.number) is inspect.session, f"inspection {inspect.number} has no session"


def fences_wait_for_something(state: State) -> None:
    for session in state.sessions.values():
        oldest = next(iter(session.ungranted), None)
        if session.fences:
            assert oldest is not None, f"session {session.number}: a fence waits for nothing"
            assert oldest < session.fences[0].order, f"session {session.number}: a fence is late"


def slices_and_pools_agree(state: State) -> None:
    """A slice in the tables has its session; every group is free or of one slice; devices are bound where slices say."""
    for number, held in state.slices.items():
        assert held.number == number, f"slice {held.number} is filed as {number}"
        session = held.session
        assert state.sessions.get(session.number) is session, f"slice {number} has no session"
        assert session.slices.get(held.request.slice_id) is held, f"slice {number} is not known to its session"
        assert held.state is not SliceState.ENDED, f"slice {number} has ended and is kept"
        assert (held.state is SliceState.WAITING) == (held.group is None), f"slice {number} is {held.state.name}"
        assert (held.state is SliceState.RELEASING) == any(held is released for _, released in session.releases), (
            f"slice {number} is {held.state.name} and its release is not under way, or the other way round"
        )
    for session in state.sessions.values():
        assert all(state.slices.get(held.number) is held for held in session.slices.values()), "a slice is in one table only"
        firsts = [group.first for group in session.pool]
        firsts += [held.group.first for held in session.slices.values() if held.group is not None]
        expected = range(session.primary_count, len(session.devices), session.pool_size or 1)
        assert sorted(firsts) == list(expected), f"session {session.number}: groups {sorted(firsts)}"
        bound = {
            device: (held.number, position)
            for held in session.slices.values()
            if held.state is SliceState.BOUND
            for device, position in zip(held.devices, held.positions, strict=True)
        }
        found = {
            index: (device.owner, device.position)
            for index, device in enumerate(session.devices)
            if device is not None and index >= session.primary_count
        }
        assert found == bound, f"session {session.number}: bound devices differ from its slices"


def slices_lie_well(state: State) -> None:
    """Devices of a slice are different ones of one island that its session uses; exclusive ones are no other session's."""
    holders: dict[tuple[str, int], list[Slice]] = {}
    for held in state.slices.values():
        if held.island is None:
            continue
        assert len(set(held.positions)) == len(held.positions), f"slice {held.number} has a device twice"
        assert held.island.name in held.session.used, f"slice {held.number} lies on an island that its session does not use"
        if held.island.state is IslandState.ACTIVE:
            size = len(held.island.members) * held.island.devices_per_host
            assert all(0 <= position < size for position in held.positions), f"slice {held.number} lies outside its island"
        for position in held.positions:
            holders.setdefault((held.island.name, position), []).append(held)
    for (island, position), sharing in holders.items():
        sessions = {held.session.number for held in sharing}
        exclusive = any(held.request.exclusive for held in sharing)
        assert len(sessions) == 1 or not exclusive, f"device {position} of island {island} is held exclusively and shared"


def ended_slices_hold_no_values(state: State) -> None:
    """What lies on a slice that is no longer bound takes no new work."""
    for session in state.sessions.values():
        live = {held.number for held in session.slices.values() if held.state is SliceState.BOUND}
        for buffer in session.buffers.values():
            owners = buffer.placement.owners if buffer.placement is not None else ()
            gone = [owner for owner in owners if owner and owner not in live]
            assert not gone or buffer.ended is not None, f"buffer {buffer.id} lies on slice {gone[0]}, which was released"


def queued_work_lies_on_held_slices(state: State) -> None:
    """A slice is not given back before the work that was asked for earlier."""
    for session in state.sessions.values():
        held = {owner.number for owner in session.slices.values()}
        for lane in session.lanes.values():
            for execution in lane.queue:
                for owner in execution.executable.placement.owners:
                    assert not owner or owner in held, f"execution {execution.id} waits on slice {owner}, which was given back"


def nothing_is_left_to_do(state: State) -> None:
    assert not state.woken, "something woken was not looked at"
    assert not state.frees, "frees were not sent"


ALL: tuple[Callable[[State], None], ...] = (
    handles_are_counted,
    buffers_exist_for_a_reason,
    uses_are_counted,
    pending_is_what_has_to_land,
    transfers_belong_to_buffers,
    reads_are_linked_both_ways,
    unsent_reads_are_woken,
    grants_are_in_order,
    fallible_gangs_are_in_the_window,
    lanes_are_blocked_or_in_the_ring,
    expected_buffers_have_a_queued_execution,
    values_live_on_active_islands,
    executables_follow_their_island,
    islands_and_hosts_agree,
    sessions_own_what_is_out,
    fences_wait_for_something,
    slices_and_pools_agree,
    slices_lie_well,
    ended_slices_hold_no_values,
    queued_work_lies_on_held_slices,
    nothing_is_left_to_do,
)


def check(core: Core) -> None:
    """Raises AssertionError naming the first broken invariant."""
    for invariant in ALL:
        try:
            invariant(core.state)
        except AssertionError as error:
            raise AssertionError(f"{invariant.__name__}: {error}") from None
