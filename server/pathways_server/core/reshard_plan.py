"""What a copy moves, worked out per destination shard when it starts, from two layouts of size shards.

A plain copy is the special case of one whole shard each.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from pathways_common.model.array import ITEM_BYTES
from pathways_common.model.ids import HostName
from pathways_common.model.resharding import Box, Nearest, boxes
from pathways_common.model.sharding import Layout

from .read_records import Copy
from .records import Placement, ShardPlace


class Move(NamedTuple):
    """What goes from one source shard into one shard of the result.

    Empty `start` and `limit`: the whole source shard. `whole`: it is all of the destination shard.
    """

    source: int
    start: tuple[int, ...]
    limit: tuple[int, ...]
    into: tuple[int, ...]
    shape: tuple[int, ...]
    size_bytes: int
    whole: bool


def moves_of(copy: Copy, sources: Sequence[ShardPlace], placement: Placement) -> list[tuple[Move, ...]]:
    """What fills each shard of the result. Devices of one host that want the same share one plan."""
    if copy.layouts is None:
        size = copy.result.shard_bytes
        return [(Move(shard, (), (), (), (), size, True),) for shard in range(len(placement.shards))]
    source, destination = copy.layouts
    item_bytes = ITEM_BYTES[copy.spec.dtype]
    chosen = Nearest(source, [place.host.name for place in sources], [place.host.name for place in placement.shards])
    known: dict[tuple[HostName, int], tuple[Move, ...]] = {}
    found: list[tuple[Move, ...]] = []
    for tile, place in zip(destination.tile_at, placement.shards, strict=True):
        key = (place.host.name, tile)
        if key not in known:
            planned = boxes(source, destination, tile, chosen, place.host.name)
            known[key] = tuple(_move(box, source, destination, item_bytes) for box in planned)
        found.append(known[key])
    return found


def _move(box: Box, source: Layout, destination: Layout, item_bytes: int) -> Move:
    all_of_it = box.shape == source.shard_shape
    start = () if all_of_it else box.source_start
    limit = () if all_of_it else tuple(first + size for first, size in zip(box.source_start, box.shape, strict=True))
    whole = box.shape == destination.shard_shape
    return Move(box.source, start, limit, box.start, box.shape, prod(box.shape) * item_bytes, whole)
