"""Bulk bytes go straight between the door and the worker that holds the shard, in chunks, under a single-use ticket.

What breaks on the way is repeated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Protocol

import grpc
import grpc.aio
from pathways_common.model.bounds import BULK_TIMEOUT_NS, CHUNK_BYTES, READ_NS
from pathways_common.model.failure import Failure, Reason, fail
from pathways_common.rpc.channels import open_channel
from pathways_common.rpc.convert import failure_from_proto
from pathways_common.rpc.data_calls import FAILURE_KEY, ended, repeated
from pathways_proto.v1 import data_pb2, sessions_pb2, types_pb2

from pathways_door.hostbuffers import Data


class Calls(Protocol):
    """The bulk calls of the client, see bulk_calls.py. Both raise PathwaysError if there is no such call."""

    def read(self, context: Any, number: int, handles: Sequence[int]) -> None:
        """These arrays are read for it."""

    def put(self, context: Any, number: int, forms: Sequence[Any], handles: Sequence[int]) -> None:
        """These arrays are made of what it brings."""


class Bulk:
    """Pushes and pulls; one channel per worker, opened when first needed. `calls`: of the one client of a near door."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}
        self.calls: Calls | None = None

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = open_channel(address)
        return channel

    async def locate(self, address: str, timeout_s: float) -> str:
        """The socket of a worker for processes of its machine, or empty; raises AioRpcError if it does not say."""
        locate = self._channel(address).unary_unary(
            "/pathways.v1.Data/Locate",
            request_serializer=data_pb2.LocateRequest.SerializeToString,
            response_deserializer=data_pb2.LocateResponse.FromString,
        )
        return str((await locate(data_pb2.LocateRequest(), timeout=timeout_s)).near)

    async def push(self, target: sessions_pb2.DataTicket, data: Data) -> None:
        """Sends all bytes; raises PathwaysError naming the host if the worker does not take them."""
        push = self._channel(target.address).stream_unary(
            "/pathways.v1.Data/Push",
            request_serializer=data_pb2.PushRequest.SerializeToString,
            response_deserializer=data_pb2.PushResponse.FromString,
        )

        async def once(left_s: float, _again: bool) -> None:
            try:
                await push(_chunks(target.ticket, data), timeout=left_s)
            except grpc.aio.AioRpcError as error:
                raise ended(error, _failure_of(error, target.host, "took")) from None

        await repeated(f"the upload of {len(data)} bytes to host {target.host}", once, BULK_TIMEOUT_NS, target.host)

    async def pull(self, source: sessions_pb2.DataTicket, size_bytes: int) -> Data:
        """The bytes of one shard once it is computed; raises PathwaysError with the array's failure or naming the host."""
        what = f"the read of {size_bytes} bytes from host {source.host}"
        return await repeated(what, partial(self._pull, source, size_bytes), READ_NS, source.host)

    async def _pull(self, source: sessions_pb2.DataTicket, size_bytes: int, left_s: float, again: bool) -> Data:
        pull = self._channel(source.address).unary_stream(
            "/pathways.v1.Data/Pull",
            request_serializer=data_pb2.PullRequest.SerializeToString,
            response_deserializer=data_pb2.PullResponse.FromString,
        )
        # It grows with what comes: how much there is to come, a client may have made up.
        out = bytearray()
        try:
            async for chunk in pull(data_pb2.PullRequest(ticket=source.ticket, again=again), timeout=left_s):
                data = chunk.data
                if len(out) + len(data) > size_bytes:
                    raise fail(
                        Reason.INTERNAL,
                        f"host {source.host} sent more than the {size_bytes} bytes of the shard",
                        host=source.host,
                    )
                out += data
        except grpc.aio.AioRpcError as error:
            raise ended(error, _failure_of(error, source.host, "gave")) from None
        if len(out) != size_bytes:
            sentence = f"host {source.host} sent {len(out)} of the {size_bytes} bytes of the shard"
            raise fail(Reason.INTERNAL, sentence, host=source.host)
        return out

    async def close(self) -> None:
        """Closes the channels."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()


async def _chunks(ticket: str, data: Data) -> AsyncIterator[data_pb2.PushRequest]:
    view = memoryview(data)
    yield data_pb2.PushRequest(ticket=ticket, data=bytes(view[:CHUNK_BYTES]))
    for start in range(CHUNK_BYTES, len(view), CHUNK_BYTES):
        yield data_pb2.PushRequest(data=bytes(view[start : start + CHUNK_BYTES]))


def _failure_of(error: grpc.aio.AioRpcError, host: str, verb: str) -> Failure:
    for key, value in error.trailing_metadata() or ():
        if key == FAILURE_KEY:
            return failure_from_proto(types_pb2.Failure.FromString(value))
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        sentence = f"host {host} {verb} no bytes of a shard before the deadline; try again"
        return Failure(Reason.TIMED_OUT, sentence, host=host, retryable=True)
    reason = Reason.BUFFER_LOST if error.code() is grpc.StatusCode.UNAVAILABLE else Reason.INTERNAL
    return Failure(reason, f"host {host} {verb} no bytes of a shard: {error.details() or error.code().name}", host=host)
