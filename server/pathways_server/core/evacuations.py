"""Hosts of an island that stay take what a session has on one that goes: slices, and primary devices, get others beside them.

The island's epoch goes on meanwhile, so it is a migration within the island. Slices need as many devices as they have. Primary
devices of a session with slices may come to share one if nothing of it lies on both; what it runs on both then is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathways_common.model.failure import Failure, Reason

from . import buffers, drains, migrations, rebinding, slices
from .migration_records import Purpose
from .placements import owners_of
from .placer import Chosen
from .transitions import IslandState, SliceState

if TYPE_CHECKING:
    from .migration_records import Migration
    from .records import Island, Placement, Session, Slice
    from .state import State


def begin(state: State, session: Session, held: Slice | None, island: Island, away: Failure) -> Migration | Failure | None:
    """Moves a slice, or the primary devices, off the hosts that go; None if it may stay. `away`: why no other island takes it."""
    if island.state is not IslandState.ACTIVE:
        return away
    gone = positions(state, island)
    owner = held.number if held is not None else 0
    taken = held.positions if held is not None else _primary(session, island)
    places: dict[int, int] | str = {position: position for position in taken}
    if any(position in gone for position in taken):
        places = _beside(state, held, island, gone) if held is not None else _together(session, island, taken, gone)
    elif not _shares_bytes(session, island, owner):
        return None
    if isinstance(places, str):
        message = f"{away.message}; the other hosts of island {island.name} cannot take it either ({places})"
        return state.failure(away.reason, message, retryable=away.retryable)
    return migrations.start(state, session, owner, island, island, places, Purpose.MIGRATE)


def positions(state: State, island: Island) -> tuple[int, ...]:
    """Of the devices of its hosts that go."""
    per_host = island.devices_per_host
    going = [member.rank for member in island.members if drains.is_drained(state, member)]
    return tuple(rank * per_host + index for rank in going for index in range(per_host))


def left(state: State, session: Session, island: Island) -> Failure | None:
    """What still lies on hosts that go when slices and primary devices do not, and cannot be moved."""
    gone = positions(state, island)
    name = drains.named(session)
    for held in session.slices.values():
        if held.island is not island or not any(position in gone for position in held.positions):
            continue
        if held.state is SliceState.SUSPENDED:
            message = f"slice {held.request.slice_id} of {name} is suspended on island {island.name}; resume or release it"
            return state.failure(Reason.UNAVAILABLE, message, retryable=True)
        return state.failure(Reason.UNAVAILABLE, f"slice {held.request.slice_id} of {name} is being released", retryable=True)
    for buffer in session.buffers.values():
        placement = buffer.placement
        if placement is None or placement.island is not island or buffer.state in buffers.DEAD:
            continue
        if any(position in gone for position in placement.positions):
            return state.failure(Reason.UNAVAILABLE, f"{name} has work on island {island.name} that is not over", retryable=True)
    return None


def _primary(session: Session, island: Island) -> tuple[int, ...]:
    devices = [device for device in session.devices if device is not None and device.island is island and not device.owner]
    return tuple(dict.fromkeys(device.position for device in devices))


def _shares_bytes(session: Session, island: Island, owner: int) -> bool:
    """Whether hosts know an array there under two names. A copy has one, so it is moved to where it is."""
    return any(
        (buffer.origins or buffer.aliases)
        and buffer.state not in buffers.DEAD
        and buffer.placement is not None
        and buffer.placement.island is island
        and owner in owners_of(buffer.placement)
        for buffer in session.buffers.values()
    )


def _beside(state: State, held: Slice, island: Island, gone: tuple[int, ...]) -> dict[int, int] | str:
    left_count = len(island.members) * island.devices_per_host - len(gone)
    if left_count < len(held.positions):
        return f"they have {left_count} and it needs {len(held.positions)}"
    answer = slices.beside(state, held, gone)
    if not isinstance(answer, Chosen):
        return answer.text
    return dict(zip(held.positions, answer.positions, strict=True))


def _together(session: Session, island: Island, taken: tuple[int, ...], gone: tuple[int, ...]) -> dict[int, int] | str:
    """Free devices first; then such that nothing needs both."""
    laid = [each for each in dict.fromkeys(rebinding.laid_out(session, island)) if 0 in owners_of(each)]
    places = {position: position for position in taken if position not in gone}
    size = len(island.members) * island.devices_per_host
    loads = dict.fromkeys((position for position in range(size) if position not in gone), 0)
    for position in places:
        loads[position] += 1
    for position in taken:
        if position not in gone:
            continue
        apart = _needed_with(laid, position)
        free = [other for other in loads if not any(places.get(each) == other for each in apart)]
        if not free:
            return "an array or a program needs more devices than are left there"
        chosen = min(free, key=lambda other: (loads[other], other))
        if loads[chosen] and not session.slices:
            return "it has no slices, so any program of it may use them together"
        places[position] = chosen
        loads[chosen] += 1
    return places


def _needed_with(laid: list[Placement], position: int) -> dict[int, None]:
    """Positions on which something lies that also lies on this one."""
    found: dict[int, None] = {}
    for placement in laid:
        if position in placement.positions:
            found.update(dict.fromkeys(placement.positions))
    return found
