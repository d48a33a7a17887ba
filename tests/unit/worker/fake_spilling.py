"""The spilling of the stand-in for an executor: buffer N has N KiB, all of them the byte N % 251, for ever.

A buffer whose number ends in 404 is refused (DELETED). What the daemon decides is logged as `decided <buffer> <decision>`. A
restored buffer is compared with what it was, `restored <buffer> same` or `other`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pathways_proto.v1 import spilling_pb2, types_pb2, workers_pb2

Events = list[workers_pb2.HostEvent]
PIECE_BYTES = 100_000


def bytes_of(buffer_id: int) -> bytes:
    """What buffer N holds."""
    return bytes([buffer_id % 251]) * (buffer_id << 10)


class FakeSpilling:
    """`send(header, data)` writes to the data pair."""

    def __init__(self, send: Callable[[workers_pb2.ExecutorDataHeader, bytes], None], log: Callable[[str], Any]) -> None:
        self._send = send
        self._log = log
        self._coming: dict[int, bytes] = {}
        self._numbers: dict[int, int] = {}

    def on_spill_array(self, message: Any) -> Events:
        identifier = message.buffer_id
        if identifier % 1000 == 404:
            failure = types_pb2.Failure(reason="DELETED", message="it was deleted")
            answer = spilling_pb2.ArraySpilled(buffer_id=identifier, spill_number=message.spill_number, failure=failure)
            return [workers_pb2.HostEvent(array_spilled=answer)]
        shard = spilling_pb2.SpilledShard(dtype=6, shape=[identifier << 10], size_bytes=identifier << 10)
        return [workers_pb2.HostEvent(spill_offered=spilling_pb2.SpillOffered(buffer_id=identifier, shards=[shard]))]

    def on_spill_decided(self, message: Any) -> Events:
        identifier, data = message.buffer_id, bytes_of(message.buffer_id)
        if message.decision == spilling_pb2.SPILL_DECISION_SEND:
            for start in range(0, max(1, len(data)), PIECE_BYTES):
                piece = data[start : start + PIECE_BYTES]
                self._send(workers_pb2.ExecutorDataHeader(buffer_id=identifier, size_bytes=len(piece)), piece)
        name = spilling_pb2.SpillDecision.Name(message.decision).removeprefix("SPILL_DECISION_").lower()
        return [self._log(f"decided {identifier} {name}")]

    def on_restore_array(self, message: Any) -> Events:
        assert [shard.size_bytes for shard in message.shards] == [message.buffer_id << 10]
        self._coming[message.buffer_id] = b""
        self._numbers[message.buffer_id] = message.spill_number
        return [workers_pb2.HostEvent(restore_expected=spilling_pb2.RestoreExpected(buffer_id=message.buffer_id))]

    def on_drop_spilled(self, message: Any) -> Events:
        return [self._log(f"dropped {identifier}") for identifier in message.ids]

    def arrived(self, header: workers_pb2.ExecutorDataHeader, data: bytes) -> Events:
        identifier = header.buffer_id
        answer = spilling_pb2.ArrayRestored(buffer_id=identifier, spill_number=self._numbers[identifier])
        if header.HasField("failure"):
            answer.failure.CopyFrom(header.failure)
            return [workers_pb2.HostEvent(array_restored=answer)]
        self._coming[identifier] += data
        if len(self._coming[identifier]) < identifier << 10:
            return []
        same = self._coming.pop(identifier) == bytes_of(identifier)
        return [self._log(f"restored {identifier} {'same' if same else 'other'}"), workers_pb2.HostEvent(array_restored=answer)]
