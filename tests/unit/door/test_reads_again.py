"""A read whose ticket was used up by a call that broke, or whose value a host has lost, is asked for again, a few times."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.rpc.data_calls import Spent
from pathways_door.context import Context, Operation
from pathways_door.waits import Waits
from pathways_proto.v1 import sessions_pb2

BROKE = Failure(Reason.BUFFER_LOST, "the connection broke")


class FakeContext:
    """Bulk transfers that all fail, and what is answered."""

    def __init__(self, error: Exception) -> None:
        self.bulk = self
        self.error = error
        self.refused: list[Failure] = []

    async def pull(self, _source: Any, _size_bytes: int) -> bytes:
        raise self.error

    def refuse(self, _operation: Operation, failure: Failure) -> None:
        self.refused.append(failure)


def pulled(ask: Any, error: Exception | None = None) -> FakeContext:
    context = FakeContext(error or Spent(BROKE))
    waits = Waits(cast("Context", context))
    ticket = sessions_pb2.FetchTicket(size_bytes=8)
    asyncio.run(waits._pull(Operation(1, 2), 3, cast("Any", None), None, ticket, ask))
    return context


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
