"""Shared memory of clients, in which bytes come and go without passing a socket.

A shard that is held stays in its array until the daemon says what becomes of it: written into a segment, sent as a stream, or
nothing. A segment is used while the order is carried out, and never mapped. One thread carries out one order after the other.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from pathways_common.model.failure import Reason
from pathways_common.process.segments import read_at, write_at
from pathways_proto.v1 import segments_pb2, workers_pb2

from pathways_worker.executor.completion import Lane
from pathways_worker.executor.failures import FailureMessage, make_failure
from pathways_worker.executor.recycled_memory import RecycledMemory

_ORDER_BYTES = 4096
# header, and the bytes behind it if there are any.
Tell: TypeAlias = Callable[[Any], None]
Take: TypeAlias = Callable[[int, Any, FailureMessage | None], None]
Stream: TypeAlias = Callable[[int, "np.ndarray[Any, Any]"], None]


class Segments:
    """The executor's end of the segment pair. `tell` sends a header to the daemon, `stream` the bytes of a fetch."""

    def __init__(self, channel: socket.socket, tell: Tell, stream: Stream) -> None:
        self._channel = channel
        self._tell = tell
        self._stream = stream
        self._lock = threading.Lock()
        self._held: dict[int, tuple[np.ndarray[Any, Any], Callable[[], None]]] = {}
        self._memory = RecycledMemory()
        # By push: memory of ours, and how much of it is filled.
        self._pushed: dict[int, tuple[np.ndarray[Any, Any], int]] = {}

    def start(self, on_bytes: Take) -> None:
        """Begins to carry out orders; `on_bytes(transfer_id, bytes, None)` takes what came for a transfer."""

        def serve() -> None:
            while True:
                data, descriptors, flags, _ = socket.recv_fds(self._channel, _ORDER_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
                if not data:
                    return
                order = segments_pb2.SegmentUse.FromString(data)
                try:
                    if flags & socket.MSG_CTRUNC:
                        # Without its descriptor it would read as another order.
                        self._refuse(order)
                    else:
                        self._carry_out(order, descriptors, on_bytes)
                finally:
                    for descriptor in descriptors:
                        os.close(descriptor)

        Lane("segments").put(serve)

    def hold(self, fetch_id: int, value: np.ndarray[Any, Any], released: Callable[[], None]) -> None:
        """Keeps a shard that is computed; `released` runs when nobody needs it any more."""
        with self._lock:
            self._held[fetch_id] = value, released
        self._tell(workers_pb2.ExecutorDataHeader(fetch_id=fetch_id, held=True))

    def _refuse(self, order: segments_pb2.SegmentUse) -> None:
        answer = workers_pb2.ExecutorDataHeader(fetch_id=order.fetch_id, push_id=order.push_id, written=True)
        answer.failure.CopyFrom(_no_room(OSError("this process has too many open files")))
        self._tell(answer)

    def _carry_out(self, order: segments_pb2.SegmentUse, descriptors: list[int], on_bytes: Take) -> None:
        if order.push_id:
            self._push(order, descriptors, on_bytes)
            return
        with self._lock:
            found = self._held.get(order.fetch_id)
        if found is None:
            return
        value, released = found
        if order.stream:
            self._stream(order.fetch_id, value)
        elif descriptors:
            answer = workers_pb2.ExecutorDataHeader(fetch_id=order.fetch_id, written=True)
            try:
                if value.nbytes != order.size_bytes:
                    raise OSError(f"the shard has {value.nbytes} bytes, room was brought for {order.size_bytes}")
                # Types of ml_dtypes have no buffer protocol; their bytes do.
                write_at(descriptors[0], value.reshape(-1).view(np.uint8).data, order.offset)
            except OSError as error:
                answer.failure.CopyFrom(_no_room(error))
            self._tell(answer)
        else:
            with self._lock:
                del self._held[order.fetch_id]
            released()

    def _push(self, order: segments_pb2.SegmentUse, descriptors: list[int], on_bytes: Take) -> None:
        answer = workers_pb2.ExecutorDataHeader(push_id=order.push_id, written=True)
        if descriptors:
            try:
                self._take_part(order, descriptors[0])
            except (OSError, MemoryError) as error:
                answer.failure.CopyFrom(_no_room(error))
        else:
            data, filled = self._pushed.pop(order.push_id, (np.empty(0, np.uint8), 0))
            if not order.transfer_id:
                return
            on_bytes(order.transfer_id, data[:filled], None)
        self._tell(answer)

    def _take_part(self, order: segments_pb2.SegmentUse, descriptor: int) -> None:
        data, filled = self._pushed.get(order.push_id) or (self._memory.take(order.total_bytes), 0)
        if filled + order.size_bytes > len(data):
            raise OSError(f"a push of {len(data)} bytes had more than that")
        read_at(descriptor, data[filled : filled + order.size_bytes].data, order.offset)
        self._pushed[order.push_id] = data, filled + order.size_bytes


def _no_room(error: Exception) -> FailureMessage:
    return make_failure(Reason.RESOURCE_EXHAUSTED, f"bytes of a shard did not get through shared memory: {error}")
