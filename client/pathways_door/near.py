"""Shared memory of the client goes to workers on this machine, which fill it; from others the bytes are pulled and written here.

Whether a worker is near is found out once, by its own word for where it listens: only on this machine is there such a socket.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from collections.abc import Coroutine, Iterable
from typing import Any

import grpc
import grpc.aio
from pathways_common.model.bounds import BULK_TIMEOUT_NS, READ_NS
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.process.segments import connect, write_aside
from pathways_common.rpc.convert import failure_from_proto
from pathways_common.rpc.data_calls import Broken
from pathways_common.rpc.datagrams import Datagrams, close_all
from pathways_proto.v1 import data_pb2, sessions_pb2

from pathways_door.bulk import Bulk

# A worker that does not answer in time is asked again at the next transfer.
_LOCATE_S = 10.0
# At once, each with a socket of its own. Reads wait for what is computed, perhaps from what is put: neither waits for the other.
_READS_MAX = 256
_WRITES_MAX = 64


class Memory:
    """A segment of the client's, and how far it is filled. Its descriptor is ours, until `close`."""

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        self.descriptor = descriptor
        self.size_bytes = size_bytes
        self._filled_bytes = 0
        self._moved = asyncio.Event()

    def close(self) -> None:
        """Lets go of it; again does nothing."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def fill(self, filled_bytes: int) -> None:
        """So much of it is filled now."""
        self._filled_bytes = min(max(filled_bytes, self._filled_bytes), self.size_bytes)
        self._moved.set()

    async def filled_beyond(self, offset: int) -> int:
        """How far it is filled, once that is further than `offset`; the client's connection bounds the wait."""
        while self._filled_bytes <= offset:
            self._moved.clear()
            await self._moved.wait()
        return self._filled_bytes


class NearWorkers:
    """Of one door, beside its streams."""

    def __init__(self, bulk: Bulk) -> None:
        self._bulk = bulk
        self._names: dict[str, str] = {}
        self._reads = asyncio.Semaphore(_READS_MAX)
        self._writes = asyncio.Semaphore(_WRITES_MAX)

    async def read_into(self, source: sessions_pb2.DataTicket, size_bytes: int, descriptor: int, offset: int) -> None:
        """Brings the bytes of one shard into a segment; raises PathwaysError with the array's failure or naming the host."""
        request = data_pb2.NearTransfer(ticket=source.ticket, offset=offset, size_bytes=size_bytes)
        if await self._brought(source, request, descriptor):
            return
        data = await self._bulk.pull(source, size_bytes)
        try:
            await write_aside(descriptor, memoryview(data), offset)
        except OSError as error:
            raise fail(Reason.RESOURCE_EXHAUSTED, f"{size_bytes} bytes of a shard found no memory here: {error}") from error

    async def write_from(self, target: sessions_pb2.DataTicket, size_bytes: int, memory: Memory, offset: int) -> None:
        """Gives a worker the bytes of one shard as the segment fills; raises PathwaysError if it did not take them."""
        request = data_pb2.NearTransfer(ticket=target.ticket, offset=offset, size_bytes=size_bytes, push=True)
        if await self._brought(target, request, memory.descriptor, memory):
            return
        filled = offset
        while filled < offset + size_bytes:
            filled = await memory.filled_beyond(filled)
        # It ends with its last view: a push that broke off may hold one for a while.
        whole = mmap.mmap(memory.descriptor, memory.size_bytes, prot=mmap.PROT_READ)
        await self._bulk.push(target, memoryview(whole)[offset : offset + size_bytes])

    async def _brought(
        self, target: sessions_pb2.DataTicket, request: data_pb2.NearTransfer, descriptor: int, filling: Memory | None = None
    ) -> bool:
        """Whether the worker is near, and has done what it was asked; raises PathwaysError if it could not."""
        name = await self._name_at(target.address)
        if not name:
            return False
        async with self._reads if filling is None else self._writes:
            end = connect(name)
            if end is None:
                # Far away, or started again since: it is asked at the next transfer.
                self._names.pop(target.address, None)
                return False
            return await self._moved(Datagrams(end), target, request, descriptor, filling)

    async def _moved(
        self,
        peer: Datagrams,
        target: sessions_pb2.DataTicket,
        request: data_pb2.NearTransfer,
        descriptor: int,
        filling: Memory | None,
    ) -> bool:
        try:
            async with asyncio.timeout((READ_NS if filling is None else BULK_TIMEOUT_NS) / 1e9):
                await peer.send(request.SerializeToString(), [descriptor])
                if filling is not None:
                    await _pass_on(peer, request, filling)
                answer = await peer.receive()
        except (OSError, TimeoutError):
            answer = None
        finally:
            peer.close()
        if answer is None:
            sentence = f"host {target.host} ended a transfer through shared memory without a word"
            raise Broken(Failure(Reason.BUFFER_LOST, sentence, host=target.host))
        close_all(answer[1])
        message = data_pb2.NearAnswer.FromString(answer[0])
        if message.HasField("failure"):
            raise PathwaysError(failure_from_proto(message.failure))
        return True

    async def _name_at(self, address: str) -> str:
        name = self._names.get(address)
        if name is None:
            try:
                name = await self._bulk.locate(address, _LOCATE_S)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                    return ""
                name = ""
            self._names[address] = name
        return name


async def _pass_on(peer: Datagrams, request: data_pb2.NearTransfer, filling: Memory) -> None:
    """Tells a worker how far its shard is filled, until all of it is."""
    told = 0
    while told < request.size_bytes:
        filled = await filling.filled_beyond(request.offset + told)
        told = min(filled - request.offset, request.size_bytes)
        await peer.send(data_pb2.NearFilled(filled_bytes=told).SerializeToString())


async def all_of(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Carries out all of it; raises the first failure, when nothing of it goes on: its descriptor is closed behind this."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
