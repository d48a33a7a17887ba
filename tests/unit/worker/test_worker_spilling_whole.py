"""Spilling through a real daemon and real executors: computed values survive the executor, in memory and on disk."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pathways_proto.v1 import types_pb2, workers_pb2
from pathways_worker.shell.environment import child_command

from tests.unit.executor.driving import identifier, lower
from tests.unit.worker.fake_controller import FakeController, joined, run, until
from tests.unit.worker.test_worker_spilling import files, memory, restored, spilled

Command = workers_pb2.HostCommand
MIB = 1 << 20


def place(buffer: int, *values: np.ndarray[Any, Any]) -> Command:
    spec = types_pb2.ArraySpec(dtype=11, shape=values[0].shape, shard_shape=values[0].shape)
    pieces = [workers_pb2.LocalPiece(local_device=index, inline=value.tobytes()) for index, value in enumerate(values)]
    return Command(place_array=workers_pb2.PlaceArray(buffer_id=buffer, spec=spec, pieces=pieces))


async def digest(controller: FakeController, buffer: int, index: int = 0) -> str:
    """Of the bytes of a shard, read inline."""
    count = len(controller.of("shard_fetched")) + len(controller.of("fetch_failed"))
    shard = workers_pb2.LocalShard(id=buffer, local_index=index)
    await controller.send(Command(fetch_shard=workers_pb2.FetchShard(fetch_id=count + 1, shard=shard)))
    await until(
        lambda: len(controller.of("shard_fetched")) + len(controller.of("fetch_failed")) > count, f"the bytes of {buffer}"
    )
    assert controller.of("fetch_failed") == [], controller.of("fetch_failed")
    return hashlib.sha256(controller.of("shard_fetched")[-1].data).hexdigest()


def of(value: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(value.tobytes()).hexdigest()


def test_computed_values_survive_the_executor_in_memory_and_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.worker.fake_controller.EXECUTOR", (*child_command("pathways_worker.executor"),))
    draw = np.random.default_rng(5)
    one, two, three = (draw.standard_normal(MIB // 4, np.float32) for _ in range(3))
    first, second = identifier(1), identifier(2)

    async def scenario() -> None:
        settings = {"devices": 2, "spill_memory": 2 * MIB, "spill_disk": 64 * MIB, "device_memory": 3 * MIB}
        async with joined(tmp_path, **settings) as (controller, app):
            await begin(controller, 1)
            load = workers_pb2.Load(executable_id=identifier(9), program=lower(lambda x: x * 2 + 1, one), devices=[0], epoch=1)
            prepare = workers_pb2.Prepare(
                execution_id=1, executable_id=load.executable_id, arguments=[identifier(3)], first_result_id=first,
                sequence=1, epoch=1,
            )  # fmt: skip
            await controller.send(place(identifier(3), one), Command(load=load))
            await controller.event("loaded")
            await controller.send(Command(prepare=prepare))
            await controller.send(place(second, two, three))
            assert (await spilled(controller, first)).size_bytes == MIB
            assert (await spilled(controller, second)).size_bytes == 2 * MIB
            await memory(controller, (2 * MIB, MIB))
            assert len(files(tmp_path)) == 1, "the one that was spilled first"
            assert max(report.device_peak_bytes for report in controller.of("memory")) <= 3 * MIB
            assert app.agent.pool.current is not None
            os.kill(app.agent.pool.current.pid, signal.SIGKILL)
            await controller.event("executor_died")
            await begin(controller, 2)
            for buffer in (first, second):
                assert not (await restored(controller, buffer)).HasField("failure")
            assert await digest(controller, first) == of(one * 2 + 1)
            assert [await digest(controller, second, index) for index in range(2)] == [of(two), of(three)]
            assert files(tmp_path) == []
            await memory(controller, (0, 0))

    run(scenario())


async def begin(controller: FakeController, epoch: int) -> None:
    """Begins an epoch of two devices."""
    count = len(controller.of("epoch_ready")) + 1
    begun = workers_pb2.EpochBegin(epoch=epoch, rank=0, rank_count=1, device_count=2)
    await controller.send(Command(epoch_begin=begun))
    assert (await controller.event("epoch_ready", count)).epoch == epoch
