"""Sharding arithmetic against jaxlib's own HloSharding and op_sharding_to_indices."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from jax._src.lib import xla_client
from jax._src.op_shardings import op_sharding_to_indices
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from pathways_common.model import sharding
from pathways_common.model.failure import PathwaysError
from pathways_proto.ifrt import xla_data_pb2

SPECS = [P("x"), P("y"), P(None, "x"), P("x", "y"), P("y", "x"), P(("x", "y")), P(("y", "x")), P(None, ("x", "y")), P()]
MESHES = [(2, 4), (4, 2), (1, 8), (8, 1)]
OTHER = xla_data_pb2.OpSharding.OTHER


def _op(mesh: tuple[int, int], spec: P) -> xla_client.OpSharding:
    abstract = AbstractMesh(mesh, ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    return NamedSharding(abstract, spec)._to_xla_hlo_sharding(2).to_proto()


def _theirs(data: bytes, shape: tuple[int, ...], count: int) -> list[sharding.Slices]:
    op = xla_client.OpSharding()
    op.ParseFromString(data)
    indices = op_sharding_to_indices(xla_client.HloSharding.from_proto(op), shape, count)
    return [tuple(one.indices(size)[:2] for one, size in zip(index, shape, strict=True)) for index in indices]


@pytest.mark.parametrize(("mesh", "spec"), list(itertools.product(MESHES, SPECS)), ids=str)
def test_shards_are_where_jaxlib_puts_them(mesh: tuple[int, int], spec: P) -> None:
    op = _op(mesh, spec)
    data, shape = op.SerializeToString(), (16, 32)
    assert list(sharding.shard_slices(data, shape, 8)) == _theirs(data, shape, 8)
    hlo = xla_client.HloSharding.from_proto(op)
    assert sharding.is_replicated(data, 2) == hlo.is_replicated()
    tile = hlo.tile(xla_client.Shape.array_shape(np.dtype(np.float32), shape)).dimensions()
    assert sharding.shard_shape(data, shape) == tuple(tile)


@pytest.mark.parametrize("seed", range(200))
def test_random_iota_and_listed_shardings_are_where_jaxlib_puts_them(seed: int) -> None:
    choose = random.Random(seed)
    rank = choose.randint(1, 4)
    tiles = [choose.choice((1, 1, 2, 3, 4)) for _ in range(rank)]
    copies = choose.choice((1, 1, 2, 3))
    dimensions = [*tiles, copies] if copies > 1 else tiles
    count = int(np.prod(dimensions))
    message = xla_data_pb2.OpSharding(type=OTHER, tile_assignment_dimensions=dimensions, replicate_on_last_tile_dim=copies > 1)
    if choose.random() < 0.5:
        permutation = list(range(len(dimensions)))
        choose.shuffle(permutation)
        # arange in the transposed shape, transposed back: the tile dimensions come out.
        reshape = [dimensions[permutation.index(axis)] for axis in range(len(dimensions))]
        message.iota_reshape_dims.extend(reshape)
        message.iota_transpose_perm.extend(permutation)
    else:
        devices = list(range(count))
        choose.shuffle(devices)
        message.tile_assignment_devices.extend(devices)
    shape = tuple(tiles[axis] * choose.randint(1, 5) for axis in range(rank))
    data = message.SerializeToString()
    assert list(sharding.shard_slices(data, shape, count)) == _theirs(data, shape, count)


@pytest.mark.parametrize(("mesh", "spec"), list(itertools.product(MESHES, SPECS)), ids=str)
def test_the_bytes_are_read_as_protobuf_reads_them(mesh: tuple[int, int], spec: P) -> None:
    data = _op(mesh, spec).SerializeToString()
    message = xla_data_pb2.OpSharding.FromString(data)
    parsed = sharding._parsed(data)
    assert (parsed.type, parsed.tiles, parsed.devices, parsed.iota_shape, parsed.iota_order) == (
        message.type,
        list(message.tile_assignment_dimensions),
        list(message.tile_assignment_devices),
        list(message.iota_reshape_dims),
        list(message.iota_transpose_perm),
    )


def test_order_of_a_transposed_iota_is_jaxlibs() -> None:
    op = _op((2, 4), P("y", "x"))
    theirs = tuple(xla_client.HloSharding.from_proto(op).tile_assignment_devices())
    assert sharding.layout_of(op.SerializeToString(), (16, 32), 8).order == theirs


def test_uneven_dimensions_round_up_and_stop_at_the_end() -> None:
    op = xla_data_pb2.OpSharding(type=OTHER, tile_assignment_dimensions=[4], tile_assignment_devices=[3, 1, 2, 0])
    data = op.SerializeToString()
    assert sharding.shard_shape(data, (10,)) == (3,)
    assert sharding.shard_slices(data, (10,), 4) == (((9, 10),), ((3, 6),), ((6, 9),), ((0, 3),))


def test_shards_that_hold_the_same_part_are_grouped() -> None:
    data = _op((2, 4), P("x")).SerializeToString()
    groups = sharding.distinct_shards(data, (16, 32), 8)
    assert [positions for _, positions in groups] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_equal_shards_are_those_of_one_tile() -> None:
    data = _op((2, 4), P("x")).SerializeToString()
    assert sharding.equal_shards(data, (16, 32), (8, 32), 8) == (0, 0, 0, 0, 1, 1, 1, 1)
    assert sharding.equal_shards(b"", (16, 32), (16, 32), 3) == (0, 0, 0)
    assert sharding.equal_shards(b"", (16, 32), (8, 32), 2) == (), "the shards are not of this sharding"


def test_partial_values_are_equal_nowhere() -> None:
    kinds = xla_data_pb2.OpSharding
    for kind in (kinds.MANUAL, kinds.UNREDUCED, kinds.UNKNOWN):
        assert sharding.equal_shards(kinds(type=kind).SerializeToString(), (4,), (4,), 2) == ()
        op = kinds(type=OTHER, tile_assignment_dimensions=[1, 2], tile_assignment_devices=[0, 1], last_tile_dims=[kind])
        assert sharding.equal_shards(op.SerializeToString(), (4,), (4,), 2) == ()
    op = kinds(type=OTHER, tile_assignment_dimensions=[1, 2], tile_assignment_devices=[0, 1], last_tile_dims=[kinds.REPLICATED])
    assert sharding.equal_shards(op.SerializeToString(), (4,), (4,), 2) == (0, 0)


def test_manual_and_unreduced_shardings_do_not_cut() -> None:
    for kind in (xla_data_pb2.OpSharding.MANUAL, xla_data_pb2.OpSharding.UNREDUCED):
        assert sharding.shard_shape(xla_data_pb2.OpSharding(type=kind).SerializeToString(), (4, 4)) == (4, 4)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (xla_data_pb2.OpSharding(type=OTHER, tile_assignment_dimensions=[2]).SerializeToString(), "rank 2"),
        (xla_data_pb2.OpSharding(type=OTHER, tile_assignment_dimensions=[2, 0]).SerializeToString(), "no parts"),
        (xla_data_pb2.OpSharding(named_sharding=xla_data_pb2.NamedShardingProto()).SerializeToString(), "named"),
        (b"\x1a\x7f", "not a serialized"),
        (b"\xff", "not a serialized"),
    ],
)
def test_what_is_no_sharding_of_the_array_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(PathwaysError, match=words):
        sharding.shard_shape(data, (4, 4))


def test_a_sharding_over_another_number_of_devices_is_refused() -> None:
    with pytest.raises(PathwaysError, match="8 tiles does not fit 4 devices"):
        sharding.layout_of(_op((2, 4), P("x", "y")).SerializeToString(), (16, 32), 4)
    twice = xla_data_pb2.OpSharding(type=OTHER, tile_assignment_dimensions=[2], tile_assignment_devices=[0, 0])
    with pytest.raises(PathwaysError, match="does not fit"):
        sharding.layout_of(twice.SerializeToString(), (4,), 2)
