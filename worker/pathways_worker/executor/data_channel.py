"""Bulk bytes pass on a socket pair of their own: headers with raw bytes behind them, both ways, each way in order.

Incoming bytes of a transfer are received into memory of ours and copied to the device; outgoing ones are sent straight from the
array's memory. Shared memory of clients comes on a third pair, see segments.py; what is said about it leaves here, too.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from pathways_proto.v1 import workers_pb2

from pathways_worker.executor.completion import Lane
from pathways_worker.executor.failures import FailureMessage
from pathways_worker.executor.frames import FrameReader, write_frame
from pathways_worker.executor.segments import Segments

_LENGTH = struct.Struct("<I")
# Of a buffer that is spilled: between two of them fetches of others pass.
_PIECE_BYTES = 1 << 20

Take: TypeAlias = Callable[[int, Any, FailureMessage | None], None]


class DataChannel:
    """The executor's end of the data pair. The receiving thread hands on what comes, restored buffers apart from transfers."""

    def __init__(self, channel: socket.socket, segments: socket.socket | None = None) -> None:
        self._channel = channel
        self._sending = Lane("data sender")
        self._receiving = Lane("data receiver")
        self.segments = None if segments is None else Segments(segments, self._tell, self._stream)

    def start(self, on_bytes: Take, on_restored: Take) -> None:
        """Begins to receive: `on_bytes(transfer_id, bytes, failure)`, `on_restored(buffer_id, bytes, failure)`.

        The process has no use for the thread after the end of the stream.
        """
        if self.segments is not None:
            self.segments.start(on_bytes)
        reader = FrameReader(self._channel)

        def receive() -> None:
            while (payload := reader.read()) is not None:
                header = workers_pb2.ExecutorDataHeader.FromString(payload)
                data = reader.read_exactly(header.size_bytes)
                if data is None:
                    return
                failure = header.failure if header.HasField("failure") else None
                if header.buffer_id:
                    on_restored(header.buffer_id, data, failure)
                else:
                    on_bytes(header.transfer_id, data, failure)
                # Not kept until the next ones come.
                del data

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

    def _stream(self, fetch_id: int, value: np.ndarray[Any, Any]) -> None:
        self.send(fetch_id, value, _nothing)

    def _tell(self, header: workers_pb2.ExecutorDataHeader) -> None:
        message = header.SerializeToString()
        self._sending.put(lambda: write_frame(self._channel, message))

    def send_failure(self, fetch_id: int, failure: FailureMessage) -> None:
        """Tells whoever pulls this fetch that there will be no bytes."""
        self._tell(workers_pb2.ExecutorDataHeader(fetch_id=fetch_id, failure=failure))

    def send_spilled(self, buffer_id: int, rows: Sequence[np.ndarray[Any, Any]]) -> None:
        """Sends the shards of a buffer, piece by piece; a buffer without bytes is one empty piece."""
        pieces = [
            (values, start)
            for values in (shard.reshape(-1).view(np.uint8) for shard in rows)
            for start in range(0, values.nbytes, _PIECE_BYTES)
        ]
        for values, start in pieces or [(np.zeros(0, np.uint8), 0)]:
            self._sending.put(partial(self._send_piece, buffer_id, values[start : start + _PIECE_BYTES]))

    def _send_piece(self, buffer_id: int, piece: np.ndarray[Any, Any]) -> None:
        header = workers_pb2.ExecutorDataHeader(buffer_id=buffer_id, size_bytes=piece.nbytes)
        write_frame(self._channel, header.SerializeToString())
        self._channel.sendall(piece.data)


def _nothing() -> None:
    """Nobody waits for these bytes to be out."""
