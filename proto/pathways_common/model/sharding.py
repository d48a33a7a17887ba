"""Where the shards of an array are: arithmetic on serialized xla.OpSharding, without protobuf and without jaxlib.

An OpSharding names positions in a device list; empty bytes mean replicated. Tile dimensions beyond the array's rank are
subgroups (replicated, manual, unreduced): they do not cut the array, their positions hold the same tile. Cuts are even: a
shard is the ceiling of dimension over tiles, and the last ones may reach past the array's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

import numpy as np

from .bounds import DIMENSIONS_MAX
from .failure import Reason, fail

Slices = tuple[tuple[int, int], ...]  # (start, stop) per dimension

# Numbers of xla.OpSharding.
_TYPE, _TILES, _DEVICES, _IOTA_SHAPE, _IOTA_ORDER, _NAMED = 1, 3, 4, 9, 10, 14
_REPLICATED, _OTHER = 0, 3
_SUBGROUPS = 8
# Of a protobuf varint; what goes on longer is none, however long it is.
_VARINT_BITS_MAX = 70
# Dimensions of an array, and the few subgroups behind them.
_TILES_MAX = DIMENSIONS_MAX + 16


@dataclass(slots=True)
class _OpSharding:
    type: int = 0
    tiles: list[int] = field(default_factory=list)
    devices: list[int] = field(default_factory=list)
    iota_shape: list[int] = field(default_factory=list)
    iota_order: list[int] = field(default_factory=list)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift >= _VARINT_BITS_MAX:
            raise ValueError("a number without an end")


def _members(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers with their varint or their bytes; IndexError or ValueError if the data is no message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 2:
                length, at = _varint(data, at)
                if at + length > len(data):
                    raise ValueError("cut short")
                yield tag >> 3, data[at : at + length]
                at += length
            case wire:
                raise ValueError(f"wire type {wire}")


def _integers(value: int | bytes) -> list[int]:
    """A repeated integer: packed, or one of them."""
    if isinstance(value, int):
        return [value]
    found: list[int] = []
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


@lru_cache(maxsize=4096)
def _parsed(sharding: bytes) -> _OpSharding:
    message = _OpSharding()
    lists = {_TILES: message.tiles, _DEVICES: message.devices, _IOTA_SHAPE: message.iota_shape, _IOTA_ORDER: message.iota_order}
    try:
        for number, value in _members(sharding):
            if number in lists:
                lists[number].extend(_integers(value))
            elif number == _TYPE and isinstance(value, int):
                message.type = value
            elif number == _NAMED:
                raise fail(Reason.UNSUPPORTED, "named HLO shardings are not supported; unset --xla_use_hlo_sharding_v3")
    except (IndexError, ValueError) as error:
        raise fail(Reason.INVALID_ARGUMENT, "a sharding is not a serialized xla.OpSharding") from error
    dimensions = max(len(message.tiles), len(message.iota_shape), len(message.iota_order))
    if dimensions > _TILES_MAX:
        raise fail(Reason.INVALID_ARGUMENT, f"a sharding has {dimensions} dimensions; at most {_TILES_MAX} are taken")
    return message


@lru_cache(maxsize=4096)
def tiles_of(sharding: bytes, rank: int) -> tuple[int, ...]:
    """How often each dimension of an array of this rank is cut."""
    message = _parsed(sharding)
    if message.type != _OTHER:
        return (1,) * rank
    if len(message.tiles) < rank:
        text = f"a sharding over {len(message.tiles)} dimensions does not fit an array of rank {rank}"
        raise fail(Reason.INVALID_ARGUMENT, text)
    if min(message.tiles, default=1) < 1:
        raise fail(Reason.INVALID_ARGUMENT, "a sharding cuts a dimension into no parts")
    return tuple(message.tiles[:rank])


@lru_cache(maxsize=4096)
def shard_shape(sharding: bytes, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of one shard, in elements."""
    return tuple(-(-size // tiles) for size, tiles in zip(shape, tiles_of(sharding, len(shape)), strict=True))


def is_replicated(sharding: bytes, rank: int) -> bool:
    """Whether every shard holds the whole array."""
    return prod(tiles_of(sharding, rank)) == 1


def _device_order(message: _OpSharding, count: int) -> tuple[int, ...]:
    """Positions in the device list in tile order (row-major over the tile dimensions)."""
    if not message.iota_shape:
        return tuple(message.devices)
    if prod(message.iota_shape) != count or sorted(message.iota_order) != list(range(len(message.iota_shape))):
        return ()
    # Dimensions of size 1 change no order, and NumPy takes 64 at most; of the others there are few.
    real = [index for index, size in enumerate(message.iota_shape) if size != 1]
    iota = np.arange(count).reshape([message.iota_shape[index] for index in real])
    return tuple(iota.transpose([real.index(index) for index in message.iota_order if index in real]).reshape(-1).tolist())


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array lies over `count` positions. Of size shards: `order` lists the positions by tile, `copies` to each.

    `tile_at[position]` is the tile (row-major over `tiles`) that a position holds.
    """

    shape: tuple[int, ...]
    tiles: tuple[int, ...]
    shard_shape: tuple[int, ...]
    copies: int
    order: tuple[int, ...]
    tile_at: tuple[int, ...]

    def holders(self, tile: int) -> tuple[int, ...]:
        """The positions that hold a tile."""
        return self.order[tile * self.copies : (tile + 1) * self.copies]

    def slices(self, tile: int) -> Slices:
        """What part of the array a tile is, cut at the array's end."""
        found: list[tuple[int, int]] = []
        for size, tiles, part in zip(reversed(self.shape), reversed(self.tiles), reversed(self.shard_shape), strict=True):
            tile, at = divmod(tile, tiles)
            found.append((min(at * part, size), min((at + 1) * part, size)))
        return tuple(reversed(found))


@lru_cache(maxsize=1024)
def layout_of(sharding: bytes, shape: tuple[int, ...], device_count: int) -> Layout:
    """The layout of a sharding; raises PathwaysError if it does not fit the shape or the number of devices."""
    tiles = tiles_of(sharding, len(shape))
    part = shard_shape(sharding, shape)
    count = prod(tiles)
    if count == 1:
        return Layout(shape, tiles, part, device_count, tuple(range(device_count)), (0,) * device_count)
    message = _parsed(sharding)
    total = prod(message.tiles)
    order = _device_order(message, device_count) if total == device_count else ()
    if total != device_count or sorted(order) != list(range(device_count)):
        raise fail(Reason.INVALID_ARGUMENT, f"a sharding over {total} tiles does not fit {device_count} devices")
    copies = device_count // count
    tile_at = [0] * device_count
    for index, position in enumerate(order):
        tile_at[position] = index // copies
    return Layout(shape, tiles, part, copies, order, tuple(tile_at))


@lru_cache(maxsize=1024)
def shard_slices(sharding: bytes, shape: tuple[int, ...], device_count: int) -> tuple[Slices, ...]:
    """What part of the array each shard is, by position in the device list."""
    layout = layout_of(sharding, shape, device_count)
    return tuple(layout.slices(tile) for tile in layout.tile_at)


def distinct_shards(sharding: bytes, shape: tuple[int, ...], device_count: int) -> list[tuple[Slices, tuple[int, ...]]]:
    """Every distinct part of the array, with the positions that hold it."""
    groups: dict[Slices, list[int]] = {}
    for position, slices in enumerate(shard_slices(sharding, shape, device_count)):
        groups.setdefault(slices, []).append(position)
    return [(slices, tuple(positions)) for slices, positions in groups.items()]


@lru_cache(maxsize=1024)
def equal_shards(sharding: bytes, shape: tuple[int, ...], shard: tuple[int, ...], device_count: int) -> tuple[int, ...]:
    """By position, a number that positions with equal shards share. Empty if shards of this shape (`shard`) may differ unseen."""
    layout = layout_of(sharding, shape, device_count)
    if any(number == _TYPE and value not in (_REPLICATED, _OTHER) for number, value in _members(sharding)):
        return ()
    for number, value in _members(sharding):  # subgroups that are not replicated
        if number == _SUBGROUPS and any(kind != _REPLICATED for kind in _integers(value)):
            return ()
    return layout.tile_at if layout.shard_shape == shard else ()
