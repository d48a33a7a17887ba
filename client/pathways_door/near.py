"""Shared memory of the client goes to workers on this machine, which fill it; from all others the bytes are pulled and written here.

Whether a worker is near is found out once, by its own word for where it listens: only on this machine is there such a socket.
"""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio
from pathways_common.model.bounds import BULK_TIMEOUT_NS
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.process.segments import connect, write_at
from pathways_common.rpc.convert import failure_from_proto
from pathways_common.rpc.data_calls import Broken
from pathways_common.rpc.datagrams import Datagrams
from pathways_proto.v1 import data_pb2, sessions_pb2

from pathways_door.bulk import Bulk

# A worker that does not answer in time is asked again at the next transfer.
_LOCATE_S = 10.0


class NearWorkers:
    """Of one door, beside its streams."""

    def __init__(self, bulk: Bulk) -> None:
        self._bulk = bulk
        self._names: dict[str, str] = {}

    async def read_into(self, source: sessions_pb2.DataTicket, size_bytes: int, descriptor: int, offset: int) -> None:
        """Brings the bytes of one shard into a segment; raises PathwaysError with the array's failure or naming the host."""
        request = data_pb2.NearTransfer(ticket=source.ticket, offset=offset, size_bytes=size_bytes)
        if await self._brought(source, request, descriptor):
            return
        data = await self._bulk.pull(source, size_bytes)
        try:
            await asyncio.to_thread(write_at, descriptor, memoryview(data), offset)
        except OSError as error:
            raise fail(Reason.RESOURCE_EXHAUSTED, f"{size_bytes} bytes of a shard found no memory here: {error}") from error

    async def _brought(self, target: sessions_pb2.DataTicket, request: data_pb2.NearTransfer, descriptor: int) -> bool:
        """Whether the worker is near, and has done what it was asked; raises PathwaysError if it could not."""
        name = await self._name_at(target.address)
        end = connect(name) if name else None
        if end is None:
            return False
        peer = Datagrams(end)
        try:
            async with asyncio.timeout(BULK_TIMEOUT_NS / 1e9):
                await peer.send(request.SerializeToString(), [descriptor])
                answer = await peer.receive()
        except (OSError, TimeoutError):
            answer = None
        finally:
            peer.close()
        if answer is None:
            sentence = f"host {target.host} ended a transfer through shared memory without a word"
            raise Broken(Failure(Reason.BUFFER_LOST, sentence, host=target.host))
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
