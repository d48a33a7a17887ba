"""When a connection's bytes leave, and when it is given up: one send per turn, silent and greedy peers, errors of ours."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pathways_common.http2 import frames, wire
from pathways_common.http2.connection import Event, PingAnswered
from pathways_common.http2.wire import Wire

TIMEOUT_S = 40.0
GREETING = frames.PREFACE + frames.settings_frame({})
PING = frames.frame(frames.PING, 0, 0, b"12345678")


class FakeTransport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.aborted = False

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0

    def get_extra_info(self, _name: str) -> Any:
        return None

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.aborted = True


def opened(on_event: Callable[[Event], None] = lambda _: None) -> tuple[Wire, FakeTransport]:
    made, transport = Wire(True, on_event, lambda _: None), FakeTransport()
    made.connection_made(transport)
    made.data_received(GREETING)
    transport.written.clear()
    return made, transport


def in_a_loop(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work(), TIMEOUT_S)

    asyncio.run(bounded())


def test_all_that_a_read_brings_about_leaves_in_one_send() -> None:
    async def scenario() -> None:
        _, transport = made = opened()
        made[0].data_received(PING * 5)
        answer = frames.frame(frames.PING, frames.ACK, 0, b"12345678")
        assert transport.written == [answer * 5]

    in_a_loop(scenario)


def test_all_that_a_turn_has_to_say_leaves_in_one_send() -> None:
    async def scenario() -> None:
        made, transport = opened()
        for _ in range(3):
            made.dirty(made.connection.ping)
        assert transport.written == []
        await asyncio.sleep(0)
        assert transport.written == [frames.frame(frames.PING, 0, 0, bytes(8)) * 3]

    in_a_loop(scenario)


def test_a_peer_that_asks_and_does_not_read_is_given_up() -> None:
    async def scenario() -> None:
        made, transport = opened()
        made.pause_writing()
        made.data_received(PING * 1000)
        assert transport.written == []
        assert not transport.aborted
        made.data_received(PING * ((1 << 20) // len(PING)))
        assert transport.aborted

    in_a_loop(scenario)


def test_an_error_of_ours_ends_the_connection_instead_of_leaving_the_peer_waiting() -> None:
    def broken(*_: object) -> None:
        raise KeyError("a mistake")

    async def scenario() -> None:
        made, transport = opened(broken)
        made.data_received(frames.frame(frames.GOAWAY, 0, 0, bytes(8)))
        assert transport.aborted
        made, transport = opened()
        made.dirty(broken)
        await asyncio.sleep(0)
        assert transport.aborted

    in_a_loop(scenario)


def test_a_silent_peer_is_pinged_and_then_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_PING_NS", 20 * 10**6)
    monkeypatch.setattr(wire, "_ANSWER_NS", 30 * 10**6)

    async def scenario() -> None:
        lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        here, there = socket.socketpair()
        with there:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: Wire(True, lambda _: None, lost.set_result), sock=here)
            there.sendall(GREETING)
            assert "silent" in await lost
            there.settimeout(TIMEOUT_S)
            said = b""
            while part := there.recv(65536):
                said += part
        assert said.endswith(frames.frame(frames.PING, 0, 0, bytes(8)))

    in_a_loop(scenario)


def test_a_peer_that_answers_pings_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_PING_NS", 20 * 10**6)
    monkeypatch.setattr(wire, "_ANSWER_NS", 2 * 10**9)

    async def scenario() -> None:
        here, there = socket.socketpair()
        events: list[Event] = []
        lost: list[str] = []
        await asyncio.get_running_loop().create_connection(lambda: Wire(True, events.append, lost.append), sock=here)
        reader, writer = await asyncio.open_connection(sock=there)
        writer.write(GREETING)
        buffer = frames.FrameBuffer(1 << 24, b"")
        while events.count(PingAnswered()) < 2:
            for got in buffer.feed(await reader.read(65536)):
                if got.kind == frames.PING:
                    writer.write(frames.frame(frames.PING, frames.ACK, 0, got.payload))
        assert lost == []
        writer.close()

    in_a_loop(scenario)
