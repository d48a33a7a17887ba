"""Bulk bytes pass on a socket pair of their own: headers with raw bytes behind them, both ways, each way in order.

Incoming bytes of a transfer are received into memory of ours and copied to the device; outgoing ones are sent straight from the
array's memory.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from pathways_proto.v1 import workers_pb2

from pathways_worker.executor.completion import Lane
from pathways_worker.executor.failures import FailureMessage
from pathways_worker.executor.frames import FrameReader, write_frame

_LENGTH = struct.Struct("<I")


class DataChannel:
    """The executor's end of the data pair. `on_bytes(transfer_id, bytes, failure)` runs on the receiving thread."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._sending = Lane("data sender")
        self._receiving = Lane("data receiver")

    def start(self, on_bytes: Callable[[int, Any, FailureMessage | None], None]) -> None:
        """Begins to receive; the process has no use for the thread after the end of the stream."""
        reader = FrameReader(self._channel)

        def receive() -> None:
            while (payload := reader.read()) is not None:
                header = workers_pb2.ExecutorDataHeader.FromString(payload)
                data = reader.read_exactly(header.size_bytes)
                if data is None:
                    return
                on_bytes(header.transfer_id, data, header.failure if header.HasField("failure") else None)

        self._receiving.put(receive)

    def send(self, fetch_id: int, value: np.ndarray[Any, Any], done: Callable[[], None]) -> None:
        """Sends a fetch's bytes behind those sent before; `done` runs when they are out."""

        def act() -> None:
            header = workers_pb2.ExecutorDataHeader(fetch_id=fetch_id, size_bytes=value.nbytes)
            write_frame(self._channel, header.SerializeToString())
            # Types of ml_dtypes have no buffer protocol; their bytes do.
            self._channel.sendall(value.reshape(-1).view(np.uint8).data)
            done()

        self._sending.put(act)

    def send_failure(self, fetch_id: int, failure: FailureMessage) -> None:
        """Tells whoever pulls this fetch that there will be no bytes."""
        header = workers_pb2.ExecutorDataHeader(fetch_id=fetch_id, failure=failure).SerializeToString()
        self._sending.put(lambda: write_frame(self._channel, header))
