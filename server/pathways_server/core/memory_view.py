"""What `pathways buffers` shows: the memory of each session, by device, its largest arrays, what is pending and what is poisoned.

Bytes are added up per placement, so that the work grows with buffers and with placements times shards, never with both.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from pathways_common.model.failure import Failure

from .placements import bind
from .records import Buffer, Placement, Session
from .state import State
from .tenant_records import TenantName
from .transitions import BufferState, IslandState

LARGEST = 10
LARGEST_MAX = 1000
_POISONED_MAX = 20
# Donated arrays are part of what they were donated to.
HELD = (BufferState.PRESENT, BufferState.PENDING, BufferState.SPILLING, BufferState.RESTORING)

_GONE = (BufferState.FREED, BufferState.POISONED)


@dataclass(frozen=True, slots=True)
class DeviceRow:
    host: str
    device: int
    live_bytes: int


@dataclass(frozen=True, slots=True)
class BufferRow:
    id: int
    state: str
    size_bytes: int
    shards: int
    island: str


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """`poisoned` are (how many, why), by cause."""

    session: int
    tenant: str
    client: str
    buffers: int
    pending: int
    live_bytes: int
    spilled_bytes: int
    devices: tuple[DeviceRow, ...]
    largest: tuple[BufferRow, ...]
    poisoned: tuple[tuple[int, Failure], ...]


def take(state: State, tenant: TenantName | None, session: int = 0, limit: int = 0) -> list[MemoryRow]:
    """Open sessions of a tenant (None: of all), or only the one with this number."""
    limit = min(limit or LARGEST, LARGEST_MAX)
    chosen = [
        each
        for each in state.sessions.values()
        if each.number not in state.pending and tenant in (None, each.tenant.name) and session in (0, each.number)
    ]
    return [_row(each, limit) for each in chosen]


def size_bytes(buffer: Buffer) -> int:
    """Of all of its shards."""
    return buffer.shard_bytes * len(buffer.placement.positions) if buffer.placement is not None else 0


def is_live(buffer: Buffer) -> bool:
    """Whether devices hold it, under this name and no other."""
    placement = buffer.placement
    if placement is None or buffer.origins or buffer.state not in HELD:
        return False
    return placement.island.state is IslandState.ACTIVE and buffer.epoch == placement.island.epoch


def _row(session: Session, limit: int) -> MemoryRow:
    shard_bytes: dict[Placement, int] = {}
    causes: dict[str, tuple[int, Failure]] = {}
    pending = spilled = 0
    for buffer in session.buffers.values():
        placement = buffer.placement
        if buffer.state in HELD and placement is not None and is_live(buffer):
            shard_bytes[placement] = shard_bytes.get(placement, 0) + buffer.shard_bytes
        if buffer.state is BufferState.PENDING:
            pending += 1
        elif buffer.state is BufferState.SPILLED:
            spilled += size_bytes(buffer)
        elif buffer.state is BufferState.POISONED and buffer.failure is not None:
            count, first = causes.get(buffer.failure.id, (0, buffer.failure))
            if count or len(causes) < _POISONED_MAX:
                causes[buffer.failure.id] = count + 1, first
    devices: dict[tuple[str, int], int] = {}
    for placement, size in shard_bytes.items():
        if bind(placement):
            for place in placement.shards:
                key = place.host.name, place.local_device
                devices[key] = devices.get(key, 0) + size
    largest = _largest(session, limit)
    return MemoryRow(
        session.number, session.tenant.name, session.client, len(session.buffers), pending, sum(devices.values()), spilled,
        tuple(DeviceRow(host, device, size) for (host, device), size in sorted(devices.items())),
        tuple(_buffer(buffer) for buffer in largest), tuple(causes.values()),
    )  # fmt: skip


def _largest(session: Session, limit: int) -> list[Buffer]:
    """Of equal ones the oldest; it looks at every buffer, so with little work for each."""
    found: list[tuple[int, int, Buffer]] = []
    for buffer in session.buffers.values():
        placement = buffer.placement
        size = buffer.shard_bytes * len(placement.positions) if placement is not None else 0
        if (len(found) < limit or size > found[0][0]) and buffer.state not in _GONE:
            heappush(found, (size, -buffer.id, buffer))
            if len(found) > limit:
                heappop(found)
    return [buffer for *_, buffer in sorted(found, reverse=True)]


def _buffer(buffer: Buffer) -> BufferRow:
    placement = buffer.placement
    island = placement.island.name if placement is not None else ""
    return BufferRow(buffer.id, buffer.state.value, size_bytes(buffer), len(placement.positions) if placement else 0, island)
