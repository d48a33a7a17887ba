"""What must hold between the tables after every step, one function per sentence. For tests and simulation only.

`check(core)` raises `AssertionError` with the name of the broken invariant. It looks at everything and is not fast.
"""

from __future__ import annotations

from collections.abc import Callable

from pathways_common.model.ids import is_made_by_core

from . import cell_invariants, lane_invariants, memory_invariants, quota_invariants, registry, share_invariants
from .controller import Core
from .lane_invariants import arguments, waiting
from .placements import IN_EPOCH
from .read_records import Copy, Fetch
from .records import NO_EPOCH, Buffer, Execution, HeldArray, Island, Session, View
from .run_records import Run, Span
from .slice_invariants import ended_slices_hold_no_values, slices_and_pools_agree, slices_lie_well
from .spans import shape_of
from .state import State
from .suspicions import BrokenGroup, SuspectedGang
from .transitions import BufferState, ExecutableState, ExecutionState, HostState, IslandState, SessionState
from .walk_records import Look

# Looked up once: a look at all tables is made after most events of a simulation.
_PENDING, _PRESENT, _EXPECTED, _POISONED = (
    BufferState.PENDING, BufferState.PRESENT, BufferState.EXPECTED, BufferState.POISONED,
)  # fmt: skip
_GIVEN_UP = (BufferState.FREED, BufferState.CONSUMED)
_ON_HOSTS = (ExecutableState.LOADED, ExecutableState.LOADING)
_ACTIVE = IslandState.ACTIVE


def handles_are_counted(state: State) -> None:
    """A buffer's count is the number of handles of its session that name it."""
    for session in state.sessions.values():
        counts: dict[int, int] = {}
        known = session.buffers
        for identifier, handle in session.handles.items():
            assert identifier == handle.id, f"handle {identifier} is filed under another id"
            if handle.__class__ is Buffer:
                counts[identifier] = counts.get(identifier, 0) + 1
                assert known.get(identifier) is handle, f"a handle names buffer {identifier}, which is not in the table"
            elif isinstance(handle, View):
                for part in (*handle.parts, *handle.copies):
                    buffer = part.buffer
                    counts[buffer.id] = counts.get(buffer.id, 0) + 1
                    assert known.get(buffer.id) is buffer, f"a handle names buffer {buffer.id}, which is not in the table"
        for identifier, buffer in known.items():
            assert identifier == buffer.id, f"buffer {identifier} is filed under another id"
            assert buffer.handles == counts.get(identifier, 0), f"buffer {identifier}: {buffer.handles} handles counted"


def buffers_exist_for_a_reason(state: State) -> None:
    """A buffer without a handle is needed by something that was asked for before; an ended one has given up its data."""
    for session in state.sessions.values():
        for buffer in session.buffers.values():
            assert buffer.handles or buffer.uses, f"buffer {buffer.id} is held by nobody"
            if buffer.ended is not None and not buffer.uses:
                assert buffer.state in _GIVEN_UP, f"ended buffer {buffer.id} keeps its data"
            if buffer.state is _POISONED:
                assert buffer.failure is not None, f"poisoned buffer {buffer.id} has no cause"


def uses_are_counted(state: State) -> None:
    """`uses` are arguments and results of work that waits, arguments of walks, other names, unsent reads, and ways to a store."""
    counts: dict[int, int] = {}
    for session in state.sessions.values():
        for work in waiting(session):
            for buffer in arguments(work) + work.results:
                counts[buffer.id] = counts.get(buffer.id, 0) + 1
        named = [origin for buffer in session.buffers.values() if buffer.origins for origin in buffer.origins]
        for buffer in [*_held(session), *named]:
            counts[buffer.id] = counts.get(buffer.id, 0) + 1
    unsent = [buffer for reader in state.readers.values() if not reader.sent for buffer in reader.buffers]
    unsent += [part.buffer for reader in state.readers.values() if isinstance(reader, Fetch) for part in reader.others]
    for buffer in [*unsent, *(moving.buffer for moving in state.moving.values())]:
        counts[buffer.id] = counts.get(buffer.id, 0) + 1
    for session in state.sessions.values():
        for identifier, buffer in session.buffers.items():
            found = counts.get(identifier, 0)
            assert buffer.uses == found, f"buffer {identifier}: {buffer.uses} uses, {found} found"


