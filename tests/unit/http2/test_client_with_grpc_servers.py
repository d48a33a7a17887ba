"""The framed client against gRPC's own server: streams, large messages, statuses, and connections that break or never were."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio
import pytest
import uvloop
from pathways_common.http2.client import ClientCall, FramedChannel

TIMEOUT_S = 40.0
LARGE = 30 << 20
OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)]


def echo(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    for key, value in context.invocation_metadata():
        if key in ("a-key", "b-bin"):
            yield key.encode() + b"=" + (value if isinstance(value, bytes) else value.encode())
    for request in requests:
        if request == b"abort":
            context.abort(grpc.StatusCode.DATA_LOSS, "é is lost,\nall of it")
        yield request


class Serving:
    """A server of gRPC's in this process; `left` is set when a call ends."""

    def __init__(self) -> None:
        self.left = threading.Event()
        self._pool = ThreadPoolExecutor(4)
        self.server = grpc.server(self._pool, options=OPTIONS)
        methods = {"Echo": grpc.stream_stream_rpc_method_handler(echo), "Stay": grpc.stream_stream_rpc_method_handler(self.stay)}
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Test", methods),))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def stay(self, _requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.add_callback(self.left.set)
        yield b"here"
        self.left.wait(TIMEOUT_S)

    def close(self) -> None:
        self.left.set()
        self.server.stop(0).wait(TIMEOUT_S)
        self._pool.shutdown()


@pytest.fixture
def serving() -> Iterator[Serving]:
    server = Serving()
    yield server
    server.close()


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(work(), TIMEOUT_S)

    return uvloop.run(bounded())


async def everything(call: ClientCall) -> list[bytes]:
    got = []
    while (message := await call.read()) is not grpc.aio.EOF:
        got.append(message)
    return got


@pytest.mark.parametrize("sizes", [list(range(0, 4000, 11)), [LARGE, 0, 5]], ids=["small", "large"])
def test_a_stream_brings_everything_back_in_order(serving: Serving, sizes: list[int]) -> None:
    words = [random.Random(size).randbytes(size % (1 << 20)) * max(1, size >> 20) for size in sizes]

    async def scenario() -> None:
        call = FramedChannel(serving.address).stream_stream("/t.Test/Echo")(metadata=(("a-key", "v w"), ("b-bin", b"\x00\xff")))
        for word in words:
            await call.write(word)
        await call.done_writing()
        assert await everything(call) == [b"a-key=v w", b"b-bin=\x00\xff", *words]
        assert (await call.code(), await call.details()) == (grpc.StatusCode.OK, "")
        assert call.done()
        with pytest.raises(asyncio.InvalidStateError):
            await call.write(b"late")

    run(scenario)


def test_a_status_comes_behind_the_messages_before_it(serving: Serving) -> None:
    async def scenario() -> None:
        call = FramedChannel(serving.address).stream_stream("/t.Test/Echo")()
        await call.write(b"one")
        await call.write(b"abort")
        assert await everything(call) == [b"one"]
        assert (await call.code(), await call.details()) == (grpc.StatusCode.DATA_LOSS, "é is lost,\nall of it")

    run(scenario)


def test_a_method_that_is_not_there_is_unimplemented(serving: Serving) -> None:
    async def scenario() -> None:
        call = FramedChannel(serving.address).stream_stream("/t.Test/Nothing")()
        assert await everything(call) == []
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED

    run(scenario)


def test_nobody_listening_and_something_else_listening_are_unavailable() -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def scenario() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            call = FramedChannel(f"127.0.0.1:{taken.getsockname()[1]}").stream_stream("/t.Test/Echo")()
            await call.write(b"x")
            assert await call.read() is grpc.aio.EOF
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
            assert "refused" in await call.details()
        other = await asyncio.start_server(answer, "127.0.0.1", 0)
        call = FramedChannel(f"127.0.0.1:{other.sockets[0].getsockname()[1]}").stream_stream("/t.Test/Echo")()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.UNAVAILABLE
        other.close()

    run(scenario)


def test_cancelling_reaches_the_server_and_ends_the_call_here(serving: Serving) -> None:
    async def scenario() -> None:
        channel = FramedChannel(serving.address)
        call = channel.stream_stream("/t.Test/Stay")()
        assert await call.read() == b"here"
        call.cancel()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.CANCELLED
        assert await asyncio.to_thread(serving.left.wait, TIMEOUT_S)

    run(scenario)


def test_a_server_that_goes_ends_the_call(serving: Serving) -> None:
    async def scenario() -> None:
        call = FramedChannel(serving.address).stream_stream("/t.Test/Stay")()
        assert await call.read() == b"here"
        serving.server.stop(0)
        assert await call.read() is grpc.aio.EOF
        assert await call.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)

    run(scenario)


def test_a_closed_channel_ends_its_calls(serving: Serving) -> None:
    async def scenario() -> None:
        channel = FramedChannel(serving.address)
        call = channel.stream_stream("/t.Test/Stay")()
        assert await call.read() == b"here"
        await channel.close()
        assert await call.code() is grpc.StatusCode.CANCELLED

    run(scenario)
