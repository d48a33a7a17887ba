"""A connection without its socket: what a peer may do, what it may not, and what it is answered, as RFC 9113 has it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathways_common.http2 import frames
from pathways_common.http2.connection import (
    CONNECTION_WINDOW_BYTES,
    STREAMS_MAX,
    Connection,
    DataReceived,
    HeadersReceived,
    StreamReset,
)
from pathways_common.http2.headers import encode
from pathways_common.http2.messages import MessageBuffer, MessageError, prefixed

REQUEST = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/t.T/Do"), (b"content-type", b"application/grpc")]
BLOCK = encode(REQUEST)
OPENED = frames.PREFACE + frames.settings_frame({})


def headers(stream_id: int = 1, flags: int = frames.END_HEADERS, block: bytes = BLOCK) -> bytes:
    return frames.frame(frames.HEADERS, flags, stream_id, block)


def data(payload: bytes, stream_id: int = 1, flags: int = 0) -> bytes:
    return frames.frame(frames.DATA, flags, stream_id, payload)


def sent(connection: Connection, budget: int = 1 << 20) -> list[frames.Frame]:
    return list(frames.FrameBuffer(1 << 24, b"").feed(b"".join(connection.take(budget))))


def served(*raw: bytes) -> Connection:
    """A server's end that has taken these bytes and has said its greeting."""
    connection = Connection(server=True)
    connection.receive(OPENED)
    sent(connection)
    for part in raw:
        connection.receive(part)
    return connection


def faults(connection: Connection) -> list[int]:
    """Codes of the GOAWAY frames it sends."""
    return [int.from_bytes(got.payload[4:8], "big") for got in sent(connection) if got.kind == frames.GOAWAY]


def test_the_server_begins_with_settings_and_acknowledges_those_of_the_client() -> None:
    connection = Connection(server=True)
    assert connection.receive(OPENED) == []
    kinds = [(got.kind, got.flags) for got in sent(connection)]
    assert kinds == [(frames.SETTINGS, 0), (frames.WINDOW_UPDATE, 0), (frames.SETTINGS, frames.ACK)]


def test_the_client_begins_with_the_preface() -> None:
    assert b"".join(Connection(server=False).take(0)).startswith(frames.PREFACE + b"\x00\x00")


def test_pings_are_answered_with_their_own_bytes() -> None:
    connection = served(frames.frame(frames.PING, 0, 0, b"12345678"))
    assert sent(connection) == [frames.Frame(frames.PING, frames.ACK, 0, b"12345678")]


def test_a_request_in_pieces_is_one_request() -> None:
    whole = [HeadersReceived(1, REQUEST, False)]
    assert served().receive(headers()) == whole
    pieces = frames.frame(frames.HEADERS, 0, 1, BLOCK[:3]) + frames.frame(frames.CONTINUATION, 0, 1, b"")
    pieces += frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, BLOCK[3:])
    assert served().receive(pieces) == whole
    flags = frames.END_HEADERS | frames.PADDED | frames.HAS_PRIORITY
    assert served().receive(headers(flags=flags, block=b"\x02" + bytes(5) + BLOCK + bytes(2))) == whole
    assert served().receive(headers(flags=frames.END_HEADERS | frames.END_STREAM)) == [HeadersReceived(1, REQUEST, True)]


