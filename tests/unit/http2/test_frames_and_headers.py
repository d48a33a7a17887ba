"""Frames, header blocks and messages against the bytes that RFC 9113, RFC 7541 and gRPC's HTTP/2 protocol write down."""

from __future__ import annotations

import pytest
from pathways_common.http2 import frames
from pathways_common.http2.frames import Fault, Frame, FrameBuffer
from pathways_common.http2.headers import (
    HEADER_BYTES_MAX,
    HeaderDecoder,
    encode,
    metadata_headers,
    metadata_of,
    percent_decoded,
    percent_encoded,
    timeout_ns,
)
from pathways_common.http2.messages import MessageBuffer, MessageError, prefixed


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        # RFC 9113, 4.1: 24 bits of length, 8 of type, 8 of flags, a reserved bit and 31 bits of stream.
        (frames.frame(frames.SETTINGS, frames.ACK, 0), "000000 04 01 00000000"),
        (frames.frame(frames.DATA, frames.END_STREAM, 3, b"ab"), "000002 00 01 00000003 6162"),
        (frames.frame(frames.PING, frames.ACK, 0, bytes(range(8))), "000008 06 01 00000000 0001020304050607"),
        (frames.frame(frames.HEADERS, 5, 0x7FFFFFFF, b"\x88"), "000001 01 05 7fffffff 88"),
        (frames.frame(frames.DATA, 0, 1, bytes(65536)), "010000 00 00 00000001" + "00" * 65536),
        # 6.9, 6.4, 6.8, 6.5.1.
        (frames.window_update(5, 65535), "000004 08 00 00000005 0000ffff"),
        (frames.rst_stream(7, frames.CANCEL), "000004 03 00 00000007 00000008"),
        (frames.goaway(9, frames.ENHANCE_YOUR_CALM, "no"), "00000a 07 00 00000000 00000009 0000000b 6e6f"),
        (frames.settings_frame({frames.SET_FRAME_BYTES_MAX: 65536}), "000006 04 00 00000000 0005 00010000"),
    ],
)
def test_frames_have_the_bytes_of_the_standard(made: bytes, expected: str) -> None:
    assert made == bytes.fromhex(expected)


def test_the_preface_is_the_one_of_the_standard() -> None:
    assert bytes.fromhex("505249202a20485454502f322e300d0a0d0a534d0d0a0d0a") == frames.PREFACE  # RFC 9113, 3.4


def test_frames_are_cut_wherever_the_bytes_are_split() -> None:
    raw = frames.PREFACE + bytes.fromhex("000002 00 01 00000003 6162" + "000000 04 01 00000000")
    expected = [Frame(0, 1, 3, b"ab"), Frame(4, 1, 0, b"")]
    for split in range(len(raw) + 1):
        buffer = FrameBuffer(16384, frames.PREFACE)
        assert [*buffer.feed(raw[:split]), *buffer.feed(raw[split:])] == expected
    one_by_one = FrameBuffer(16384, frames.PREFACE)
    assert [got for byte in raw for got in one_by_one.feed(bytes((byte,)))] == expected


def test_frames_that_are_too_long_are_known_by_their_head() -> None:
    with pytest.raises(Fault) as caught:
        list(FrameBuffer(16384, b"").feed(bytes.fromhex("004001 00 00 00000001")))
    assert caught.value.code == 0x6  # FRAME_SIZE_ERROR


def test_what_is_not_http2_is_known_by_its_first_bytes() -> None:
    with pytest.raises(Fault):
        list(FrameBuffer(16384, frames.PREFACE).feed(b"GET"))


@pytest.mark.parametrize(
    ("padded", "expected"),
    [("03 6162 000000", "6162"), ("00 6162", "6162"), ("02 0000", ""), ("03 6162", None), ("", None)],
)
def test_padding_is_taken_off_and_never_more_than_there_is(padded: str, expected: str | None) -> None:
    got = Frame(frames.DATA, frames.PADDED, 1, bytes.fromhex(padded))
    if expected is None:
        with pytest.raises(Fault) as caught:
            frames.without_padding(got)
        assert caught.value.code == 0x1  # PROTOCOL_ERROR
    else:
        assert frames.without_padding(got) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ("0004 80000000", 0x3),  # an initial window above 2^31-1: FLOW_CONTROL_ERROR (6.5.2)
        ("0005 00003fff", 0x1),  # frames smaller than 2^14: PROTOCOL_ERROR
        ("0005 01000000", 0x1),  # or larger than 2^24-1
        ("0002 00000002", 0x1),  # ENABLE_PUSH is 0 or 1
        ("0001 000000", 0x6),  # no multiple of six bytes: FRAME_SIZE_ERROR
    ],
)
def test_settings_that_the_standard_forbids_are_faults(payload: str, code: int) -> None:
    with pytest.raises(Fault) as caught:
        frames.read_settings(bytes.fromhex(payload))
    assert caught.value.code == code


