"""Virtual device lists become interned placements, and placements are bound to the hosts of the current epoch.

A virtual device names a position in its island (rank * devices per host + local index), so a list stays valid when a
host comes back in a new epoch. Equal lists are one object: the check of an argument's devices is one comparison.
"""

from __future__ import annotations

from collections.abc import Iterable

from pathways_common.model.failure import Failure, Reason

from .records import Island, Placement, Session, ShardPlace
from .state import State
from .transitions import IslandState

# What lies there can be named to its hosts.
IN_EPOCH = (IslandState.ACTIVE, IslandState.ENDING)


def intern(island: Island, positions: tuple[int, ...], owners: tuple[int, ...] = ()) -> Placement:
    """The placement of these positions, of these slices' devices; it lives as long as something uses it."""
    key = (positions, owners)
    placement = island.placements.get(key)
    if placement is None:
        placement = Placement(island, positions, owners)
        island.placements[key] = placement
    return placement


def owners_of(placement: Placement) -> tuple[int, ...]:
    """The slice of each device, 0 for primary ones."""
    return placement.owners or (0,) * len(placement.positions)


def slices_of(placements: Iterable[Placement | None]) -> tuple[int, ...]:
    """The numbers of all slices on which these lie, each once."""
    return tuple(dict.fromkeys(owner for placement in placements if placement is not None for owner in placement.owners if owner))


def joined_owners(owners: list[int]) -> tuple[int, ...]:
    """As a placement keeps them: none if all are primary."""
    return tuple(owners) if any(owners) else ()


def resolve(state: State, session: Session, devices: tuple[int, ...], noun: str) -> Placement | Failure:
    """The placement behind a session's virtual ids, or what is wrong with them; `noun` says whose devices they are."""
    count = len(session.devices)
    if not devices:
        return state.failure(Reason.INVALID_ARGUMENT, f"{noun} names no devices; give it at least one")
    for device in devices:
        if not 0 <= device < count:
            shown = session.primary_count
            message = f"{noun} names device {device}, but this session has devices 0 to {shown - 1}; use those of jax.devices()"
            return state.failure(Reason.INVALID_ARGUMENT, message, device=device, device_count=count)
    if len(set(devices)) != len(devices):
        return state.failure(Reason.INVALID_ARGUMENT, f"{noun} names a device twice; name every device once")
    bound = [found for device in devices if (found := session.devices[device]) is not None]
    wrong = Reason.PROGRAM_REFUSED if noun.startswith("program") else Reason.INVALID_ARGUMENT
    if len(bound) < len(devices):
        device = next(device for device in devices if session.devices[device] is None)
        message = f"{noun} names a device of no slice: device {device} belongs to no slice; call add_slice"
        return state.failure(wrong, message, device=device)
    island = bound[0].island
    if any(device.island is not island for device in bound):
        names = sorted({device.island.name for device in bound})
        listed = " and ".join(names)
        if not noun.startswith("program"):
            message = f"{noun} names devices of islands {listed}; one array lives on one island: make one array per island"
            return state.failure(Reason.UNSUPPORTED, message, islands=",".join(names))
        message = (
            f"{noun} names devices of islands {listed}; one program runs on one island: put the arrays on one island's"
            " devices, or split it and move data with jax.device_put"
        )
        return state.failure(Reason.PROGRAM_REFUSED, message, islands=",".join(names))
    positions = tuple(device.position for device in bound)
    if len(set(positions)) != len(positions):
        again = next(index for index, position in enumerate(positions) if position in positions[:index])
        first = devices[positions.index(positions[again])]
        what = f"{noun} names devices {first} and {devices[again]}, which share one physical device of island {island.name}"
        message = f"{what}; use the devices of one slice, or slices that lie apart"
        if bound[again].owner == bound[positions.index(positions[again])].owner:
            message = f"{what} since a host of it was drained; use one of them, or connect again"
        return state.failure(wrong, message, device=first, other_device=devices[again], island=island.name)
    return intern(island, positions, joined_owners([device.owner for device in bound]))


def bind(placement: Placement) -> bool:
    """Works out the hosts of a placement for the current epoch; False if the island has none or has become smaller."""
    return placement.island.state in IN_EPOCH and bind_to_members(placement)


def bind_to_members(placement: Placement) -> bool:
    """The same while an epoch ends, as long as the island still has its members."""
    island = placement.island
    if placement.epoch == island.epoch:
        return True
    per_host = island.devices_per_host
    if max(placement.positions) >= per_host * len(island.members):
        return False
    counts: dict[int, int] = {}
    shards: list[ShardPlace] = []
    for position in placement.positions:
        rank, local_device = divmod(position, per_host)
        index = counts.get(rank, 0)
        counts[rank] = index + 1
        shards.append(ShardPlace(island.members[rank], index, local_device))
    placement.hosts = tuple(island.members[rank] for rank in sorted(counts))
    placement.shards = tuple(shards)
    placement.epoch = island.epoch
    return True


def device_memory(placement: Placement) -> int:
    """The smallest memory limit among the devices of a bound placement, in bytes; 0 = none."""
    limits = [host.device_memory_bytes for host in placement.hosts if host.device_memory_bytes > 0]
    return min(limits, default=0)