def test_padding_counts_against_the_window_and_is_not_data() -> None:
    got = served(headers()).receive(data(b"\x03ab\x00\x00\x00", flags=frames.PADDED | frames.END_STREAM))
    assert got == [DataReceived(1, b"ab", 6, True)]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (data(b"a"), 0x1),  # a stream that nobody opened
        (data(b"a", stream_id=0), 0x1),
        (headers(stream_id=2), 0x1),  # even numbers are the server's
        (headers() + frames.frame(frames.RST_STREAM, 0, 1, bytes(4)) + headers(), 0x5),  # it has ended
        (headers(flags=0) + frames.frame(frames.PING, 0, 0, bytes(8)), 0x1),  # in the middle of a header block
        (frames.frame(frames.CONTINUATION, 4, 1, BLOCK), 0x1),
        (frames.frame(frames.HEADERS, 0, 1) + 65 * frames.frame(frames.CONTINUATION, 0, 1), 0xB),
        (frames.frame(frames.HEADERS, 0, 1) + 5 * frames.frame(frames.CONTINUATION, 0, 1, bytes(16000)), 0xB),
        (headers(block=b"\x80"), 0x9),
        (headers(flags=frames.END_HEADERS | frames.HAS_PRIORITY, block=b"abc"), 0x6),
        (frames.frame(frames.SETTINGS, 0, 1), 0x1),
        (frames.frame(frames.SETTINGS, frames.ACK, 0, bytes(6)), 0x6),
        (frames.frame(frames.PING, 0, 0, bytes(7)), 0x6),
        (frames.frame(frames.PING, 0, 1, bytes(8)), 0x1),
        (frames.frame(frames.PUSH_PROMISE, 4, 1, bytes(4)), 0x1),
        (frames.frame(frames.RST_STREAM, 0, 1, bytes(4)), 0x1),
        (frames.frame(frames.RST_STREAM, 0, 1, bytes(3)), 0x6),
        (frames.frame(frames.GOAWAY, 0, 0, bytes(7)), 0x6),
        (frames.frame(frames.PRIORITY, 0, 0, bytes(5)), 0x1),
        (frames.window_update(0, 0), 0x1),
        (frames.window_update(0, (1 << 31) - 1), 0x3),
        (frames.window_update(1, 1), 0x1),
        (frames.frame(frames.WINDOW_UPDATE, 0, 0, bytes(3)), 0x6),
        (bytes.fromhex("010001 00 00 00000001"), 0x6),  # one byte more than a frame may have
        (headers() + frames.window_update(1, 1 << 30) + frames.settings_frame({4: (1 << 31) - 1}), 0x3),
    ],
)  # fmt: skip
def test_breaches_of_the_protocol_end_the_connection_with_their_code(raw: bytes, code: int) -> None:
    connection = served(raw)
    assert faults(connection) == [code]
    assert connection.failed is not None
    assert connection.receive(headers(stream_id=9)) == []


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (data(bytes(60000)) + data(bytes(5536)), 0x3),  # 65,536 bytes in a window of 65,535
        (frames.window_update(1, (1 << 31) - 1), 0x3),
        (frames.window_update(1, 0), 0x1),
        (data(b"", flags=frames.END_STREAM) + data(b"a"), 0x5),
        (headers(), 0x1),  # trailers that do not end the stream
        (frames.frame(frames.PRIORITY, 0, 1, bytes(4)), 0x6),
    ],
)
def test_breaches_on_a_stream_end_only_that_stream(raw: bytes, code: int) -> None:
    connection = served(headers())
    assert StreamReset(1, code) in connection.receive(raw)
    assert [got for got in sent(connection) if got.kind == frames.RST_STREAM] == [
        frames.Frame(frames.RST_STREAM, 0, 1, code.to_bytes(4, "big"))
    ]
    assert connection.failed is None
    assert connection.receive(headers(stream_id=3)) == [HeadersReceived(3, REQUEST, False)]


def test_a_connection_that_does_not_begin_with_settings_is_refused() -> None:
    connection = Connection(server=True)
    connection.receive(frames.PREFACE + headers())
    assert faults(connection) == [0x1]


def test_unknown_frames_and_settings_and_late_frames_are_ignored() -> None:
    connection = served(headers(), frames.frame(0xBE, 0xFF, 1, b"any"), frames.settings_frame({0xFE03: 1}))
    connection.receive(frames.frame(frames.RST_STREAM, 0, 1, bytes(4)))
    assert connection.receive(data(b"late") + frames.window_update(1, 10) + frames.frame(frames.RST_STREAM, 0, 1, bytes(4))) == []
    assert connection.failed is None


