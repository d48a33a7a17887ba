"""Fast moves in the door that end otherwise than hoped: everybody is told, and nothing stays open."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.process import segments
from pathways_common.process.segments import connect, make_segment
from pathways_common.rpc.data_calls import Broken
from pathways_common.rpc.datagrams import Datagrams, Listener, receive_unless
from pathways_door import near
from pathways_door.bulk_calls import BulkCalls
from pathways_door.near import Memory, NearWorkers
from pathways_proto.v1 import data_pb2, door_pb2, sessions_pb2

TICKET = sessions_pb2.DataTicket(address="x:1", host="a0", ticket="t")
LOST = Failure(Reason.BUFFER_LOST, "host a0 took no bytes of a shard", host="a0")


@pytest.fixture
def segment() -> Iterator[int]:
    descriptor = make_segment(4096)
    yield descriptor
    os.close(descriptor)


class FakeBulk:
    """A worker whose socket is `name`; pushes to it break while their bytes are still looked at."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.kept: memoryview | None = None

    async def locate(self, _address: str, _timeout_s: float) -> str:
        return self.name

    async def push(self, _target: Any, data: memoryview) -> None:
        self.kept = memoryview(data)
        raise Broken(LOST)


class FakeArray:
    """Cannot be carried out, by a defect."""

    async def carry_out(self, _near: NearWorkers, _memory: Memory) -> list[door_pb2.BulkShard]:
        raise ValueError("a defect")

    def close(self) -> None:
        """Nothing to close."""


async def greeted() -> tuple[BulkCalls, Datagrams]:
    """The door's calls, and the client's end of one with the number 7."""
    calls = BulkCalls("secret", cast("Any", None))
    end = connect(calls.start())
    assert end is not None
    peer = Datagrams(end)
    await peer.send(door_pb2.BulkCall(secret="secret", number=7).SerializeToString())
    await peer.receive()
    return calls, peer


def test_whatever_fails_in_the_door_the_client_is_told(segment: int) -> None:
    async def scenario() -> None:
        calls, peer = await greeted()
        calls._calls[7].arrays.append(FakeArray())
        await peer.send(door_pb2.BulkSegment(position=0, size_bytes=4096).SerializeToString(), [segment])
        async with asyncio.timeout(20):
            received = await peer.receive()
        assert received is not None
        assert "a defect" in door_pb2.BulkAnswer.FromString(received[0]).failure.message
        peer.close()
        calls.stop()

    asyncio.run(scenario())


def test_a_client_that_leaves_as_its_segments_come_leaves_nothing_open(segment: int) -> None:
    async def scenario() -> None:
        calls, peer = await greeted()
        before = len(os.listdir("/proc/self/fd"))
        # All of it in one turn of the event loop: the tasks of the arrays have not begun when they are cancelled.
        for position in range(3):
            await peer.send(door_pb2.BulkSegment(position=position, size_bytes=4096).SerializeToString(), [segment])
        peer.close()
        async with asyncio.timeout(20):
            while calls._calls or calls._tasks:
                await asyncio.sleep(0)
        calls.stop()
        assert len(os.listdir("/proc/self/fd")) <= before - 3  # the two ends and the listener

    asyncio.run(scenario())


