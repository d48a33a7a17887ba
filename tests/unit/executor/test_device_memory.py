"""Devices with a limit of their own: what is counted, what is refused, and that freed memory really goes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from pathways_proto.v1 import spilling_pb2, workers_pb2
from pathways_worker.executor.device_memory import DeviceMemory

from tests.unit.executor.driving import TIMEOUT_S, Executor, Group, lower, lower_sharded, sharded
from tests.unit.executor.driving_spill import Command, restore, spill
from tests.unit.executor.test_executor_gangs import all_reduce

KIB = 1 << 10
LIMIT = 100 * KIB
# 16 KiB.
VALUES = np.arange(4 * KIB, dtype=np.float32)
HEAVY = np.full((60, 60), 0.5, np.float32)


@pytest.fixture
def small() -> Iterator[Executor]:
    """One device of 100 KiB."""
    executor = Executor(words=("--device-memory", str(LIMIT)))
    executor.begin()
    executor.event("epoch_ready")
    yield executor
    executor.close()


def until(executor: Executor, condition: Callable[[Any], bool], what: str) -> Any:
    """The next report of memory that fulfils the condition."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        for report in executor.events_of("memory"):
            executor.event("memory")
            if condition(report):
                return report
        assert time.monotonic() < deadline, f"waited {TIMEOUT_S} s for {what}"
        executor.read()


def test_the_account_adds_up() -> None:
    memory = DeviceMemory(100, 2)
    assert memory.admit(1, [(0, 60), (1, 30)]) is None
    failure = memory.admit(2, [(1, 30), (0, 50)])
    assert failure is not None
    assert failure.reason == "RESOURCE_EXHAUSTED"
    assert failure.message == (
        "buffer 0x2 needs 50 bytes on device 0 of this host, of whose 100 bytes 60 are taken; free or spill other arrays"
    )
    assert not memory.charged(2)
    assert memory.admit(2, [(1, 40), (1, 30)]) is None, "both pieces on one device, exactly full"
    free = memory.hold([(0, 40)])
    assert memory.against("it", [(0, 1)]) is not None
    free()
    memory.release([1, 3])
    assert memory.against("it", [(0, 100)]) is None
    assert memory.peak_bytes == 100


def test_an_array_that_does_not_fit_is_refused_with_figures_and_fits_after_a_free(small: Executor) -> None:
    kept = [small.place(VALUES) for _ in range(6)]
    with pytest.raises(AssertionError, match="needs 16384 bytes on device 0 of this host, of whose 102400 bytes 98304 are taken"):
        small.fetch_bytes(small.place(VALUES))
    small.free(kept.pop())
    assert small.fetch_bytes(small.place(VALUES)) == VALUES.tobytes()


def test_what_the_host_holds_is_not_the_devices(small: Executor) -> None:
    buffers = [small.place(VALUES, memory_kind="pinned_host") for _ in range(10)]
    assert small.fetch_bytes(buffers[-1]) == VALUES.tobytes()


def test_a_launch_that_does_not_fit_fails_and_the_next_one_does_not(small: Executor) -> None:
    grow = small.load(lower(lambda x: jnp.concatenate([x, x, x]), VALUES)).executable_id
    argument = small.place(VALUES)
    (first,) = small.execute(grow, [argument])
    assert len(small.fetch_bytes(first)) == 3 * VALUES.nbytes
    (second,) = small.execute(grow, [argument])
    with pytest.raises(AssertionError, match=r"RESOURCE_EXHAUSTED: program jit__lambda needs \d+ bytes"):
        small.fetch_bytes(second)
    assert small.event("node_failed").failure.reason == "RESOURCE_EXHAUSTED"
    small.free(first)
    (third,) = small.execute(grow, [argument])
    np.testing.assert_array_equal(small.fetch(third, np.zeros(12 * KIB, np.float32)), np.concatenate([VALUES] * 3))


def test_a_donated_argument_makes_room_for_the_result(small: Executor) -> None:
    add = small.load(lower(lambda x: x + 1, VALUES, donate_argnums=0)).executable_id
    arguments = [small.place(VALUES) for _ in range(6)]
    (result,) = small.execute(add, [arguments[0]])
    np.testing.assert_array_equal(small.fetch(result, VALUES), VALUES + 1)
    # One that is kept is copied for it, and there is no room for a copy.
    (refused,) = small.execute(add, [arguments[1]], non_donatable=[0])
    with pytest.raises(AssertionError, match="RESOURCE_EXHAUSTED"):
        small.fetch_bytes(refused)
    np.testing.assert_array_equal(small.fetch(arguments[1], VALUES), VALUES)


def test_temporary_bytes_count_while_the_launch_is_in_flight_and_the_next_waits_for_them(small: Executor) -> None:
    def function(x: Any) -> Any:
        for _ in range(40):
            x = x @ x * 1e-2
        return x

    loaded = small.load(lower(function, HEAVY))
    temporary_bytes = loaded.info.memory.temporary_bytes
    assert temporary_bytes >= HEAVY.nbytes, "the test needs some"
    argument = small.place(HEAVY)
    results = [small.execute(loaded.executable_id, [argument])[0] for _ in range(4)]
    for result in results:
        small.fetch_bytes(result)
    assert small.events_of("node_failed") == [], "each fits when those before it have ended"
    report = until(small, lambda report: report.launched_gangs == 4, "the report")
    assert 5 * HEAVY.nbytes + temporary_bytes <= report.device_peak_bytes <= LIMIT