def _held(session: Session) -> list[Buffer]:
    """What walks have of the client's values, as often as they have it."""
    return [buffer for walk in session.walks.values() for buffer in arguments(walk)]


def walks_are_under_way(state: State) -> None:
    """A walk has its lanes on islands and its arguments to itself; what the core made for one is gone with it."""
    for session in state.sessions.values():
        held: dict[int, int] = {}
        for buffer in _held(session):
            held[buffer.id] = held.get(buffer.id, 0) + 1
        walked = bool(session.walks)
        for identifier, buffer in session.buffers.items():
            assert buffer.held == held.get(identifier, 0), f"buffer {identifier} is held {buffer.held} times"
            for origin in buffer.origins:
                assert (origin.aliases or {}).get(identifier) is buffer, f"buffer {origin.id} does not know its other name"
                poisoned = origin.failure is not None and buffer.failure is None
                assert not poisoned, f"buffer {identifier} names the bytes of {origin.id}, which failed"
            if not walked and not buffer.uses:
                assert not is_made_by_core(identifier), f"buffer {identifier} was left behind by a walk"
        for number, walk in session.walks.items():
            assert walk.number == number, f"walk {walk.number} is filed as {number}"
            assert not walk.over, f"walk {walk.id} is over and in the tables"
            assert walk.failure is None, f"walk {walk.id} has failed and goes on"
            assert walk.order in session.ungranted, f"walk {walk.id} does not hold up fences"
            for lane in walk.lanes.values():
                assert lane.island.lanes.get(lane.key) is lane, f"walk {walk.id} has a lane that its island does not know"
    for island in state.islands.values():
        for lane in island.lanes.values():
            assert not lane.walk or lane.walk in lane.session.walks, f"island {island.name} has a lane of a walk that is over"
    for reader in state.readers.values():
        assert not isinstance(reader, Look) or not reader.walk.over, f"look {reader.number} is of a walk that is over"


def pending_is_what_has_to_land(state: State) -> None:
    """A PENDING buffer waits for its transfers, and for its placement if that has not begun; no other buffer waits."""
    unplaced: dict[int, int] = {}
    kept = [item for island in state.islands.values() for item in [*island.held, *memory_invariants.placing(island)]]
    kept += [item for tenant in state.tenants.values() for item in tenant.memory_line if isinstance(item, HeldArray)]
    unplaced.update((item.buffer.id, 1) for item in kept if isinstance(item, HeldArray))
    for reader in state.readers.values():
        if isinstance(reader, Copy) and not reader.sent:
            unplaced[reader.result.id] = 1
    lanes = [lane for island in state.islands.values() for lane in island.lanes.values()]
    queued = [work for lane in lanes for work in lane.queue if isinstance(work, Execution)]
    unplaced.update((result.id, 1) for work in queued for result in work.results)
    walks = [walk for session in state.sessions.values() for walk in session.walks.values()]
    unplaced.update((result.id, 1) for walk in walks for result in walk.results if result.state is BufferState.PENDING)
    for session in state.sessions.values():
        for buffer in session.buffers.values():
            if buffer.state is _PENDING:
                expected = len(buffer.transfers or {}) + unplaced.get(buffer.id, 0)
                assert buffer.pending == expected > 0, f"buffer {buffer.id} waits for {buffer.pending}, {expected} are out"
            else:
                assert not buffer.transfers, f"buffer {buffer.id} is {buffer.state.name} and has transfers"
                assert buffer.maker is None or buffer.state is _EXPECTED, f"buffer {buffer.id} is still being copied"


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
            if buffer.readers:
                ended = [number for number in buffer.readers if number not in state.readers]
                assert not ended, f"buffer {buffer.id} knows read {ended[0]}, which has ended"


def unsent_reads_are_woken(state: State) -> None:
    """A read that is not sent waits for a buffer, for a gang in doubt, for its island, or for room."""
    waiting: dict[int, None] = {}  # those that wait for something of an island
    for island in state.islands.values():
        for items in (island.doubted, island.held, memory_invariants.placing(island)):
            waiting.update((id(item), None) for item in items)
    for reader in state.readers.values():
        if not reader.sent and id(reader) not in waiting and reader not in reader.session.tenant.memory_line:
            registered = any(buffer.waiters and reader in buffer.waiters for buffer in reader.buffers)
            assert registered, f"read {reader.number} waits for nothing"


