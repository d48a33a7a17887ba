"""IFRT sharding messages become placements, and placements become messages. Where shards are is said by the model.

The cut is always an xla.OpSharding, which stays bytes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from google.protobuf.message import DecodeError
from pathways_common.model.failure import Reason, fail
from pathways_proto.ifrt import values_pb2, xla_data_pb2

_OpSharding = xla_data_pb2.OpSharding

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


def placement_of(message: values_pb2.ShardingProto) -> Placement:
    """The placement that an IFRT sharding message describes; raises PathwaysError for kinds that JAX does not send."""
    serialized = message.serialized_sharding
    return _placement(serialized.type_name, serialized.data)


@lru_cache(maxsize=4096)
def _placement(type_name: str, data: bytes) -> Placement:
    if type_name == HLO:
        hlo = values_pb2.HloShardingProto.FromString(data)
        return Placement(tuple(hlo.devices.device_ids), _cut(hlo.xla_op_sharding), hlo.memory_kind)
    if type_name == SINGLE_DEVICE:
        single = values_pb2.SingleDeviceShardingProto.FromString(data)
        return Placement((single.device_id,), b"", single.memory_kind)
    if type_name == CONCRETE_EVEN:
        even = values_pb2.ConcreteEvenShardingProto.FromString(data)
        return Placement(tuple(even.devices.device_ids), _even_tiles(even), even.memory_kind)
    raise fail(Reason.UNSUPPORTED, f"arrays with a sharding of type {type_name} are not supported", type_name=type_name)


def placement_over(devices: tuple[int, ...], sharding: bytes, memory_kind: str) -> Placement:
    """The placement of a serialized xla.OpSharding over these devices; raises ValueError for bytes that are none."""
    try:
        return Placement(devices, _cut(_OpSharding.FromString(sharding)), memory_kind)
    except DecodeError as error:
        raise ValueError(f"no xla.OpSharding: {error}") from error


def _cut(message: xla_data_pb2.OpSharding) -> bytes:
    if message.type == _OpSharding.REPLICATED and not message.HasField("named_sharding"):
        return b""
    data: bytes = message.SerializeToString()
    return data


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
    """Raises PathwaysError if a device is not one of the session's, or is named twice."""
    if len(devices) > device_count or len(set(devices)) != len(devices):
        shown = f"{len(devices)} devices" if len(devices) > device_count else f"devices {list(devices)}"
        raise fail(Reason.INVALID_ARGUMENT, f"{shown} are named; name those of this session, {device_count} in all, each once")
    for device in devices:
        if not 0 <= device < device_count:
            raise fail(
                Reason.INVALID_ARGUMENT,
                f"device {device} is not one of the {device_count} devices of this session",
                device=device,
            )
