"""The spill store through a real daemon: memory, disk, refusals, executors that die, and what is left when the daemon ends."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from pathways_proto.v1 import spilling_pb2, workers_pb2
from pathways_worker.shell.spill_files import PIECE_BYTES, Broken, FileBlock, MemoryBlock, SpillFolder

from tests.unit.worker.fake_controller import FakeController, joined, run, until
from tests.unit.worker.test_worker_daemon import executor_pid, wait

Command = workers_pb2.HostCommand
KIB = 1 << 10


def spill_of(buffer: int, number: int = 1) -> Command:
    return Command(spill_array=spilling_pb2.SpillArray(buffer_id=buffer, spill_number=number))


def restore_of(buffer: int, number: int = 2) -> Command:
    return Command(restore_array=spilling_pb2.RestoreArray(buffer_id=buffer, spill_number=number))


def drop_of(*buffers: int) -> Command:
    return Command(drop_spilled=spilling_pb2.DropSpilled(ids=buffers))


async def spilled(controller: FakeController, buffer: int) -> Any:
    """Spills a buffer; the answer."""
    number = _next_number(controller)
    return await _answered(controller, "array_spilled", spill_of(buffer, number), buffer, number)


async def restored(controller: FakeController, buffer: int) -> Any:
    """Restores it; the answer."""
    number = _next_number(controller)
    return await _answered(controller, "array_restored", restore_of(buffer, number), buffer, number)


def _next_number(controller: FakeController) -> int:
    return 10 + len(controller.of("array_spilled")) + len(controller.of("array_restored"))


async def _answered(controller: FakeController, kind: str, command: Command, buffer: int, number: int) -> Any:
    """The answer that repeats the number of the command."""

    def answers() -> list[Any]:
        return [answer for answer in controller.of(kind) if (answer.buffer_id, answer.spill_number) == (buffer, number)]

    await controller.send(command)
    await until(lambda: bool(answers()), f"{kind} {number} of {buffer}")
    return answers()[-1]


def files(state: Path) -> list[Path]:
    return sorted(path for path in (state / "spill").rglob("*") if path.is_file())


async def memory(controller: FakeController, figures: tuple[int, int]) -> None:
    """Waits until the controller was told these figures of the store."""

    def told() -> bool:
        reports = controller.of("memory")
        return bool(reports) and (reports[-1].spilled_bytes, reports[-1].spilled_disk_bytes) == figures

    await until(told, f"a report of {figures}; had {controller.of('memory')}")


def test_a_buffer_goes_to_the_daemon_and_comes_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path, spill_memory=2000 * KIB) as (controller, app):
            await controller.enter()
            answer = await spilled(controller, 1500)
            assert (answer.size_bytes, answer.HasField("failure")) == (1500 * KIB, False)
            assert app.agent.spills.held == [(1500, 1500 * KIB)]
            await memory(controller, (1500 * KIB, 0))
            assert not (await restored(controller, 1500)).HasField("failure")
            assert "restored 1500 same" in controller.log_lines()
            await memory(controller, (0, 0))
            assert [line for line in controller.log_lines() if line.startswith("decided")] == [
                "decided 1500 send",
                "decided 1500 forget",
            ]
            assert (app.counters.arrays_spilled, app.counters.arrays_restored) == (1, 1)
            assert app.agent.spills._core.buffer_count == 0

    run(scenario())


def test_what_follows_a_spill_in_the_link_reaches_the_executor_behind_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, _):
            await controller.enter()
            frame = await controller.send(spill_of(3), wait(1), restore_of(4), wait(2))
            await controller.event("became_ready", 2)
            await until(lambda: controller.acknowledged == frame, "the acknowledgement")
            assert (await controller.event("array_restored")).failure.reason == "BUFFER_LOST"
            assert (await controller.event("array_spilled")).size_bytes == 3 * KIB

    run(scenario())


def test_the_least_recently_used_goes_to_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path, spill_memory=2000 * KIB, spill_disk=1 << 30) as (controller, _):
            await controller.enter()
            for buffer in (1100, 800, 900):
                assert not (await spilled(controller, buffer)).HasField("failure")
            await memory(controller, (1700 * KIB, 1100 * KIB))
            (file,) = files(tmp_path)
            assert file.stat().st_size == 1100 * KIB
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert stat.S_IMODE(file.parent.stat().st_mode) == stat.S_IMODE(file.parent.parent.stat().st_mode) == 0o700
            for buffer in (1100, 900, 800):
                assert not (await restored(controller, buffer)).HasField("failure")
            assert [f"restored {buffer} same" in controller.log_lines() for buffer in (800, 900, 1100)] == [True] * 3
            assert files(tmp_path) == []
        assert list((tmp_path / "spill").iterdir()) == []

    run(scenario())


def test_what_is_larger_than_the_memory_goes_straight_to_disk_and_what_is_larger_than_both_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path, spill_memory=100 * KIB, spill_disk=3000 * KIB) as (controller, app):
            await controller.enter()
            assert (await spilled(controller, 2500)).size_bytes == 2500 * KIB
            refused = (await spilled(controller, 600)).failure
            assert (refused.reason, refused.host) == ("RESOURCE_EXHAUSTED", "a0")
            assert "raise spill_memory or spill_disk" in refused.message
            assert "decided 600 keep" in controller.log_lines()
            assert app.agent.spills.held == [(2500, 2500 * KIB)]
            await restored(controller, 2500)
            assert "restored 2500 same" in controller.log_lines()

    run(scenario())


def test_a_killed_executor_loses_nothing_of_the_store_and_the_next_gets_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path, spill_memory=1000 * KIB, spill_disk=1 << 30) as (controller, app):
            await controller.enter(1)
            await spilled(controller, 700)
            await spilled(controller, 800)
            os.kill(executor_pid(controller), signal.SIGKILL)
            await controller.event("executor_died")
            assert (await restored(controller, 700)).failure.reason == "UNAVAILABLE"
            assert (await spilled(controller, 5)).failure.reason == "UNAVAILABLE"
            assert app.agent.spills.held == [(700, 700 * KIB), (800, 800 * KIB)]
            await controller.enter(2)
            for buffer in (700, 800):
                assert not (await restored(controller, buffer)).HasField("failure")
                assert f"restored {buffer} same" in controller.log_lines()
            assert files(tmp_path) == []

    run(scenario())


def test_a_broken_file_is_told_and_gone_and_the_rest_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path, spill_memory=0, spill_disk=1 << 30) as (controller, app):
            await controller.enter()
            await spilled(controller, 3000)
            await spilled(controller, 10)
            file = max(files(tmp_path), key=lambda path: path.stat().st_size)
            with file.open("r+b") as opened:
                opened.seek(2 * PIECE_BYTES)
                opened.write(b"\xff")
            failure = (await restored(controller, 3000)).failure
            assert (failure.reason, failure.host) == ("BUFFER_LOST", "a0")
            assert f"{file} does not hold at byte " in failure.message
            assert app.agent.spills.held == [(10, 10 * KIB)]
            assert (await restored(controller, 3000)).failure.reason == "BUFFER_LOST"
            assert not (await restored(controller, 10)).HasField("failure")

    run(scenario())


def test_a_disk_that_refuses_ends_in_a_sentence_and_the_buffers_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: FileBlock, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    async def scenario() -> None:
        async with joined(tmp_path, spill_memory=100 * KIB, spill_disk=1 << 30) as (controller, app):
            await controller.enter()
            await spilled(controller, 80)
            monkeypatch.setattr(FileBlock, "write", full)
            for buffer in (60, 200):
                failure = (await spilled(controller, buffer)).failure
                assert failure.reason == "RESOURCE_EXHAUSTED"
                assert "No space left on device" in failure.message
            assert app.agent.spills.held == [(80, 80 * KIB)]
            await memory(controller, (80 * KIB, 0))
            assert files(tmp_path) == []
            assert not (await restored(controller, 80)).HasField("failure")

    run(scenario())


def test_what_the_executor_refuses_comes_through_and_what_is_dropped_goes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            failure = (await spilled(controller, 404)).failure
            assert (failure.reason, failure.host) == ("DELETED", "a0")
            await spilled(controller, 20)
            await memory(controller, (20 * KIB, 0))
            await controller.send(drop_of(20, 21), wait(1))
            await controller.event("became_ready")
            assert app.agent.spills.held == []
            assert (await restored(controller, 20)).failure.reason == "BUFFER_LOST"
            await memory(controller, (0, 0))

    run(scenario())


def test_only_the_daemon_decides_what_becomes_of_an_offer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, _):
            await controller.enter()
            forged = spilling_pb2.SpillDecided(buffer_id=5, decision=spilling_pb2.SPILL_DECISION_FORGET)
            await controller.send(Command(spill_decided=forged), wait(1))
            await controller.event("became_ready")
            assert not [line for line in controller.log_lines() if line.startswith("decided")]

    run(scenario())


def test_with_the_link_the_store_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path, spill_memory=0, spill_disk=1 << 30) as (controller, app):
            await controller.enter()
            await spilled(controller, 20)
            assert len(files(tmp_path)) == 1
            controller.drop()
            await until(lambda: len(controller.hellos) == 2, "the worker to join again")
            assert app.agent.spills.held == []
            assert files(tmp_path) == []

    run(scenario())


def test_a_folder_that_a_killed_worker_left_goes_and_one_in_use_stays(tmp_path: Path) -> None:
    parent = tmp_path / "spill"
    left, others = parent / "a0-99999999", parent / "a0-1-99999999"
    for folder in (left, others):
        folder.mkdir(parents=True)
        (folder / "1").write_bytes(b"x")
    used = SpillFolder(parent, "a0")
    used.path = parent / "a0-88888888"
    block = used.file(1, 10)
    block.write(b"0123456789")

    async def scenario() -> None:
        async with joined(tmp_path):
            assert not left.exists()
            assert others.exists(), "another host's"
            assert b"".join(block.pieces()) == b"0123456789"
            assert len(list(used.path.iterdir())) == 1

    run(scenario())
    used.remove()
    assert not used.path.exists()


def test_blocks_give_back_what_they_took_and_take_no_more_than_was_announced(tmp_path: Path) -> None:
    data = os.urandom(3 * PIECE_BYTES + 17)
    for block in (MemoryBlock(len(data)), FileBlock(tmp_path / "1", len(data))):
        for start in range(0, len(data), PIECE_BYTES):
            block.write(data[start : start + PIECE_BYTES])
        assert b"".join(block.pieces()) == data
        with pytest.raises(ValueError, match="more than the"):
            block.write(b"x")
    (tmp_path / "1").write_bytes(data[:-1])
    with pytest.raises(Broken, match=f"at byte {3 * PIECE_BYTES}"):
        list(block.pieces())


def test_a_disk_that_hangs_delays_no_longer_than_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = asyncio.Event()

    async def hangs(*_: Any) -> None:
        await released.wait()

    async def scenario() -> None:
        async with joined(tmp_path, spill_memory=0, spill_disk=1 << 30) as (controller, _):
            await controller.enter()
            with monkeypatch.context() as patched:
                patched.setattr("pathways_worker.shell.spill_agent.DISK_TIMEOUT_S", 0.2)
                patched.setattr("pathways_worker.shell.spill_agent.asyncio.to_thread", hangs)
                assert "no answer within 0.2 s" in (await spilled(controller, 7)).failure.message
            assert not (await spilled(controller, 7)).HasField("failure")

    run(scenario())
