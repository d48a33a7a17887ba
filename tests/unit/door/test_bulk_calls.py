"""Bulk reads in the door: where shards go, who brings their bytes, and what is asked again. Places are compared with NumPy's."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
from typing import Any, cast

import grpc
import grpc.aio
import numpy as np
import pytest
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.process.segments import connect, make_segment
from pathways_common.rpc.convert import failure_to_proto
from pathways_common.rpc.data_calls import Spent
from pathways_common.rpc.datagrams import Datagrams, Listener
from pathways_door.bulk_calls import BulkCalls
from pathways_door.bulk_reads import Shard, layout, place_of, read_shard
from pathways_door.handles import Form
from pathways_door.near import Memory, NearWorkers
from pathways_door.pending import Pending
from pathways_door.plugin_texts import FetchText, PutText, read_text
from pathways_door.sharding import Placement
from pathways_door.tickets import ReadTicket
from pathways_proto.ifrt import values_pb2
from pathways_proto.v1 import data_pb2, door_pb2, sessions_pb2, types_pb2

F32 = 11
LOST = Failure(Reason.BUFFER_LOST, "the executor of host a0 that held it is gone", host="a0")


def text_of(text: str) -> Any:
    return read_text(values_pb2.Serialized(type_name="xla::ifrt::PluginProgram", data=text.encode()), 4)


def test_what_names_arrays_of_a_call_is_read_and_what_makes_no_sense_is_refused() -> None:
    assert text_of("pathways-fetch 7 4") == FetchText(7, 4)
    spec = types_pb2.ArraySpec(dtype=F32, shape=[8], shard_shape=[8], devices=[3])

    def put(*specs: types_pb2.ArraySpec) -> str:
        return "pathways-put 9 " + base64.b64encode(door_pb2.PluginPut(specs=specs).SerializeToString()).decode()

    assert text_of(put(spec)) == PutText(9, (spec,))
    beyond = types_pb2.ArraySpec(dtype=F32, shape=[8], shard_shape=[8], devices=[4])
    for text in ("pathways-fetch 7 5", "pathways-fetch 0 1", "pathways-put 9 AA", "pathways-put 9 !", put(beyond), put()):
        with pytest.raises(PathwaysError):
            text_of(text)


def form(shape: tuple[int, ...], shard_shape: tuple[int, ...]) -> Form:
    return Form(F32, shape, shard_shape, Placement((), b"", ""))


def test_a_shard_that_lies_in_one_piece_goes_to_its_place_and_no_other() -> None:
    shape = (4, 2, 6)
    whole = np.zeros(shape, np.float32)
    kinds = set()
    for cuts in itertools.product((1, 2, 4), (1, 2), (1, 3)):
        shard = tuple(size // count for size, count in zip(shape, cuts, strict=True))
        for tile in itertools.product(*map(range, cuts)):
            cut = tuple((at * size, (at + 1) * size) for at, size in zip(tile, shard, strict=True))
            part = whole[tuple(slice(*pair) for pair in cut)]
            place = part.ctypes.data - whole.ctypes.data if part.flags.c_contiguous else None
            assert place_of(cut, form(shape, shard)) == place, (cuts, tile)
            kinds.add(place is None)
    assert kinds == {True, False}
    assert place_of((), form((), ())) == 0
    assert place_of(((3, 4),), form((4,), (3,))) is None, "the rest of it is padding"


def slices(shard: tuple[int, ...], *starts: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    return [tuple((first, first + size) for first, size in zip(start, shard, strict=True)) for start in starts]


def test_shards_without_a_place_of_their_own_lie_behind_each_other_and_the_client_is_told() -> None:
    assert layout(form((4, 2), (2, 2)), slices((2, 2), (0, 0), (2, 0)), 32) == ([0, 16], [])
    offsets, told = layout(form((4, 2), (4, 1)), slices((4, 1), (0, 1), (0, 0)), 32)
    assert offsets == [0, 16]
    assert [(list(shard.start), list(shard.shape), shard.offset) for shard in told] == [([0, 1], [4, 1], 0), ([0, 0], [4, 1], 16)]
    with pytest.raises(PathwaysError, match="take 32 bytes; room was brought for 31"):
        layout(form((4, 2), (4, 1)), slices((4, 1), (0, 0), (0, 1)), 31)


class FakeBulk:
    """A worker whose streams give `data`, and whose socket is `name`."""

    def __init__(self, name: str | Exception, data: bytes = b"") -> None:
        self.name, self.data = name, data
        self.located = 0

    async def locate(self, _address: str, _timeout_s: float) -> str:
        self.located += 1
        if isinstance(self.name, Exception):
            raise self.name
        return self.name

    async def pull(self, _source: Any, size_bytes: int) -> bytes:
        assert size_bytes == len(self.data)
        return self.data


def rpc_error(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "no")


def read_into(bulk: FakeBulk, size: int, times: int = 1) -> bytes:
    async def scenario() -> None:
        near = NearWorkers(cast("Any", bulk))
        for _ in range(times):
            await near.read_into(sessions_pb2.DataTicket(address="x:1", host="a0", ticket="t"), size, segment, 3)

    segment = make_segment(4096)
    try:
        asyncio.run(scenario())
        return os.pread(segment, size, 3)
    finally:
        os.close(segment)


@pytest.mark.parametrize("name", ["", rpc_error(grpc.StatusCode.UNIMPLEMENTED)])
def test_from_a_worker_that_has_no_socket_bytes_come_as_a_stream_and_it_is_asked_once(name: Any) -> None:
    bulk = FakeBulk(name, b"from afar")
    assert read_into(bulk, 9, times=3) == b"from afar"
    assert bulk.located == 1


@pytest.mark.parametrize("name", ["pathways-nobody-listens-here", rpc_error(grpc.StatusCode.UNAVAILABLE)])
def test_a_worker_that_does_not_say_or_is_not_there_is_asked_again(name: Any) -> None:
    bulk = FakeBulk(name, b"from afar")
    assert read_into(bulk, 9, times=3) == b"from afar"
    assert bulk.located == 3


def test_a_near_worker_fills_the_segment_or_says_why_not_or_breaks() -> None:
    answers: list[data_pb2.NearAnswer | None] = [
        data_pb2.NearAnswer(answered=True), data_pb2.NearAnswer(failure=failure_to_proto(LOST)), None,
    ]  # fmt: skip
    tasks = set()

    async def serve(peer: Datagrams) -> None:
        received = await peer.receive()
        assert received is not None
        request = data_pb2.NearTransfer.FromString(received[0])
        os.pwrite(received[1][0], b"near"[: request.size_bytes], request.offset)
        os.close(received[1][0])
        answer = answers.pop(0)
        if answer is not None:
            await peer.send(answer.SerializeToString())
        peer.close()

    async def scenario() -> None:
        listener = Listener(lambda peer: tasks.add(asyncio.create_task(serve(peer))))
        near = NearWorkers(cast("Any", FakeBulk(listener.name)))
        source = sessions_pb2.DataTicket(address="x:1", host="a0", ticket="t")
        await near.read_into(source, 4, segment, 8)
        assert os.pread(segment, 4, 8) == b"near"
        with pytest.raises(PathwaysError) as failed:
            await near.read_into(source, 4, segment, 8)
        assert failed.value.failure == LOST
        with pytest.raises(PathwaysError, match="host a0 ended a transfer through shared memory without a word"):
            await near.read_into(source, 4, segment, 8)
        listener.close()

    segment = make_segment(4096)
    asyncio.run(scenario())
    os.close(segment)


class FakeNear:
    """Fails with these, one after the other, then fills."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def read_into(self, _source: Any, _size_bytes: int, _descriptor: int, _offset: int) -> None:
        if self.errors:
            raise self.errors.pop(0)


