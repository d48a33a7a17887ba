"""Figures of the core for people and tools, as plain data. Taking them changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from . import drains, memory_figures, memory_view, slices, waits
from .audience import Audience
from .natural_order import natural
from .records import Host, Island, Session, Slice
from .resource_manager import lacks
from .state import State
from .tenant_records import Tenant
from .transitions import IslandState
from .waits import WaitFigures

_SHOWN = {IslandState.COORDINATING: "FORMING", IslandState.ENTERING: "FORMING"}


@dataclass(frozen=True, slots=True)
class HostFigures:
    name: str
    state: str
    incarnation: int
    device_count: int
    data_address: str
    pid: int
    gangs_granted: int
    live_bytes: int
    executables_compiled: int = 0
    executables_reused: int = 0
    coordinates: tuple[tuple[int, ...], ...] = ()
    late_ns: int = 0
    executables_loaded: int = 0
    executables_unloaded: int = 0


@dataclass(frozen=True, slots=True)
class IslandFigures:
    """`state` is EMPTY, WAITING, FORMING, ACTIVE or ENDING; `lacks` says what keeps it from being ACTIVE, else it is empty.

    `skew_ns`: device time spent in waiting for the last member of a gang; of hosts, `late_ns` is what others waited for them.
    """

    name: str
    state: str
    epoch: int
    hosts: tuple[HostFigures, ...]
    granted_through: int
    queued_executions: int
    unfinished_gangs: int
    lacks: str
    topology: tuple[int, ...] = ()
    device_kind: str = ""
    policy: str = ""
    skew_ns: int = 0
    tenant: str = ""  # whose cell it is


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """`device_ns`: what it has used, in nanoseconds of one device."""

    name: str
    weight: int
    priority: str
    sessions: int
    device_ns: int


@dataclass(frozen=True, slots=True)
class SessionFigures:
    session_number: int
    client: str
    islands: tuple[str, ...]
    device_count: int
    programs: int
    buffers: int
    live_bytes: int
    executions: int
    age_seconds: float
    tenant: str = ""
    device_ns: int = 0
    waits: tuple[WaitFigures, ...] = ()


@dataclass(frozen=True, slots=True)
class SliceFigures:
    """`hosts` name each host once; `waits_for` is empty unless it waits."""

    session_number: int
    slice_id: int
    state: str
    island: str
    hosts: tuple[str, ...]
    positions: tuple[int, ...]
    device_count: int
    exclusive: bool
    waits_for: str
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    islands: tuple[IslandFigures, ...]
    sessions: tuple[SessionFigures, ...]
    slices: tuple[SliceFigures, ...] = ()
    tenants: tuple[TenantFigures, ...] = ()
    memory: memory_figures.MemoryFigures = memory_figures.NONE


def take(state: State, now_ns: int, audience: Audience = None) -> Snapshot:
    """`audience`: who is told what slices wait for; which rows it is shown, its caller decides."""
    live: dict[str, int] = {}
    sessions: list[SessionFigures] = []
    for session in state.sessions.values():
        if session.number not in state.pending:
            sessions.append(_session(state, session, now_ns, live))
    islands = sorted(state.islands.values(), key=lambda island: natural(island.name))
    held = tuple(_slice(state, record, audience) for record in state.slices.values())
    tenants = tuple(_tenant(tenant) for tenant in state.tenants.values())
    memory = memory_figures.take(state, now_ns)
    return Snapshot(tuple(_island(state, island, live) for island in islands), tuple(sessions), held, tenants, memory)


def _tenant(tenant: Tenant) -> TenantFigures:
    declared = tenant.declared
    return TenantFigures(tenant.name, declared.weight, declared.priority.name.lower(), len(tenant.sessions), tenant.device_ns)


def _session(state: State, session: Session, now_ns: int, live: dict[str, int]) -> SessionFigures:
    total = 0
    for buffer in session.buffers.values():
        placement = buffer.placement
        if placement is None or not memory_view.is_live(buffer):
            continue
        total += buffer.shard_bytes * len(placement.shards)
        for place in placement.shards:
            live[place.host.name] = live.get(place.host.name, 0) + buffer.shard_bytes
    return SessionFigures(
        session.number,
        session.client,
        tuple(island.name for island in session.islands),
        session.primary_count,
        len(session.executables),
        len(session.buffers),
        total,
        session.executions,
        (now_ns - session.opened_ns) / 1e9,
        session.tenant.name,
        session.device_ns,
        waits.of(state, session),
    )


def _island(state: State, island: Island, live: dict[str, int]) -> IslandFigures:
    hosts = sorted(island.hosts.values(), key=lambda host: natural(host.name))
    return IslandFigures(
        island.name,
        _SHOWN.get(island.state, island.state.value),
        island.epoch,
        tuple(_host(state, host, live) for host in hosts),
        island.sequence,
        sum(len(lane.queue) for lane in island.lanes.values()),
        island.inflight_gangs,
        "" if island.state is IslandState.ACTIVE else lacks(state, island),
        island.topology,
        island.device_kind,
        island.ground.policy.value,
        island.skew_ns,
        island.tenant or "",
    )


def _slice(state: State, record: Slice, audience: Audience) -> SliceFigures:
    island, request = record.island, record.request
    hosts: tuple[str, ...] = ()
    if island is not None and island.members:
        hosts = tuple(dict.fromkeys(island.members[position // island.devices_per_host].name for position in record.positions))
    return SliceFigures(
        record.session.number, request.slice_id, record.state.value, island.name if island is not None else "", hosts,
        record.positions, request.device_count or prod(request.mesh_shape), request.exclusive,
        slices.words_for(state, record, audience),
        record.session.tenant.name,
    )  # fmt: skip


def _host(state: State, host: Host, live: dict[str, int]) -> HostFigures:
    return HostFigures(
        host.name, drains.shown(state, host), host.incarnation, host.device_count, host.data_address, host.pid,
        host.gangs_granted, live.get(host.name, 0), host.executables_compiled, host.executables_reused, host.coordinates,
        host.late_ns, host.executables_loaded, host.executables_unloaded,
    )  # fmt: skip
