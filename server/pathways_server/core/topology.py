"""Where the devices of an island lie: what its hosts declare must agree, and which device stands at which place.

A host that declares a topology gives one coordinate for each of its devices; an island's hosts declare alike or not at all. Then
ranks follow the coordinates, so that a host which takes another one's place also takes its rank. Places are row-major.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from pathways_common.model.cells import plain_name

from .natural_order import natural
from .placer import words
from .records import Host, Island

NOBODY = -1


def by_rank(hosts: Iterable[Host]) -> list[Host]:
    """In the order of their coordinates, without such of their names."""
    return sorted(hosts, key=lambda host: (host.coordinates[:1], natural(plain_name(host.name))))


def places(topology: tuple[int, ...], members: Iterable[Host]) -> tuple[int, ...]:
    """The position in the epoch that stands at each place, NOBODY where no member has a device; empty without coordinates."""
    coordinates = [coordinate for host in members for coordinate in host.coordinates]
    if not coordinates:
        return ()
    found = [NOBODY] * prod(topology)
    for position, coordinate in enumerate(coordinates):
        found[_place(coordinate, topology)] = position
    return tuple(found)


def host_count(island: Island) -> int:
    """How many hosts fill the island's declared topology; 0 without one."""
    per_host = next((host.device_count for host in island.hosts.values()), island.devices_per_host)
    return prod(island.topology) // per_host if island.topology and per_host else 0


def misfit(host: Host, others: list[Host], configured: tuple[int, ...]) -> str:
    """Why a host cannot join these others; empty if it can. `configured` is the shape that the controller was given."""
    return _unlike(host, others) or _misplaced(host, others, configured)


def _unlike(host: Host, others: list[Host]) -> str:
    island = host.island.name
    if host.device_count < 1:
        return f"host {host.name} has {host.device_count} devices and island {island} has 1 per host; start it alike"
    for other in others:
        if other.device_count != host.device_count:
            text = f"{host.device_count} devices and island {island} has {other.device_count} per host"
            return f"host {host.name} has {text}; start it alike"
        if other.device_kind != host.device_kind:
            theirs, ours = other.device_kind or "no kind", host.device_kind or "no kind"
            return f"host {host.name} declares {ours} for its devices and the others of island {island} {theirs}; start it alike"
        if other.topology != host.topology:
            theirs, ours = words(other.topology) or "no topology", words(host.topology) or "no topology"
            return f"host {host.name} declares {ours} and the others of island {island} {theirs}; start it alike"
    return ""


def _misplaced(host: Host, others: list[Host], configured: tuple[int, ...]) -> str:
    topology, island = host.topology, host.island.name
    if not topology:
        return ""
    if configured and configured != topology:
        declared = f"host {host.name} declares {words(topology)}"
        return f"{declared} and the controller has {words(configured)} for island {island} (island_shapes); make them agree"
    if prod(topology) % host.device_count:
        size = prod(topology)
        return (
            f"host {host.name} has {host.device_count} devices, and the {size} places of {words(topology)} are no multiple of it"
        )
    if len(host.coordinates) != host.device_count:
        return (
            f"host {host.name} has {host.device_count} devices and gives {len(host.coordinates)} coordinates; give one for each"
        )
    taken = {coordinate: other for other in others for coordinate in other.coordinates}
    for coordinate in host.coordinates:
        at = ",".join(map(str, coordinate))
        if len(coordinate) != len(topology) or not all(
            0 <= index < size for index, size in zip(coordinate, topology, strict=True)
        ):
            return f"host {host.name} is at {at}, which is no place of {words(topology)}; give each size an index below it"
        if coordinate in taken:
            other = taken[coordinate]
            whose = f"host {other.name} is there" if other is not host else "it has two devices there"
            return f"host {host.name} is at {at} of island {island}, and {whose}; give every device a place of its own"
        taken[coordinate] = host
    return ""


def _place(coordinate: tuple[int, ...], topology: tuple[int, ...]) -> int:
    place = 0
    for index, size in zip(coordinate, topology, strict=True):
        place = place * size + index
    return place