class FakeUpstream:
    """Answers every question with a ticket."""

    def __init__(self) -> None:
        self.pending = Pending()
        self.asked = 0

    def ask(self, _kind: str, _number: int, operation: sessions_pb2.ClientOperation, done: Any) -> None:
        assert operation.fetch.held
        self.asked += 1
        done(sessions_pb2.FetchTicket(), None)


class FakeContext:
    def __init__(self) -> None:
        self.upstream = FakeUpstream()


def shard_read(*errors: Exception) -> int:
    """How often the controller was asked again."""

    async def scenario() -> None:
        asked: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        asked.set_result((ReadTicket(context.upstream.pending, sessions_pb2.FetchTicket()), None))
        near = cast("Any", FakeNear(*errors))
        await read_shard(cast("Any", context), near, Shard((), 5, 0, 8, asked), Memory(-1, 8), 0)

    context = FakeContext()
    asyncio.run(scenario())
    return context.upstream.asked


def test_a_spent_ticket_and_a_loss_ask_again_a_few_times_and_nothing_else_does() -> None:
    assert shard_read() == 0
    assert shard_read(Spent(LOST), PathwaysError(LOST)) == 2
    with pytest.raises(PathwaysError, match="a0 that held it is gone"):
        shard_read(*[PathwaysError(LOST)] * 4)
    refused = PathwaysError(Failure(Reason.RESOURCE_EXHAUSTED, "too large"))
    with pytest.raises(PathwaysError, match="too large"):
        shard_read(refused)


