"""Pulls shards from other workers, as a client of their Data service. A pull that breaks is tried again within its deadline."""

from __future__ import annotations

from collections import Counter
from functools import partial

import grpc
import grpc.aio
from pathways_common.model.failure import Failure, Reason, fail
from pathways_common.rpc.channels import open_channel
from pathways_common.rpc.convert import failure_from_proto
from pathways_common.rpc.data_calls import FAILURE_KEY, ended, repeated
from pathways_proto.v1 import data_pb2, types_pb2

# Workers come and go with new ports; a channel costs a connection while it is used, and memory after that.
CHANNELS_MAX = 64


class DataClient:
    """One channel per worker, opened when first needed; of those not in use the oldest are closed."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._users: Counter[str] = Counter()

    async def pull(self, address: str, ticket: str, size_bytes: int, timeout_ns: int) -> list[bytes]:
        """The chunks of one shard; raises PathwaysError with the array's failure, or one that names the address."""
        self._users[address] += 1
        try:
            channel = await self._channel(address)
            what = f"the copy of {size_bytes} bytes from the worker at {address}"
            return await repeated(what, partial(self._pull, channel, address, ticket, size_bytes), timeout_ns)
        finally:
            self._users[address] -= 1

    async def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = open_channel(address)
            idle = [known for known in self._channels if not self._users[known]]
            for known in idle[: max(0, len(self._channels) - CHANNELS_MAX)]:
                del self._users[known]
                await self._channels.pop(known).close()
        return channel

    async def _pull(
        self, channel: grpc.aio.Channel, address: str, ticket: str, size_bytes: int, left_s: float, again: bool
    ) -> list[bytes]:
        call = channel.unary_stream(
            "/pathways.v1.Data/Pull",
            request_serializer=data_pb2.PullRequest.SerializeToString,
            response_deserializer=data_pb2.PullResponse.FromString,
        )(data_pb2.PullRequest(ticket=ticket, again=again), timeout=left_s)
        chunks: list[bytes] = []
        received_bytes = 0
        try:
            async for response in call:
                received_bytes += len(response.data)
                if received_bytes > size_bytes:
                    break
                chunks.append(response.data)
        except grpc.aio.AioRpcError as error:
            raise ended(error, _failure_of(error, address)) from None
        finally:
            call.cancel()
        if received_bytes != size_bytes:
            sentence = f"the worker at {address} sent {received_bytes} bytes of a shard of {size_bytes} bytes"
            raise fail(Reason.INTERNAL, sentence, address=address, received_bytes=received_bytes, size_bytes=size_bytes)
        return chunks

    async def close(self) -> None:
        """Closes the channels."""
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()


def _failure_of(error: grpc.aio.AioRpcError, address: str) -> Failure:
    for key, value in error.trailing_metadata() or ():
        if key == FAILURE_KEY:
            return failure_from_proto(types_pb2.Failure.FromString(value))
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        sentence = f"the worker at {address} did not send a shard before the deadline; copy the array again"
        return Failure(Reason.TIMED_OUT, sentence, metadata={"address": address}, retryable=True)
    lost = error.code() is grpc.StatusCode.UNAVAILABLE
    sentence = f"the worker at {address} gave no bytes of a shard: {error.details() or error.code().name}"
    return Failure(Reason.BUFFER_LOST if lost else Reason.INTERNAL, sentence, metadata={"address": address})
