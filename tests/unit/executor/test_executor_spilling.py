"""Buffers leave a real executor for the daemon's store and come back, bit by bit the same, in order with launches and frees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import SingleDeviceSharding
from pathways_proto.v1 import spilling_pb2, types_pb2, workers_pb2
from pathways_worker.executor.element_types import DTYPES, TOKEN

from tests.unit.executor.driving import HEAVY, Executor, Group, lower, ready_executor, slow
from tests.unit.executor.driving_spill import (
    KEEP,
    RESTORE_NUMBER,
    SEND,
    SPILL_NUMBER,
    Command,
    ask,
    decide,
    expect,
    give,
    restore,
    send_restore,
    spill,
)
from tests.unit.executor.test_executor_gangs import all_reduce, run_late_error

VALUES = np.arange(24, dtype=np.float32).reshape(4, 6)


def any_bits(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """Values whose bytes are random where every byte is a value of this type, else all values that it has."""
    count = int(np.prod(shape))
    if dtype == np.bool_ or dtype.name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn"):
        return (np.arange(count) % 2).astype(dtype).reshape(shape)
    data = np.random.default_rng(seed).integers(0, 256, count * dtype.itemsize, np.uint8)
    return data.view(dtype).reshape(shape)


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ready_executor() as executor:
        yield executor


@pytest.fixture(scope="module")
def wide() -> Iterator[Executor]:
    """Three devices."""
    with ready_executor(device_count=3) as executor:
        yield executor


@pytest.mark.parametrize("number", sorted(DTYPES), ids=lambda number: DTYPES[number].name)
def test_every_element_type_comes_back_bit_by_bit(executor: Executor, number: int) -> None:
    value = any_bits(DTYPES[number], (3, 5))
    buffer = executor.place(value)
    held = spill(executor, buffer)
    assert held.data == value.tobytes()
    assert [(shard.dtype, tuple(shard.shape), shard.memory_kind) for shard in held.shards] == [(number, (3, 5), "device")]
    assert not restore(executor, buffer, held).HasField("failure")
    assert executor.fetch_bytes(buffer) == value.tobytes()


def test_what_came_back_is_computed_with(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: jnp.tanh(x) * 3, VALUES))
    buffer = executor.place(VALUES)
    held = spill(executor, buffer)
    restore(executor, buffer, held)
    (result,) = executor.execute(loaded.executable_id, [buffer])
    np.testing.assert_array_equal(executor.fetch(result, VALUES), np.asarray(jnp.tanh(VALUES) * 3))


def test_arrays_without_elements_and_what_stands_for_a_token_come_back(executor: Executor) -> None:
    for value in (np.zeros((0, 7), np.float32), np.zeros((0,), np.bool_), np.float64(2.5)):
        buffer = executor.place(value)
        held = spill(executor, buffer)
        assert not restore(executor, buffer, held).HasField("failure")
        assert executor.fetch_bytes(buffer) == np.asarray(value).tobytes()
    token = workers_pb2.PlaceArray(
        buffer_id=executor.new_id(),
        spec=types_pb2.ArraySpec(dtype=TOKEN, shape=[0], shard_shape=[0]),
        pieces=[workers_pb2.LocalPiece(inline=b"")],
    )
    executor.send(Command(place_array=token))
    held = spill(executor, token.buffer_id)
    assert not restore(executor, token.buffer_id, held).HasField("failure")


def test_shards_come_back_to_their_own_devices_in_pieces_of_any_size(wide: Executor) -> None:
    shards = [any_bits(np.dtype(np.int32), (1000,), seed) for seed in range(3)]
    buffer = wide.place(*shards)
    held = spill(wide, buffer)
    assert held.data == b"".join(shard.tobytes() for shard in shards)
    assert [shard.local_device for shard in held.shards] == [0, 1, 2]
    assert not restore(wide, buffer, held, piece_bytes=777).HasField("failure")
    assert [wide.fetch_bytes(buffer, index) for index in range(3)] == [shard.tobytes() for shard in shards]


def test_more_than_one_piece_and_other_memory_kinds(executor: Executor) -> None:
    value = any_bits(np.dtype(np.uint8), (5 << 20,))
    buffer = executor.place(value, memory_kind="pinned_host")
    held = spill(executor, buffer)
    assert held.data == value.tobytes()
    assert held.shards[0].memory_kind == "pinned_host"
    assert not restore(executor, buffer, held).HasField("failure")
    assert executor.fetch_bytes(buffer) == value.tobytes()
    assert spill(executor, buffer).shards[0].memory_kind == "pinned_host"


def test_a_result_is_spilled_with_the_value_that_the_launch_before_gave_it(executor: Executor) -> None:
    loaded = executor.load(lower(slow, VALUES, HEAVY))
    arguments = [executor.place(VALUES), executor.place(HEAVY)]
    (result,) = executor.execute(loaded.executable_id, arguments)
    assert spill(executor, result).data == (VALUES + 1).tobytes()


def test_a_launch_before_still_reads_what_is_spilled_behind_it(executor: Executor) -> None:
    loaded = executor.load(lower(slow, VALUES, HEAVY))
    argument, heavy = executor.place(VALUES), executor.place(HEAVY)
    (result,) = executor.execute(loaded.executable_id, [argument, heavy])
    spill(executor, argument)
    spill(executor, heavy)
    np.testing.assert_array_equal(executor.fetch(result, VALUES), VALUES + 1)


def test_a_launch_behind_a_spill_fails_with_a_sentence_and_one_behind_the_restore_waits_for_it(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: x + 1, VALUES))
    buffer = executor.place(VALUES)
    held = spill(executor, buffer)
    (lost,) = executor.execute(loaded.executable_id, [buffer])
    with pytest.raises(AssertionError, match="is spilled; it has to be restored before it is used"):
        executor.fetch(lost, VALUES)
    expect(executor, buffer, held.shards)
    (result,) = executor.execute(loaded.executable_id, [buffer])
    give(executor, buffer, held.data)
    np.testing.assert_array_equal(executor.fetch(result, VALUES), VALUES + 1)


def test_a_buffer_that_the_daemon_has_no_room_for_is_where_it_was(executor: Executor) -> None:
    buffer = executor.place(VALUES)
    ask(executor, buffer)
    executor.event("spill_offered", buffer_id=buffer)
    decide(executor, buffer, KEEP)
    np.testing.assert_array_equal(executor.fetch(buffer, VALUES), VALUES)
    assert spill(executor, buffer).data == VALUES.tobytes()


def test_a_value_that_failed_is_not_spilled_and_keeps_its_failure(executor: Executor) -> None:
    result, _ = run_late_error(executor)
    ask(executor, result)
    refused = executor.event("array_spilled", spill_number=SPILL_NUMBER, buffer_id=result)
    assert refused.failure.reason == "EXECUTION_ERROR"
    with pytest.raises(AssertionError, match="EXECUTION_ERROR"):
        executor.fetch_bytes(result)


def test_what_is_not_here_or_not_complete_is_not_spilled(executor: Executor) -> None:
    missing = executor.new_id()
    ask(executor, missing)
    assert executor.event("array_spilled", spill_number=SPILL_NUMBER, buffer_id=missing).failure.reason == "DELETED"
    command = executor.place_command([VALUES])
    del command.place_array.pieces[:]
    command.place_array.pieces.add(local_device=0, transfer_id=77)
    executor.send(command)
    buffer = command.place_array.buffer_id
    ask(executor, buffer)
    assert executor.event("array_spilled", spill_number=SPILL_NUMBER, buffer_id=buffer).failure.reason == "UNAVAILABLE"
    executor.send_data(77, VALUES.tobytes())
    np.testing.assert_array_equal(executor.fetch(buffer, VALUES), VALUES)


def test_an_array_with_a_layout_of_its_own_stays_where_it_is(executor: Executor) -> None:
    device = jax.devices("cpu")[0]
    columns = Format(Layout(major_to_minor=(1, 0)), SingleDeviceSharding(device))
    loaded = executor.load(lower(lambda x: x + 1, VALUES, out_shardings=columns))
    (result,) = executor.execute(loaded.executable_id, [executor.place(VALUES)])
    ask(executor, result)
    assert executor.event("array_spilled", spill_number=SPILL_NUMBER, buffer_id=result).failure.reason == "UNSUPPORTED"
    np.testing.assert_array_equal(executor.fetch(result, VALUES), VALUES + 1)


def test_a_result_over_two_hosts_leaves_each_and_goes_into_the_next_gang() -> None:
    group = Group()
    try:
        executables, _ = group.load(all_reduce())
        results = []
        for rank, (executor, executable) in enumerate(zip(group.ranks, executables, strict=True)):
            results += executor.execute(executable, [executor.place(np.float32([3 + rank]))])
        for executor, result in zip(group.ranks, results, strict=True):
            held = spill(executor, result)
            assert held.data == np.float32([7]).tobytes()
            assert not restore(executor, result, held).HasField("failure")
        again = [
            executor.execute(executable, [result])[0]
            for executor, executable, result in zip(group.ranks, executables, results, strict=True)
        ]
        assert [executor.fetch_bytes(result) for executor, result in zip(group.ranks, again, strict=True)] == [
            np.float32([14]).tobytes()
        ] * 2
    finally:
        group.close()


def test_a_buffer_freed_while_it_is_put_aside_goes(executor: Executor) -> None:
    buffer = executor.place(VALUES)
    ask(executor, buffer)
    executor.event("spill_offered", buffer_id=buffer)
    executor.free(buffer)
    decide(executor, buffer, SEND)
    assert executor.event("array_spilled", spill_number=SPILL_NUMBER, buffer_id=buffer).failure.reason == "DELETED"
    kept = executor.place(VALUES)
    ask(executor, kept)
    executor.event("spill_offered", buffer_id=kept)
    executor.free(kept)
    decide(executor, kept, KEEP)
    with pytest.raises(AssertionError, match="DELETED"):
        executor.fetch_bytes(kept)


def test_a_restore_that_fails_can_be_tried_again(executor: Executor) -> None:
    buffer = executor.place(VALUES)
    held = spill(executor, buffer)
    expect(executor, buffer, held.shards)
    give(executor, buffer, held.data[:10])
    give(executor, buffer, b"", types_pb2.Failure(reason="UNAVAILABLE", message="the disk is slow"))
    assert executor.event("array_restored", spill_number=RESTORE_NUMBER, buffer_id=buffer).failure.message == "the disk is slow"
    with pytest.raises(AssertionError, match="is spilled"):
        executor.fetch_bytes(buffer)
    assert not restore(executor, buffer, held).HasField("failure")
    np.testing.assert_array_equal(executor.fetch(buffer, VALUES), VALUES)


def test_a_restore_is_refused_for_devices_that_are_not_here_and_for_what_is_here(executor: Executor, wide: Executor) -> None:
    buffer = wide.place(VALUES, VALUES)
    held = spill(wide, buffer)
    send_restore(executor, buffer, held.shards)
    refused = executor.event("array_restored", spill_number=RESTORE_NUMBER, buffer_id=buffer).failure
    assert "not for the 1 devices of this host" in refused.message
    here = executor.place(VALUES)
    send_restore(executor, here, held.shards[:1])
    assert "it is here" in executor.event("array_restored", spill_number=RESTORE_NUMBER, buffer_id=here).failure.message
    np.testing.assert_array_equal(executor.fetch(here, VALUES), VALUES)


def test_a_dropped_buffer_ends_its_restore_and_one_that_is_here_is_not_touched(executor: Executor) -> None:
    buffer, other = executor.place(VALUES), executor.place(VALUES)
    held = spill(executor, buffer)
    expect(executor, buffer, held.shards)
    executor.send(Command(drop_spilled=spilling_pb2.DropSpilled(ids=[buffer, other])))
    assert executor.event("array_restored", spill_number=RESTORE_NUMBER, buffer_id=buffer).failure.reason == "DELETED"
    give(executor, buffer, held.data)
    np.testing.assert_array_equal(executor.fetch(other, VALUES), VALUES)


def view_of(executor: Executor, *shards: tuple[int, int]) -> int:
    view = workers_pb2.PlaceView(view_id=executor.new_id())
    for identifier, index in shards:
        view.shards.add(id=identifier, local_index=index)
    executor.send(Command(place_view=view))
    return int(view.view_id)


def test_views_are_put_aside_with_their_buffer_and_come_back_with_it(wide: Executor) -> None:
    one, two = ([any_bits(np.dtype(np.int16), (50,), 10 * buffer + seed) for seed in range(3)] for buffer in range(2))
    first, second = wide.place(*one), wide.place(*two)
    whole = view_of(wide, (first, 0), (first, 1), (first, 2))
    part = view_of(wide, (whole, 2))
    mixed = view_of(wide, (second, 0), (first, 1))
    held = spill(wide, first)
    late = view_of(wide, (first, 0))
    for view in (whole, part, mixed, late):
        with pytest.raises(AssertionError, match="is spilled"):
            wide.fetch_bytes(view)
    other = spill(wide, second)
    restore(wide, first, held)
    assert wide.fetch_bytes(whole, 1) == one[1].tobytes()
    assert wide.fetch_bytes(part) == one[2].tobytes()
    assert wide.fetch_bytes(late) == one[0].tobytes()
    with pytest.raises(AssertionError, match="is spilled"):
        wide.fetch_bytes(mixed, 1)
    restore(wide, second, other)
    assert (wide.fetch_bytes(mixed, 0), wide.fetch_bytes(mixed, 1)) == (two[0].tobytes(), one[1].tobytes())


def test_another_executor_takes_what_one_left(executor: Executor) -> None:
    buffer = executor.place(VALUES)
    held = spill(executor, buffer)
    other = Executor()
    try:
        other.begin()
        other.event("epoch_ready")
        assert not restore(other, buffer, held).HasField("failure")
        np.testing.assert_array_equal(other.fetch(buffer, VALUES), VALUES)
    finally:
        other.close()
