"""Bulk calls of the client, `pw.fetch` and `pw.put`: arrays on one side, shared memory of the client's on the other.

A call begins on its socket. Then a plugin program is executed, which names the arrays or makes them; each meets the segment that
comes for it on the socket, is carried out, and is answered once. The end of the connection ends the call.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from google.protobuf.message import DecodeError
from pathways_common.model.failure import Reason, fail
from pathways_common.process.logs import fields
from pathways_common.process.segments import check_segment
from pathways_common.rpc.convert import failure_to_proto
from pathways_common.rpc.datagrams import Datagrams, Listener, close_all
from pathways_proto.v1 import door_pb2

from pathways_door.bulk_puts import PutArray
from pathways_door.bulk_reads import ReadArray
from pathways_door.context import Context, failure_in
from pathways_door.handles import Form
from pathways_door.near import Memory, NearWorkers

_LOG = logging.getLogger(__name__)
_GREETING_S = 10.0
# Who has not shown the secret yet; any process of the machine may try.
_STRANGERS_MAX = 64


class _Array(Protocol):
    async def carry_out(self, near: NearWorkers, memory: Memory) -> list[door_pb2.BulkShard]: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Call:
    """One `pw.fetch` or `pw.put`, or a part of it. `more` is set whenever arrays have been added."""

    arrays: list[_Array] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)
    memories: dict[int, Memory] = field(default_factory=dict)
    work: list[asyncio.Task[None]] = field(default_factory=list)


class BulkCalls:
    """The calls of one client process. Without a socket there are none."""

    def __init__(self, secret: str | None, near: NearWorkers) -> None:
        self._secret = secret or ""
        self._near = near
        self._calls: dict[int, _Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: Listener | None = None
        self._strangers = 0

    def start(self) -> str:
        """Listens; the name of the socket, empty if this machine has none such."""
        try:
            self._listener = Listener(self._connected)
        except OSError as error:
            _LOG.warning("no bulk calls through shared memory", extra=fields(cause=error.strerror))
            return ""
        return self._listener.name

    def stop(self) -> None:
        """Ends all calls."""
        if self._listener is not None:
            self._listener.close()
        for task in list(self._tasks):
            task.cancel()

    def _connected(self, peer: Datagrams) -> None:
        if self._strangers >= _STRANGERS_MAX:
            peer.close()
        else:
            self._strangers += 1
            self._spawn("bulk call", self._serve(peer))

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- the arrays -------------------------------------------------------------------------------------------------

    def read(self, context: Context, number: int, handles: Sequence[int]) -> None:
        """The client names arrays that are read; raises PathwaysError if there is no such call."""
        call = self._call(number)
        call.arrays.extend(ReadArray(context, context.arrays.get(handle)) for handle in handles)
        call.more.set()

    def put(self, context: Context, number: int, forms: Sequence[Form], handles: Sequence[int]) -> None:
        """Makes arrays, whose bytes the client brings, under these handles; raises PathwaysError if there is no such call."""
        call = self._call(number)
        call.arrays.extend(PutArray(context, form, handle) for form, handle in zip(forms, handles, strict=True))
        call.more.set()

    def _call(self, number: int) -> _Call:
        call = self._calls.get(number)
        if call is None:
            raise fail(Reason.INVALID_ARGUMENT, f"bulk call {number} is unknown; open it on the door's socket first")
        return call

    # ---- the socket -------------------------------------------------------------------------------------------------

    async def _serve(self, peer: Datagrams) -> None:
        number = 0
        try:
            try:
                async with asyncio.timeout(_GREETING_S):
                    received = await peer.receive()
            finally:
                self._strangers -= 1
            if received is None:
                return
            close_all(received[1])
            greeting = door_pb2.BulkCall.FromString(received[0])
            if not greeting.number or greeting.number in self._calls:
                return
            if not hmac.compare_digest(greeting.secret.encode(), self._secret.encode()):
                return
            number = greeting.number
            call = self._calls[number] = _Call()
            lock = asyncio.Lock()
            await peer.send(door_pb2.BulkAnswer(opened=True).SerializeToString())
            while (received := await peer.receive()) is not None:
                try:
                    segment = door_pb2.BulkSegment.FromString(received[0])
                except DecodeError:
                    close_all(received[1])
                    raise
                self._heard(peer, lock, call, segment, received[1])
        except (OSError, TimeoutError, DecodeError) as error:
            _LOG.info("bulk call ended", extra=fields(cause=str(error) or type(error).__name__))
        finally:
            peer.close()
            if number:
                self._end(self._calls.pop(number))

    def _end(self, call: _Call) -> None:
        for task in call.work:
            task.cancel()
        for array in call.arrays:
            array.close()

    def _heard(
        self, peer: Datagrams, lock: asyncio.Lock, call: _Call, segment: door_pb2.BulkSegment, descriptors: list[int]
    ) -> None:
        memory = call.memories.get(segment.position)
        if memory is None and len(descriptors) == 1:
            memory = call.memories[segment.position] = Memory(descriptors[0], segment.size_bytes)
            memory.fill(segment.filled_bytes)
            work = self._spawn(f"bulk array {segment.position}", self._answer(peer, lock, call, segment.position, memory))
            # A task that is cancelled before its first step never comes to its `finally`.
            work.add_done_callback(lambda _: memory.close())
            call.work.append(work)
        elif memory is not None and not descriptors:
            memory.fill(segment.filled_bytes)
        else:
            close_all(descriptors)
            raise OSError(f"array {segment.position} came with {len(descriptors)} descriptors; each brings one, once")

    async def _answer(self, peer: Datagrams, lock: asyncio.Lock, call: _Call, position: int, memory: Memory) -> None:
        answer = door_pb2.BulkAnswer(position=position, answered=True)
        try:
            check_segment(memory.descriptor, memory.size_bytes)
            array = await _named(call, position)
            answer.shards.extend(await array.carry_out(self._near, memory))
        except Exception as error:  # whatever it is, somebody waits for the answer
            answer.failure.CopyFrom(failure_to_proto(failure_in(error)))
        finally:
            memory.close()
        try:
            async with lock:
                await peer.send(answer.SerializeToString())
        except OSError as error:
            _LOG.info("bulk answer not taken", extra=fields(cause=error.strerror))


async def _named(call: _Call, position: int) -> _Array:
    """The array of this position, when it has been named; the client's connection bounds the wait."""
    while len(call.arrays) <= position:
        call.more.clear()
        await call.more.wait()
    return call.arrays[position]
