"""Cells: executors that one tenant has to itself on the hosts of an island; to the core an island of their own.

A cell is opened when a session of a tenant that is to be isolated needs it: the island's hosts are told, and join once more under
the names of the cell. It is closed when no session of the tenant has needed it for a while. Islands whose `tenant` is set are
cells; an island and its cells share their ground, that is the devices and who competes for them.
"""

from __future__ import annotations

from pathways_common.model.cells import cell_name
from pathways_common.model.ids import HostName, IslandName

from . import drains, sessions, slices
from .effects import CloseCell, OpenCell
from .occupancy import Occupancy
from .records import Host, Island
from .session_records import Session
from .share_records import Ground
from .state import State
from .tenant_records import Tenant
from .transitions import IslandState


def make_island(state: State, name: IslandName) -> Island:
    """A new island with a ground of its own."""
    ground = Ground(name, state.config.policy_of(name))
    island = state.islands[name] = Island(name, ground, keeping=Occupancy(state.config.held_bytes_max))
    ground.islands.append(island)
    return island


def island_of(island: Island) -> Island:
    """The island that a cell is of; an island itself."""
    return island.ground.islands[0]


def devices_of(island: Island) -> list[Island]:
    """All that have executors on its devices: the island and its cells."""
    return island.ground.islands


def serves(island: Island, tenant: Tenant) -> bool:
    """Whether new sessions of a tenant may be opened on it."""
    return island.tenant == (tenant.name if tenant.declared.isolated else None)


def of_session(session: Session, island: Island) -> Island | None:
    """What stands for an island to a session that is open: the island, or the cell of its tenant if there is one."""
    own = session.islands[0].tenant
    return next((each for each in island.ground.islands if each.tenant == own), None)


# ---- opening ----------------------------------------------------------------------------------------------------------


def want(state: State, island: Island, tenant: Tenant) -> Island:
    """The cell of a tenant on an island; opened if it is not there. It is not ACTIVE before its hosts have joined."""
    ground = island.ground
    cell = next((each for each in ground.islands if each.tenant == tenant.name), None)
    if cell is None:
        name = IslandName(cell_name(ground.name, tenant.name))
        cell = state.islands[name] = Island(name, ground, tenant.name, keeping=Occupancy(state.config.held_bytes_max))
        cell.epoch = ground.epochs.pop(tenant.name, cell.epoch)  # reports of an earlier life are never of this one
        ground.islands.append(cell)
        state.log("cell opens", island=name, tenant=tenant.name)
        _ask(state, cell)
    cell.unused_since_ns = 0
    return cell


def _ask(state: State, cell: Island) -> None:
    """Tells those hosts of its island that are not in it."""
    assert cell.tenant is not None
    cell.asked_ns = state.now_ns
    for host in island_of(cell).hosts.values():
        if cell.host_on(host.name) is None:
            state.tell(host, OpenCell(cell.tenant))


def on_host_joined(state: State, host: Host) -> None:
    """A host of an island: the cells there are to have it, too."""
    for cell in host.island.ground.islands[1:]:
        assert cell.tenant is not None
        state.tell(host, CloseCell(cell.tenant) if cell.closing else OpenCell(cell.tenant))


def misfit(island: Island | None, host: HostName) -> str:
    """Why a host cannot join a cell; empty if it can."""
    if island is None or island.closing:
        return f"host {host} is of a cell that nobody needs"
    return ""


def host_count(cell: Island) -> int:
    """How many hosts it waits for: as many as its island has."""
    island = island_of(cell)
    return len(island.members) or len(island.hosts)


def fitting(state: State, island: Island) -> list[Host]:
    """Hosts that the next epoch may have; in a cell those whose machines its island has, or that its sessions were shown."""
    hosts = [host for host in island.hosts.values() if not drains.is_out(state, host)]
    machines = {member.name for member in island_of(island).members} if island.tenant is not None else set()
    if not machines:
        return hosts
    seated = island.seated if island.size_bound else ()
    return [host for host in hosts if host.machine in machines or host.name in seated]


# ---- closing ----------------------------------------------------------------------------------------------------------


def expire(state: State) -> None:
    """Closes cells that nobody needs; asks again for hosts that have not come."""
    cells = [island for island in state.islands.values() if island.tenant is not None]
    for cell in cells:
        if cell.closing:
            continue
        if _is_needed(state, cell):
            cell.unused_since_ns = 0
            if cell.state is not IslandState.ACTIVE and cell.asked_ns + state.config.cell_ask_ns <= state.now_ns:
                _ask(state, cell)
        elif not cell.unused_since_ns:
            cell.unused_since_ns = state.now_ns
        elif cell.unused_since_ns + state.config.cell_unused_ns <= state.now_ns:
            _close(state, cell)


def _is_needed(state: State, cell: Island) -> bool:
    tenant = state.tenants.get(cell.tenant) if cell.tenant is not None else None
    if tenant is None:
        return False
    waiting = any(wanted.session.tenant is tenant and wanted.island is None for wanted in state.slices.values())
    pending = tenant.declared.isolated and any(number in state.pending for number in tenant.sessions)
    return waiting or pending or any(cell.name in session.used for session in tenant.sessions.values())


def _close(state: State, cell: Island) -> None:
    assert cell.tenant is not None
    cell.closing = True
    state.log("cell closes", island=cell.name, tenant=cell.tenant)
    for host in island_of(cell).hosts.values():
        state.tell(host, CloseCell(cell.tenant))
    forget_if_empty(state, cell)


def forget_if_empty(state: State, cell: Island) -> None:
    """A cell that was closed goes with its last host; who wants it again gets a new one."""
    if not cell.closing or cell.hosts:
        return
    assert cell.tenant is not None
    ground = cell.ground
    ground.epochs[cell.tenant] = cell.epoch
    ground.islands.remove(cell)
    ground.islands[0].skew_ns += cell.skew_ns  # the figure goes on where there is still somebody to show it
    if ground.turn is cell:
        ground.turn = None
    del state.islands[cell.name]
    state.log("cell closed", island=cell.name)
    sessions.try_pending(state)
    slices.retry_waiting(state)
