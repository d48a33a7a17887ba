"""Frames over a byte stream: however it is cut, what is no frame, silence, and a reader that is slow."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Any

import pytest
from pathways_common.model.bounds import LINK_HELLO_BYTES_MAX
from pathways_common.model.failure import Failure, PathwaysError
from pathways_common.rpc.framed import SILENT_LOOKS_MAX, FrameCutter, FramedProtocol, preface, read_preface


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(frame)) + frame for frame in frames)


@pytest.mark.parametrize("seed", range(20))
def test_frames_are_the_same_however_the_stream_is_cut(seed: int) -> None:
    chance = random.Random(seed)
    frames = [chance.randbytes(chance.choice((0, 1, 3, 4, 5, 60, 4096))) for _ in range(30)]
    stream = framed(*frames)
    cutter, got = FrameCutter(1 << 20), []
    while stream:
        size = chance.choice((1, 2, 3, 4, 5, 7, 64, 1000, 100000))
        got += cutter.cut(stream[:size])
        stream = stream[size:]
    assert got == frames


def test_a_large_frame_in_small_pieces_is_put_together_once() -> None:
    large = bytes(range(256)) * 4096
    stream = framed(large, b"next")
    cutter = FrameCutter(1 << 21)
    got = [frame for at in range(0, len(stream), 1000) for frame in cutter.cut(stream[at : at + 1000])]
    assert got == [large, b"next"]


def test_a_frame_above_the_bound_is_refused_by_its_length_alone() -> None:
    cutter = FrameCutter(100)
    assert list(cutter.cut(framed(bytes(100)))) == [bytes(100)]
    with pytest.raises(PathwaysError, match="a frame of 101 bytes; here it may have 100"):
        list(cutter.cut(struct.pack("<I", 101)))


def test_the_bound_of_the_next_frame_may_change_between_two() -> None:
    cutter = FrameCutter(4)
    got = []
    for frame in cutter.cut(framed(b"abcd", bytes(50))):
        got.append(frame)
        cutter.bytes_max = 50
    assert got == [b"abcd", bytes(50)]


@pytest.mark.parametrize(
    "start",
    [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"SSH-2.0-"],
)
def test_other_protocols_are_no_preface(start: bytes) -> None:
    with pytest.raises(PathwaysError, match="malformed message: a frame of"):
        list(FrameCutter(LINK_HELLO_BYTES_MAX).cut(start))


def test_a_preface_carries_the_service_and_the_authorization() -> None:
    assert read_preface(preface("Workers", "Bearer secret")) == ("Workers", "Bearer secret")
    assert read_preface(preface("Sessions", "")) == ("Sessions", "")
    for wrong in (b"", b"Bearer secret", b"pathways.v2.Workers Bearer secret", b"pathways.v1 Bearer secret"):
        with pytest.raises(PathwaysError, match=r"does not begin with 'pathways\.v1'"):
            read_preface(wrong)


class Transport:
    """What a protocol does with its transport."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.ended = ""

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = "said"

    def is_closing(self) -> bool:
        return self.ended in ("closed", "aborted")

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high


class End(FramedProtocol):
    def __init__(self) -> None:
        super().__init__()
        self.frames: list[bytes] = []
        self.said: list[str] = []

    def on_frame(self, data: bytes) -> None:
        self.frames.append(data)

    def on_malformed(self, failure: Failure) -> None:
        self.said.append(failure.message)

    def on_room(self) -> None:
        self.said.append("room")

    def on_end(self, reason: str) -> None:
        self.said.append(reason)


def connected() -> tuple[End, Any]:
    end, transport = End(), Transport()
    end.connection_made(transport)  # type: ignore[arg-type]
    return end, transport


def test_a_connection_whose_other_end_was_just_lost_is_closed_without_a_word() -> None:
    async def scenario() -> None:
        end, transport = connected()

        def lost() -> None:
            raise OSError(107, "Transport endpoint is not connected")

        transport.write_eof = lost
        end.close()
        assert transport.ended == "closed"
        end.connection_lost(None)

    asyncio.run(scenario())


