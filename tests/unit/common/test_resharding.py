"""The planner: its boxes, applied to NumPy arrays, give every destination shard; and their number stays small."""

from __future__ import annotations

import random

import numpy as np
import pytest
from pathways_common.model.resharding import Box, Nearest, boxes
from pathways_common.model.sharding import Layout, layout_of, shard_slices
from pathways_proto.ifrt import xla_data_pb2

OTHER = xla_data_pb2.OpSharding.OTHER


def _cut(tiles: list[int], order: list[int]) -> bytes:
    copies = len(order) // int(np.prod(tiles))
    message = xla_data_pb2.OpSharding(type=OTHER, tile_assignment_dimensions=tiles, tile_assignment_devices=order)
    if copies > 1:
        message.tile_assignment_dimensions.append(copies)
        message.replicate_on_last_tile_dim = True
    data: bytes = message.SerializeToString()
    return data


def _random_layout(choose: random.Random, shape: tuple[int, ...]) -> tuple[bytes, Layout]:
    tiles = [choose.choice((1, 2, 3, 4)) for _ in shape]
    count = int(np.prod(tiles)) * choose.choice((1, 2, 3))
    order = list(range(count))
    choose.shuffle(order)
    sharding = _cut(tiles, order)
    return sharding, layout_of(sharding, shape, count)


def _shards(values: np.ndarray, sharding: bytes, layout: Layout) -> list[np.ndarray]:
    """Every shard, padded with 99 past the array's end."""
    found = []
    for slices in shard_slices(sharding, values.shape, len(layout.order)):
        shard = np.full(layout.shard_shape, 99, values.dtype)
        part = values[tuple(slice(*bounds) for bounds in slices)]
        shard[tuple(slice(0, size) for size in part.shape)] = part
        found.append(shard)
    return found


def _slices(start: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(first, first + size) for first, size in zip(start, shape, strict=True))


def _plan(source: Layout, destination: Layout, hosts: int) -> list[list[Box]]:
    homes = [f"s{position % hosts}" for position in range(len(source.order))]
    targets = [f"s{position % hosts}" for position in range(len(destination.order))]
    chosen = Nearest(source, homes, targets)
    return [list(boxes(source, destination, tile, chosen, targets[at])) for at, tile in enumerate(destination.tile_at)]


@pytest.mark.parametrize("seed", range(200))
def test_the_boxes_of_random_layouts_give_every_shard_of_the_destination(seed: int) -> None:
    choose = random.Random(seed)
    shape = tuple(choose.randint(1, 12) for _ in range(choose.randint(0, 3)))
    values = np.arange(1, int(np.prod(shape)) + 1, dtype=np.int32).reshape(shape)
    source_sharding, source = _random_layout(choose, shape)
    sharding, destination = _random_layout(choose, shape)
    sources = _shards(values, source_sharding, source)
    expected = _shards(values, sharding, destination)
    for at, plan in enumerate(_plan(source, destination, choose.randint(1, 5))):
        shard = np.full(destination.shard_shape, 99, np.int32)
        for box in plan:
            shard[_slices(box.start, box.shape)] = sources[box.source][_slices(box.source_start, box.shape)]
        np.testing.assert_array_equal(shard, expected[at])


def test_equal_layouts_give_one_whole_box_each() -> None:
    layout = layout_of(_cut([4, 2], [3, 1, 2, 0, 7, 5, 6, 4]), (8, 8), 8)
    for at, plan in enumerate(_plan(layout, layout, 8)):
        assert plan == [Box(at, (0, 0), (0, 0), (2, 4))]


def test_a_copy_on_the_same_host_is_read_and_others_are_read_in_turn() -> None:
    source = layout_of(b"", (4,), 3)
    chosen = Nearest(source, ["a", "b", "c"], ["b", "x", "y", "z", "y"])
    assert [chosen.of(0, host) for host in ("b", "x", "y", "z", "y")] == [1, 1, 2, 0, 2]


@pytest.mark.parametrize("count", [16, 256, 4096])
def test_what_a_plan_holds_grows_with_the_shards_and_not_with_their_square(count: int) -> None:
    shape = (count * 2, count * 2)
    order = list(range(count))
    rows = layout_of(_cut([count, 1], order), shape, count)
    shifted = layout_of(_cut([count, 1], order[1:] + order[:1]), shape, count)
    half = layout_of(_cut([count // 2, 1], order), shape, count)
    chosen = Nearest(rows, order, order)
    for destination, most in ((rows, 1), (shifted, 1), (half, 2)):
        counted = [len(list(boxes(rows, destination, tile, chosen, at))) for at, tile in enumerate(destination.tile_at)]
        assert max(counted) <= most
        assert sum(counted) <= most * count
    kept = sum(len(part) for part in (half.order, half.tile_at, chosen._hosts, chosen._known))
    assert kept <= 6 * count


def test_a_plan_for_one_shard_looks_at_the_tiles_that_it_touches_only() -> None:
    count = 64 * 64
    source = layout_of(_cut([64, 64], list(range(count))), (640, 640), count)
    destination = layout_of(_cut([64, 32], list(range(count))), (640, 640), count)
    chosen = Nearest(source, range(count), range(count))
    assert len(list(boxes(source, destination, destination.tile_at[5], chosen, 5))) == 2
    assert len(chosen._known) == 2
