"""A socket pair of an executor: reports are heard whole and in order, however they are cut, and none after a wrong one."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from pathways_worker.shell.report_pair import ReportPair

REPORTS = [b"", b"one", b"x" * 70_000, b"", b"last"]


def framed(payload: bytes) -> bytes:
    return struct.pack("<I", len(payload)) + payload


def with_pair(
    hear: Callable[[bytes], None], scenario: Callable[[ReportPair, socket.socket], Coroutine[Any, Any, None]]
) -> list[Any]:
    """What was wrong."""
    wrong: list[Any] = []

    async def whole() -> None:
        ours, theirs = socket.socketpair()
        pair = ReportPair(hear, wrong.append)
        await asyncio.get_running_loop().create_connection(lambda: pair, sock=ours)
        theirs.setblocking(False)
        try:
            await asyncio.wait_for(scenario(pair, theirs), 20)
        finally:
            theirs.close()
            pair.close()

    asyncio.run(whole())
    return wrong


@pytest.mark.parametrize("piece", [1 << 20, 1000, 3], ids=["at once", "in pieces", "in crumbs"])
def test_reports_are_heard_whole_and_in_order(piece: int) -> None:
    heard: list[bytes] = []

    async def scenario(pair: ReportPair, theirs: socket.socket) -> None:
        loop, data = asyncio.get_running_loop(), b"".join(map(framed, REPORTS))
        for start in range(0, len(data), piece):
            await loop.sock_sendall(theirs, data[start : start + piece])
        theirs.close()
        await pair.over.wait()

    assert with_pair(heard.append, scenario) == []
    assert heard == REPORTS


def test_nothing_is_heard_behind_a_report_that_is_wrong() -> None:
    heard: list[bytes] = []

    def hear(report: bytes) -> None:
        heard.append(report)
        if report == b"bad":
            raise ValueError("no report")

    async def scenario(pair: ReportPair, theirs: socket.socket) -> None:
        await asyncio.get_running_loop().sock_sendall(theirs, framed(b"good") + framed(b"bad") + framed(b"behind"))
        await asyncio.sleep(0.05)
        await asyncio.get_running_loop().sock_sendall(theirs, framed(b"later"))
        theirs.close()
        await pair.over.wait()

    wrong = with_pair(hear, scenario)
    assert [str(error) for error in wrong] == ["no report"]
    assert heard == [b"good", b"bad"]


def test_nothing_is_heard_or_sent_once_it_is_closed() -> None:
    heard: list[bytes] = []

    async def scenario(pair: ReportPair, theirs: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        pair.send(b"a command")
        assert await loop.sock_recv(theirs, 100) == framed(b"a command")
        await loop.sock_sendall(theirs, framed(b"late"))
        pair.close()
        pair.send(b"nobody's")
        await pair.over.wait()
        with suppress(ConnectionResetError):  # what it had not read was thrown away
            assert await loop.sock_recv(theirs, 100) == b""

    assert with_pair(heard.append, scenario) == []
    assert heard == []