def grants_are_in_order(state: State) -> None:
    """Sequences in the window have no gaps, end at the island's last one, and every member knows its share in order."""
    for island in state.islands.values():
        sequences = [sequence for gang in island.inflight for sequence in range(gang.sequence, gang.last + 1)]
        expected = list(range(island.sequence - len(sequences) + 1, island.sequence + 1))
        assert sequences == expected, f"island {island.name}: window holds {sequences[:8]}"
        quantum = min(state.config.quantum_gangs, state.config.window_gangs)
        assert island.inflight_gangs == len(sequences) + _room_taken(island), f"island {island.name}: gangs in flight"
        assert island.inflight_joint == sum(gang.joint for gang in island.inflight), f"island {island.name}: joint ones"
        # A fused group goes whole also where it is longer than a quantum; never longer than a window.
        grouped = [gang.last - gang.sequence + 1 for gang in island.inflight if isinstance(gang, Span) and gang.groups]
        longest = min(max([quantum, *grouped]), state.config.window_gangs)
        assert island.inflight_gangs < state.config.window_gangs + longest, f"island {island.name}: {len(sequences)} in flight"
        remaining: dict[int, int] = {}
        for suspicion in state.suspicions:
            if isinstance(suspicion.subject, SuspectedGang | BrokenGroup):
                gang_id = id(suspicion.subject.gang)
                remaining[gang_id] = remaining.get(gang_id, 0) + 1
        for host in island.members:
            own = [last for last, _ in host.unfinished]
            assert own == sorted(set(own)), f"host {host.name}: unfinished gangs out of order"
            assert not own or own[-1] <= host.last_sequence <= island.sequence, f"host {host.name}: last sequence"
            for last, gang in host.unfinished:
                assert gang.sequence <= last <= gang.last, f"host {host.name}: gang {last} is none of its own"
                remaining[id(gang)] = remaining.get(id(gang), 0) + 1
        for gang in island.inflight:
            if isinstance(gang, Execution):
                assert gang.state is ExecutionState.GRANTED, f"gang {gang.sequence} is {gang.state.name}"
            assert gang.remaining == remaining.get(id(gang), 0), f"gang {gang.sequence}: members unfinished"


def _room_taken(island: Island) -> int:
    """What runs hold for themselves here until they get their turn elsewhere."""
    taken = 0
    for lane in island.lanes.values():
        run = lane.queue[0] if lane.queue else None
        if isinstance(run, Run):
            islands = shape_of(run.plan).islands
            taken += sum(count for index, count in run.needs[: run.acquired] if islands[index] is island)
    return taken


def runs_are_where_they_belong(state: State) -> None:
    """A waiting run is in all its lanes, at the head of all if it is granted in part; what is in flight is in the tables."""
    for session in state.sessions.values():
        for work in waiting(session):
            if isinstance(work, Run):
                assert work.queued, f"run {work.id} is in a lane and does not wait"
                assert all(lane.queue.count(work) == 1 for lane in work.lanes), f"run {work.id} is missing in a lane"
                heads = all(lane.queue[0] is work for lane in work.lanes)
                assert heads or not (work.next_step or work.acquired), f"run {work.id} was granted out of turn"
                assert work.next_step < len(work.plan.steps), f"run {work.id} waits and is granted"
                assert bool(work.next_step) == (work.state is ExecutionState.GRANTED), f"run {work.id} is {work.state.name}"
    for island in state.islands.values():
        for number, run in island.runs.items():
            assert run.number == number, f"run {run.number} is filed as {number}"
            assert run.spans or run.queued, f"run {run.id} is over and in the tables"
            made = [result for index, result in enumerate(run.results) if shape_of(run.plan).made[index] < run.next_step]
            expected = [result for result in made if result.state is BufferState.EXPECTED]
            assert not expected, f"run {run.id}: a result of a granted step is not there"
        for gang in island.inflight:
            if isinstance(gang, Span):
                assert gang in gang.run.spans, f"a gang of run {gang.run.id} is in flight and unknown to it"
                assert island.runs.get(gang.run.number) is gang.run, f"run {gang.run.id} is in flight and unknown"
        for run in island.paced.values():
            assert run.queued, f"run {run.id} waits for launches and has ended"
            assert run.plan.sequential, f"run {run.id} waits for launches"


