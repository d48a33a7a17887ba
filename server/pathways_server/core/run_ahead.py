"""How far copies go ahead of the work before them: what that will take of the devices stays free for it.

A client may ask for a thousand arrays, copies and programs and await none. Copies come as soon as their sources are computed,
long before their turn, and could fill a device so that the first program that reads one has no room for its results: nobody would
let go of anything then. So a copy that was asked for behind work of its session that waits on the island begins only where there
is also room for the most that any of that work takes, its arguments that are not there yet among it, with what gangs under way
will let go of. Work never needs what was asked for behind it, so it can go first; what a program with branches or loops copies
for itself was asked for where the program was. Arrays are placed at once: the client has their bytes, and may wait for them.
"""

from __future__ import annotations

from itertools import islice

from . import admission, claims
from .memory_records import IslandMemory, Need
from .read_records import Copy
from .records import Host, Island, Session
from .state import State

# Works in line that are looked at; those behind them come nearer as they go.
_LOOKED_AT_MAX = 8
# When memory has stood still for so many times `memory_stuck_ns`, the work before it does not go for another reason; and nothing
# waits for that for longer than so many.
_STILL_TIMES, _WAIT_TIMES = 15, 60


def leaves_room(state: State, island: Island, memory: IslandMemory, session: Session, copy: Copy, needs: list[Need]) -> bool:
    """Whether a copy that has room itself leaves enough for the work before it."""
    lane = session.lanes.get(island.name)
    if lane is None or not lane.queue or _has_waited(state, memory, copy) or not any(need.size_bytes for need in needs):
        return True
    most: dict[tuple[Host, int], int] = {}
    for work in islice(lane.queue, _LOOKED_AT_MAX):
        if work.order > copy.asked:
            break
        if work in memory.claims and not claims.is_under_way(state, island):
            continue  # it waits for what only the client may let go of, who may wait for this copy
        wanted = admission.wants(work, island)
        if wanted is None:  # who knows how much
            return False
        of_it: dict[tuple[Host, int], int] = {}
        for host, local_device, size_bytes in wanted:
            of_it[host, local_device] = of_it.get((host, local_device), 0) + size_bytes
        for key, size_bytes in of_it.items():
            most[key] = max(most.get(key, 0), size_bytes)
    return not most or claims.room(memory, _beside(needs, most), copy)


def _has_waited(state: State, memory: IslandMemory, copy: Copy) -> bool:
    stuck_ns, claim = state.config.memory_stuck_ns, memory.claims.get(copy)
    return state.now_ns - memory.moved_ns >= _STILL_TIMES * stuck_ns or (
        claim is not None and state.now_ns - claim.since_ns >= _WAIT_TIMES * stuck_ns
    )


def _beside(needs: list[Need], most: dict[tuple[Host, int], int]) -> list[Need]:
    """Each, and what is lacking for the work before it when the gangs under way have ended."""
    for host in {host: None for host, _ in most}:
        for release in host.account.letting if host.account is not None else ():
            key = host, release.local_device
            if key in most:
                most[key] -= release.size_bytes
    return [need._replace(size_bytes=need.size_bytes + max(most.get((need.host, need.local_device), 0), 0)) for need in needs]