# RFC 7541, C.3 and C.4: three requests on one connection, without and with Huffman coding.
_REQUESTS = [
    [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")],
    [
        (b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com"),
        (b"cache-control", b"no-cache"),
    ],
    [
        (b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/index.html"), (b":authority", b"www.example.com"),
        (b"custom-key", b"custom-value"),
    ],
]  # fmt: skip
_PLAIN = [
    "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
    "8286 84be 5808 6e6f 2d63 6163 6865",
    "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
]
_HUFFMAN = [
    "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
    "8286 84be 5886 a8eb 1064 9cbf",
    "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
]


@pytest.mark.parametrize("blocks", [_PLAIN, _HUFFMAN], ids=["plain", "Huffman"])
def test_header_blocks_of_the_standard_are_read(blocks: list[str]) -> None:
    decoder = HeaderDecoder()
    assert [decoder.decode(bytes.fromhex(block)) for block in blocks] == _REQUESTS


@pytest.mark.parametrize("block", ["80", "ff ff ff ff ff ff ff ff ff ff", "40 0a 63", "00 01", "be"])
def test_header_blocks_that_cannot_be_read_are_faults_of_the_connection(block: str) -> None:
    with pytest.raises(Fault) as caught:
        HeaderDecoder().decode(bytes.fromhex(block))
    assert (caught.value.code, caught.value.stream_id) == (0x9, 0)  # COMPRESSION_ERROR


def test_header_blocks_that_decode_to_too_much_are_faults() -> None:
    block = encode([(b"a", b"x" * HEADER_BYTES_MAX)])
    with pytest.raises(Fault) as caught:
        HeaderDecoder().decode(block)
    assert caught.value.code == 0xB  # ENHANCE_YOUR_CALM


def test_headers_are_written_as_literals_without_indexing() -> None:
    assert encode([(b"password", b"secret")]) == b"\x00\x08password\x06secret"  # RFC 7541, 6.2.2
    # 1337 after a prefix of seven bits: 127, then 1210 in groups of seven bits, lowest first (5.1).
    assert encode([(b"a", b"v" * 1337)]).startswith(b"\x00\x01a\x7f\xba\x09vvv")
    assert encode([(b"a", b"v" * 127)]).startswith(b"\x00\x01a\x7f\x00vvv")
    assert encode([(b"a", b"v" * 126)]).startswith(b"\x00\x01a\x7evvv")
    long = [(b"k" * 300, b"v" * 20000), (b"x", b"")]
    assert HeaderDecoder().decode(encode(long)) == long


def test_status_messages_are_percent_encoded_as_grpc_wants() -> None:
    assert percent_encoded("50 % of é\n") == b"50 %25 of %C3%A9%0A"
    assert percent_decoded(b"50 %25 of %C3%A9%0A") == "50 % of é\n"
    assert percent_decoded(b"%zz%") == "%zz%"


def test_metadata_goes_there_and_back() -> None:
    metadata = (("authorization", "Bearer x"), ("some-bin", b"\xff\x00\x01\x02"))
    headers = metadata_headers(metadata)
    assert headers == [(b"authorization", b"Bearer x"), (b"some-bin", b"/wABAg")]
    beside = [(b":path", b"/a"), (b"te", b"trailers"), (b"grpc-timeout", b"1S"), (b"content-type", b"application/grpc")]
    assert metadata_of([*beside, *headers]) == metadata
    assert metadata_of([(b"a-bin", b"QQ==,Qg")]) == (("a-bin", b"A"), ("a-bin", b"B"))


@pytest.mark.parametrize("header", [(b"a-bin", b"!!"), (b"a", b"\xff"), (b"\xff", b"a")])
def test_metadata_that_makes_no_sense_is_an_error(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match=r"base64|ascii"):
        metadata_of([header])


@pytest.mark.parametrize(
    ("text", "expected"), [(b"1H", 3600 * 10**9), (b"5M", 300 * 10**9), (b"2S", 2 * 10**9), (b"3m", 3 * 10**6), (b"9n", 9)]
)
def test_timeouts_are_read_in_their_units(text: bytes, expected: int) -> None:
    assert timeout_ns(text) == expected


@pytest.mark.parametrize("text", [b"", b"S", b"1", b"1x", b"-1S", b"123456789S"])
def test_timeouts_of_another_form_are_errors(text: bytes) -> None:
    with pytest.raises(ValueError, match="grpc-timeout"):
        timeout_ns(text)


def test_messages_have_one_byte_and_a_length_before_them() -> None:
    assert prefixed(b"hello") == b"\x00\x00\x00\x00\x05hello"
    raw = prefixed(b"hello") + prefixed(b"") + prefixed(bytes(70000))
    for step in (1, 4, 5, 7, 65536, len(raw)):
        buffer = MessageBuffer()
        got = [message for at in range(0, len(raw), step) for message in buffer.feed(raw[at : at + step])]
        assert got == [b"hello", b"", bytes(70000)]
        assert not buffer.partial


def test_a_message_under_way_says_how_much_it_needs() -> None:
    buffer = MessageBuffer()
    assert buffer.feed(b"\x00\x00\x00") == []
    assert (buffer.missing_bytes, buffer.partial) == (0, True)
    assert buffer.feed(b"\x00\x09abc") == []
    assert buffer.missing_bytes == 6
    assert buffer.feed(b"defghi") == [b"abcdefghi"]
    assert (buffer.missing_bytes, buffer.partial) == (0, False)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x01\x00\x00\x00\x01a", 12),  # compressed with a coding that was not offered: UNIMPLEMENTED
        (b"\x02\x00\x00\x00\x01a", 13),  # neither compressed nor not: INTERNAL
        (b"\x00\x00\x00\x01\x01", 8),  # 257 bytes where 256 are taken: RESOURCE_EXHAUSTED
    ],
)
def test_messages_that_are_not_taken_have_the_status_that_says_so(data: bytes, code: int) -> None:
    with pytest.raises(MessageError) as caught:
        MessageBuffer(256).feed(data)
    assert caught.value.code == code
