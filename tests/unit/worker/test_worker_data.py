"""Bulk bytes through a real daemon: pushes land in the executor, pulls come out of it, shards move from host to host."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from pathways_common.model.bounds import CHUNK_BYTES
from pathways_common.model.failure import PathwaysError, Reason
from pathways_common.rpc.channels import open_channel
from pathways_proto.v1 import data_pb2, workers_pb2
from pathways_worker.app import App
from pathways_worker.rpc.data_client import DataClient

from tests.unit.worker.fake_controller import FakeController, joined, run, until

Command = workers_pb2.HostCommand
SECOND = 10**9


def expect(transfer_id: int, size: int, timeout_ns: int = 20 * SECOND) -> Command:
    command = workers_pb2.ExpectUpload(
        transfer_id=transfer_id, ticket=f"up-{transfer_id}", size_bytes=size, timeout_ns=timeout_ns
    )
    return Command(expect_upload=command)


def fetch(fetch_id: int, shard: int, ticket: str = "", timeout_ns: int = 20 * SECOND) -> Command:
    local = workers_pb2.LocalShard(id=shard)
    return Command(fetch_shard=workers_pb2.FetchShard(fetch_id=fetch_id, shard=local, ticket=ticket, timeout_ns=timeout_ns))


def pull_shard(transfer_id: int, address: str, ticket: str, size: int, timeout_ns: int = 20 * SECOND) -> Command:
    command = workers_pb2.PullShard(
        transfer_id=transfer_id, address=address, ticket=ticket, size_bytes=size, timeout_ns=timeout_ns
    )
    return Command(pull_shard=command)


def bytes_of(size: int) -> bytes:
    """The same for the same size, and no two chunks of it alike."""
    block = hashlib.sha256(str(size).encode()).digest() * 1024
    return b"".join(bytes([number % 251]) + block for number in range(size // len(block) + 1))[:size]


async def push(app: App, ticket: str, data: bytes, pieces: int = CHUNK_BYTES) -> int:
    async def chunks() -> Iterator[data_pb2.PushRequest]:
        for start in range(0, max(len(data), 1), pieces):
            yield data_pb2.PushRequest(ticket=ticket, data=data[start : start + pieces])

    channel = open_channel(app.data_address)
    try:
        call = channel.stream_unary(
            "/pathways.v1.Data/Push",
            request_serializer=data_pb2.PushRequest.SerializeToString,
            response_deserializer=data_pb2.PushResponse.FromString,
        )
        return int((await call(chunks(), timeout=20)).received_bytes)
    finally:
        await channel.close()


async def pull(app: App, ticket: str, size: int, timeout_ns: int = 15 * SECOND) -> bytes:
    client = DataClient()
    try:
        return b"".join(await client.pull(app.data_address, ticket, size, timeout_ns))
    finally:
        await client.close()


async def landed_bytes(controller: FakeController, transfer_id: int, size: int) -> bytes:
    """What the executor got: read back inline."""
    count = len(controller.of("shard_fetched")) + 1
    await controller.send(fetch(900 + count, transfer_id))
    data = (await controller.event("shard_fetched", count)).data
    assert len(data) == size
    return bytes(data)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 3 * CHUNK_BYTES + 17])
def test_a_push_lands_in_the_executor(tmp_path: Path, size: int) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(expect(5, size))
            assert await push(app, "up-5", bytes_of(size)) == size
            assert (await controller.event("landed")).transfer_id == 5
            assert await landed_bytes(controller, 5, size) == bytes_of(size)
            assert app.agent.transfers.open_count == 0
            assert app.agent.transfers.held_bytes == 0

    run(scenario())


def test_a_push_before_its_command_waits_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            pushing = asyncio.create_task(push(app, "up-5", b"early"))
            await until(lambda: app.agent.transfers.open_count == 1, "the push to arrive")
            await controller.send(expect(5, 5))
            assert await pushing == 5
            await controller.event("landed")

    run(scenario())


def test_a_second_push_and_a_withdrawn_one_are_read_to_the_end_and_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(expect(5, 5), expect(6, 6))
            assert await push(app, "up-5", b"first") == 5
            await controller.event("landed")
            assert await push(app, "up-5", b"second") == 6
            await controller.send(Command(cancel_transfer=workers_pb2.CancelTransfer(transfer_ids=[6])))
            await until(lambda: app.agent.transfers.open_count == 0, "the withdrawal")
            size = 5 * CHUNK_BYTES
            assert await push(app, "up-6", bytes_of(size)) == size
            assert await landed_bytes(controller, 5, 5) == b"first"
            assert len(controller.of("landed")) == 1
            assert controller.of("transfer_failed") == []

    run(scenario())


@pytest.mark.parametrize(("data", "reason"), [(b"much too long", "INVALID_ARGUMENT"), (b"short", "UNAVAILABLE")])
def test_a_push_of_another_size_fails_the_transfer_and_not_the_call(tmp_path: Path, data: bytes, reason: str) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(expect(5, 8))
            assert await push(app, "up-5", data, pieces=3) == len(data)
            failed = await controller.event("transfer_failed")
            assert (failed.transfer_id, failed.failure.reason, failed.failure.host) == (5, reason, "a0")
            assert app.agent.transfers.held_bytes == 0

    run(scenario())


def test_an_upload_that_does_not_come_or_breaks_off_is_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(expect(5, 8, timeout_ns=SECOND // 10))
            assert (await controller.event("transfer_failed")).failure.reason == "TIMED_OUT"
            await controller.send(expect(6, 100, timeout_ns=3 * SECOND))  # what comes before it takes milliseconds
            channel = open_channel(app.data_address)
            call = channel.stream_unary(
                "/pathways.v1.Data/Push", request_serializer=data_pb2.PushRequest.SerializeToString, response_deserializer=None
            )(timeout=20)
            await call.write(data_pb2.PushRequest(ticket="up-6", data=b"half"))
            await until(lambda: app.agent.transfers.held_bytes == 4, "the first half")
            call.cancel()
            await until(lambda: app.agent.transfers.held_bytes == 0, "the first half to be let go")
            assert len(controller.of("transfer_failed")) == 1, "another push may come under the ticket"
            assert (await controller.event("transfer_failed", 2)).failure.reason == "TIMED_OUT"
            await channel.close()

    run(scenario())


def test_a_pull_waits_for_the_executor_and_works_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            pulling = asyncio.create_task(pull(app, "t", 7))
            await until(lambda: app.agent.transfers.open_count == 1, "the pull to arrive")
            await controller.send(fetch(8, 1, "t"))
            assert await pulling == b"fetch-8"
            with pytest.raises(PathwaysError) as caught:
                await pull(app, "t", 7)
            assert "every read needs a ticket of its own" in caught.value.failure.message
            assert app.agent.transfers.open_count == 0

    run(scenario())


def test_a_pull_of_a_failed_array_carries_its_failure_with_the_hosts_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(fetch(8, 404, "t"), fetch(9, 404))
            with pytest.raises(PathwaysError) as caught:
                await pull(app, "t", 7)
            failure = caught.value.failure
            assert (failure.reason, failure.message, failure.host) == (Reason.DELETED, "it was deleted", "a0")
            inline = (await controller.event("fetch_failed")).failure
            assert (inline.message, inline.host) == ("it was deleted", "a0")

    run(scenario())


def test_bytes_that_nobody_pulls_are_let_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            # Long enough for the executor to answer and for somebody to look at what is held meanwhile.
            await controller.send(fetch(8, 1, "t", timeout_ns=2 * SECOND))
            await until(lambda: app.agent.transfers.held_bytes == 7, "the bytes")
            await until(lambda: app.agent.transfers.held_bytes == 0, "the deadline")
            assert app.agent.transfers.open_count == 0

    run(scenario())


def test_a_pull_that_waits_hears_of_the_executors_death(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            # The executor is inside a callback and will never answer the fetch.
            load = Command(load=workers_pb2.Load(executable_id=1, callback_ids=[33]))
            await controller.send(load, fetch(8, 1, "t"), expect(5, 8))
            await controller.event("callback_call")
            pulling = asyncio.create_task(pull(app, "t", 7))
            await until(lambda: app.agent.transfers._pulls, "the pull to arrive")
            app.agent.pool.current.kill()
            with pytest.raises(PathwaysError) as caught:
                await pulling
            assert caught.value.failure.reason is Reason.BUFFER_LOST
            assert caught.value.failure.host == "a0"
            await controller.event("executor_died")
            assert app.agent.transfers.open_count == 0

    run(scenario())


def test_a_shard_is_pulled_from_another_worker_and_from_the_same(tmp_path: Path) -> None:
    size = 2 * CHUNK_BYTES + 5

    async def scenario() -> None:
        async with joined(tmp_path / "one") as (first, source), joined(tmp_path / "two") as (second, target):
            await first.enter()
            await second.enter()
            await first.send(expect(5, size))
            await push(source, "up-5", bytes_of(size))
            await first.event("landed")
            await second.send(pull_shard(6, source.data_address, "t", size))
            await first.send(fetch(8, 5, "t"))
            assert (await second.event("landed")).transfer_id == 6
            assert await landed_bytes(second, 6, size) == bytes_of(size)
            await second.send(fetch(9, 6, "u"), pull_shard(7, target.data_address, "u", size))
            assert (await second.event("landed", 2)).transfer_id == 7
            assert await landed_bytes(second, 7, size) == bytes_of(size)

    run(scenario())


def test_a_shard_that_cannot_be_pulled_is_reported_with_its_cause(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(fetch(8, 404, "t"), pull_shard(5, app.data_address, "t", 10))
            failed = await controller.event("transfer_failed")
            assert (failed.transfer_id, failed.failure.reason) == (5, "DELETED")
            await controller.send(pull_shard(6, "127.0.0.1:1", "t", 10))
            assert (await controller.event("transfer_failed", 2)).failure.reason == "BUFFER_LOST"
            await controller.send(fetch(9, 1, "w"), pull_shard(7, app.data_address, "w", 99))
            assert (await controller.event("transfer_failed", 3)).failure.reason == "INTERNAL"
            await controller.send(pull_shard(10, app.data_address, "never", 10, timeout_ns=SECOND // 5))
            assert (await controller.event("transfer_failed", 4)).failure.reason == "TIMED_OUT"
            await until(lambda: app.agent.transfers.open_count == 0, "everything to end")

    run(scenario())


def test_a_long_failure_still_fits_into_trailing_metadata() -> None:
    from pathways_common.model.failure import Failure
    from pathways_worker.rpc.data_service import _refuse

    sent = {}

    class Context:
        async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: tuple[tuple[str, bytes], ...]) -> None:
            sent.update(trailing_metadata, details=details)

    asyncio.run(_refuse(Context(), Failure(Reason.USER_ERROR, "ä" * 60000, metadata={"key": "v" * 5000})))
    assert len(sent["pathways-failure-bin"]) <= 4096
    assert len(sent["details"]) <= 1024
