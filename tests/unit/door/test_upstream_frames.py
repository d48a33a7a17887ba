"""When the door's frames to the controller leave, and what they acknowledge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pathways_common.model.bounds import RELEASE_BYTES_MAX, WINDOW_FRAMES
from pathways_door.upstream import Upstream
from pathways_proto.v1 import sessions_pb2

TIMEOUT_S = 20.0


class FakeStream:
    """Keeps what it was told: whether somebody waits for what there is to say."""

    def __init__(self) -> None:
        self.told: list[bool] = []

    def answered(self, awaited: bool = True) -> None:
        self.told.append(awaited)

    async def converse(self, _talk: Any) -> None:
        raise AssertionError("not part of these tests")


class FakeCall:
    """Nothing but an end."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def made() -> tuple[Upstream, FakeStream, FakeCall]:
    stream, call = FakeStream(), FakeCall()
    return Upstream(call, stream, sessions_pb2.Welcome(session_number=7)), stream, call


def taken(upstream: Upstream) -> list[sessions_pb2.ClientFrame]:
    return [sessions_pb2.ClientFrame.FromString(raw) for raw in upstream.take()]


def news(sequence: int, received: int = 0) -> bytes:
    operation = sessions_pb2.ServerOperation(fence_reached=sessions_pb2.FenceReached(fence_id=sequence))
    raw: bytes = sessions_pb2.ServerFrame(sequence=sequence, received=received, operations=[operation]).SerializeToString()
    return raw


def goodbye() -> sessions_pb2.ClientOperation:
    return sessions_pb2.ClientOperation(goodbye=sessions_pb2.Goodbye(reason="test"))


def in_a_loop(work: Callable[[], Any]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work(), TIMEOUT_S)

    asyncio.run(bounded())


def test_an_acknowledgement_waits_for_a_frame_to_ride_with() -> None:
    async def scenario() -> None:
        upstream, stream, _ = made()
        upstream.handle(news(1))
        assert stream.told == [False]
        upstream.push(goodbye())
        (frame,) = taken(upstream)
        assert (frame.sequence, frame.received, len(frame.operations)) == (1, 1, 1)
        assert taken(upstream) == []

    in_a_loop(scenario)


def test_an_acknowledgement_leaves_alone_if_nothing_else_does() -> None:
    async def scenario() -> None:
        upstream, _, _ = made()
        upstream.handle(news(1))
        (frame,) = taken(upstream)
        assert (frame.sequence, frame.received, len(frame.operations)) == (0, 1, 0)
        assert taken(upstream) == []

    in_a_loop(scenario)


def test_a_full_window_of_the_controller_is_acknowledged_at_once() -> None:
    async def scenario() -> None:
        upstream, stream, _ = made()
        for sequence in range(1, WINDOW_FRAMES + 1):
            upstream.handle(news(sequence))
        assert stream.told == [False] * (WINDOW_FRAMES - 1) + [True]

    in_a_loop(scenario)


def test_releases_wait_for_an_operation_unless_they_hold_much() -> None:
    async def scenario() -> None:
        upstream, stream, _ = made()
        upstream.release(5, RELEASE_BYTES_MAX)
        upstream.release_executable(6)
        assert stream.told == [False, False]
        upstream.release(7, 1)
        assert stream.told[-1]
        (frame,) = taken(upstream)
        (operation,) = frame.operations
        assert (list(operation.release.views), list(operation.release.executables)) == ([5, 7], [6])

    in_a_loop(scenario)


def test_a_frame_that_cannot_be_ends_the_session_with_a_sentence() -> None:
    async def scenario() -> None:
        for raw, words in ((news(2), "arrived before an earlier one"), (news(1, received=9), "9"), (b"\xff", "failed")):
            upstream, _, call = made()
            upstream.handle(raw)
            assert upstream.lost is not None
            assert words in upstream.lost.message
            assert call.cancelled
            upstream.handle(news(1))
            upstream.push(goodbye())
            assert taken(upstream) == []

    in_a_loop(scenario)
