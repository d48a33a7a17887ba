"""What `pw.fetch` reads: the distinct shards of an array, into one segment of the client's.

They are asked for when the client names the array, in its own order, so that nothing it does later changes what is read.
Shards go to their place in the array, or one behind the other where they have none of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.model.sharding import Slices, distinct_shards
from pathways_common.process.segments import write_aside
from pathways_proto.v1 import door_pb2, sessions_pb2

from pathways_door.context import Context, failure_in
from pathways_door.handles import ArrayRecord, Form, Range, shards_of
from pathways_door.near import Memory, NearWorkers, all_of
from pathways_door.tickets import ASKED_MAX, ReadTicket, helps_to_ask_again

_Asked = asyncio.Future[Any]


@dataclass(slots=True)
class Shard:
    """One distinct shard, and the question for it that is out."""

    slices: Slices
    value_id: int
    index: int
    size_bytes: int
    asked: _Asked


class ReadArray:
    """One array. If it cannot be read, `failure` says why; `close` it in any case."""

    def __init__(self, context: Context, record: ArrayRecord) -> None:
        self._context = context
        self._form = record.form
        self._handles: list[int] = []
        self._shards: list[Shard] = []
        self._failure = record.problem()
        if self._failure is None:
            try:
                self._shards = _asked(context, record, self._handles)
            except Exception as error:
                self._failure = failure_in(error)

    def close(self) -> None:
        """Lets go of what was made for it."""
        for shard in self._shards:
            if not shard.asked.cancel() and not shard.asked.cancelled():
                message, _ = shard.asked.result()
                if isinstance(message, ReadTicket):
                    message.close()
        for handle in self._handles:
            self._context.arrays.destruct(handle)

    async def carry_out(self, near: NearWorkers, memory: Memory) -> list[door_pb2.BulkShard]:
        """Brings all bytes; what it answers says where they lie. Raises PathwaysError with the first failure."""
        if self._failure is not None:
            raise PathwaysError(self._failure)
        offsets, answer = layout(self._form, [shard.slices for shard in self._shards], memory.size_bytes)
        await all_of(
            read_shard(self._context, near, shard, memory, offset) for shard, offset in zip(self._shards, offsets, strict=True)
        )
        return answer


async def read_shard(context: Context, near: NearWorkers, shard: Shard, memory: Memory, offset: int) -> None:
    """Brings the bytes of one shard; asks again if a ticket was used up, or a host has lost the shard."""
    for left in range(ASKED_MAX - 1, -1, -1):
        message, failure = await shard.asked
        if failure is not None:
            raise PathwaysError(failure)
        if not isinstance(message, ReadTicket):
            await write_aside(memory.descriptor, memoryview(message.data), offset)
            return
        try:
            await message.while_good(near.read_into(message.source, message.size_bytes, memory.descriptor, offset))
            return
        except PathwaysError as error:
            if not left or not helps_to_ask_again(error):
                raise
        shard.asked = _ask(context, shard.value_id, shard.index, shard.size_bytes)


def _asked(context: Context, record: ArrayRecord, handles: list[int]) -> list[Shard]:
    """Asks for every distinct shard of an array; of one with copies on several islands, for whichever is not lost."""
    form, places = record.form, shards_of(record)
    size_bytes = form.shard_bytes
    if form.is_string or not size_bytes:
        raise fail(Reason.UNSUPPORTED, "arrays without bytes, and of strings, are not read through shared memory")
    shards = []
    for slices, positions in distinct_shards(form.placement.sharding, form.shape, len(form.placement.devices)):
        value_id, index = _copy_of(context, form, places, positions, handles)
        shards.append(Shard(slices, value_id, index, size_bytes, _ask(context, value_id, index, size_bytes)))
    return shards


def _copy_of(context: Context, form: Form, places: list[Range], positions: Sequence[int], handles: list[int]) -> tuple[int, int]:
    found: dict[int, Range] = {}
    for position in positions:
        found.setdefault(context.islands[form.placement.devices[position]], places[position])
    if len(found) > 1:
        handle = context.arrays.new_handle()
        context.arrays.first_of_copies(handle, form, list(found.values()))
        handles.append(handle)
        value, index, _ = context.arrays.get(handle).ranges[0]
    else:
        value, index, _ = places[positions[0]]
    return value.value_id, index


def _ask(context: Context, value_id: int, index: int, size_bytes: int) -> _Asked:
    answered: _Asked = asyncio.get_running_loop().create_future()

    def done(message: Any, failure: Failure | None) -> None:
        if answered.done():
            return  # nobody wants it any more
        ticket = isinstance(message, sessions_pb2.FetchTicket)
        answered.set_result((ReadTicket(context.upstream.pending, message) if ticket else message, failure))

    number = context.upstream.pending.number("fetched")
    fetch = sessions_pb2.Fetch(fetch_id=number, view_id=value_id, shard=index, size_bytes=size_bytes, held=True)
    context.upstream.ask("fetched", number, sessions_pb2.ClientOperation(fetch=fetch), done)
    return answered


def layout(form: Form, shards: Sequence[Slices], room_bytes: int) -> tuple[list[int], list[door_pb2.BulkShard]]:
    """Where the shards of an array go in a segment, and what the client is told about it."""
    places = [place_of(slices, form) for slices in shards]
    placed = [offset for offset in places if offset is not None]
    answer: list[door_pb2.BulkShard] = []
    if len(placed) < len(places):
        placed = [number * form.shard_bytes for number in range(len(places))]
        for slices, offset in zip(shards, placed, strict=True):
            start = [first for first, _ in slices]
            answer.append(door_pb2.BulkShard(start=start, shape=form.shard_shape, offset=offset))
    needed = max(placed) + form.shard_bytes
    if needed > room_bytes:
        raise fail(Reason.UNSUPPORTED, f"the shards of an array take {needed} bytes; room was brought for {room_bytes}")
    return placed, answer


def place_of(slices: Slices, form: Form) -> int | None:
    """Where a shard begins in its array, if it lies there in one piece."""
    extents = tuple(stop - start for start, stop in slices)
    cut = [axis for axis, (extent, size) in enumerate(zip(extents, form.shape, strict=True)) if extent != size]
    if extents != form.shard_shape or (cut and prod(extents[: cut[-1]]) != 1):
        return None
    steps = [prod(form.shape[axis + 1 :]) for axis in range(len(form.shape))]
    return sum(start * step for (start, _), step in zip(slices, steps, strict=True)) * form.item_bytes