def fallible_gangs_are_in_the_window(state: State) -> None:
    for island in state.islands.values():
        inflight = list(island.inflight)
        for execution in island.fallible:
            assert execution in inflight, f"island {island.name}: fallible gang {execution.sequence} has ended"
        assert island.fallible or not island.doubted, f"island {island.name}: reads in doubt without a fallible gang"


def values_live_on_active_islands(state: State) -> None:
    """What is present or landing is on the hosts of an epoch that is not over."""
    for session in state.sessions.values():
        for buffer in session.buffers.values():
            if buffer.state is _PRESENT or buffer.transfers:
                assert buffer.placement is not None, f"buffer {buffer.id} is nowhere"
                island = buffer.placement.island
                assert island.state in IN_EPOCH, f"buffer {buffer.id} lives on island {island.name}, not ACTIVE"
                assert buffer.epoch == island.epoch, f"buffer {buffer.id} lives in epoch {buffer.epoch} of island {island.name}"


def executables_follow_their_island(state: State) -> None:
    uses: dict[str, int] = {}
    for kept in registry.registered(state):
        for origin in kept.origins:
            uses[origin.program] = uses.get(origin.program, 0) + 1
    for session in state.sessions.values():
        queued = _queued_on_executables(session)
        for executable in session.executables.values():
            uses[executable.program] = uses.get(executable.program, 0) + 1
            island = executable.placement.island
            assert island.executables.get(executable.id) is executable, f"executable {executable.id} is not on its island"
            if executable.state in _ON_HOSTS:
                assert island.state in IN_EPOCH, f"executable {executable.id} is loaded on no epoch"
                assert executable.epoch == island.epoch, f"executable {executable.id} is loaded in an older epoch"
            found = queued.get(executable.id, 0)
            assert executable.queued == found, f"executable {executable.id}: {executable.queued} queued, {found} found"
    for island in state.islands.values():
        if island.state not in IN_EPOCH:
            continue
        loaded: dict[str, int] = {}  # a host is of one island
        for executable in island.executables.values():
            for host in executable.members if executable.epoch == island.epoch else ():
                loaded[host.name] = loaded.get(host.name, 0) + 1
                told = host.name in executable.answers_due and host.name not in executable.untold
                assert not told or host.loads.get(executable.id) is executable, f"executable {executable.id} is loaded unseen"
        for host in island.members:
            found = loaded.get(host.name, 0)
            assert host.executables_loaded == found, f"host {host.name}: {host.executables_loaded} loaded, {found} found"
            assert all(each.epoch in (island.epoch, NO_EPOCH) for each in host.loads.values()), f"host {host.name}: older loads"
    for session in state.sessions.values():
        owed = {each.id: 0 for host in state.hosts.values() for each in host.loads.values() if each.session is session}
        for host in state.hosts.values():
            owed.update((key, owed[key] + 1) for key in host.loads if key in owed)
        dropped = {key: count for key, count in owed.items() if key not in session.executables}
        assert session.dropped_loads == dropped, f"session {session.number}: {session.dropped_loads} dropped, {dropped} found"
    assert state.programs == uses, "programs are kept that nobody uses, or the other way round"
    for island in state.islands.values():
        for executable in island.executables.values():
            assert executable.session.executables.get(executable.id) is executable, f"executable {executable.id} has no session"


def _queued_on_executables(session: Session) -> dict[int, int]:
    """Executions that wait, by executable; and a program keeps each of its executables, until it is forgotten."""
    queued: dict[int, int] = {}
    for work in waiting(session):
        if isinstance(work, Execution):
            queued[work.executable.id] = queued.get(work.executable.id, 0) + 1
    for definition in session.definitions.values():
        program = definition.program
        kept = dict.fromkeys(computation.executable_id for computation in program.computations)
        kept.update((group.computation.executable_id, None) for group in program.fused)
        for identifier in kept:
            queued[identifier] = queued.get(identifier, 0) + 1
    return queued


