"""What an executor shows in shared memory while it runs: where it is, although nobody answers for it, and that it lives."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import psutil
import pytest
from pathways_proto.v1 import workers_pb2
from pathways_worker.executor.progress import BEAT_NS, BEAT_S, ENTERED, ENTERED_NS, FINISHED, LAUNCHED, LOADING, WAITS_FOR

from tests.cluster import wait_until
from tests.unit.executor.driving import Executor, lower, reply, slow_to_compile

WAIT_S = 30


class Page:
    """The memory that an executor and its daemon share."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("progress")
        os.ftruncate(self.descriptor, mmap.PAGESIZE)
        self._memory = mmap.mmap(self.descriptor, mmap.PAGESIZE, access=mmap.ACCESS_READ)

    def __getitem__(self, index: int) -> int:
        return int(struct.unpack_from("<Q", self._memory, 8 * index)[0])

    def wait(self, index: int, value: int) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while self[index] != value:
            assert time.monotonic() < deadline_s, f"number {index} is {self[index]} and not {value}"
            time.sleep(0.01)

    def beats(self) -> bool:
        """Whether the beat goes on."""
        before, deadline_s = self[BEAT_NS], time.monotonic() + 8 * BEAT_S
        while self[BEAT_NS] == before and time.monotonic() < deadline_s:
            time.sleep(0.01)
        return self[BEAT_NS] > before


@pytest.fixture
def shown() -> Iterator[tuple[Executor, Page]]:
    page = Page()
    executor = Executor(host="h0", progress_fd=page.descriptor)
    try:
        executor.begin()
        executor.event("epoch_ready")
        yield executor, page
    finally:
        os.close(page.descriptor)
        executor.close()


def test_a_launch_is_entered_before_it_comes_back_and_the_process_shows_life_meanwhile(shown: tuple[Executor, Page]) -> None:
    executor, page = shown
    value = np.ones((1,), np.float32)

    def function(x: Any) -> Any:
        return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct((1,), jnp.float32), x)

    called = executor.load(lower(function, value), callback_ids=[4])
    inside, leave = threading.Event(), threading.Event()

    def answer(call: Any) -> Any:
        inside.set()
        assert leave.wait(WAIT_S)
        return reply(call, value)

    thread = executor.serve_callback(answer)
    before_ns = time.monotonic_ns()
    executor.send(executor.prepare_command(called.executable_id, [executor.place(value)], 1))
    assert inside.wait(WAIT_S)
    assert (page[ENTERED], page[LAUNCHED], page[FINISHED]) == (1, 0, 0)
    assert before_ns <= page[ENTERED_NS] <= time.monotonic_ns()
    assert page.beats()
    leave.set()
    thread.join(WAIT_S)
    page.wait(FINISHED, 1)


def test_a_stopped_process_shows_no_life(shown: tuple[Executor, Page]) -> None:
    executor, page = shown
    assert page.beats()
    executor.process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: psutil.Process(executor.process.pid).status() == psutil.STATUS_STOPPED, "the process to be stopped")
        assert not page.beats()
    finally:
        executor.process.send_signal(signal.SIGCONT)
    assert page.beats()


def test_bytes_that_are_late_are_shown_as_what_it_waits_for(shown: tuple[Executor, Page]) -> None:
    executor, page = shown
    value = np.ones((1,), np.float32)
    add = executor.load(lower(lambda x: x + 1, value))
    command = executor.place_command([value])
    piece = command.place_array.pieces[0]
    piece.Clear()
    piece.transfer_id = 7
    executor.send(command, executor.prepare_command(add.executable_id, [command.place_array.buffer_id], 1))
    page.wait(WAITS_FOR, workers_pb2.EXECUTOR_WAIT_BYTES)
    assert page[ENTERED] == 0
    executor.send_data(7, value.tobytes())
    page.wait(FINISHED, 1)
    assert (page[WAITS_FOR], page[ENTERED]) == (workers_pb2.EXECUTOR_WAIT_UNSPECIFIED, 1)


def test_what_is_compiled_is_shown_and_is_no_reason_not_to_launch(shown: tuple[Executor, Page]) -> None:
    executor, page = shown
    value = np.ones((3, 4), np.float32)
    add = executor.load(lower(lambda x: x + 1, value)).executable_id
    long = executor.load_command(lower(slow_to_compile, value))
    executor.send(long)
    page.wait(LOADING, long.load.executable_id)
    executor.execute(add, [executor.place(value)])
    page.wait(FINISHED, 1)
    assert (page[LOADING], page[WAITS_FOR]) == (long.load.executable_id, workers_pb2.EXECUTOR_WAIT_UNSPECIFIED)
    assert page.beats()
    executor.event("loaded", executable_id=long.load.executable_id)
    assert page[LOADING] == 0
