"""Shards that are held until it is said where they go, and bytes that come in shared memory; bit by bit what NumPy has."""

from __future__ import annotations

import os
import queue
import socket
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from pathways_common.process.segments import make_segment
from pathways_proto.v1 import segments_pb2, types_pb2, workers_pb2
from pathways_worker.executor.element_types import NUMBERS
from pathways_worker.executor.segments import Segments

from tests.unit.executor.driving import Executor, lower, ready_executor


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ready_executor() as executor:
        yield executor


@pytest.fixture
def segment() -> Iterator[int]:
    descriptor = make_segment(1 << 20)
    yield descriptor
    os.close(descriptor)


def hold(executor: Executor, fetch_id: int, identifier: int) -> None:
    shard = workers_pb2.LocalShard(id=identifier)
    fetch = workers_pb2.FetchShard(fetch_id=fetch_id, ticket="t", shard=shard, held=True)
    executor.send(workers_pb2.HostCommand(fetch_shard=fetch))
    header, data = executor.read_data()
    assert (header.fetch_id, header.held, data) == (fetch_id, True, b"")


TYPES = (np.float32, ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.float8_e4m3fn, np.bool_)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_held_shard_is_written_where_it_is_told_and_then_let_go(executor: Executor, segment: int, dtype: Any) -> None:
    value = np.arange(12).reshape(3, 4).astype(dtype)
    number = 100 + TYPES.index(dtype)
    hold(executor, number, executor.place(value))
    executor.use_segment(segment, fetch_id=number, offset=64, size_bytes=value.nbytes)
    header, _ = executor.read_data()
    assert (header.fetch_id, header.written, header.HasField("failure")) == (number, True, False)
    assert os.pread(segment, value.nbytes + 128, 0) == bytes(64) + value.tobytes() + bytes(64)
    executor.use_segment(fetch_id=number, stream=True)
    header, data = executor.read_data()
    assert (header.fetch_id, data) == (number, value.tobytes())
    executor.handled()
    assert not executor.events_of("shard_fetched"), "somebody may still ask for it"
    executor.use_segment(fetch_id=number)
    assert executor.event("shard_fetched").fetch_id == number


def test_a_donated_array_that_is_held_keeps_its_values(executor: Executor, segment: int) -> None:
    value = np.arange(64, dtype=np.float32)
    array = executor.place(value)
    hold(executor, 300, array)
    program = executor.load(lower(lambda x: x + 1, value, donate_argnums=0))
    (result,) = executor.execute(program.executable_id, [array])
    np.testing.assert_array_equal(executor.fetch(result, value), value + 1)
    executor.use_segment(segment, fetch_id=300, size_bytes=value.nbytes)
    executor.read_data()
    assert os.pread(segment, value.nbytes, 0) == value.tobytes()
    executor.use_segment(fetch_id=300)
    executor.event("shard_fetched", fetch_id=300)


def test_wrong_sizes_and_segments_without_room_are_failures(executor: Executor, segment: int) -> None:
    hold(executor, 400, executor.place(np.arange(1000, dtype=np.float32)))
    for offset, size in ((0, 3999), ((1 << 20) - 8, 4000)):
        executor.use_segment(segment, fetch_id=400, offset=offset, size_bytes=size)
        header, _ = executor.read_data()
        assert (header.written, header.failure.reason) == (True, "RESOURCE_EXHAUSTED")
    reading, writing = os.pipe()
    executor.use_segment(writing, fetch_id=400, size_bytes=4000)
    assert executor.read_data()[0].failure.reason == "RESOURCE_EXHAUSTED"
    executor.use_segment(fetch_id=400)
    executor.event("shard_fetched", fetch_id=400)
    executor.use_segment(segment, fetch_id=400, size_bytes=4000)  # too late: nothing happens
    os.close(reading)
    os.close(writing)