def test_spilled_bytes_make_room_and_a_restore_without_room_is_refused_and_loses_nothing(small: Executor) -> None:
    buffers = [small.place(VALUES) for _ in range(6)]
    held = spill(small, buffers[0])
    other = small.place(VALUES + 1)
    assert small.fetch_bytes(other) == (VALUES + 1).tobytes()
    small.send(Command(restore_array=spilling_pb2.RestoreArray(buffer_id=buffers[0], shards=held.shards)))
    assert small.event("array_restored", buffer_id=buffers[0]).failure.reason == "RESOURCE_EXHAUSTED"
    small.free(other)
    assert not restore(small, buffers[0], held).HasField("failure")
    assert small.fetch_bytes(buffers[0]) == VALUES.tobytes()
    report = until(small, lambda report: report.live_bytes == 6 * VALUES.nbytes, "six arrays")
    assert report.device_peak_bytes == 6 * VALUES.nbytes


def test_a_view_is_counted_with_its_buffer_and_not_twice(small: Executor) -> None:
    buffer = small.place(VALUES)
    view = workers_pb2.PlaceView(view_id=small.new_id())
    view.shards.add(id=buffer, local_index=0)
    small.send(Command(place_view=view))
    assert small.fetch_bytes(view.view_id) == VALUES.tobytes()
    report = until(small, lambda report: report.buffer_count == 2, "buffer and view")
    assert (report.live_bytes, report.device_peak_bytes) == (VALUES.nbytes, VALUES.nbytes)


def test_a_member_of_a_gang_is_launched_without_room_and_its_results_are_void() -> None:
    group = Group(words=("--device-memory", "10"))
    try:
        executables, _ = group.load(all_reduce())
        # Only the second host has no room left for the four bytes of the result.
        fillers = [[2.0], [2.0, 3.0]]
        first, second = (
            (executor.execute(executable, [executor.place(np.float32(filler[:1]))])[0] if len(filler) == 1 else None)
            for executor, executable, filler in zip(group.ranks, executables, fillers, strict=True)
        )
        full = group.ranks[1]
        argument = full.place(np.float32([3.0]))
        full.place(np.float32([9.0]))
        (second,) = full.execute(executables[1], [argument])
        assert float(group.ranks[0].fetch(first, np.zeros(1, np.float32))[0]) == 5.0, "the other member did not hang, nor err"
        with pytest.raises(AssertionError, match="RESOURCE_EXHAUSTED"):
            full.fetch_bytes(second)
        failed = full.event("node_failed")
        assert failed.launched_with_zeros
        assert "of whose 10 bytes 8 are taken" in failed.failure.message
    finally:
        group.close()


def test_an_argument_that_is_kept_survives_a_gang_that_donates_it_without_room() -> None:
    group = Group(words=("--device-memory", "10"))
    try:
        shape = np.zeros(2, np.float32)
        program = lower_sharded(
            lambda x: x + 1, shape, in_shardings=sharded("d", 2), out_shardings=sharded("d", 2), donate_argnums=0
        )
        executables, infos = group.load(program)
        assert list(infos[0].donated_parameters) == [0]
        kept = []
        for executor, executable in zip(group.ranks, executables, strict=True):
            kept.append(executor.place(np.float32([7.0])))
            executor.place(np.float32([9.0]))
            executor.execute(executable, [kept[-1]], non_donatable=[0])
        for executor, buffer in zip(group.ranks, kept, strict=True):
            assert executor.event("node_failed").failure.reason == "RESOURCE_EXHAUSTED"
            assert float(executor.fetch(buffer, np.zeros(1, np.float32))[0]) == 7.0
    finally:
        group.close()


def test_memory_of_many_small_arrays_goes_back_to_the_system_when_they_are_freed() -> None:
    executor = Executor()
    try:
        executor.begin()
        executor.event("epoch_ready")
        # Small enough to come from the C library's heap, which keeps what it has.
        value = np.ones(8 * KIB, np.float64)
        executor.fetch_bytes(executor.place(value))
        before = resident_bytes(executor)
        buffers = []
        for _ in range(30):
            commands = [executor.place_command([value]) for _ in range(100)]
            executor.handled(*commands)
            buffers += [command.place_array.buffer_id for command in commands]
        grown = resident_bytes(executor) - before
        assert grown >= 3000 * value.nbytes
        executor.free(*buffers[::2], *buffers[1::2])
        until(executor, lambda report: report.live_bytes < 1 << 20, "the frees")
        deadline = time.monotonic() + TIMEOUT_S
        while resident_bytes(executor) - before > grown / 10:
            assert time.monotonic() < deadline, f"{resident_bytes(executor) - before} of {grown} bytes stay"
            time.sleep(0.02)
    finally:
        executor.close()


def resident_bytes(executor: Executor) -> int:
    """Of the executor's process."""
    return int(Path(f"/proc/{executor.process.pid}/statm").read_text().split()[1]) * 4096


def test_what_landed_is_reported_without_another_word_and_its_staging_memory_is_let_go() -> None:
    executor = Executor()
    try:
        executor.begin()
        executor.event("epoch_ready")
        value = np.ones(8 << 20, np.float64)
        executor.fetch_bytes(executor.place(value[:8]))
        until(executor, lambda report: report.live_bytes > 0, "the small array")
        before = resident_bytes(executor)
        command = executor.place_command([value])
        del command.place_array.pieces[:]
        command.place_array.pieces.add(local_device=0, transfer_id=5)
        executor.send(command)
        executor.send_data(5, value.tobytes())
        executor.event("landed", transfer_id=5)
        until(executor, lambda report: report.live_bytes >= value.nbytes, "the report of what landed")
        deadline = time.monotonic() + TIMEOUT_S
        while resident_bytes(executor) - before > value.nbytes * 1.1:
            assert time.monotonic() < deadline, f"{resident_bytes(executor) - before} bytes for {value.nbytes}"
            time.sleep(0.02)
    finally:
        executor.close()
