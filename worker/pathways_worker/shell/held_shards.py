"""Shards that wait in the executor until somebody says where their bytes go, and bytes that come by shared memory.

An executor carries out what it is told in order, and says so each time; so of several things asked about one fetch or push the
answers come in the same order. What it owes when it is gone gets the failure of its end.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from typing import Protocol

from pathways_common.model.failure import Failure
from pathways_common.model.ids import FetchId, TransferId
from pathways_common.rpc.convert import optional_failure
from pathways_proto.v1 import segments_pb2, workers_pb2

# The bytes of a stream; empty if they went into a segment.
_Answer = tuple[bytes, Failure | None]


class Use(Protocol):
    """Hands an order to the current executor, with a descriptor that stays the caller's."""

    def __call__(self, order: segments_pb2.SegmentUse, descriptor: int = -1) -> None: ...


class HeldShards:
    """Of one daemon. All calls come from the event loop."""

    def __init__(self, use: Use) -> None:
        self._use = use
        self._held: set[FetchId] = set()
        self._asked: defaultdict[tuple[int, int], deque[asyncio.Future[_Answer]]] = defaultdict(deque)

    def __contains__(self, fetch_id: FetchId) -> bool:
        return fetch_id in self._held

    def add(self, fetch_id: FetchId) -> None:
        """The executor has it."""
        self._held.add(fetch_id)

    def forget(self, fetch_id: FetchId) -> None:
        """Nobody wants it any more; nothing happens if it is not held."""
        if fetch_id in self._held:
            self._held.discard(fetch_id)
            self._use(segments_pb2.SegmentUse(fetch_id=fetch_id))

    async def write(self, fetch_id: FetchId, descriptor: int, offset: int, size_bytes: int) -> Failure | None:
        """Has the shard written into a segment; the failure if it was not."""
        order = segments_pb2.SegmentUse(fetch_id=fetch_id, offset=offset, size_bytes=size_bytes)
        return (await self._answer_to(order, descriptor))[1]

    async def stream(self, fetch_id: FetchId) -> _Answer:
        """The bytes of the shard."""
        return await self._answer_to(segments_pb2.SegmentUse(fetch_id=fetch_id, stream=True), -1)

    async def part(self, push_id: int, descriptor: int, offset: int, size_bytes: int, total_bytes: int) -> Failure | None:
        """Has the executor read the next bytes of a push; the failure if it could not."""
        order = segments_pb2.SegmentUse(push_id=push_id, offset=offset, size_bytes=size_bytes, total_bytes=total_bytes)
        return (await self._answer_to(order, descriptor))[1]

    async def deliver(self, push_id: int, transfer_id: TransferId) -> Failure | None:
        """What was read of a push are the bytes of a transfer."""
        return (await self._answer_to(segments_pb2.SegmentUse(push_id=push_id, transfer_id=transfer_id), -1))[1]

    def drop(self, push_id: int) -> None:
        """Nobody wants what was read of a push."""
        self._use(segments_pb2.SegmentUse(push_id=push_id))

    async def _answer_to(self, order: segments_pb2.SegmentUse, descriptor: int) -> _Answer:
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._asked[order.fetch_id, order.push_id].append(answer)
        self._use(order, descriptor)
        return await answer

    def answered(self, header: workers_pb2.ExecutorDataHeader, data: bytes) -> bool:
        """The executor carried out something; False if this is no answer to anything here."""
        asked = self._asked.get((header.fetch_id, header.push_id))
        if asked is None:
            return False
        answer = asked.popleft()
        if not asked:
            del self._asked[header.fetch_id, header.push_id]
        if not answer.done():
            answer.set_result((data, optional_failure(header)))
        return True

    def executor_changed(self, failure: Failure) -> None:
        """What the one before held is gone."""
        self._held.clear()
        asked, self._asked = self._asked, defaultdict(deque)
        for answers in asked.values():
            for answer in answers:
                if not answer.done():
                    answer.set_result((b"", failure))