def test_who_is_cancelled_as_a_datagram_comes_closes_what_it_brought(segment: int) -> None:
    async def scenario() -> None:
        ours, theirs = map(Datagrams, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        before = len(os.listdir("/proc/self/fd"))
        waiting = asyncio.create_task(receive_unless(ours, asyncio.Event()))
        await asyncio.sleep(0)
        await theirs.send(b"x", [segment])
        waiting.cancel()
        await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(os.listdir("/proc/self/fd")) == before
        ours.close()
        theirs.close()

    asyncio.run(scenario())


def test_a_stream_that_breaks_off_says_so_whoever_still_looks_at_its_bytes(segment: int) -> None:
    async def scenario() -> None:
        bulk = FakeBulk()
        memory = Memory(segment, 4096)
        memory.fill(4096)
        with pytest.raises(Broken, match="took no bytes"):
            await NearWorkers(cast("Any", bulk)).write_from(TICKET, 100, memory, 8)
        assert bulk.kept is not None
        assert bytes(bulk.kept) == bytes(100)

    asyncio.run(scenario())


def test_no_more_transfers_than_the_bound_are_open_at_once(segment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "_READS_MAX", 2)
    counts = [0]
    tasks = set()

    async def serve(peer: Datagrams) -> None:
        counts.append(counts[-1] + 1)
        received = await peer.receive()
        assert received is not None
        os.close(received[1][0])
        for _ in range(20):
            await asyncio.sleep(0)
        counts.append(counts[-1] - 1)
        await peer.send(data_pb2.NearAnswer(answered=True).SerializeToString())
        peer.close()

    async def scenario() -> None:
        listener = Listener(lambda peer: tasks.add(asyncio.create_task(serve(peer))))
        workers = NearWorkers(cast("Any", FakeBulk(listener.name)))
        await asyncio.gather(*[workers.read_into(TICKET, 4, segment, 0) for _ in range(8)])
        listener.close()

    asyncio.run(scenario())
    assert max(counts) == 2
    assert len(counts) == 17


def test_a_socket_of_another_user_and_one_for_which_there_is_no_room_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        listener = Listener(lambda peer: peer.close())
        end = connect(listener.name)
        assert end is not None
        assert segments._user_of(end) == os.geteuid()
        end.close()
        monkeypatch.setattr(segments, "_user_of", lambda _end: os.geteuid() + 1)
        assert connect(listener.name) is None
        monkeypatch.undo()

        def refuse(*_: Any) -> None:
            raise OSError(24, "Too many open files")

        monkeypatch.setattr(segments.socket, "socket", refuse)
        assert connect(listener.name) is None
        monkeypatch.undo()
        listener.close()

    asyncio.run(scenario())


def test_bytes_do_not_go_where_a_closed_descriptor_pointed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        writing, closed, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
        write_at = segments.write_at

        def slow(descriptor: int, data: memoryview, offset: int) -> None:
            loop.call_soon_threadsafe(writing.set)
            asyncio.run_coroutine_threadsafe(closed.wait(), loop).result(20)
            write_at(descriptor, data, offset)
            written.append(os.pread(descriptor, 3, 5))
            loop.call_soon_threadsafe(done.set)

        monkeypatch.setattr(segments, "write_at", slow)
        descriptor = make_segment(4096)
        task = asyncio.create_task(segments.write_aside(descriptor, memoryview(b"abc"), 5))
        await writing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        os.close(descriptor)
        closed.set()
        async with asyncio.timeout(20):
            await done.wait()

    asyncio.run(scenario())
    assert written == [b"abc"]


def test_a_write_that_is_cancelled_before_it_begins_leaves_nothing_open(segment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_function: Any) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        before = os.listdir("/proc/self/fd")
        monkeypatch.setattr(segments.asyncio, "to_thread", never)
        task = asyncio.create_task(segments.write_aside(segment, memoryview(b"abc"), 5))
        await asyncio.sleep(0)
        assert len(os.listdir("/proc/self/fd")) == len(before) + 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(os.listdir("/proc/self/fd")) == len(before)

    asyncio.run(scenario())


def test_a_listener_without_room_pauses_and_then_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        tries = 0
        heard = asyncio.Event()
        paused: list[Any] = []

        def refuse(_socket: Any) -> None:
            nonlocal tries
            tries += 1
            heard.set()
            raise OSError(24, "Too many open files")

        listener = Listener(lambda peer: (peer.close(), heard.set()))
        monkeypatch.setattr(segments.socket.socket, "accept", refuse)
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_later", lambda _delay, resume: paused.append(resume))
        end = connect(listener.name)
        assert end is not None
        await heard.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert tries == 1
        monkeypatch.undo()
        heard.clear()
        paused[0]()
        async with asyncio.timeout(20):
            await heard.wait()
        end.close()
        listener.close()
        paused[0]()  # too late: nothing happens

    asyncio.run(scenario())


def test_a_worker_that_started_again_is_found_again(segment: int) -> None:
    async def serve(peer: Datagrams) -> None:
        received = await peer.receive()
        assert received is not None
        os.close(received[1][0])
        await peer.send(data_pb2.NearAnswer(answered=True).SerializeToString())
        peer.close()

    async def scenario() -> None:
        tasks = set()
        bulk = FakeBulk("pathways-nobody-listens-here")
        workers = NearWorkers(cast("Any", bulk))
        memory = Memory(segment, 4096)
        memory.fill(4096)
        with pytest.raises(PathwaysError):
            await workers.write_from(TICKET, 100, memory, 8)
        listener = Listener(lambda peer: tasks.add(asyncio.create_task(serve(peer))))
        bulk.name = listener.name
        await workers.read_into(TICKET, 100, segment, 8)
        listener.close()

    asyncio.run(scenario())