def test_bytes_of_a_transfer_come_in_parts_of_a_segment(executor: Executor, segment: int) -> None:
    value = np.arange(1000, dtype=np.int32)
    spec = types_pb2.ArraySpec(dtype=NUMBERS[value.dtype], shape=value.shape, shard_shape=value.shape)
    pieces = [workers_pb2.LocalPiece(transfer_id=900)]
    place = workers_pb2.PlaceArray(buffer_id=executor.new_id(), spec=spec, pieces=pieces, transfer_id=900)
    executor.send(workers_pb2.HostCommand(place_array=place))
    for start, size in ((0, 1), (1, 2999), (3000, 1000)):
        os.pwrite(segment, value.tobytes()[start : start + size], 128)
        executor.use_segment(segment, push_id=5, offset=128, size_bytes=size, total_bytes=value.nbytes)
        header, _ = executor.read_data()
        assert (header.push_id, header.written, header.HasField("failure")) == (5, True, False)
        os.pwrite(segment, bytes(size), 128)
    executor.use_segment(push_id=5, transfer_id=900)
    header, _ = executor.read_data()
    assert (header.push_id, header.written) == (5, True)
    np.testing.assert_array_equal(executor.fetch(place.buffer_id, value), value)


def test_devices_that_were_pushed_the_same_bytes_do_not_share_what_is_computed_in_place_of_them(segment: int) -> None:
    value = np.arange(1000, dtype=np.float32)
    spec = types_pb2.ArraySpec(dtype=NUMBERS[value.dtype], shape=value.shape, shard_shape=value.shape)
    with ready_executor(device_count=2) as pair:
        pieces = [workers_pb2.LocalPiece(local_device=device, transfer_id=900) for device in (0, 1)]
        place = workers_pb2.PlaceArray(buffer_id=pair.new_id(), spec=spec, pieces=pieces)
        pair.send(workers_pb2.HostCommand(place_array=place))
        os.pwrite(segment, value.tobytes(), 0)
        pair.use_segment(segment, push_id=5, size_bytes=value.nbytes, total_bytes=value.nbytes)
        pair.read_data()
        pair.use_segment(push_id=5, transfer_id=900)
        pair.read_data()
        for device in (0, 1):
            np.testing.assert_array_equal(pair.fetch(place.buffer_id, value, device), value)
        views = [pair.new_id(), pair.new_id()]
        for device, view_id in enumerate(views):
            shard = workers_pb2.LocalShard(id=place.buffer_id, local_index=device)
            pair.send(workers_pb2.HostCommand(place_view=workers_pb2.PlaceView(view_id=view_id, shards=[shard])))
        program = pair.load(lower(lambda x: x * 2 + 1, value, donate_argnums=0))
        (result,) = pair.execute(program.executable_id, views[:1])
        np.testing.assert_array_equal(pair.fetch(result, value), value * 2 + 1)
        np.testing.assert_array_equal(pair.fetch(views[1], value), value)


def test_a_push_is_no_longer_than_it_was_said_to_be_and_may_be_dropped(executor: Executor, segment: int) -> None:
    executor.use_segment(segment, push_id=6, size_bytes=10, total_bytes=16)
    assert not executor.read_data()[0].HasField("failure")
    executor.use_segment(segment, push_id=6, size_bytes=7, total_bytes=16)
    assert executor.read_data()[0].failure.reason == "RESOURCE_EXHAUSTED"
    executor.use_segment(push_id=6)
    executor.use_segment(segment, push_id=6, size_bytes=16, total_bytes=16)
    header, _ = executor.read_data()
    assert (header.push_id, header.HasField("failure")) == (6, False), "it begins anew"
    executor.use_segment(push_id=6)


def test_an_order_whose_descriptor_was_lost_fails_and_lets_go_of_nothing(segment: int) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    told: queue.Queue[Any] = queue.Queue()
    segments = Segments(theirs, told.put, lambda *_: None)
    released: list[int] = []
    segments.hold(9, np.zeros(4, np.uint8), lambda: released.append(9))
    assert told.get(timeout=20).held
    segments.start(lambda *_: None)
    for order in (segments_pb2.SegmentUse(fetch_id=9, size_bytes=4), segments_pb2.SegmentUse(push_id=3, transfer_id=5)):
        # One more than there is room for is cut off, as where there are no numbers left.
        socket.send_fds(ours, [order.SerializeToString()], [segment, segment, segment])
        answer = told.get(timeout=20)
        assert (answer.fetch_id, answer.push_id, answer.written) == (order.fetch_id, order.push_id, True)
        assert answer.failure.reason == "RESOURCE_EXHAUSTED"
    assert not released
    ours.close()
