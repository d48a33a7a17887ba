"""Boxes in a real executor: shards put together from parts, and parts cut out of shards; NumPy says what is right."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pathways_proto.v1 import types_pb2, workers_pb2
from pathways_worker.executor.boxes import Assembly, cut, cut_at
from pathways_worker.executor.element_types import NUMBERS

from tests.unit.executor.driving import HEAVY, Executor, lower, ready_executor, slow

MATRIX = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ready_executor(device_count=2, environment={"PJRT_NPROC": "8"}) as executor:
        yield executor


def array_of(executor: Executor, like: np.ndarray[Any, Any], *pieces: Any, transfer_id: int = 0) -> Any:
    """A PlaceArray of these pieces."""
    spec = types_pb2.ArraySpec(dtype=NUMBERS[like.dtype], shape=like.shape, shard_shape=like.shape)
    return workers_pb2.PlaceArray(buffer_id=executor.new_id(), spec=spec, pieces=pieces, transfer_id=transfer_id)


def send(executor: Executor, place: Any) -> None:
    executor.handled(workers_pb2.HostCommand(place_array=place))


def box(start: tuple[int, ...], shape: tuple[int, ...], **source: Any) -> Any:
    return workers_pb2.LocalBox(start=start, shape=shape, **source)


def shard(identifier: int, index: int = 0) -> Any:
    return workers_pb2.LocalShard(id=identifier, local_index=index)


def test_a_shard_is_put_together_from_bytes_and_from_shards_of_this_host(executor: Executor) -> None:
    source = executor.place(MATRIX, MATRIX + 100)
    boxes = [
        box((0, 0), (4, 2), transfer_id=701),
        box((0, 2), (2, 4), local=shard(source, 0), local_start=(1, 0)),
        box((2, 2), (2, 4), local=shard(source, 1), local_start=(0, 2)),
    ]
    place = array_of(executor, MATRIX, workers_pb2.LocalPiece(local_device=1, boxes=boxes), transfer_id=702)
    send(executor, place)
    assert not [event for event in executor.events_of("landed") if event.transfer_id == 702]
    executor.send_data(701, np.full((4, 2), 7, np.float32).tobytes())
    executor.event("landed", transfer_id=701)
    executor.event("landed", transfer_id=702)
    expected = np.zeros((4, 6), np.float32)
    expected[:, :2] = 7
    expected[:2, 2:] = MATRIX[1:3, :4]
    expected[2:, 2:] = (MATRIX + 100)[:2, 2:]
    np.testing.assert_array_equal(executor.fetch(place.buffer_id, MATRIX), expected)


@pytest.mark.parametrize("early", [True, False])
def test_one_transfer_fills_several_devices(executor: Executor, early: bool) -> None:
    transfer_id = 710 + early
    whole = workers_pb2.LocalPiece(local_device=0, transfer_id=transfer_id)
    inside = workers_pb2.LocalPiece(local_device=1, boxes=[box((0, 0), (4, 6), transfer_id=transfer_id)])
    place = array_of(executor, MATRIX, whole, inside)
    if early:
        executor.send_data(transfer_id, MATRIX.tobytes())
    send(executor, place)
    if not early:
        executor.send_data(transfer_id, MATRIX.tobytes())
    executor.event("landed", transfer_id=transfer_id)
    for index in (0, 1):
        np.testing.assert_array_equal(executor.fetch(place.buffer_id, MATRIX, index), MATRIX)
    assert not [event for event in executor.events_of("landed") if event.transfer_id == transfer_id]


def test_what_no_box_covers_is_zero(executor: Executor) -> None:
    source = executor.place(MATRIX)
    part = workers_pb2.LocalPiece(boxes=[box((0, 0), (1, 6), local=shard(source), local_start=(3, 0))])
    nothing = workers_pb2.LocalPiece(local_device=1)
    place = array_of(executor, MATRIX, part, nothing)
    send(executor, place)
    expected = np.zeros((4, 6), np.float32)
    expected[0] = MATRIX[3]
    np.testing.assert_array_equal(executor.fetch(place.buffer_id, MATRIX), expected)
    np.testing.assert_array_equal(executor.fetch(place.buffer_id, MATRIX, 1), np.zeros((4, 6), np.float32))


def test_a_box_of_a_value_that_is_computing_is_taken_when_it_is_there(executor: Executor) -> None:
    late = executor.load(lower(slow, MATRIX, HEAVY)).executable_id
    [result] = executor.execute(late, [executor.place(MATRIX), executor.place(HEAVY)])
    piece = workers_pb2.LocalPiece(boxes=[box((0, 0), (2, 6), local=shard(result), local_start=(2, 0))])
    place = array_of(executor, MATRIX[:2], piece, transfer_id=720)
    send(executor, place)
    executor.free(result)
    executor.event("landed", transfer_id=720)
    np.testing.assert_array_equal(executor.fetch(place.buffer_id, MATRIX[:2]), MATRIX[2:] + 1)


@pytest.mark.parametrize("start", [(3, 0), (-1, 0), (0,)])
def test_a_box_that_is_no_part_of_its_source_fails_the_array_and_says_so(executor: Executor, start: tuple[int, ...]) -> None:
    source = executor.place(MATRIX)
    piece = workers_pb2.LocalPiece(boxes=[box((0, 0), (2, 6), local=shard(source), local_start=start)])
    place = array_of(executor, MATRIX, piece, transfer_id=730)
    send(executor, place)
    failure = executor.event("transfer_failed", transfer_id=730).failure
    assert failure.reason == "INVALID_ARGUMENT"


def test_a_failed_source_fails_what_is_made_of_its_boxes(executor: Executor) -> None:
    failed = executor.new_id()
    poison = workers_pb2.Poison(ids=[failed], failure=types_pb2.Failure(reason="SLICE_LOST", message="host b1 is gone"))
    executor.send(workers_pb2.HostCommand(poison=poison))
    piece = workers_pb2.LocalPiece(boxes=[box((0, 0), (2, 6), local=shard(failed), local_start=(0, 0))])
    send(executor, array_of(executor, MATRIX, piece, transfer_id=740))
    assert executor.event("transfer_failed", transfer_id=740).failure.reason == "SLICE_LOST"


def test_a_fetch_reads_a_box_inline_and_on_the_data_channel(executor: Executor) -> None:
    source = executor.place(MATRIX)
    part = {"shard": shard(source), "start": (1, 2), "limit": (3, 5)}
    executor.send(workers_pb2.HostCommand(fetch_shard=workers_pb2.FetchShard(fetch_id=751, **part)))
    assert executor.event("shard_fetched", fetch_id=751).data == MATRIX[1:3, 2:5].tobytes()
    executor.send(workers_pb2.HostCommand(fetch_shard=workers_pb2.FetchShard(fetch_id=752, ticket="t", **part)))
    header, data = executor.read_data()
    assert (header.fetch_id, header.size_bytes, bytes(data)) == (752, 24, MATRIX[1:3, 2:5].tobytes())


def test_cuts_are_parts_and_nothing_else() -> None:
    assert cut(MATRIX, (), ()) is MATRIX
    np.testing.assert_array_equal(cut(MATRIX, (1, 1), (2, 6)), MATRIX[1:2, 1:])
    assert cut_at(np.float32(3).reshape(()), (), ()) == 3
    for start, limit in [((0, 0), (5, 6)), ((2, 0), (1, 6)), ((0,), (4,))]:
        with pytest.raises(ValueError, match="not a part"):
            cut(MATRIX, start, limit)


def test_the_last_box_ends_an_assembly_once_from_whatever_thread() -> None:
    done: list[np.ndarray[Any, Any]] = []
    assembly = Assembly(np.dtype(np.int32), (64,), 64, done.append)
    threads = [
        threading.Thread(target=lambda first=first: [assembly.put((at,), np.full(1, at)) for at in range(first, 64, 4)])
        for first in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    [values] = done
    np.testing.assert_array_equal(values, np.arange(64))
