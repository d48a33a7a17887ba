"""The planner: which boxes of which source shards fill a shard of the destination. Pure arithmetic on two layouts.

Every destination works out its own boxes, from the tiles that its part of the array touches; there is no table of size
shards x shards. Of several positions that hold a tile, the nearest is read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from .sharding import Layout


class Box(NamedTuple):
    """`shape` elements from `source_start` of source shard `source` go to `start` of the destination shard."""

    source: int
    source_start: tuple[int, ...]
    start: tuple[int, ...]
    shape: tuple[int, ...]


def boxes(source: Layout, destination: Layout, tile: int, chosen: Nearest, host: Hashable) -> Iterator[Box]:
    """What fills tile `tile` of the destination on `host`. Nothing where it lies past the array's end."""
    wanted = destination.slices(tile)
    if any(start >= stop for start, stop in wanted):
        return
    spans = [range(start // part, (stop - 1) // part + 1) for (start, stop), part in zip(wanted, source.shard_shape, strict=True)]
    for index in product(*spans):
        source_tile = 0
        for at, tiles in zip(index, source.tiles, strict=True):
            source_tile = source_tile * tiles + at
        origins = tuple(at * part for at, part in zip(index, source.shard_shape, strict=True))
        starts = tuple(max(start, origin) for (start, _), origin in zip(wanted, origins, strict=True))
        stops = tuple(
            min(stop, origin + part) for (_, stop), origin, part in zip(wanted, origins, source.shard_shape, strict=True)
        )
        yield Box(
            chosen.of(source_tile, host),
            tuple(start - origin for start, origin in zip(starts, origins, strict=True)),
            tuple(start - first for start, (first, _) in zip(starts, wanted, strict=True)),
            tuple(stop - start for start, stop in zip(starts, stops, strict=True)),
        )


class Nearest:
    """Chooses the position that a host reads a tile from: one on the host itself, else each host takes another copy.

    `hosts` says where every source position lives. `destinations` fixes the spread: the n-th of them takes the n-th copy.
    """

    def __init__(self, source: Layout, hosts: Sequence[Hashable], destinations: Sequence[Hashable]) -> None:
        self._source = source
        self._hosts = hosts
        self._ranks = {host: rank for rank, host in enumerate(dict.fromkeys(destinations))}
        self._known: dict[tuple[int, Hashable], int] = {}
        # Per tile that was asked for, the first position on each host that holds it.
        self._near: dict[int, dict[Hashable, int]] = {}

    def of(self, tile: int, host: Hashable) -> int:
        """The source position from which `host` reads `tile`; the same for all devices of the host."""
        known = self._known.get((tile, host))
        if known is None:
            holders = self._source.holders(tile)
            near = self._near.get(tile)
            if near is None:
                near = self._near[tile] = {self._hosts[position]: position for position in reversed(holders)}
            known = near.get(host)
            if known is None:
                known = holders[self._ranks.get(host, 0) % len(holders)]
            self._known[tile, host] = known
        return known
