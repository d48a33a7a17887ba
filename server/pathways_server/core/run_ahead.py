"""How far arrays and copies go ahead of the work before them: what that will take of the devices stays free for it.

A client may ask for a thousand arrays, copies and programs and await none. Copies come as soon as their sources are computed,
long before their turn, and could fill a device so that the first program that reads one has no room for its results: nobody would
let go of anything then. So what was asked for behind work of its session that waits on the island is placed only where there is
also room for the most that any of that work takes, its arguments that are not there yet among it, with what gangs under way will
let go of. Work never needs what was asked for behind it, so it can go first.
"""

from __future__ import annotations

from itertools import islice

from . import admission, claims
from .memory_records import IslandMemory, Need
from .read_records import Copy
from .records import HeldArray, Host, Island, Session
from .state import State

# Works in line that are looked at; those behind them come nearer as they go.
_LOOKED_AT_MAX = 8
# When memory has stood still for so many times `memory_stuck_ns`, the work before it does not go for another reason.
_STILL_TIMES = 15


def leaves_room(
    state: State, island: Island, memory: IslandMemory, session: Session, item: HeldArray | Copy, needs: list[Need]
) -> bool:
    """Whether an array or a copy that has room itself leaves enough for the work before it."""
    lane = session.lanes.get(island.name)
    if lane is None or not lane.queue or state.now_ns - memory.moved_ns >= _STILL_TIMES * state.config.memory_stuck_ns:
        return True
    most: dict[tuple[Host, int], int] = {}
    for work in islice(lane.queue, _LOOKED_AT_MAX):
        if work.order > item.order:
            break
        wanted = admission.wants(work, island)
        if wanted is None:  # who knows how much
            return False
        of_it: dict[tuple[Host, int], int] = {}
        for host, local_device, size_bytes in wanted:
            of_it[host, local_device] = of_it.get((host, local_device), 0) + size_bytes
        for key, size_bytes in of_it.items():
            most[key] = max(most.get(key, 0), size_bytes)
    return not most or claims.room(memory, [_with(need, most) for need in needs], item)


def _with(need: Need, most: dict[tuple[Host, int], int]) -> Need:
    """It, and what is lacking for the work before it when the gangs under way have ended."""
    account = need.host.account
    if account is None:
        return need
    later = sum([release.size_bytes for release in account.letting if release.local_device == need.local_device])
    return need._replace(size_bytes=need.size_bytes + max(most.get((need.host, need.local_device), 0) - later, 0))