def programs_are_kept_for_a_reason(state: State) -> None:
    for session in state.sessions.values():
        runs = [work.definition.id for work in waiting(session) if isinstance(work, Run)]
        runs += [walk.definition.id for walk in session.walks.values()]
        for definition in session.definitions.values():
            queued = runs.count(definition.id)
            assert definition.queued == queued, f"program {definition.id}: {definition.queued} runs wait, {queued} found"
            assert definition.queued or not definition.released, f"program {definition.id} was released and is kept"


def islands_and_hosts_agree(state: State) -> None:
    for host in state.hosts.values():
        assert host.island.hosts.get(host.name) is host, f"host {host.name} is not in its island"
    for island in state.islands.values():
        forming = island.state in (IslandState.COORDINATING, IslandState.ENTERING, *IN_EPOCH)
        assert forming == bool(island.members), f"island {island.name} is {island.state.name} with {len(island.members)} members"
        assert (island.state is IslandState.EMPTY) == (not island.hosts), f"island {island.name}: EMPTY with hosts"
        for rank, host in enumerate(island.members):
            assert host.rank == rank, f"host {host.name}: rank"
            assert state.hosts.get(host.name) is host, f"member {host.name} of island {island.name} is gone"
            if island.state in IN_EPOCH:
                assert host.state is HostState.ACTIVE, f"host {host.name} of an {island.state.name} island is {host.state.name}"
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
        for released, before in session.releases.items():
            assert before, f"the release of slice {released.number} waits for nothing"
            for order in before:
                uses = session.ungranted.get(order, ())
                assert released.number in uses, f"the release of slice {released.number} waits for work elsewhere"


def queued_work_lies_on_held_slices(state: State) -> None:
    """A slice is not given back before the work that was asked for earlier."""
    for session in state.sessions.values():
        held = {owner.number for owner in session.slices.values()}
        for walk in session.walks.values():
            gone = [number for number in walk.composite.slices if number not in held]
            assert not gone, f"walk {walk.id} goes on on slice {gone[0]}, which was given back"
        for work in waiting(session):
            executables = (work.executable,) if isinstance(work, Execution) else work.plan.executables
            for owner in [owner for executable in executables for owner in executable.placement.owners]:
                assert not owner or owner in held, f"execution {work.id} waits on slice {owner}, which was given back"


def images_are_kept_by_hosts(state: State) -> None:
    """Nobody is sent for an image to a host that is gone."""
    assert len(state.images) <= state.config.images_max, f"{len(state.images)} images are known"
    for key, holders in state.images.items():
        assert holders, f"nobody keeps image {key}"
        for name in holders:
            assert name in state.hosts, f"image {key} is kept by {name}, which is gone"


def nothing_is_left_to_do(state: State) -> None:
    assert not state.woken, "something woken was not looked at"
    assert not state.frees, "frees were not sent"
    assert not state.failing, "a value has failed and what needs it was not looked at"


ALL: tuple[Callable[[State], None], ...] = (
    handles_are_counted,
    buffers_exist_for_a_reason,
    uses_are_counted,
    pending_is_what_has_to_land,
    transfers_belong_to_buffers,
    walks_are_under_way,
    reads_are_linked_both_ways,
    unsent_reads_are_woken,
    grants_are_in_order,
    runs_are_where_they_belong,
    programs_are_kept_for_a_reason,
    fallible_gangs_are_in_the_window,
    *lane_invariants.ALL,
    values_live_on_active_islands,
    executables_follow_their_island,
    islands_and_hosts_agree,
    sessions_own_what_is_out,
    fences_wait_for_something,
    slices_and_pools_agree,
    slices_lie_well,
    ended_slices_hold_no_values,
    queued_work_lies_on_held_slices,
    images_are_kept_by_hosts,
    *quota_invariants.ALL,
    *cell_invariants.ALL,
    *share_invariants.ALL,
    nothing_is_left_to_do,
    *memory_invariants.ALL,
)


def check(core: Core) -> None:
    """Raises AssertionError naming the first broken invariant."""
    for invariant in ALL:
        try:
            invariant(core.state)
        except AssertionError as error:
            raise AssertionError(f"{invariant.__name__}: {error}") from None
