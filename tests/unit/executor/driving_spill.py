"""The daemon's side of spilling, for tests of the executor: takes what it offers, and gives it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pathways_proto.v1 import spilling_pb2, types_pb2, workers_pb2
from pathways_worker.executor.frames import write_frame

from tests.unit.executor.driving import Executor

Command = workers_pb2.HostCommand
SEND = spilling_pb2.SPILL_DECISION_SEND
FORGET = spilling_pb2.SPILL_DECISION_FORGET
KEEP = spilling_pb2.SPILL_DECISION_KEEP
# Of every spill and restore here: answers repeat them.
SPILL_NUMBER, RESTORE_NUMBER = 71, 72


@dataclass
class Held:
    """A spilled buffer."""

    shards: Sequence[Any]
    data: bytes


def ask(executor: Executor, buffer_id: int) -> None:
    executor.send(Command(spill_array=spilling_pb2.SpillArray(buffer_id=buffer_id, spill_number=SPILL_NUMBER)))


def decide(executor: Executor, buffer_id: int, decision: spilling_pb2.SpillDecision) -> None:
    executor.send(Command(spill_decided=spilling_pb2.SpillDecided(buffer_id=buffer_id, decision=decision)))


def receive(executor: Executor, buffer_id: int, offer: Any) -> Held:
    """Has the executor send what it offered."""
    decide(executor, buffer_id, SEND)
    data, size_bytes = b"", sum(shard.size_bytes for shard in offer.shards)
    while True:
        header, piece = executor.read_data()
        assert header.buffer_id == buffer_id
        data += piece
        if len(data) >= size_bytes:
            assert len(data) == size_bytes
            return Held(list(offer.shards), data)


def spill(executor: Executor, buffer_id: int) -> Held:
    """Takes a buffer out of the executor."""
    ask(executor, buffer_id)
    held = receive(executor, buffer_id, executor.event("spill_offered", buffer_id=buffer_id))
    decide(executor, buffer_id, FORGET)
    return held


def send_restore(executor: Executor, buffer_id: int, shards: Sequence[Any]) -> None:
    command = spilling_pb2.RestoreArray(buffer_id=buffer_id, spill_number=RESTORE_NUMBER, shards=shards)
    executor.send(Command(restore_array=command))


def expect(executor: Executor, buffer_id: int, shards: Sequence[Any]) -> None:
    """Begins a restore, up to the executor's word that it has a place."""
    send_restore(executor, buffer_id, shards)
    executor.event("restore_expected", buffer_id=buffer_id)


def give(executor: Executor, buffer_id: int, data: bytes, failure: types_pb2.Failure | None = None) -> None:
    header = workers_pb2.ExecutorDataHeader(buffer_id=buffer_id, size_bytes=len(data), failure=failure)
    write_frame(executor.data, header.SerializeToString())
    executor.data.sendall(data)


def restore(executor: Executor, buffer_id: int, held: Held, piece_bytes: int = 1 << 20) -> Any:
    """Puts a buffer back, in pieces; the answer."""
    expect(executor, buffer_id, held.shards)
    for start in range(0, max(1, len(held.data)), piece_bytes):
        give(executor, buffer_id, held.data[start : start + piece_bytes])
    return executor.event("array_restored", spill_number=RESTORE_NUMBER, buffer_id=buffer_id)
