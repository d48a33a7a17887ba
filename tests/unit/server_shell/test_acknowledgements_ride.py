"""An acknowledgement goes alone only when the other end may wait for it, or when nothing came that it could ride with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from pathways_common.rpc.moment import Moment
from pathways_proto.v1 import sessions_pb2
from pathways_server.rpc.wire import frame
from pathways_server.shell import peer as peer_module
from pathways_server.shell.counters import Counters
from pathways_server.shell.peer import SessionPeer

TIMEOUT_S = 20.0
Scenario = Callable[[SessionPeer, "asyncio.Queue[tuple[int, int, int]]"], Awaitable[None]]


def play(scenario: Scenario) -> None:
    """Gives the scenario an opened peer and what it sends: sequence, acknowledgement and how many items."""

    async def run() -> None:
        peer = SessionPeer(1, "id", frame, Counters())  # type: ignore[arg-type]
        sent: asyncio.Queue[tuple[int, int, int]] = asyncio.Queue()

        async def write(data: bytes) -> None:
            message = sessions_pb2.ServerFrame.FromString(data)
            sent.put_nowait((message.sequence, message.received, len(message.operations)))

        peer.open(b"")
        writer = asyncio.create_task(peer.send_to(write))
        assert await asyncio.wait_for(sent.get(), TIMEOUT_S) == (0, 0, 0)
        try:
            await asyncio.wait_for(scenario(peer, sent), TIMEOUT_S)
        finally:
            peer.finish(None)
            await asyncio.wait_for(writer, TIMEOUT_S)

    asyncio.run(run())


def long_moment(over: Callable[[], None]) -> Moment:
    return Moment(over, int(TIMEOUT_S * 1e9))


def came(peer: SessionPeer, sequence: int) -> None:
    """A frame of the client was taken."""
    peer.link.accept(sequence)
    peer.wake()


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_the_acknowledgement_of_one_frame_rides_with_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "Moment", long_moment)

    async def scenario(peer: SessionPeer, sent: asyncio.Queue[tuple[int, int, int]]) -> None:
        came(peer, 1)
        await turns()
        assert sent.empty()
        peer.push(b"\x22\x00")
        assert await sent.get() == (1, 1, 1)
        await turns()
        assert sent.empty()

    play(scenario)


def test_a_client_whose_window_is_full_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "Moment", long_moment)

    async def scenario(peer: SessionPeer, sent: asyncio.Queue[tuple[int, int, int]]) -> None:
        came(peer, 1)
        came(peer, 2)
        assert await sent.get() == (0, 2, 0)
        came(peer, 3)
        await turns()
        assert sent.empty()
        came(peer, 4)
        assert await sent.get() == (0, 4, 0)

    play(scenario)


def test_without_anything_to_ride_with_it_goes_alone() -> None:
    async def scenario(peer: SessionPeer, sent: asyncio.Queue[tuple[int, int, int]]) -> None:
        for sequence in (1, 2, 3):
            came(peer, sequence)
            assert await sent.get() == (0, sequence, 0)

    play(scenario)