def test_streams_above_the_bound_are_refused_and_cost_nothing() -> None:
    connection = served(b"".join(headers(stream_id=2 * index + 1) for index in range(STREAMS_MAX)))
    sent(connection)
    assert connection.receive(headers(stream_id=2 * STREAMS_MAX + 1)) == []
    refusal = frames.Frame(frames.RST_STREAM, 0, 2 * STREAMS_MAX + 1, (0x7).to_bytes(4, "big"))  # REFUSED_STREAM
    assert sent(connection) == [refusal]
    connection.receive(frames.frame(frames.RST_STREAM, 0, 1, bytes(4)))
    assert connection.receive(headers(stream_id=2 * STREAMS_MAX + 3)) != []


def test_data_leaves_as_both_windows_and_the_frame_size_allow() -> None:
    connection = served(frames.settings_frame({4: 20000}), headers())
    sent(connection)
    connection.data(1, bytes(30000))
    connection.end(1, b"\x88")
    assert [len(got.payload) for got in sent(connection)] == [16384, 3616]
    connection.receive(frames.window_update(1, 1))
    assert [len(got.payload) for got in sent(connection)] == [1]
    connection.receive(frames.settings_frame({4: 19000}))  # the window is -1000 now (6.9.2)
    connection.receive(frames.window_update(1, 1000))
    assert [got.kind for got in sent(connection)] == [frames.SETTINGS]
    connection.receive(frames.window_update(1, 40000))
    last = sent(connection)
    assert [(got.kind, got.flags, len(got.payload)) for got in last] == [
        (frames.DATA, 0, 9999), (frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1), (frames.RST_STREAM, 0, 4),
    ]  # fmt: skip
    assert last[-1].payload == bytes(4)  # NO_ERROR: the answer is complete (8.1)


def test_the_connection_window_bounds_all_streams_together() -> None:
    connection = served(frames.settings_frame({4: 1 << 20}), headers(1), headers(3))
    sent(connection)
    connection.data(1, bytes(100000))
    connection.data(3, bytes(100000))
    assert sum(len(got.payload) for got in sent(connection)) == 65535
    connection.receive(frames.window_update(0, 134465))
    rest = sent(connection)
    assert sum(len(got.payload) for got in rest) == 134465
    assert {got.stream_id for got in rest} == {1, 3}


def test_streams_take_turns_so_that_a_small_answer_is_not_behind_a_large_one() -> None:
    connection = served(frames.settings_frame({4: 1 << 20}), frames.window_update(0, 1 << 20), headers(1), headers(3))
    sent(connection)
    connection.data(1, bytes(500000))
    connection.data(3, b"small")
    assert [got.stream_id for got in sent(connection)][:2] == [1, 3]


def test_a_peer_gets_its_window_back_as_data_is_consumed() -> None:
    connection = served(headers())
    connection.receive(data(bytes(40000)))
    assert sent(connection) == []
    connection.consumed(1, 20000)
    assert sent(connection) == []
    connection.consumed(1, 20000)
    assert sent(connection) == [frames.Frame(frames.WINDOW_UPDATE, 0, 1, (40000).to_bytes(4, "big"))]
    connection.expect(1, 100000)
    assert sent(connection) == [frames.Frame(frames.WINDOW_UPDATE, 0, 1, (100000 - 65535).to_bytes(4, "big"))]
    connection.widen(1, 200000)
    assert sent(connection) == [frames.Frame(frames.WINDOW_UPDATE, 0, 1, (200000 - 100000).to_bytes(4, "big"))]


