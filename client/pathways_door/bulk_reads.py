"""The door's side of `pw.fetch`: arrays are read into memory of the client's, which comes as a descriptor for each of them.

A call begins on its socket. Then a plugin program is executed with the arrays: what they are read of is asked for there and then,
in the client's order, so that nothing it does later changes what is read. Shards go to their place in the array, or one behind the
other where they have none of their own. Every array is answered once, and the end of the connection ends the call.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from google.protobuf.message import DecodeError
from pathways_common.model.bounds import FENCE_TIMEOUT_NS
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.model.sharding import Slices, distinct_shards
from pathways_common.process.logs import fields
from pathways_common.process.segments import check_segment, write_at
from pathways_common.rpc.convert import failure_to_proto
from pathways_common.rpc.data_calls import Spent
from pathways_common.rpc.datagrams import Datagrams, Listener
from pathways_proto.v1 import door_pb2, sessions_pb2

from pathways_door.context import Context, failure_in
from pathways_door.handles import ArrayRecord, Form, Range, shards_of
from pathways_door.near import NearWorkers

_LOG = logging.getLogger(__name__)
# For the greeting, and for the execution that names the arrays.
_GREETING_S = 10.0
# Tickets for one shard: each may be used up by a call that broke at its very end.
_ASKED_MAX = 4
_LOSSES = (Reason.BUFFER_LOST, Reason.SLICE_LOST)

_Asked = asyncio.Future[Any]


@dataclass(slots=True)
class _Shard:
    """One distinct shard, and the question for it that is out."""

    slices: Slices
    value_id: int
    index: int
    size_bytes: int
    asked: _Asked


@dataclass(slots=True)
class _Array:
    """What is read of one array, or why it cannot be."""

    form: Form
    shards: list[_Shard] = field(default_factory=list)
    failure: Failure | None = None
    handles: list[int] = field(default_factory=list)  # of ours, to be destructed


@dataclass(slots=True)
class _Call:
    """One `pw.fetch`, or a part of it. `more` is set whenever arrays have been added."""

    arrays: list[tuple[Context, _Array]] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)


class BulkReads:
    """The calls of one client process. Without a socket there are none."""

    def __init__(self, secret: str | None, near: NearWorkers) -> None:
        self._secret = secret or ""
        self._near = near
        self._calls: dict[int, _Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: Listener | None = None

    def start(self) -> str:
        """Listens; the name of the socket, empty if this machine has none such."""
        try:
            self._listener = Listener(lambda peer: self._spawn("bulk call", self._serve(peer)))
        except OSError as error:
            _LOG.warning("no reads through shared memory", extra=fields(cause=error.strerror))
            return ""
        return self._listener.name

    def stop(self) -> None:
        """Ends all calls."""
        if self._listener is not None:
            self._listener.close()
        for task in list(self._tasks):
            task.cancel()

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- the arrays -------------------------------------------------------------------------------------------------

    def execute(self, context: Context, number: int, handles: Sequence[int]) -> None:
        """The client names arrays of a call; raises PathwaysError if there is no such call."""
        call = self._calls.get(number)
        if call is None:
            raise fail(Reason.INVALID_ARGUMENT, f"bulk call {number} is unknown; open it on the door's socket first")
        for handle in handles:
            record = context.arrays.get(handle)
            array = _Array(record.form, failure=record.problem())
            if array.failure is None:
                try:
                    array.shards = _asked(context, record, array.handles)
                except Exception as error:
                    array.failure = failure_in(error)
            call.arrays.append((context, array))
        call.more.set()

    # ---- the socket -------------------------------------------------------------------------------------------------

    async def _serve(self, peer: Datagrams) -> None:
        number = 0
        reads: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout(_GREETING_S):
                received = await peer.receive()
            greeting = door_pb2.BulkCall.FromString(received[0] if received else b"")
            if not greeting.number or not hmac.compare_digest(greeting.secret.encode(), self._secret.encode()):
                return
            number, call = greeting.number, _Call()
            if self._calls.setdefault(number, call) is not call:
                number = 0
                return
            lock = asyncio.Lock()
            await peer.send(door_pb2.BulkAnswer(opened=True).SerializeToString())
            while (received := await peer.receive()) is not None:
                read = door_pb2.BulkRead.FromString(received[0])
                reads.append(self._spawn(f"bulk-read-{number}", self._answer(peer, lock, call, read, received[1])))
        except (OSError, TimeoutError, DecodeError) as error:
            _LOG.info("bulk call ended", extra=fields(cause=str(error) or type(error).__name__))
        finally:
            for task in reads:
                task.cancel()
            peer.close()
            found = self._calls.pop(number, None) if number else None
            for context, array in found.arrays if found else ():
                for handle in array.handles:
                    context.arrays.destruct(handle)

    async def _answer(
        self, peer: Datagrams, lock: asyncio.Lock, call: _Call, read: door_pb2.BulkRead, descriptors: list[int]
    ) -> None:
        answer = door_pb2.BulkAnswer(position=read.position, answered=True)
        try:
            answer.shards.extend(await self._read(call, read, descriptors))
        except PathwaysError as error:
            answer.failure.CopyFrom(failure_to_proto(error.failure))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        try:
            async with lock:
                await peer.send(answer.SerializeToString())
        except OSError as error:
            _LOG.info("bulk answer not taken", extra=fields(cause=error.strerror))

    async def _read(self, call: _Call, read: door_pb2.BulkRead, descriptors: list[int]) -> list[door_pb2.BulkShard]:
        if len(descriptors) != 1:
            raise fail(Reason.INVALID_ARGUMENT, f"a bulk read brings one descriptor, not {len(descriptors)}")
        check_segment(descriptors[0], read.size_bytes)
        context, array = await _named(call, read.position)
        if array.failure is not None:
            raise PathwaysError(array.failure)
        offsets, answer = _layout(array, read.size_bytes)
        reads = [
            self._spawn("bulk-shard", self._read_shard(context, shard, descriptors[0], offset))
            for shard, offset in zip(array.shards, offsets, strict=True)
        ]
        try:
            await asyncio.gather(*reads)
        finally:
            # The descriptor is closed behind this.
            for task in reads:
                task.cancel()
            await asyncio.gather(*reads, return_exceptions=True)
        return answer

    async def _read_shard(self, context: Context, shard: _Shard, descriptor: int, offset: int) -> None:
        for left in range(_ASKED_MAX - 1, -1, -1):
            message, failure = await shard.asked
            if failure is not None:
                raise PathwaysError(failure)
            if not isinstance(message, sessions_pb2.FetchTicket):
                await asyncio.to_thread(write_at, descriptor, memoryview(message.data), offset)
                return
            try:
                await self._near.read_into(message.source, message.size_bytes, descriptor, offset)
                return
            except PathwaysError as error:
                # Of a loss the host knows only its own part; the controller names the cause, if it knows one.
                if not left or not (isinstance(error, Spent) or error.failure.reason in _LOSSES):
                    raise
            shard.asked = _ask(context, shard.value_id, shard.index, shard.size_bytes)


async def _named(call: _Call, position: int) -> tuple[Context, _Array]:
    """The array of this position, when it has been named."""
    try:
        async with asyncio.timeout(FENCE_TIMEOUT_NS / 1e9):
            while len(call.arrays) <= position:
                call.more.clear()
                await call.more.wait()
    except TimeoutError:
        seconds = FENCE_TIMEOUT_NS // 10**9
        raise fail(Reason.TIMED_OUT, f"the arrays of a bulk read did not reach the door within {seconds} s") from None
    return call.arrays[position]


def _asked(context: Context, record: ArrayRecord, handles: list[int]) -> list[_Shard]:
    """Asks for every distinct shard of an array; of one with copies on several islands, for whichever is not lost."""
    form, places = record.form, shards_of(record)
    size_bytes = form.shard_bytes
    if form.is_string or not size_bytes:
        raise fail(Reason.UNSUPPORTED, "arrays without bytes, and of strings, are not read through shared memory")
    shards = []
    for slices, positions in distinct_shards(form.placement.sharding, form.shape, len(form.placement.devices)):
        value_id, index = _copy_of(context, form, places, positions, handles)
        shards.append(_Shard(slices, value_id, index, size_bytes, _ask(context, value_id, index, size_bytes)))
    return shards


def _copy_of(
    context: Context, form: Form, places: list[Range], positions: Sequence[int], handles: list[int]
) -> tuple[int, int]:
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
        if not answered.done():
            answered.set_result((message, failure))

    number = context.upstream.pending.number("fetched")
    fetch = sessions_pb2.Fetch(fetch_id=number, view_id=value_id, shard=index, size_bytes=size_bytes, held=True)
    context.upstream.ask("fetched", number, sessions_pb2.ClientOperation(fetch=fetch), done)
    return answered


def _layout(array: _Array, room_bytes: int) -> tuple[list[int], list[door_pb2.BulkShard]]:
    """Where the shards go in a segment, and what the client is told about it."""
    form = array.form
    places = [_place_of(shard.slices, form) for shard in array.shards]
    placed = [offset for offset in places if offset is not None]
    answer: list[door_pb2.BulkShard] = []
    if len(placed) < len(places):
        placed = [number * form.shard_bytes for number in range(len(places))]
        for shard, offset in zip(array.shards, placed, strict=True):
            start = [first for first, _ in shard.slices]
            answer.append(door_pb2.BulkShard(start=start, shape=form.shard_shape, offset=offset))
    needed = max(placed) + form.shard_bytes
    if needed > room_bytes:
        raise fail(Reason.UNSUPPORTED, f"the shards of an array take {needed} bytes; room was brought for {room_bytes}")
    return placed, answer


def _place_of(slices: Slices, form: Form) -> int | None:
    """Where a shard begins in its array, if it lies there in one piece."""
    extents = tuple(stop - start for start, stop in slices)
    cut = [axis for axis, (extent, size) in enumerate(zip(extents, form.shape, strict=True)) if extent != size]
    if extents != form.shard_shape or (cut and prod(extents[: cut[-1]]) != 1):
        return None
    steps = [prod(form.shape[axis + 1 :]) for axis in range(len(form.shape))]
    return sum(start * step for (start, _), step in zip(slices, steps, strict=True)) * form.item_bytes
