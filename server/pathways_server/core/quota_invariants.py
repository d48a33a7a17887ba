"""What must hold of tenants after every step: their books are what a look at everything finds, and lines hold what waits."""

from __future__ import annotations

from collections.abc import Callable

from pathways_common.model.ids import IslandName, SessionNumber

from . import memory_invariants, quotas
from .occupancy import Occupancy
from .records import Execution, HeldArray
from .run_records import Run
from .state import State
from .tenant_records import TenantName
from .transitions import BufferState

_PRESENT = BufferState.PRESENT
# What is spilled counts as held: it takes memory or disk of its host.
_MAY_BE_BOOKED = (
    BufferState.PENDING, BufferState.EXPECTED, BufferState.SPILLING, BufferState.SPILLED, BufferState.RESTORING,
)  # fmt: skip


def held_bytes_are_booked_once(state: State) -> None:
    """A tenant holds the bytes of its arrays that are there, on their way, or have room at the grant of what makes them."""
    counted: dict[TenantName, int] = {}
    for session in state.sessions.values():
        booked = 0
        for buffer in session.buffers.values():
            size = buffer.booked_bytes
            booked += size
            if buffer.state is _PRESENT:
                wanted = 0 if buffer.origins else quotas.bytes_of(buffer)
                assert size == wanted, f"buffer {buffer.id} is there and {size} bytes are booked"
            elif size:
                assert buffer.state in _MAY_BE_BOOKED, f"buffer {buffer.id} is {buffer.state.name} and has bytes booked"
        name = session.tenant.name
        counted[name] = counted.get(name, 0) + booked
    for moving in state.moving.values():
        buffer = moving.buffer
        if buffer.session.number not in state.sessions:  # it is let go of when the stores have answered
            name = buffer.session.tenant.name
            counted[name] = counted.get(name, 0) + buffer.booked_bytes
    for tenant in state.tenants.values():
        found = counted.get(tenant.name, 0)
        assert tenant.held_bytes == found, f"tenant {tenant.name} holds {found} bytes and {tenant.held_bytes} are booked"


def programs_are_counted(state: State) -> None:
    """`running` is what was granted and is not over, `queued` that of which nothing was granted."""
    running: dict[TenantName, int] = {}
    queued: dict[TenantName, int] = {}
    runs: dict[int, Run] = {}
    for island in state.islands.values():
        runs.update(island.runs)
        for gang in island.inflight:
            if isinstance(gang, Execution):
                name = gang.lane.session.tenant.name
                running[name] = running.get(name, 0) + 1
        for lane in island.lanes.values():
            name = lane.session.tenant.name
            for work in lane.queue:
                if isinstance(work, Execution) or (not work.next_step and work.lanes[0] is lane):
                    queued[name] = queued.get(name, 0) + 1
    for run in runs.values():
        assert run.counted, f"run {run.id} was granted and is not counted"
        name = run.definition.session.tenant.name
        running[name] = running.get(name, 0) + 1
    for tenant in state.tenants.values():
        name = tenant.name
        assert tenant.running == running.get(name, 0), f"tenant {name}: {tenant.running} running, {running.get(name, 0)} found"
        assert tenant.queued == queued.get(name, 0), f"tenant {name}: {tenant.queued} queued, {queued.get(name, 0)} found"


def lines_hold_what_waits(state: State) -> None:
    """Whoever stands in a line is at the head of its lanes, and is held up."""
    for tenant in state.tenants.values():
        assert not tenant.woken, f"the lines of tenant {tenant.name} were not looked at"
        for line in (tenant.program_line, tenant.memory_line):
            for held in line:
                if isinstance(held, Execution | Run):
                    lanes = (held.lane,) if isinstance(held, Execution) else held.lanes
                    assert all(lane.queue and lane.queue[0] is held for lane in lanes), f"{held.id} is in line behind its lane"
                elif isinstance(held, HeldArray):
                    assert held.buffer.state is BufferState.PENDING, f"array {held.buffer.id} is in line and will never be"
                else:
                    assert held.number in state.readers, f"copy {held.number} is in line and over"
        free = tenant.declared.programs_max - tenant.running
        if tenant.program_line and tenant.declared.programs_max:
            waiting = next(iter(tenant.program_line))
            lanes = (waiting.lane,) if isinstance(waiting, Execution) else waiting.lanes if isinstance(waiting, Run) else ()
            stuck = free > 0 and all(lane.blocked for lane in lanes)
            assert not stuck, f"there is room in the quota of tenant {tenant.name} and the first in line is not woken"


def shared_tables_are_counted(state: State) -> None:
    """Whoever is refused is refused for what is there."""
    owners = (
        (state.reading, [reader.session for reader in state.readers.values()]),
        (state.transferring, [transfer.buffer.session for transfer in state.transfers.values()]),
        (state.inspecting, [inspect.session for inspect in state.inspects.values()]),
    )
    for counts, sessions in owners:
        _same(counts, [(session.number, session.tenant.name, 1) for session in sessions])
    _same(state.collecting, [(each.session, each.traced.tenant, 1) for each in state.collections.values()])
    kept: dict[IslandName, list[HeldArray]] = {}
    waiting = [item for island in state.islands.values() for item in [*island.held, *memory_invariants.placing(island)]]
    for item in [*waiting, *(work for tenant in state.tenants.values() for work in tenant.memory_line)]:
        if isinstance(item, HeldArray):
            assert item.buffer.placement is not None
            kept.setdefault(item.buffer.placement.island.name, []).append(item)
    for island in state.islands.values():
        owned = [(item.buffer.session, item.inline_bytes) for item in kept.get(island.name, ())]
        _same(island.keeping, [(session.number, session.tenant.name, size) for session, size in owned])


def _same(counts: Occupancy, entries: list[tuple[SessionNumber, TenantName, int]]) -> None:
    found = Occupancy(counts.most)
    for session, tenant, count in entries:
        found.enter(session, tenant, count)
    assert (found.total, found.sessions, found.tenants) == (counts.total, counts.sessions, counts.tenants), (
        "a table is miscounted"
    )


ALL: tuple[Callable[[State], None], ...] = (
    held_bytes_are_booked_once, programs_are_counted, lines_hold_what_waits, shared_tables_are_counted,
)  # fmt: skip
