"""IFRT sharding messages and placements, there and back."""

from __future__ import annotations

import pytest
from pathways_common.model.failure import PathwaysError
from pathways_door import sharding
from pathways_proto.ifrt import values_pb2, xla_data_pb2


def test_placements_survive_the_wire() -> None:
    cut = xla_data_pb2.OpSharding(
        type=xla_data_pb2.OpSharding.OTHER,
        tile_assignment_dimensions=[2, 4],
        iota_reshape_dims=[8],
        iota_transpose_perm=[0],
    )
    for placement in (
        sharding.Placement((3,), b"", "device"),
        sharding.Placement((0, 1), b"", "device"),
        sharding.Placement(tuple(range(8)), cut.SerializeToString(), "pinned_host"),
    ):
        assert sharding.placement_of(sharding.placement_to_proto(placement)) == placement


def test_sharding_kinds_that_jax_does_not_send_are_refused_by_name() -> None:
    odd = values_pb2.ShardingProto(serialized_sharding=values_pb2.Serialized(type_name="xla::ifrt::OpaqueSharding"))
    with pytest.raises(PathwaysError, match="OpaqueSharding"):
        sharding.placement_of(odd)
