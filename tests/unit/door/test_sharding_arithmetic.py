"""Sharding arithmetic of the door against jaxlib's own HloSharding and op_sharding_to_indices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from jax._src.lib import xla_client
from jax._src.op_shardings import op_sharding_to_indices
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from pathways_common.model.failure import PathwaysError
from pathways_door import sharding
from pathways_proto.ifrt import values_pb2, xla_data_pb2

SPECS = [P("x"), P("y"), P(None, "x"), P("x", "y"), P("y", "x"), P(("x", "y")), P(("y", "x")), P(None, ("x", "y")), P()]
MESHES = [(2, 4), (4, 2), (1, 8), (8, 1)]


def _op(mesh: tuple[int, int], spec: P) -> xla_client.OpSharding:
    abstract = AbstractMesh(mesh, ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    return NamedSharding(abstract, spec)._to_xla_hlo_sharding(2).to_proto()


@pytest.mark.parametrize(("mesh", "spec"), list(itertools.product(MESHES, SPECS)), ids=str)
def test_shards_are_where_jaxlib_puts_them(mesh: tuple[int, int], spec: P) -> None:
    op = _op(mesh, spec)
    data = op.SerializeToString()
    shape = (16, 32)
    theirs = op_sharding_to_indices(xla_client.HloSharding.from_proto(op), shape, 8)
    ours = sharding.shard_slices(data, shape, 8)
    for mine, indices in zip(ours, theirs, strict=True):
        assert mine == tuple(index.indices(size)[:2] for index, size in zip(indices, shape, strict=True))
    hlo = xla_client.HloSharding.from_proto(op)
    assert sharding.is_replicated(data, 2) == hlo.is_replicated()
    tile = hlo.tile(xla_client.Shape.array_shape(np.dtype(np.float32), shape)).dimensions()
    assert sharding.shard_shape(data, shape) == tuple(tile)


def test_order_of_a_transposed_iota_is_jaxlibs() -> None:
    op = _op((2, 4), P("y", "x"))
    ours = xla_data_pb2.OpSharding.FromString(op.SerializeToString())
    assert sharding.device_order(ours) == tuple(xla_client.HloSharding.from_proto(op).tile_assignment_devices())


def test_uneven_dimensions_round_up_and_stop_at_the_end() -> None:
    op = xla_data_pb2.OpSharding(
        type=xla_data_pb2.OpSharding.OTHER, tile_assignment_dimensions=[4], tile_assignment_devices=[3, 1, 2, 0]
    )
    data = op.SerializeToString()
    assert sharding.shard_shape(data, (10,)) == (3,)
    assert sharding.shard_slices(data, (10,), 4) == (((9, 10),), ((3, 6),), ((6, 9),), ((0, 3),))


def test_shards_that_hold_the_same_part_are_grouped() -> None:
    data = _op((2, 4), P("x")).SerializeToString()
    groups = sharding.distinct_shards(data, (16, 32), 8)
    assert [positions for _, positions in groups] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_manual_and_unreduced_shardings_do_not_cut() -> None:
    for kind in (xla_data_pb2.OpSharding.MANUAL, xla_data_pb2.OpSharding.UNREDUCED):
        assert sharding.shard_shape(xla_data_pb2.OpSharding(type=kind).SerializeToString(), (4, 4)) == (4, 4)


def test_placements_survive_the_wire() -> None:
    for placement in (
        sharding.Placement((3,), b"", "device"),
        sharding.Placement((0, 1), b"", "device"),
        sharding.Placement(tuple(range(8)), _op((2, 4), P("x", "y")).SerializeToString(), "pinned_host"),
    ):
        assert sharding.placement_of(sharding.placement_to_proto(placement)) == placement


def test_sharding_kinds_that_jax_does_not_send_are_refused_by_name() -> None:
    odd = values_pb2.ShardingProto(serialized_sharding=values_pb2.Serialized(type_name="xla::ifrt::OpaqueSharding"))
    with pytest.raises(PathwaysError, match="OpaqueSharding"):
        sharding.placement_of(odd)
    tiles = xla_data_pb2.OpSharding(type=xla_data_pb2.OpSharding.OTHER, tile_assignment_dimensions=[2])
    with pytest.raises(PathwaysError, match="rank 2"):
        sharding.shard_shape(tiles.SerializeToString(), (4, 4))
