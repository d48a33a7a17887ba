"""Figures of memory for people and tools, as plain data: per device, host, session and tenant, and who waits for what.

`held` are values, `reserved` what granted work may still take and what was freed but may still be in use. All in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import holders
from .memory_records import Claim, IslandMemory
from .natural_order import natural
from .records import Host, Island, Session
from .state import State
from .transitions import IslandState


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    local_device: int
    held_bytes: int
    reserved_bytes: int


@dataclass(frozen=True, slots=True)
class HostMemory:
    """`budget_bytes` is of each of its devices; `spilled_bytes` are in the host's store."""

    host: str
    budget_bytes: int
    devices: tuple[DeviceMemory, ...]
    spilled_bytes: int


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """Over all devices."""

    session_number: int
    tenant: str
    held_bytes: int
    spilled_bytes: int


@dataclass(frozen=True, slots=True)
class TenantMemory:
    tenant: str
    held_bytes: int
    spilled_bytes: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Work that waits for memory of an island, of the device that lacks most; `position` is 1 for the oldest."""

    session_number: int
    tenant: str
    what: str
    island: str
    host: str
    local_device: int
    needed_bytes: int
    free_bytes: int
    position: int
    waited_seconds: float
    set_aside: bool  # what it needs is kept for it
    holders: tuple[holders.Holder, ...]


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    hosts: tuple[HostMemory, ...] = ()
    sessions: tuple[SessionMemory, ...] = ()
    tenants: tuple[TenantMemory, ...] = ()
    waiting: tuple[Waiting, ...] = ()


NONE = MemoryFigures()


def take(state: State, now_ns: int) -> MemoryFigures:
    """Empty where no host has a budget."""
    if not state.budgets:
        return NONE
    values: dict[tuple[str, int], int] = {}
    sessions = tuple(
        _session(session, values) for session in state.sessions.values() if session.number not in state.pending
    )  # fmt: skip
    tenants: dict[str, tuple[int, int]] = {}
    for figures in sessions:
        held, spilled = tenants.get(figures.tenant, (0, 0))
        tenants[figures.tenant] = held + figures.held_bytes, spilled + figures.spilled_bytes
    hosts = sorted((host for host in state.hosts.values() if host.account is not None), key=lambda host: natural(host.name))
    waiting = [
        found
        for island in state.islands.values()
        if island.memory is not None and island.state is IslandState.ACTIVE
        for found in _waiting(state, island, island.memory, now_ns)
    ]
    return MemoryFigures(
        tuple(_host(host, values) for host in hosts),
        sessions,
        tuple(TenantMemory(name, *sums) for name, sums in sorted(tenants.items())),
        tuple(waiting),
    )


def _session(session: Session, values: dict[tuple[str, int], int]) -> SessionMemory:
    held = 0
    for buffer in session.buffers.values():
        placement = buffer.placement
        if placement is None or not buffer.charged or buffer.epoch != placement.island.epoch:
            continue
        for place in placement.shards:
            if place.host.account is not None:
                held += buffer.charged
                key = (place.host.name, place.local_device)
                values[key] = values.get(key, 0) + buffer.charged
    return SessionMemory(session.number, session.tenant.name, held, holders.spilled_bytes(session))


def _host(host: Host, values: dict[tuple[str, int], int]) -> HostMemory:
    account = host.account
    assert account is not None
    devices = tuple(
        DeviceMemory(index, values.get((host.name, index), 0), held - values.get((host.name, index), 0))
        for index, held in enumerate(account.held)
    )
    return HostMemory(host.name, account.budget_bytes, devices, account.spilled_bytes)


def _waiting(state: State, island: Island, memory: IslandMemory, now_ns: int) -> list[Waiting]:
    return [_claim(state, island, memory, claim, index + 1, now_ns) for index, claim in enumerate(memory.claims.values())]


def _claim(state: State, island: Island, memory: IslandMemory, claim: Claim, position: int, now_ns: int) -> Waiting:
    host, local_device, size = holders.most_lacking(claim)
    account = host.account
    free = max(account.budget_bytes - account.used[local_device], 0) if account is not None else 0
    return Waiting(
        claim.session.number, claim.session.tenant.name, claim.what, island.name, host.name, local_device, size, free, position,
        (now_ns - claim.since_ns) / 1e9, memory.aside_for is claim, holders.of_device(state, island, host, local_device),
    )  # fmt: skip
