"""Where the shards of an array are: arithmetic on xla.OpSharding, in plain Python, without jaxlib.

An OpSharding names positions in a device list. Tile dimensions beyond the array's rank are subgroups (replicated, manual,
unreduced) and do not cut the array. Cuts are even: a shard is the ceiling of dimension over tiles; the last ones may reach
past the array's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from pathways_common.model.failure import Reason, fail
from pathways_proto.ifrt import values_pb2, xla_data_pb2

_OpSharding = xla_data_pb2.OpSharding
Slices = tuple[tuple[int, int], ...]  # (start, stop) per dimension

SINGLE_DEVICE = "xla::ifrt::SingleDeviceSharding"
HLO = "xla::ifrt::HloSharding"
CONCRETE_EVEN = "xla::ifrt::ConcreteEvenSharding"


@dataclass(frozen=True, slots=True)
class Placement:
    """An ordered device list (virtual ids), a serialized xla.OpSharding over it (empty = replicated), a memory kind."""

    devices: tuple[int, ...]
    sharding: bytes
    memory_kind: str

    def on(self, position: int) -> Placement:
        """The placement of one shard alone."""
        return Placement((self.devices[position],), b"", self.memory_kind)


@lru_cache(maxsize=4096)
def _parsed(sharding: bytes) -> xla_data_pb2.OpSharding:
    message = _OpSharding.FromString(sharding)
    if message.HasField("named_sharding"):
        raise fail(Reason.UNSUPPORTED, "named HLO shardings are not supported; unset --xla_use_hlo_sharding_v3")
    return message


@lru_cache(maxsize=4096)
def tiles_of(sharding: bytes, rank: int) -> tuple[int, ...]:
    """How often each dimension of an array of this rank is cut."""
    message = _parsed(sharding)
    if message.type != _OpSharding.OTHER:
        return (1,) * rank
    dimensions = tuple(message.tile_assignment_dimensions)
    if len(dimensions) < rank:
        raise fail(Reason.INVALID_ARGUMENT, f"a sharding over {len(dimensions)} dimensions does not fit an array of rank {rank}")
    return dimensions[:rank]


@lru_cache(maxsize=4096)
def shard_shape(sharding: bytes, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of one shard, in elements."""
    return tuple(-(-size // tiles) for size, tiles in zip(shape, tiles_of(sharding, len(shape)), strict=True))


def is_replicated(sharding: bytes, rank: int) -> bool:
    """Whether every shard holds the whole array."""
    return prod(tiles_of(sharding, rank)) == 1


def device_order(message: xla_data_pb2.OpSharding) -> tuple[int, ...]:
    """Positions in the device list in tile order (row-major over the tile dimensions)."""
    if message.iota_reshape_dims:
        iota = np.arange(prod(message.iota_reshape_dims)).reshape(tuple(message.iota_reshape_dims))
        return tuple(int(position) for position in iota.transpose(tuple(message.iota_transpose_perm)).reshape(-1))
    return tuple(message.tile_assignment_devices)


@lru_cache(maxsize=1024)
def shard_slices(sharding: bytes, shape: tuple[int, ...], device_count: int) -> tuple[Slices, ...]:
    """What part of the array each shard is, by position in the device list."""
    rank = len(shape)
    tiles = tiles_of(sharding, rank)
    if prod(tiles) == 1:
        return (tuple((0, size) for size in shape),) * device_count
    message = _parsed(sharding)
    order = device_order(message)
    dimensions = tuple(message.tile_assignment_dimensions)
    if len(order) != device_count or prod(dimensions) != device_count or sorted(order) != list(range(device_count)):
        raise fail(Reason.INVALID_ARGUMENT, f"a sharding over {len(order)} tiles does not fit {device_count} devices")
    size = shard_shape(sharding, shape)
    found: list[Slices] = [()] * device_count
    for tile, position in enumerate(order):
        at = np.unravel_index(tile, dimensions)[:rank]
        found[position] = tuple(
            (min(int(i) * part, whole), min((int(i) + 1) * part, whole)) for i, part, whole in zip(at, size, shape, strict=True)
        )
    return tuple(found)


def distinct_shards(sharding: bytes, shape: tuple[int, ...], device_count: int) -> list[tuple[Slices, tuple[int, ...]]]:
    """Every distinct part of the array, with the positions that hold it."""
    groups: dict[Slices, list[int]] = {}
    for position, slices in enumerate(shard_slices(sharding, shape, device_count)):
        groups.setdefault(slices, []).append(position)
    return [(slices, tuple(positions)) for slices, positions in groups.items()]


def placement_of(message: values_pb2.ShardingProto) -> Placement:
    """The placement that an IFRT sharding message describes; raises PathwaysError for kinds that JAX does not send."""
    serialized = message.serialized_sharding
    return _placement(serialized.type_name, serialized.data)


@lru_cache(maxsize=4096)
def _placement(type_name: str, data: bytes) -> Placement:
    if type_name == HLO:
        hlo = values_pb2.HloShardingProto.FromString(data)
        sharding = b"" if hlo.xla_op_sharding.type == _OpSharding.REPLICATED else hlo.xla_op_sharding.SerializeToString()
        if hlo.xla_op_sharding.HasField("named_sharding"):
            sharding = hlo.xla_op_sharding.SerializeToString()
        return Placement(tuple(hlo.devices.device_ids), sharding, hlo.memory_kind)
    if type_name == SINGLE_DEVICE:
        single = values_pb2.SingleDeviceShardingProto.FromString(data)
        return Placement((single.device_id,), b"", single.memory_kind)
    if type_name == CONCRETE_EVEN:
        even = values_pb2.ConcreteEvenShardingProto.FromString(data)
        return Placement(tuple(even.devices.device_ids), _even_tiles(even), even.memory_kind)
    raise fail(Reason.UNSUPPORTED, f"arrays with a sharding of type {type_name} are not supported", type_name=type_name)


def _even_tiles(even: values_pb2.ConcreteEvenShardingProto) -> bytes:
    """An OpSharding with the same shard shape; which shard is which part is not said (only remaps send this)."""
    count = len(even.devices.device_ids)
    tiles = [-(-size // part) if part else 1 for size, part in zip(even.shape.dims, even.shard_shape.dims, strict=True)]
    copies, rest = divmod(count, prod(tiles))
    if even.is_fully_replicated or prod(tiles) == 1:
        return b""
    if rest:
        raise fail(Reason.UNSUPPORTED, f"a sharding of {prod(tiles)} parts over {count} devices is not supported")
    message = _OpSharding(
        type=_OpSharding.OTHER, tile_assignment_dimensions=tiles, iota_reshape_dims=[count], iota_transpose_perm=[0]
    )
    if copies > 1:
        message.tile_assignment_dimensions.append(copies)
        message.replicate_on_last_tile_dim = True
    data: bytes = message.SerializeToString()
    return data


@lru_cache(maxsize=4096)
def placement_to_proto(placement: Placement) -> values_pb2.ShardingProto:
    """The IFRT message of a placement: single-device for one device, an HLO sharding for more. Shared: never change it."""
    if len(placement.devices) == 1:
        single = values_pb2.SingleDeviceShardingProto(device_id=placement.devices[0])
        if placement.memory_kind:
            single.memory_kind = placement.memory_kind
        return _wrap(SINGLE_DEVICE, single.SerializeToString())
    hlo = values_pb2.HloShardingProto(xla_op_sharding=_OpSharding.FromString(placement.sharding))
    hlo.devices.device_ids.extend(placement.devices)
    if placement.memory_kind:
        hlo.memory_kind = placement.memory_kind
    return _wrap(HLO, hlo.SerializeToString())


def _wrap(type_name: str, data: bytes) -> values_pb2.ShardingProto:
    return values_pb2.ShardingProto(serialized_sharding=values_pb2.Serialized(type_name=type_name, data=data))


def checked_devices(devices: Sequence[int], device_count: int) -> None:
    """Raises PathwaysError if a device is not one of the session's."""
    for device in devices:
        if not 0 <= device < device_count:
            raise fail(
                Reason.INVALID_ARGUMENT,
                f"device {device} is not one of the {device_count} devices of this session",
                device=device,
            )
