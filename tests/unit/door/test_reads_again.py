"""A read whose ticket was used up by a call that broke, or whose value a host has lost, is asked for again, a few times.

And one whose ticket the controller takes back ends with the controller's words, whether its host ever answers or not.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import Any, cast

import pytest
from pathways_common.model.failure import KEPT, Failure, PathwaysError, Reason
from pathways_common.rpc.data_calls import Spent
from pathways_door.context import Context, Operation
from pathways_door.pending import Pending
from pathways_door.tickets import ReadTicket
from pathways_door.uploads import Uploads
from pathways_door.waits import Waits
from pathways_proto.v1 import sessions_pb2

BROKE = Failure(Reason.BUFFER_LOST, "the connection broke")


class FakeContext:
    """Bulk transfers that all fail, and what is answered."""

    def __init__(self, error: Exception) -> None:
        self.bulk = self
        self.error = error
        self.refused: list[Failure] = []
        self.upstream = self
        self.pending = Pending()
        self.cancelled = False

    def spawn(self, _name: str, work: Any) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    async def pull(self, _source: Any, _size_bytes: int) -> bytes:
        raise self.error

    def refuse(self, _operation: Operation, failure: Failure) -> None:
        self.refused.append(failure)


def pulled(ask: Any, error: Exception | None = None) -> FakeContext:
    context = FakeContext(error or Spent(BROKE))
    waits = Waits(cast("Context", context))

    async def scenario() -> None:
        await waits._pull(Operation(1, 2), 3, cast("Any", None), None, ticket_in(context), ask)

    asyncio.run(scenario())
    return context


def ticket_in(context: FakeContext) -> ReadTicket:
    return ReadTicket(context.pending, sessions_pb2.FetchTicket(fetch_id=7, size_bytes=8))


def test_a_spent_ticket_asks_for_another_and_the_client_hears_nothing() -> None:
    asked: list[bool] = []
    assert pulled(lambda: asked.append(True)).refused == []
    assert asked == [True]


def test_after_enough_tickets_the_client_hears_what_broke() -> None:
    assert pulled(None).refused == [BROKE]


def test_of_a_value_that_a_host_lost_the_controller_is_asked_since_it_knows_why() -> None:
    asked: list[bool] = []
    lost = PathwaysError(Failure(Reason.BUFFER_LOST, "the executor of host a0 that held it is gone", host="a0"))
    assert pulled(lambda: asked.append(True), lost).refused == []
    assert asked == [True]
    assert pulled(None, lost).refused == [lost.failure]
    refused = PathwaysError(Failure(Reason.RESOURCE_EXHAUSTED, "too large"))
    assert pulled(lambda: asked.append(True), refused).refused == [refused.failure]
    assert asked == [True]


class SilentHost(FakeContext):
    """Its host never hears of the ticket."""

    async def pull(self, _source: Any, _size_bytes: int) -> bytes:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError("nothing ends it")


async def begun() -> None:
    """Tasks of tasks are under way."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_ticket_that_is_taken_back_ends_a_pull_that_its_host_does_not_answer() -> None:
    late = Failure(Reason.TIMED_OUT, "the fetch was not answered within 60 s")

    async def scenario() -> SilentHost:
        context = SilentHost(AssertionError())
        waits = Waits(cast("Context", context))
        pull = context.spawn("fetch-7", waits._pull(Operation(1, 2), 3, cast("Any", None), None, ticket_in(context), None))
        await begun()
        assert context.pending.answer("fetched", 7, None, late)
        await pull
        return context

    context = asyncio.run(scenario())
    assert (context.refused, context.cancelled, len(context.pending)) == ([late], True, 0)


def test_a_ticket_of_what_outlives_its_epoch_asks_for_another() -> None:
    kept = Failure(Reason.UNAVAILABLE, "array 5 was being read when its epoch ended", metadata=MappingProxyType({KEPT: "True"}))
    asked: list[bool] = []

    async def scenario() -> SilentHost:
        context = SilentHost(AssertionError())
        waits = Waits(cast("Context", context))
        pull = waits._pull(Operation(1, 2), 3, cast("Any", None), None, ticket_in(context), lambda: asked.append(True))
        task = context.spawn("fetch-7", pull)
        await begun()
        assert context.pending.answer("fetched", 7, None, kept)
        await task
        return context

    assert asyncio.run(scenario()).refused == []
    assert asked == [True]


def test_of_a_pull_that_is_over_nothing_more_is_heard() -> None:
    context = pulled(None)
    assert context.refused == [BROKE]
    assert not context.pending.answer("fetched", 7, None, BROKE)


def test_a_ticket_that_is_taken_back_in_the_frame_that_brought_it_is_not_pulled() -> None:
    lost = Failure(Reason.BUFFER_LOST, "host a1 of island a was lost", host="a1")

    async def scenario() -> None:
        context = SilentHost(AssertionError())
        ticket = ticket_in(context)
        assert context.pending.answer("fetched", 7, None, lost)
        with pytest.raises(PathwaysError, match="host a1 of island a was lost"):
            await ticket.while_good(context.pull(None, 8))

    asyncio.run(scenario())


def test_a_session_that_ends_ends_its_pulls_without_an_answer() -> None:
    async def scenario() -> SilentHost:
        context = SilentHost(AssertionError())
        pull = asyncio.ensure_future(ticket_in(context).while_good(context.pull(None, 8)))
        await begun()
        pull.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pull
        return context

    context = asyncio.run(scenario())
    assert (context.cancelled, len(context.pending)) == (True, 0)


@pytest.mark.parametrize("soon", [True, False])
def test_bytes_that_are_wanted_no_more_are_not_brought_to_a_host_that_does_not_take_them(soon: bool) -> None:
    async def scenario() -> int:
        uploads = Uploads(cast("Any", None), 0, cast("Any", None))
        host = SilentHost(AssertionError())
        piece, taker = sessions_pb2.Piece(), asyncio.get_running_loop().create_future()
        uploads.expect(piece, taker)
        uploads.granted(sessions_pb2.UploadGrant(upload_id=piece.upload_id))
        if soon:  # in the frame of the grant
            uploads.withdrawn(sessions_pb2.UploadWithdrawn(upload_id=piece.upload_id))
        bringing = asyncio.ensure_future(uploads.while_wanted((await taker).upload_id, cast("Any", host.pull(None, 8))))
        await begun()
        uploads.withdrawn(sessions_pb2.UploadWithdrawn(upload_id=piece.upload_id))
        await bringing
        assert bringing.done()
        return len(uploads._unwanted)

    assert asyncio.run(scenario()) == 0
