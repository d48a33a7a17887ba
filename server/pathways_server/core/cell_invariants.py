"""What must hold between an island, its cells and what they share; part of invariants.py."""

from __future__ import annotations

from collections.abc import Callable

from pathways_common.model.cells import cell_name, plain_name

from .state import State


def cells_take_turns(state: State) -> None:
    """Of an island and its cells one at most has gangs in flight, or room for some."""
    for island in state.islands.values():
        busy = [each.name for each in island.ground.islands if each.inflight_gangs or each.inflight]
        assert len(busy) <= 1, f"islands {' and '.join(busy)} have gangs in flight on the same devices"


def cells_lie_on_their_island(state: State) -> None:
    """A ground has one island, first, and cells of different tenants; sessions see one of them."""
    for island in state.islands.values():
        ground = island.ground
        assert island in ground.islands, f"island {island.name} is not on its ground"
        assert ground.islands[0].tenant is None, f"ground {ground.name} begins with a cell"
        tenants = [cell.tenant for cell in ground.islands[1:]]
        assert None not in tenants, f"ground {ground.name} has two islands"
        assert len(set(tenants)) == len(tenants), f"ground {ground.name} has two cells of one tenant"
        assert ground.turn is None or ground.turn in ground.islands, f"ground {ground.name}: the turn of a cell that is gone"
        if island.tenant is not None:
            assert island.name == cell_name(ground.name, island.tenant), f"cell {island.name} has another's name"
            for host in island.hosts.values():
                assert host.name == cell_name(plain_name(host.name), island.tenant), f"host {host.name} is in cell {island.name}"
    for session in state.sessions.values():
        tenants = list(dict.fromkeys(island.tenant for island in session.used.values()))
        assert len(tenants) <= 1, f"session {session.number} uses executors of {tenants}"
        assert tenants in ([], [None], [session.tenant.name]), f"session {session.number} uses executors of {tenants}"


ALL: tuple[Callable[[State], None], ...] = (cells_take_turns, cells_lie_on_their_island)
