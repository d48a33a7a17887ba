"""What is kept of an epoch leaves a real executor past its dispatcher, also while that waits for a peer that never answers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pathways_proto.v1 import spilling_pb2, workers_pb2
from pathways_worker.executor.frames import write_frame
from pathways_worker.executor.rescue import Rescue

from tests.unit.executor.driving import Executor, Group, lower, ready_executor
from tests.unit.executor.driving_spill import SEND, Command
from tests.unit.executor.test_executor_gangs import all_reduce

VALUES = np.arange(24, dtype=np.float32).reshape(4, 6)
STORED = 1 << 50


def past_dispatcher(executor: Executor, command: Any) -> None:
    write_frame(executor.callbacks, workers_pb2.ExecutorCommands(commands=[command]).SerializeToString())


def end(executor: Executor, *buffers: int, timeout_s: float = 20.0, in_order: bool = True, shards: Sequence[int] = ()) -> None:
    """Ends the epoch; each buffer is called STORED + itself in the store."""
    keep = [workers_pb2.Keep(buffer_id=buffer, stored_id=STORED + buffer, spill_number=5, shards=shards) for buffer in buffers]
    ended = workers_pb2.EpochEnd(epoch=executor.epoch, keep=keep, timeout_ns=int(timeout_s * 1e9))
    past_dispatcher(executor, Command(epoch_end=ended))
    if in_order:
        executor.send(Command(epoch_end=workers_pb2.EpochEnd(epoch=executor.epoch)))


def rescued(executor: Executor, buffer: int) -> bytes:
    """The bytes of a buffer that was offered."""
    offer = executor.event("spill_offered", buffer_id=STORED + buffer)
    size_bytes = sum(shard.size_bytes for shard in offer.shards)
    decided = spilling_pb2.SpillDecided(buffer_id=STORED + buffer, decision=SEND)
    past_dispatcher(executor, Command(spill_decided=decided))
    data = b""
    while len(data) < size_bytes:
        header, piece = executor.read_data()
        assert header.buffer_id == STORED + buffer
        data += piece
    return data


def refusal(executor: Executor, buffer: int) -> str:
    return str(executor.event("array_spilled", buffer_id=STORED + buffer, spill_number=5).failure.reason)


def test_what_is_here_goes_and_what_is_not_is_told() -> None:
    with ready_executor() as executor:
        loaded = executor.load(lower(lambda x: jnp.tanh(x) * 3, VALUES))
        (result,) = executor.execute(loaded.executable_id, [executor.place(VALUES)])
        # The end overtakes what the dispatcher has not read.
        executor.fetch_bytes(result)
        pending = executor.place_command([VALUES])
        del pending.place_array.pieces[:]
        pending.place_array.pieces.add(local_device=0, transfer_id=77)
        executor.send(pending)
        missing = executor.new_id()
        end(executor, missing, pending.place_array.buffer_id, result)
        assert rescued(executor, result) == np.asarray(jnp.tanh(VALUES) * 3).tobytes()
        assert refusal(executor, missing) == "DELETED"
        assert refusal(executor, pending.place_array.buffer_id) == "UNAVAILABLE"


def test_of_a_buffer_the_shards_go_that_were_asked_for_and_of_one_that_has_fewer_none() -> None:
    parts = [VALUES, VALUES + 1, VALUES + 2]
    with ready_executor(device_count=3) as executor:
        buffer, smaller = executor.place(*parts), executor.place(VALUES, VALUES)
        executor.fetch_bytes(buffer)
        end(executor, buffer, smaller, shards=(0, 2))
        offer = executor.event("spill_offered", buffer_id=STORED + buffer)
        assert [shard.local_device for shard in offer.shards] == [0, 2]
        decided = spilling_pb2.SpillDecided(buffer_id=STORED + buffer, decision=SEND)
        past_dispatcher(executor, Command(spill_decided=decided))
        data = b""
        while len(data) < 2 * VALUES.nbytes:
            data += executor.read_data()[1]
        assert data == parts[0].tobytes() + parts[2].tobytes()
        assert refusal(executor, smaller) == "INVALID_ARGUMENT"


def test_nothing_is_launched_behind_the_end() -> None:
    with ready_executor() as executor:
        loaded = executor.load(lower(lambda x: x + 1, VALUES))
        argument = executor.place(VALUES)
        executor.handled(executor.place_command([VALUES]))
        end(executor, argument, in_order=False)
        assert rescued(executor, argument) == VALUES.tobytes()
        command = executor.prepare_command(loaded.executable_id, [argument], 1)
        executor.handled(command)
        assert executor.launched_through == 0
        end(executor, command.prepare.first_result_id)
        assert refusal(executor, command.prepare.first_result_id) == "DELETED"


def test_a_gang_whose_peer_is_stopped_holds_up_nothing_that_is_computed() -> None:
    group = Group()
    try:
        executables, _ = group.load(all_reduce())
        survivor, lost = group.ranks
        for rank, (executor, executable) in enumerate(zip(group.ranks, executables, strict=True)):
            executor.execute(executable, [executor.place(np.float32([rank]))])
        survivor.fetch_bytes(survivor.place(VALUES))
        kept, argument = survivor.place(VALUES), survivor.place(np.float32([3]))
        survivor.fetch_bytes(kept)
        os.kill(lost.process.pid, signal.SIGSTOP)
        try:
            (result,) = survivor.execute(executables[0], [argument])
            time.sleep(0.5)
            begin_s = time.monotonic()
            end(survivor, result, kept, argument, timeout_s=5)
            assert rescued(survivor, kept) == VALUES.tobytes()
            assert rescued(survivor, argument) == np.float32([3]).tobytes()
            assert time.monotonic() - begin_s < 4
            assert not [each for each in survivor.events_of("spill_offered") if each.buffer_id == STORED + result]
        finally:
            os.kill(lost.process.pid, signal.SIGCONT)
            for executor in group.ranks:
                executor.process.kill()
    finally:
        group.close()


def test_what_is_computed_does_not_wait_for_a_dispatcher_that_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pathways_worker.executor.rescue.DRAIN_S", 3600.0)
    kept, donated, missing = 1, 2, 3
    in_hand = SimpleNamespace(results=(), began_ns=0), [donated]
    arrays = {kept: jnp.asarray(VALUES), donated: jnp.asarray(VALUES)}
    told: list[Any] = []
    launcher = SimpleNamespace(closed=False, in_hand=in_hand)
    machine, reports = (
        SimpleNamespace(local_devices=jax.local_devices()),
        SimpleNamespace(post=lambda **event: told.append(event)),
    )
    parts: list[Any] = [machine, SimpleNamespace(arrays=arrays), launcher, reports, None]
    rescue, ended = Rescue(), threading.Event()
    rescue.enter(*parts)
    jax.block_until_ready(arrays)
    keep = [workers_pb2.Keep(buffer_id=buffer, stored_id=STORED + buffer) for buffer in (missing, donated, kept)]
    rescue.on_command(Command(epoch_end=workers_pb2.EpochEnd(epoch=1, keep=keep, timeout_ns=300_000_000)))
    rescue._lane.put(ended.set)
    assert ended.wait(20)
    assert launcher.closed
    # Of the others nothing is said before the dispatcher has done what came before.
    assert [event["spill_offered"].buffer_id for event in told] == [STORED + kept]
