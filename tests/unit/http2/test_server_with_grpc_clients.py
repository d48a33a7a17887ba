"""gRPC's own client against the HTTP/2 server: every kind of call, large messages, deadlines, cancelling, hostile neighbours."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import grpc.aio
import pytest
import uvloop
from pathways_common.http2 import frames
from pathways_common.http2.call import ServerCall
from pathways_common.http2.connection import Connection, Event, HeadersReceived
from pathways_common.http2.headers import encode
from pathways_common.http2.messages import prefixed
from pathways_common.http2.server import Http2Server

TIMEOUT_S = 40.0
LARGE = 100 << 20
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]


class Talk:
    """Answers every message with its length and itself; crowded until `let_go` once it was told "halt"."""

    def __init__(self, call: ServerCall) -> None:
        self.answers: list[bytes] = []
        self.crowded = False
        self.handled = 0
        self.go = asyncio.Event()
        self._call = call

    def handle(self, raw: bytes) -> None:
        self.handled += 1
        if raw == b"raise":
            raise KeyError("a secret")
        self.crowded = self.crowded or raw == b"halt"
        self.answers.append(b"%d:" % len(raw) + raw)
        self._call.answered()

    def take(self) -> list[bytes]:
        answers, self.answers = self.answers, []
        return answers

    async def room(self) -> None:
        if self.crowded:
            await self.go.wait()
        self.crowded = False


class Service:
    """The methods that the tests call."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.running = threading.Event()
        self.talks: list[Talk] = []

    def handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "t.Test",
            {
                "Echo": grpc.unary_unary_rpc_method_handler(self.echo),
                "Sum": grpc.stream_unary_rpc_method_handler(self.sum),
                "Count": grpc.unary_stream_rpc_method_handler(self.count),
                "Both": grpc.stream_stream_rpc_method_handler(self.both),
                "Converse": grpc.stream_stream_rpc_method_handler(self.converse),
                "Abort": grpc.unary_unary_rpc_method_handler(self.abort),
                "Break": grpc.unary_unary_rpc_method_handler(self.break_down),
                "Wait": grpc.unary_unary_rpc_method_handler(self.wait),
                "Flood": grpc.unary_stream_rpc_method_handler(self.flood),
            },
        )

    async def echo(self, request: bytes, context: Any) -> bytes:
        await context.send_initial_metadata(context.invocation_metadata())
        return request

    async def sum(self, _requests: Any, context: Any) -> bytes:
        total = 0
        while (message := await context.read()) is not grpc.aio.EOF:
            total += len(message)
        return b"%d" % total

    async def count(self, request: bytes, context: Any) -> None:
        for index in range(int(request)):
            await context.write(b"%d" % index)

    async def both(self, _requests: Any, context: Any) -> None:
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(message)

    async def converse(self, _requests: Any, context: Any) -> None:
        talk = Talk(context)
        self.talks.append(talk)
        await context.converse(talk)

    async def abort(self, _request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.DATA_LOSS, "100 % of é\nis lost")
        raise AssertionError("abort returned")

    async def break_down(self, _request: bytes, _context: Any) -> bytes:
        raise KeyError("a secret")

    async def wait(self, _request: bytes, _context: Any) -> bytes:
        self.running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        raise AssertionError("nobody set the event")

    async def flood(self, _request: bytes, context: Any) -> None:
        try:
            while True:
                await context.write(bytes(1 << 20))
                self.running.set()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class Running:
    """A server in a thread with a loop of its own."""

    def __init__(self) -> None:
        self.service = Service()
        self.loop = uvloop.new_event_loop()
        self.server = Http2Server()
        self.server.add(self.service.handler())
        self._thread = threading.Thread(target=self.loop.run_forever, name="http2-server", daemon=True)
        self._thread.start()
        self.port = self.do(self.server.listen("127.0.0.1", 0))

    def do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(TIMEOUT_S)

    def close(self) -> None:
        self.do(self.server.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(TIMEOUT_S)
        self.loop.close()


@pytest.fixture
def running() -> Iterator[Running]:
    server = Running()
    yield server
    server.close()


@pytest.fixture
def channel(running: Running) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{running.port}", options=UNLIMITED) as opened:
        yield opened


def failure_of(call: Any) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


def test_all_four_kinds_of_calls_are_answered(channel: grpc.Channel) -> None:
    metadata = (("a-key", "some words"), ("b-bin", bytes(range(256))))
    answer, call = channel.unary_unary("/t.Test/Echo").with_call(b"hello", metadata=metadata, timeout=TIMEOUT_S)
    assert answer == b"hello"
    sent = dict(call.initial_metadata())
    assert (sent["a-key"], sent["b-bin"]) == ("some words", bytes(range(256)))
    assert channel.unary_unary("/t.Test/Echo")(b"", timeout=TIMEOUT_S) == b""
    assert channel.stream_unary("/t.Test/Sum")(iter([b"a" * size for size in range(100)]), timeout=TIMEOUT_S) == b"4950"
    assert list(channel.unary_stream("/t.Test/Count")(b"1000", timeout=TIMEOUT_S)) == [b"%d" % i for i in range(1000)]
    words = [random.Random(1).randbytes(size) for size in range(0, 3000, 7)]
    assert list(channel.stream_stream("/t.Test/Both")(iter(words), timeout=TIMEOUT_S)) == words


def test_a_conversation_answers_in_order_and_ends_behind_the_last_answer(channel: grpc.Channel) -> None:
    words = [random.Random(2).randbytes(size % 900) for size in range(5000)]
    answers = list(channel.stream_stream("/t.Test/Converse")(iter(words), timeout=TIMEOUT_S))
    assert answers == [b"%d:" % len(word) + word for word in words]


def test_a_message_that_cannot_be_taken_ends_its_stream_and_no_other(running: Running, channel: grpc.Channel) -> None:
    other = channel.stream_stream("/t.Test/Both")(iter([b"before"]), timeout=TIMEOUT_S)
    assert next(other) == b"before"
    error = failure_of(lambda: list(channel.stream_stream("/t.Test/Converse")(iter([b"raise", b"x"]), timeout=TIMEOUT_S)))
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in error.details()
    assert running.service.talks[0].handled == 1
    assert list(other) == []


def test_a_crowded_conversation_holds_its_client_back(running: Running, channel: grpc.Channel) -> None:
    sent = []

    def words() -> Iterator[bytes]:
        yield b"halt"
        for index in range(40):
            sent.append(index)
            yield bytes(16384)

    answers = channel.stream_stream("/t.Test/Converse")(words(), timeout=TIMEOUT_S)
    assert next(answers) == b"4:halt"
    # Another call on the same connection goes on meanwhile, and after it the window of 64 KiB has long been full.
    for _ in range(50):
        assert channel.unary_unary("/t.Test/Echo")(b"x", timeout=TIMEOUT_S) == b"x"
    talk = running.service.talks[0]
    assert talk.handled == 1
    assert len(sent) < 40
    running.loop.call_soon_threadsafe(talk.go.set)
    assert list(answers) == [b"16384:" + bytes(16384)] * 40


@pytest.mark.parametrize("method", ["Both", "Converse"])
def test_large_messages_pass_both_ways(channel: grpc.Channel, method: str) -> None:
    large = random.Random(3).randbytes(1 << 20) * (LARGE >> 20)
    call = channel.stream_stream(f"/t.Test/{method}")
    answers = list(call(iter([large, b"small"]), timeout=TIMEOUT_S))
    head = b"" if method == "Both" else b"%d:" % LARGE
    assert len(answers[0]) == LARGE + len(head)
    assert answers[0] == head + large
    assert answers[1] == (b"small" if method == "Both" else b"5:small")


def test_deadlines_end_the_call_and_its_handler(running: Running, channel: grpc.Channel) -> None:
    error = failure_of(lambda: channel.unary_unary("/t.Test/Wait")(b"", timeout=2.0))  # in which it reaches its handler
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert running.service.cancelled.wait(TIMEOUT_S)


def test_a_deadline_holds_for_clients_that_do_not_keep_it_themselves(running: Running) -> None:
    client = Connection(server=False)
    request = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/t.Test/Wait"), (b"content-type", b"application/grpc")]
    stream_id = client.open(encode([*request, (b"grpc-timeout", b"100m")]))
    client.data(stream_id, prefixed(b""))
    client.end(stream_id)
    with socket.create_connection(("127.0.0.1", running.port), timeout=TIMEOUT_S) as connection:
        connection.sendall(b"".join(client.take(1 << 20)))
        events: list[Event] = []
        while not any(isinstance(event, HeadersReceived) and event.ended for event in events):
            events += client.receive(connection.recv(65536))
    (trailers,) = (dict(event.headers) for event in events if isinstance(event, HeadersReceived))
    assert trailers[b"grpc-status"] == b"4"  # DEADLINE_EXCEEDED
    assert running.service.cancelled.wait(TIMEOUT_S)


def test_cancelling_ends_the_handler_and_not_the_connection(running: Running, channel: grpc.Channel) -> None:
    call = channel.unary_unary("/t.Test/Wait").future(b"", timeout=TIMEOUT_S)
    assert running.service.running.wait(TIMEOUT_S)
    call.cancel()
    assert running.service.cancelled.wait(TIMEOUT_S)
    assert channel.unary_unary("/t.Test/Echo")(b"still", timeout=TIMEOUT_S) == b"still"


def test_a_client_that_reads_nothing_holds_the_writer_back(running: Running, channel: grpc.Channel) -> None:
    call = channel.unary_stream("/t.Test/Flood")(b"", timeout=TIMEOUT_S)
    assert len(next(call)) == 1 << 20
    assert channel.unary_unary("/t.Test/Echo")(b"x", timeout=TIMEOUT_S) == b"x"
    call.cancel()
    assert running.service.cancelled.wait(TIMEOUT_S)


def test_statuses_carry_their_words(channel: grpc.Channel) -> None:
    error = failure_of(lambda: channel.unary_unary("/t.Test/Abort")(b"", timeout=TIMEOUT_S))
    assert (error.code(), error.details()) == (grpc.StatusCode.DATA_LOSS, "100 % of é\nis lost")
    error = failure_of(lambda: channel.unary_unary("/t.Test/Nothing")(b"", timeout=TIMEOUT_S))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "/t.Test/Nothing" in error.details()


def test_a_handler_that_fails_tells_its_client_nothing_of_why(channel: grpc.Channel) -> None:
    error = failure_of(lambda: channel.unary_unary("/t.Test/Break")(b"", timeout=TIMEOUT_S))
    assert error.code() is grpc.StatusCode.UNKNOWN
    assert "secret" not in error.details()


def test_compressed_messages_are_refused_with_a_sentence(running: Running) -> None:
    address = f"127.0.0.1:{running.port}"
    with grpc.insecure_channel(address, options=UNLIMITED, compression=grpc.Compression.Gzip) as squeezing:
        error = failure_of(lambda: squeezing.unary_unary("/t.Test/Echo")(bytes(5000), timeout=TIMEOUT_S))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "compressed" in error.details()


def test_many_calls_at_once_are_all_answered(channel: grpc.Channel) -> None:
    call = channel.unary_unary("/t.Test/Echo")
    futures = [call.future(b"%d" % index, timeout=TIMEOUT_S) for index in range(3000)]
    assert [future.result(TIMEOUT_S) for future in futures] == [b"%d" % index for index in range(3000)]


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        frames.PREFACE + frames.frame(frames.PING, 0, 0, bytes(8)),
        frames.PREFACE + frames.settings_frame({}) + frames.frame(frames.DATA, 0, 1, b"x"),
        frames.PREFACE + frames.settings_frame({}) + b"\xff" * 100,
    ],
    ids=["HTTP/1.1", "no settings", "no stream", "noise"],
)
def test_a_client_that_breaks_the_protocol_is_sent_away_and_nobody_else_notices(
    running: Running, channel: grpc.Channel, raw: bytes
) -> None:
    answers = channel.stream_stream("/t.Test/Both")(iter([b"before"]), timeout=TIMEOUT_S)
    assert next(answers) == b"before"
    with socket.create_connection(("127.0.0.1", running.port), timeout=TIMEOUT_S) as hostile:
        hostile.sendall(raw)
        said = b""
        while part := hostile.recv(65536):
            said += part
    got = list(frames.FrameBuffer(1 << 24, b"").feed(said))
    assert got[-1].kind == frames.GOAWAY
    assert list(answers) == []
    assert channel.unary_unary("/t.Test/Echo")(b"x", timeout=TIMEOUT_S) == b"x"


def test_a_server_that_stops_cancels_its_handlers(running: Running, channel: grpc.Channel) -> None:
    call = channel.unary_unary("/t.Test/Wait").future(b"", timeout=TIMEOUT_S)
    assert running.service.running.wait(TIMEOUT_S)
    running.do(running.server.stop())
    assert running.service.cancelled.wait(TIMEOUT_S)
    assert failure_of(lambda: call.result(TIMEOUT_S)).code() is grpc.StatusCode.UNAVAILABLE
