"""What must hold between slices, pools and what lies on them after every step; part of `invariants.py`."""

from __future__ import annotations

from pathways_common.model.ids import is_made_by_core

from .records import Slice
from .state import State
from .transitions import IslandState, SliceState

_KEEPING = (SliceState.BOUND, SliceState.SUSPENDED)


def slices_and_pools_agree(state: State) -> None:
    """A slice in the tables has its session; every group is free or of one slice; devices are bound where slices say."""
    for number, held in state.slices.items():
        assert held.number == number, f"slice {held.number} is filed as {number}"
        session = held.session
        assert state.sessions.get(session.number) is session, f"slice {number} has no session"
        assert session.slices.get(held.request.slice_id) is held, f"slice {number} is not known to its session"
        assert held.state is not SliceState.ENDED, f"slice {number} has ended and is kept"
        assert (held.state is SliceState.WAITING) == (held.group is None), f"slice {number} is {held.state.name}"
        assert (held.state is SliceState.RELEASING) == (held in session.releases), (
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
        if held.island is None or held.state is SliceState.SUSPENDED:
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
    """What lies on a slice that is no longer bound takes no new work; walks have values on it while it is held, no longer."""
    for session in state.sessions.values():
        held = {held.number: held.state for held in session.slices.values()}
        for buffer in session.buffers.values():
            if buffer.placement is None or not (owners := buffer.placement.owners) or not any(owners):
                continue
            made = is_made_by_core(buffer.id)
            gone = [owner for owner in owners if owner and not (owner in held if made else held.get(owner) in _KEEPING)]
            if gone:
                assert buffer.ended is not None, f"buffer {buffer.id} lies on slice {gone[0]}, which was released"
                assert not made or not buffer.handles, f"a walk has buffer {buffer.id} on slice {gone[0]}, which was released"
