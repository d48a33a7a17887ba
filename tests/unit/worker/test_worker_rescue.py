"""Arrays outlive an epoch: a real daemon brings them from a real executor into its store, and the next epoch has them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pathways_proto.v1 import spilling_pb2, workers_pb2
from pathways_worker.shell.environment import child_command

from tests.unit.executor.driving import identifier
from tests.unit.worker.fake_controller import FakeController, joined, run, until
from tests.unit.worker.test_worker_spilling import restored
from tests.unit.worker.test_worker_spilling_whole import Command, begin, digest, of, place

MIB = 1 << 20
STORED = 1 << 50


def end(epoch: int, *buffers: int, timeout_s: float = 20.0) -> Command:
    """Keeps buffers under other names; the number of each is its own."""
    keep = [workers_pb2.Keep(buffer_id=buffer, stored_id=STORED + buffer, spill_number=buffer) for buffer in buffers]
    return Command(epoch_end=workers_pb2.EpochEnd(epoch=epoch, keep=keep, timeout_ns=int(timeout_s * 1e9)))


async def left(controller: FakeController) -> list[Any]:
    """Waits for the one EpochLeft; the answers of all that was kept, which came before it."""
    await controller.event("epoch_left")
    kinds = [event.WhichOneof("event") for event in controller.events]
    at = kinds.index("epoch_left")
    assert kinds.count("epoch_left") == 1
    assert "array_spilled" not in kinds[at:]
    assert "executor_died" not in kinds
    return controller.of("array_spilled")


@pytest.fixture(autouse=True)
def _real_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.worker.fake_controller.EXECUTOR", (*child_command("pathways_worker.executor"),))


def values(count: int) -> list[np.ndarray[Any, Any]]:
    draw = np.random.default_rng(5)
    return [draw.standard_normal(MIB // 4, np.float32) for _ in range(count)]


def test_what_is_kept_has_the_same_bits_under_another_name_in_the_next_epoch(tmp_path: Path) -> None:
    one, two = values(2)
    kept, missing = identifier(1), identifier(2)

    async def scenario() -> None:
        async with joined(tmp_path, devices=2, spill_memory=8 * MIB) as (controller, app):
            await begin(controller, 1)
            await controller.send(place(kept, one, two), end(1, kept, missing))
            answers = {answer.buffer_id: answer for answer in await left(controller)}
            assert (answers[STORED + kept].size_bytes, answers[STORED + kept].spill_number) == (2 * MIB, kept)
            assert answers[STORED + missing].failure.reason == "DELETED"
            assert len(answers) == len(controller.of("array_spilled")) == 2
            assert app.agent.spills.held == [(STORED + kept, 2 * MIB)]
            await begin(controller, 2)
            assert not (await restored(controller, STORED + kept)).HasField("failure")
            assert [await digest(controller, STORED + kept, index) for index in range(2)] == [of(one), of(two)]

    run(scenario())


def test_one_of_three_for_which_there_is_no_room_is_told_and_one_that_is_dropped_goes(tmp_path: Path) -> None:
    (one,) = values(1)
    buffers = [identifier(number) for number in (1, 2, 3)]

    async def scenario() -> None:
        async with joined(tmp_path, devices=2, spill_memory=2 * MIB, spill_disk=0) as (controller, app):
            await begin(controller, 1)
            await controller.send(*(place(buffer, one) for buffer in buffers), end(1, *buffers))
            refused = [answer.failure.reason for answer in await left(controller) if answer.HasField("failure")]
            assert refused == ["RESOURCE_EXHAUSTED"]
            assert len(app.agent.spills.held) == 2
            await controller.send(Command(drop_spilled=spilling_pb2.DropSpilled(ids=[STORED + each for each in buffers])))
            await until(lambda: not app.agent.spills.held, "the store to be empty")

    run(scenario())


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_an_executor_that_ends_or_stops_meanwhile_costs_what_is_not_here(tmp_path: Path, how: str) -> None:
    (one,) = values(1)
    kept = identifier(1)

    async def scenario() -> None:
        async with joined(tmp_path, devices=2, spill_memory=8 * MIB) as (controller, app):
            await begin(controller, 1)
            await controller.send(place(kept, one))
            assert await digest(controller, kept) == of(one)
            executor = app.agent.pool.current
            assert executor is not None
            os.kill(executor.pid, signal.SIGSTOP)
            await controller.send(end(1, kept, timeout_s=1.0 if how == "stopped" else 60.0))
            if how == "killed":
                await until(lambda: app.agent.departures.executor is not None, "the end of the epoch")
                os.kill(executor.pid, signal.SIGKILL)
            (answer,) = await left(controller)
            assert answer.failure.reason == "BUFFER_LOST"
            assert app.agent.spills.held == []

    run(scenario())


def test_every_end_of_an_epoch_is_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path, devices=2) as (controller, _):
            await begin(controller, 1)
            await controller.send(end(7, identifier(1)))
            assert (await controller.event("array_spilled")).HasField("failure")
            assert (await controller.event("epoch_left")).epoch == 7
            await controller.send(end(1))
            assert (await controller.event("epoch_left", 2)).epoch == 1

    run(scenario())
