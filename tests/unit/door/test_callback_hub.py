"""Host callbacks between a session stream that only records and a client over real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from pathways_door.callbacks import SECRET_KEY, CallbackHub
from pathways_proto.v1 import sessions_pb2


class Recorder:
    """Stands for the session stream."""

    def __init__(self) -> None:
        self.listeners: dict[str, Any] = {}
        self.results: list[sessions_pb2.CallbackResult] = []
        self.urgent: list[bool] = []
        self.told = asyncio.Event()

    def push(self, operation: sessions_pb2.ClientOperation, urgent: bool = False) -> None:
        self.results.append(operation.callback_result)
        self.urgent.append(urgent)
        self.told.set()

    async def next(self) -> sessions_pb2.CallbackResult:
        await asyncio.wait_for(self.told.wait(), 60)
        self.told.clear()
        return self.results[-1]


def _run(scenario: Callable[[Recorder, Any], Awaitable[None]]) -> None:
    async def main() -> None:
        hub = CallbackHub("sesame")
        stream = Recorder()
        hub.attach(stream)  # type: ignore[arg-type]
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((hub.handler(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            serve = channel.stream_stream(
                "/pathways.v1.Callbacks/Serve",
                request_serializer=sessions_pb2.CallbackResult.SerializeToString,
                response_deserializer=sessions_pb2.CallbackRequest.FromString,
            )
            await scenario(stream, serve)
        await server.stop(0)

    asyncio.run(main())


def test_request_goes_down_and_its_result_comes_up_urgently() -> None:
    async def scenario(stream: Recorder, serve: Any) -> None:
        call = serve(metadata=((SECRET_KEY, "sesame"),))
        await call.initial_metadata()
        stream.listeners["callback_request"](sessions_pb2.CallbackRequest(call_id=4, callback_id=9))
        request = await call.read()
        assert (request.call_id, request.callback_id) == (4, 9)
        await call.write(sessions_pb2.CallbackResult(call_id=4))
        result = await stream.next()
        assert (result.call_id, result.HasField("failure"), stream.urgent) == (4, False, [True])
        await call.done_writing()

    _run(scenario)


def test_request_without_a_client_fails_at_once() -> None:
    async def scenario(stream: Recorder, _serve: Any) -> None:
        stream.listeners["callback_request"](sessions_pb2.CallbackRequest(call_id=1))
        result = await stream.next()
        assert result.failure.reason == "UNSUPPORTED"

    _run(scenario)


def test_request_open_when_the_client_goes_fails() -> None:
    async def scenario(stream: Recorder, serve: Any) -> None:
        call = serve(metadata=((SECRET_KEY, "sesame"),))
        await call.initial_metadata()
        stream.listeners["callback_request"](sessions_pb2.CallbackRequest(call_id=2))
        await call.read()
        call.cancel()
        result = await stream.next()
        assert (result.call_id, result.failure.reason) == (2, "CANCELLED")

    _run(scenario)


def test_cancelled_request_is_not_answered() -> None:
    async def scenario(stream: Recorder, serve: Any) -> None:
        call = serve(metadata=((SECRET_KEY, "sesame"),))
        await call.initial_metadata()
        for number in (5, 6):
            stream.listeners["callback_request"](sessions_pb2.CallbackRequest(call_id=number))
        stream.listeners["callback_cancelled"](sessions_pb2.CallbackCancelled(call_id=5))
        for number in (5, 6):
            await call.write(sessions_pb2.CallbackResult(call_id=number))
        assert (await stream.next()).call_id == 6
        assert [result.call_id for result in stream.results] == [6]
        await call.done_writing()

    _run(scenario)


def test_client_without_the_secret_is_refused() -> None:
    async def scenario(_stream: Recorder, serve: Any) -> None:
        call = serve(metadata=((SECRET_KEY, "guess"),))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

    _run(scenario)