def test_the_window_of_the_connection_is_paid_back_as_it_is_used() -> None:
    connection = served(headers())
    connection.widen(1, 1 << 30)
    sent(connection)
    piece, paid = data(bytes(65536)), 0
    for _ in range(1 + CONNECTION_WINDOW_BYTES // 65536):
        connection.receive(piece)
        paid += sum(int.from_bytes(got.payload, "big") for got in sent(connection) if got.stream_id == 0)
    assert paid >= CONNECTION_WINDOW_BYTES // 2
    assert connection.failed is None


def _split(raw: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]
    return [raw[start:end] for start, end in pairwise(edges)]


MESSAGES = st.lists(st.binary(max_size=40), max_size=8)


@settings(max_examples=200, deadline=None)
@given(MESSAGES, st.lists(st.integers(0, 10**6), max_size=12), st.lists(st.integers(0, 10**6), max_size=12))
def test_messages_do_not_depend_on_how_frames_and_bytes_are_split(
    messages: list[bytes], frame_cuts: list[int], byte_cuts: list[int]
) -> None:
    body = b"".join(map(prefixed, messages))
    raw = OPENED + headers() + b"".join(data(part) for part in _split(body, frame_cuts)) + data(b"", flags=frames.END_STREAM)
    connection, buffer = Connection(server=True), MessageBuffer()
    got: list[bytes] = []
    ended = False
    for part in _split(raw, byte_cuts):
        for event in connection.receive(part):
            if isinstance(event, DataReceived):
                got += buffer.feed(event.data)
                ended = event.ended
    assert (got, ended, buffer.partial) == (messages, True, False)


@settings(max_examples=200, deadline=None)
@given(MESSAGES, st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(1, 50))
def test_what_one_end_sends_the_other_end_receives(messages: list[bytes], grants: list[int], window: int) -> None:
    """A client's end and a server's end, whose answers go through small windows that open bit by bit."""
    client, server = Connection(server=False), Connection(server=True)
    stream_id = client.open(BLOCK)
    server.receive(b"".join(client.take(1 << 20)) + frames.settings_frame({4: window}))
    server.headers(stream_id, b"\x88")
    for message in messages:
        server.data(stream_id, prefixed(message))
    server.end(stream_id, encode([(b"grpc-status", b"0")]))
    buffer, got, ended = MessageBuffer(), [], False
    for grant in [0, *grants, 400]:
        if grant:
            server.receive(frames.window_update(stream_id, grant))
        for event in client.receive(b"".join(server.take(7))) + client.receive(b"".join(server.take(1 << 20))):
            if isinstance(event, DataReceived):
                got += buffer.feed(event.data)
            elif isinstance(event, HeadersReceived):
                ended = event.ended
    assert (got, ended) == (messages, True)
    assert (client.failed, server.failed) == (None, None)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_random_bytes_never_raise(raw: bytes, server: bool) -> None:
    connection = Connection(server)
    connection.receive((OPENED if server else frames.settings_frame({})) + raw)
    connection.take(1 << 20)


FRAMES = st.lists(
    st.tuples(st.integers(0, 10), st.integers(0, 255), st.integers(0, 6), st.one_of(st.binary(max_size=30), st.just(BLOCK))),
    max_size=30,
)


@settings(max_examples=500, deadline=None)
@given(FRAMES, st.booleans())
def test_random_frames_never_raise_and_leave_nothing_unbounded(sequence: list[tuple[int, int, int, bytes]], server: bool) -> None:
    connection = Connection(server)
    connection.receive(OPENED if server else frames.settings_frame({}))
    buffers: dict[int, MessageBuffer] = {}
    for kind, flags, stream_id, payload in sequence:
        for event in connection.receive(frames.frame(kind, flags, stream_id, payload)):
            if isinstance(event, HeadersReceived) and server:
                connection.headers(event.stream_id, b"\x88")
                connection.data(event.stream_id, prefixed(b"answer"))
                connection.end(event.stream_id, b"\x88")
            elif isinstance(event, DataReceived):
                try:
                    buffers.setdefault(event.stream_id, MessageBuffer(1 << 16)).feed(event.data)
                except MessageError:
                    connection.reset(event.stream_id, frames.CANCEL)
        connection.take(1 << 20)
        assert connection.control_bytes == 0
