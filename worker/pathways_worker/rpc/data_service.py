"""The Data service: a Push is read to its end whatever becomes of it, a Pull waits for bytes or fails with the array's failure.

A ticket is all that a caller needs; without one there is nothing to get. A peer that neither reads nor writes for a minute loses
its call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import grpc
import grpc.aio
from pathways_common.model.bounds import CHUNK_BYTES, FAILURE_METADATA_BYTES_MAX, WORDS_BYTES_MAX
from pathways_common.model.failure import Failure
from pathways_common.rpc.convert import failure_to_proto
from pathways_common.rpc.data_calls import FAILURE_KEY, HEARD
from pathways_proto.v1 import data_pb2

from pathways_worker.shell.counters import Counters
from pathways_worker.shell.transfer_agent import TransferAgent

SERVICE = "pathways.v1.Data"
# Between two chunks; TCP alone would hold the call and its bytes for hours.
STALL_S = 60.0
# A call that broke looks ended to who reads it; gRPC cancels it within this.
_BREAK_NEWS_S = 0.1
# Pushes at once; each may hold a chunk while its ticket is not known yet.
PUSHES_MAX = 1024
Result = TypeVar("Result")


class DataService:
    """Handlers of Push and Pull, and of Locate, which names the socket for this machine (`near`; empty: none)."""

    def __init__(self, agent: TransferAgent, counters: Counters, near: str = "") -> None:
        self._near = near
        self._agent = agent
        self._counters = counters
        self._slots = asyncio.Semaphore(PUSHES_MAX)

    def handler(self) -> grpc.GenericRpcHandler:
        """To be added to a server."""
        methods = {
            "Push": grpc.stream_unary_rpc_method_handler(
                self.push,
                request_deserializer=data_pb2.PushRequest.FromString,
                response_serializer=data_pb2.PushResponse.SerializeToString,
            ),
            "Pull": grpc.unary_stream_rpc_method_handler(
                self.pull,
                request_deserializer=data_pb2.PullRequest.FromString,
                response_serializer=data_pb2.PullResponse.SerializeToString,
            ),
            "Locate": grpc.unary_unary_rpc_method_handler(
                self.locate,
                request_deserializer=data_pb2.LocateRequest.FromString,
                response_serializer=data_pb2.LocateResponse.SerializeToString,
            ),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def push(self, _requests: Any, context: Any) -> data_pb2.PushResponse:
        """Takes the bytes of one upload."""
        await context.send_initial_metadata(HEARD)
        # Before its first chunk is read a push holds nothing here.
        async with self._slots:
            return await self._take(context)

    async def _take(self, context: Any) -> data_pb2.PushResponse:
        request = await _unless_stalled(context, context.read())
        if request is grpc.aio.EOF:
            return data_pb2.PushResponse()
        call = self._agent.begin_push(request.ticket)
        broke = True
        try:
            # Nothing more is read until the ticket is known: flow control holds the peer, not our memory.
            await call.decided.wait()
            while request is not grpc.aio.EOF:
                self._agent.take(call, request.data)
                request = await _unless_stalled(context, context.read())
            if call.received_bytes < call.size_bytes:
                await asyncio.sleep(_BREAK_NEWS_S)  # cancelled here if it was no end of its own
            broke = False
        finally:
            self._agent.end_call(call, broke)
        return data_pb2.PushResponse(received_bytes=call.received_bytes)

    async def pull(self, request: data_pb2.PullRequest, context: Any) -> None:
        """Sends the bytes of one shard once they are there."""
        await context.send_initial_metadata(HEARD)
        call = self._agent.begin_pull(request.ticket, request.again)
        broke = True
        try:
            await call.decided.wait()
            await self._agent.gather(call)
            if call.failure is None:
                await self._send(context, call.data)
            broke = False
        finally:
            self._agent.end_call(call, broke)
        if call.failure is not None:
            await _refuse(context, call.failure)

    async def locate(self, _request: data_pb2.LocateRequest, _context: Any) -> data_pb2.LocateResponse:
        """Says where shared memory is brought."""
        return data_pb2.LocateResponse(near=self._near)

    async def _send(self, context: Any, whole: bytes) -> None:
        data = memoryview(whole)
        for start in range(0, len(data), CHUNK_BYTES):
            response = data_pb2.PullResponse(data=bytes(data[start : start + CHUNK_BYTES]))
            await _unless_stalled(context, context.write(response))
            self._counters.bytes_sent += len(response.data)


async def _unless_stalled(context: Any, waiting: Awaitable[Result]) -> Result:
    try:
        # Not wait_for, which forgets that it was cancelled if the end of the call came in the same moment.
        async with asyncio.timeout(STALL_S):
            return await waiting
    except TimeoutError:
        sentence = f"the call was ended because its other end stalled for {STALL_S:g} s"
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, sentence)
        raise


async def _refuse(context: Any, failure: Failure) -> None:
    message = failure_to_proto(failure)
    # 12 KB in trailing metadata kill a call.
    room = FAILURE_METADATA_BYTES_MAX - (message.ByteSize() - len(message.message.encode()))
    message.message = message.message.encode()[: max(room, WORDS_BYTES_MAX)].decode(errors="ignore")
    if message.ByteSize() > FAILURE_METADATA_BYTES_MAX:
        message.metadata.clear()
    await context.abort(
        grpc.StatusCode.FAILED_PRECONDITION,
        message.message.encode()[:WORDS_BYTES_MAX].decode(errors="ignore"),
        trailing_metadata=((FAILURE_KEY, message.SerializeToString()),),
    )