def test_an_end_with_nothing_to_say_says_that_it_lives_and_a_frame_counts_as_saying_so() -> None:
    async def scenario() -> None:
        end, transport = connected()
        end.data_received(framed(b"x"))
        end.look()  # the first one: nobody can have been quiet for a whole interval yet
        assert transport.written == []
        end.look()
        assert transport.written == [framed(b"")]
        end.put(b"news")
        end.look()
        assert transport.written == [framed(b""), framed(b"news")]
        end.connection_lost(None)

    asyncio.run(scenario())


def test_a_silent_end_is_given_up_and_any_byte_is_a_sign_of_life() -> None:
    async def scenario() -> None:
        end, transport = connected()
        for _ in range(3):
            for _ in range(SILENT_LOOKS_MAX):
                end.look()
            end.data_received(b"\0")
        assert end.said == []
        for _ in range(SILENT_LOOKS_MAX):
            end.look()
            assert end.said == []
        end.look()
        assert end.said == ["nothing was heard of it any more"]
        assert transport.ended == "aborted"
        end.connection_lost(None)
        assert len(end.said) == 1

    asyncio.run(scenario())


def test_nothing_is_read_behind_what_is_malformed() -> None:
    async def scenario() -> None:
        end, _ = connected()
        end.data_received(framed(b"good") + struct.pack("<I", LINK_HELLO_BYTES_MAX + 1))
        end.data_received(framed(b"later"))
        assert end.frames == [b"good"]
        assert len(end.said) == 1
        end.connection_lost(None)

    asyncio.run(scenario())


def test_a_trusted_end_may_send_large_frames() -> None:
    async def scenario() -> None:
        end, _ = connected()
        end.trust()
        end.data_received(framed(bytes(LINK_HELLO_BYTES_MAX + 1)))
        assert [len(frame) for frame in end.frames] == [LINK_HELLO_BYTES_MAX + 1]
        end.connection_lost(None)

    asyncio.run(scenario())


def test_a_full_buffer_shuts_the_writer_out_until_it_has_drained() -> None:
    async def scenario() -> None:
        end, _ = connected()
        assert end.ready
        end.pause_writing()
        assert not end.ready
        end.resume_writing()
        assert end.ready
        assert end.said == ["room"]
        end.connection_lost(ConnectionResetError())
        assert end.said == ["room", "the connection broke"]
        assert not end.ready
        end.put(b"dropped")

    asyncio.run(scenario())


def test_a_frame_that_comes_alone_is_taken_as_it_is_and_nothing_else() -> None:
    cutter = FrameCutter(8)
    assert cutter.whole(framed(b"12345678")) == b"12345678"
    assert cutter.whole(framed(b"")) == b""
    for other in (b"", b"\x01\0\0", framed(b"a", b"b"), framed(b"abc")[:-1], framed(b"123456789")):
        assert cutter.whole(other) is None
    assert list(cutter.cut(framed(b"abc")[:-1])) == []
    # This would be a frame if it were not the rest of one.
    assert cutter.whole(framed(b"")) is None
    assert list(cutter.cut(b"c")) == [b"abc"]


def test_an_end_that_has_said_its_last_word_says_and_takes_nothing_more_and_waits_for_the_other() -> None:
    async def scenario() -> None:
        end, transport = connected()
        end.put(b"last words")
        written = list(transport.written)
        end.close()
        assert transport.ended == "said"
        end.put(b"too late")
        end.data_received(framed(b"a", b"b"))
        end.look()
        end.look()
        end.close()
        assert transport.written == written
        assert (end.frames, end.said, transport.ended) == ([], [], "said")
        end.connection_lost(None)
        assert end.said == ["the stream ended"]

    asyncio.run(scenario())
