"""Transfers through shared memory, and held shards, in a real daemon: as with streams, and what nobody wants is let go."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pathways_common.model.failure import PathwaysError
from pathways_common.process.segments import connect, make_segment
from pathways_common.rpc.channels import open_channel
from pathways_common.rpc.datagrams import Datagrams
from pathways_proto.v1 import data_pb2, workers_pb2
from pathways_worker.app import App
from pathways_worker.rpc import near_service

from tests.unit.worker.fake_controller import FakeController, joined, run, until
from tests.unit.worker.test_worker_data import SECOND, bytes_of, expect, landed_bytes, pull

Command = workers_pb2.HostCommand
SIZE = len(b"fetch-9")


@pytest.fixture
def segment() -> Iterator[int]:
    descriptor = make_segment(1 << 20)
    yield descriptor
    os.close(descriptor)


def held(fetch_id: int, shard: int, timeout_ns: int = 20 * SECOND) -> Command:
    local = workers_pb2.LocalShard(id=shard)
    message = workers_pb2.FetchShard(fetch_id=fetch_id, shard=local, ticket=f"t-{fetch_id}", timeout_ns=timeout_ns, held=True)
    return Command(fetch_shard=message)


async def connected(app: App) -> Datagrams:
    channel = open_channel(app.data_address)
    locate = channel.unary_unary(
        "/pathways.v1.Data/Locate",
        request_serializer=data_pb2.LocateRequest.SerializeToString,
        response_deserializer=data_pb2.LocateResponse.FromString,
    )
    name = (await locate(data_pb2.LocateRequest(), timeout=20)).near
    await channel.close()
    end = connect(name)
    assert end is not None
    return Datagrams(end)


async def near(app: App, *descriptors: int, **request: object) -> data_pb2.NearAnswer:
    peer = await connected(app)
    try:
        await peer.send(data_pb2.NearTransfer(**request).SerializeToString(), descriptors)
        async with asyncio.timeout(20):
            answer = await peer.receive()
        assert answer is not None
        return data_pb2.NearAnswer.FromString(answer[0])
    finally:
        peer.close()


async def is_let_go(controller: FakeController, app: App, fetch_id: int) -> None:
    await until(lambda: f"let go {fetch_id}" in controller.log_lines(), "the executor to be told")
    assert app.agent.transfers.open_count == 0


def test_a_held_shard_goes_into_a_segment_at_its_place_and_is_let_go(tmp_path: Path, segment: int) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(held(9, 1))
            answer = await near(app, segment, ticket="t-9", offset=100, size_bytes=SIZE)
            assert not answer.HasField("failure"), answer
            assert os.pread(segment, SIZE + 2, 99) == b"\0fetch-9\0"
            await is_let_go(controller, app, 9)
            again = await near(app, segment, ticket="t-9", offset=0, size_bytes=SIZE)
            assert again.failure.reason == "INVALID_ARGUMENT"
            assert app.agent.transfers.held_bytes == 0

    run(scenario())


def test_a_held_shard_is_also_pulled_as_a_stream(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(held(9, 1))
            assert await pull(app, "t-9", SIZE) == b"fetch-9"
            await is_let_go(controller, app, 9)
            assert app.agent.transfers.held_bytes == 0

    run(scenario())


def test_a_near_pull_before_its_command_waits_and_one_of_a_failed_value_gets_the_failure(tmp_path: Path, segment: int) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            early = asyncio.create_task(near(app, segment, ticket="t-9", size_bytes=SIZE))
            await until(lambda: app.agent.transfers.open_count == 1, "the call to arrive")
            await controller.send(held(9, 1))
            assert not (await early).HasField("failure")
            await controller.send(held(10, 404))
            answer = await near(app, segment, ticket="t-10", size_bytes=SIZE)
            assert (answer.failure.reason, answer.failure.host) == ("DELETED", "a0")

    run(scenario())


def test_bytes_that_are_here_already_go_into_the_segment(tmp_path: Path, segment: int) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            command = held(9, 1)
            command.fetch_shard.held = False
            await controller.send(command)
            assert not (await near(app, segment, ticket="t-9", offset=8, size_bytes=SIZE)).HasField("failure")
            assert os.pread(segment, SIZE, 8) == b"fetch-9"

    run(scenario())


def test_what_nobody_comes_for_is_let_go_at_its_deadline_and_with_its_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(held(9, 1, timeout_ns=1))
            await is_let_go(controller, app, 9)
            await controller.send(held(10, (3 << 40) + 1))
            await until(lambda: app.agent.transfers.open_count == 1, "the fetch to be known")
            await controller.send(Command(cancel_transfer=workers_pb2.CancelTransfer(session_number=3)))
            await is_let_go(controller, app, 10)

    run(scenario())


def test_a_caller_that_leaves_does_not_use_up_the_ticket(tmp_path: Path, segment: int) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            peer = await connected(app)
            await peer.send(data_pb2.NearTransfer(ticket="t-9", size_bytes=SIZE).SerializeToString(), [segment])
            await until(lambda: app.agent.transfers.open_count == 1, "the call to arrive")
            peer.close()
            await until(lambda: app.agent.transfers.open_count == 0, "the call to be over")
            await controller.send(held(9, 1))
            assert not (await near(app, segment, ticket="t-9", size_bytes=SIZE)).HasField("failure")

    run(scenario())


def test_memory_that_can_shrink_is_refused_and_so_is_a_call_without_any(tmp_path: Path, segment: int) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(held(9, 1))
            unsealed = os.memfd_create("x")
            os.ftruncate(unsealed, 1 << 20)
            reading, writing = os.pipe()
            for descriptors in ([unsealed], [writing], [], [segment, segment]):
                answer = await near(app, *descriptors, ticket="t-9", size_bytes=SIZE)
                assert answer.failure.reason == "INVALID_ARGUMENT"
            answer = await near(app, segment, ticket="t-9", offset=1 << 20, size_bytes=1)
            assert "at least 1048577 bytes" in answer.failure.message
            assert not (await near(app, segment, ticket="t-9", size_bytes=SIZE)).HasField("failure"), "the ticket is still good"
            for descriptor in (unsealed, reading, writing):
                os.close(descriptor)

    run(scenario())


def test_an_executor_that_ends_fails_what_it_holds_with_that(tmp_path: Path, segment: int) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(held(9, 1))
            await until(lambda: app.agent.transfers.open_count == 1, "the fetch to be known")
            await controller.send(Command(free=workers_pb2.Free(ids=[13])))
            await controller.event("executor_died")
            answer = await near(app, segment, ticket="t-9", size_bytes=SIZE)
            assert answer.failure.reason == "BUFFER_LOST"
            with pytest.raises(PathwaysError, match="is gone"):
                await pull(app, "t-9", SIZE)

    run(scenario())


async def near_push(app: App, segment: int, size: int, filled: list[int]) -> data_pb2.NearAnswer | None:
    peer = await connected(app)
    try:
        request = data_pb2.NearTransfer(ticket="up-5", offset=64, size_bytes=size, push=True)
        await peer.send(request.SerializeToString(), [segment])
        for count in filled:
            await peer.send(data_pb2.NearFilled(filled_bytes=count).SerializeToString())
        if filled[-1:] != [size]:
            return None
        async with asyncio.timeout(20):
            answer = await peer.receive()
        assert answer is not None
        return data_pb2.NearAnswer.FromString(answer[0])
    finally:
        peer.close()


@pytest.mark.parametrize("filled", [[1], [100_000], [1, 2, 60_000, 100_000]])
def test_an_upload_in_a_segment_lands_in_the_executor_before_it_is_answered(
    tmp_path: Path, segment: int, filled: list[int]
) -> None:
    async def scenario() -> None:
        size = filled[-1]
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(expect(5, size))
            os.pwrite(segment, bytes_of(size), 64)
            answer = await near_push(app, segment, size, filled)
            assert answer is not None
            assert not answer.HasField("failure"), answer
            os.pwrite(segment, bytes(size), 64)
            assert (await controller.event("landed")).transfer_id == 5
            assert await landed_bytes(controller, 5, size) == bytes_of(size)
            assert app.agent.transfers.open_count == 0

    run(scenario())


def test_an_upload_of_another_size_in_a_segment_is_reported(tmp_path: Path, segment: int) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(expect(5, 100))
            await near_push(app, segment, 99, [50, 99])
            failed = await controller.event("transfer_failed")
            assert (failed.transfer_id, failed.failure.reason) == (5, "UNAVAILABLE")
            await until(lambda: "dropped 99 bytes" in controller.log_lines(), "the executor to forget it")

    run(scenario())


def test_an_upload_whose_sender_leaves_may_be_sent_again_from_its_beginning(tmp_path: Path, segment: int) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(expect(5, 100))
            os.pwrite(segment, bytes_of(100), 64)
            assert await near_push(app, segment, 100, [40]) is None
            await until(lambda: "dropped 40 bytes" in controller.log_lines(), "the executor to forget it")
            answer = await near_push(app, segment, 100, [100])
            assert answer is not None
            assert not answer.HasField("failure"), answer
            assert await landed_bytes(controller, 5, 100) == bytes_of(100)

    run(scenario())


def test_an_upload_that_goes_back_is_refused(tmp_path: Path, segment: int) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(expect(5, 100))
            answer = await near_push(app, segment, 100, [40, 40, 100])
            assert answer is not None
            assert answer.failure.message == "40 of 100 bytes cannot come next; put it again"

    run(scenario())


def test_a_caller_that_leaves_before_the_shard_is_computed_uses_up_the_ticket(tmp_path: Path, segment: int) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            transfers = app.agent.transfers
            transfers.fetch_expected(9, "t-9", 20 * SECOND)
            peer = await connected(app)
            await peer.send(data_pb2.NearTransfer(ticket="t-9", size_bytes=SIZE).SerializeToString(), [segment])
            await until(lambda: len(transfers._pulls) == 1, "the call to arrive")
            peer.close()
            await until(lambda: transfers.open_count == 0, "the shard to be let go")

    run(scenario())


def test_a_push_waits_for_its_caller_as_long_as_that_is_there(
    tmp_path: Path, segment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            transfers = app.agent.transfers
            peer = await connected(app)
            request = data_pb2.NearTransfer(ticket="up-5", offset=64, size_bytes=100, push=True)
            await peer.send(request.SerializeToString(), [segment])
            await until(lambda: transfers.open_count == 1, "the call to arrive")
            monkeypatch.setattr(near_service, "_REQUEST_S", 0.0)
            await controller.send(expect(5, 100))
            await until(lambda: [call.size_bytes for call in transfers._pushes.values()] == [100], "the push to be accepted")
            for _ in range(10):  # a limit of nothing would pass here
                await asyncio.sleep(0)
            os.pwrite(segment, bytes_of(100), 64)
            await peer.send(data_pb2.NearFilled(filled_bytes=100).SerializeToString())
            assert (await controller.event("landed")).transfer_id == 5
            assert await landed_bytes(controller, 5, 100) == bytes_of(100)
            peer.close()

    run(scenario())


def test_a_push_that_nobody_wants_any_more_is_answered_while_it_waits(tmp_path: Path, segment: int) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(expect(5, 100))
            peer = await connected(app)
            request = data_pb2.NearTransfer(ticket="up-5", offset=64, size_bytes=100, push=True)
            await peer.send(request.SerializeToString(), [segment])
            await until(lambda: [call.size_bytes for call in app.agent.transfers._pushes.values()] == [100], "the push")
            await controller.send(Command(cancel_transfer=workers_pb2.CancelTransfer(transfer_ids=[5])))
            async with asyncio.timeout(20):
                assert await peer.receive() is not None
            peer.close()

    run(scenario())


class _NoAgent:
    """Nothing is asked of it: no request here is one."""


@pytest.mark.parametrize("request_bytes", [b"", data_pb2.NearTransfer(ticket="nobody's").SerializeToString(), b"\xff\xff"])
def test_descriptors_that_nobody_asked_for_are_let_go_as_they_come(request_bytes: bytes, segment: int) -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        service = near_service.NearService(cast("Any", _NoAgent()), cast("Any", None))
        serving = asyncio.create_task(service._serve(Datagrams(theirs)))
        peer = Datagrams(ours)
        before = len(os.listdir("/proc/self/fd"))
        await peer.send(request_bytes, [segment, segment])
        for _ in range(50):
            try:
                await peer.send(b"more", [segment] * 4)
            except OSError:
                break
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        assert len(os.listdir("/proc/self/fd")) <= before + 4
        peer.close()
        await asyncio.wait_for(serving, 20)

    asyncio.run(scenario())