def test_strangers_on_the_socket_leave_nothing_open_and_are_bounded() -> None:
    async def scenario() -> None:
        calls = BulkCalls("right", cast("Any", FakeNear()))
        name = calls.start()
        before = len(os.listdir("/proc/self/fd"))
        for words in (b"", b"\xff\xff", door_pb2.BulkCall(secret="wrong", number=3).SerializeToString()):
            for _ in range(20):
                end = connect(name)
                assert end is not None
                peer = Datagrams(end)
                await peer.send(words, [0, 1, 2])
                assert await peer.receive() is None
                peer.close()
        right = Datagrams(cast("Any", connect(name)))
        await right.send(door_pb2.BulkCall(secret="right", number=5).SerializeToString())
        assert await right.receive() is not None
        await right.send(b"\xff\xff", [0, 1, 2])
        assert await right.receive() is None
        right.close()
        assert len(os.listdir("/proc/self/fd")) <= before
        silent = [Datagrams(cast("Any", connect(name))) for _ in range(100)]
        async with asyncio.timeout(10):
            while calls._strangers < 64:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert calls._strangers == 64
        for peer in silent:
            peer.close()
        async with asyncio.timeout(10):
            while calls._strangers:
                await asyncio.sleep(0.01)
        calls.stop()

    asyncio.run(scenario())


def test_a_call_needs_the_secret_and_a_number_of_its_own() -> None:
    async def greeted(name: str, secret: str, number: int) -> tuple[Datagrams, bool]:
        end = connect(name)
        assert end is not None
        peer = Datagrams(end)
        await peer.send(door_pb2.BulkCall(secret=secret, number=number).SerializeToString())
        answer = await peer.receive()
        return peer, answer is not None and door_pb2.BulkAnswer.FromString(answer[0]).opened

    async def scenario() -> None:
        calls = BulkCalls("right", cast("Any", FakeNear()))
        name = calls.start()
        peer, opened = await greeted(name, "right", 7)
        assert opened
        for secret, number in (("wrong", 8), ("", 8), ("right", 0), ("right", 7)):
            other, opened = await greeted(name, secret, number)
            assert not opened, (secret, number)
            other.close()
        with pytest.raises(PathwaysError, match="bulk call 9 is unknown"):
            calls.read(cast("Any", None), 9, [])
        peer.close()
        async with asyncio.timeout(10):
            while 7 in calls._calls:
                await asyncio.sleep(0)
        calls.stop()
        assert connect(name) is None

    asyncio.run(scenario())
