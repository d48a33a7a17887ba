"""Arrays are made of pieces: bytes that came along, bytes of transfers, shards that live here, or boxes of these.

A PlaceArray of the controller and a move of a run become the same `Piece`s, so they are put together by the same code. What has
to wait for bytes or for a computation is pending in the store until its last piece is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from pathways_common.model.failure import Reason

from pathways_worker.executor import runtime
from pathways_worker.executor.boxes import Assembly, cut_at
from pathways_worker.executor.completion import Lane
from pathways_worker.executor.device_memory import DeviceMemory
from pathways_worker.executor.element_types import TOKEN, dtype_of
from pathways_worker.executor.failures import FailureMessage, failure_of, make_failure, read_failure
from pathways_worker.executor.objects import Objects, Pending, Sink, Waiter


class Shard(NamedTuple):
    """A shard on this host."""

    identifier: int
    local_index: int


class Box(NamedTuple):
    """`shape` elements that go to `start`: all bytes of a transfer, or those from `local_start` of a local shard."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    source: int | Shard
    local_start: tuple[int, ...] = ()


class Piece(NamedTuple):
    """The shard for one local device: bytes, a transfer's number, a local shard, or boxes (what none covers is zero)."""

    local_device: int
    source: bytes | int | Shard | tuple[Box, ...]


class Form(NamedTuple):
    """Type (as in ArraySpec), shape and memory kind of one shard."""

    dtype: int
    shape: tuple[int, ...]
    memory_kind: str


class _Making(NamedTuple):
    """An array in the making; `sinks` say, per transfer, where its bytes go."""

    identifier: int
    pending: Pending
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    kind: str
    sinks: dict[int, list[Sink]]


class Placer:
    """Puts arrays and views together in a store. `transfer_failed` and `landed` tell the end of arrays that are reported."""

    def __init__(
        self,
        machine: runtime.Runtime,
        objects: Objects,
        landed: Callable[[int], None],
        transfer_failed: Callable[[int, FailureMessage], None],
        memory: DeviceMemory | None = None,
    ) -> None:
        self._memory = memory
        self._machine = machine
        self._objects = objects
        self._landed = landed
        self._transfer_failed = transfer_failed
        self._cutting = Lane("boxes")

    def place(self, message: Any) -> list[int]:
        """Carries out a PlaceArray; returns the ids it was made from."""
        form = Form(message.spec.dtype, tuple(message.spec.shard_shape), message.spec.memory_kind)
        pieces = [Piece(piece.local_device, _source(piece)) for piece in message.pieces]
        reporter = self._reporter(message.transfer_id) if message.transfer_id else None
        self.place_pieces(message.buffer_id, form, pieces, reporter)
        return [part.local.id for piece in message.pieces for part in (piece, *piece.boxes) if part.HasField("local")]

    def place_pieces(self, identifier: int, form: Form, pieces: Sequence[Piece], waiter: Waiter | None = None) -> None:
        """Makes an array. Whatever is wrong with it poisons the id. A waiter is told its end, unless all bytes came along."""
        dtype = np.dtype(np.bool_) if form.dtype == TOKEN else dtype_of(form.dtype)
        if dtype is None or not pieces:
            reason = f"element type {form.dtype}" if dtype is None else "a buffer without local shards"
            self._objects.poison(identifier, make_failure(Reason.UNSUPPORTED, f"executors do not hold {reason}"))
            return
        if self._memory is not None:
            failure = self._memory.admit(identifier, self._sizes(dtype, form, pieces))
            if failure is not None:
                self._objects.poison(identifier, failure)
                if waiter is not None:
                    waiter(None, failure)
                return
        if all(isinstance(piece.source, bytes) for piece in pieces):
            self._place_bytes(identifier, dtype, form, pieces)
            return
        pending = self._objects.begin(identifier, len(pieces), waiter)
        making = _Making(identifier, pending, dtype, form.shape, form.memory_kind, {})
        for index, piece in enumerate(pieces):
            if piece.local_device >= len(self._machine.local_devices):
                text = f"this host has {len(self._machine.local_devices)} devices, a piece is for number {piece.local_device}"
                self._objects.poison(identifier, make_failure(Reason.INVALID_ARGUMENT, text))
                return
            try:
                self._fill_from(making, index, piece)
            except Exception as error:  # such as a shape for which there is no memory
                self._objects.poison(identifier, failure_of(error, Reason.INVALID_ARGUMENT))
                return
        for transfer_id, takers in making.sinks.items():
            self._objects.expect(identifier, transfer_id, takers)

    def _sizes(self, dtype: np.dtype[Any], form: Form, pieces: Sequence[Piece]) -> list[tuple[int, int]]:
        """What the pieces take up, device by device; nothing in memory that is not the devices' own."""
        devices = self._machine.local_devices
        size_bytes = math.prod(form.shape) * dtype.itemsize if self._machine.is_device_memory(form.memory_kind) else 0
        return [(piece.local_device, size_bytes) for piece in pieces if piece.local_device < len(devices)]

    def _reporter(self, transfer_id: int) -> Waiter:
        def report(array: runtime.Array | None, failure: FailureMessage | None) -> None:
            if array is not None:
                self._landed(transfer_id)
            else:
                self._transfer_failed(transfer_id, failure)

        return report

    def _place_bytes(self, identifier: int, dtype: np.dtype[Any], form: Form, pieces: Sequence[Piece]) -> None:
        """The common case: all bytes came along."""
        try:
            values = [_values(piece.source, dtype, form.shape) for piece in pieces]
            devices = [self._machine.local_devices[piece.local_device] for piece in pieces]
            self._objects.arrays[identifier] = self._machine.place(values, devices, form.memory_kind)
        except Exception as error:
            self._objects.poison(identifier, failure_of(error, Reason.INVALID_ARGUMENT))

    def _fill_from(self, making: _Making, index: int, piece: Piece) -> None:
        device = self._machine.local_devices[piece.local_device]
        identifier, pending, dtype, shape, kind, sinks = making
        fill = self._objects.fill

        def from_bytes(data: Any) -> runtime.Array:
            # By Segments, which keeps none of it. Several devices may have it: of what is donated the runtime makes a copy then.
            given = isinstance(data, np.ndarray)
            return self._machine.place([_values(data, dtype, shape)], [device], kind, given)

        source = piece.source
        if isinstance(source, bytes):
            fill(identifier, pending, index, lambda: from_bytes(source))
        elif isinstance(source, int):
            taker: Sink = lambda data: fill(identifier, pending, index, lambda: from_bytes(data))  # noqa: E731
            sinks.setdefault(source, []).append(taker)
        elif isinstance(source, Shard):
            default = device.default_memory().kind
            self._fill_from_local(
                identifier, pending, index, source, lambda shard: self._machine.copy(shard, device, kind or default)
            )
        else:

            def assembled(values: np.ndarray[Any, Any]) -> None:
                fill(identifier, pending, index, lambda: self._machine.place([values], [device], kind))

            self._assemble(making, source, Assembly(dtype, shape, len(source), assembled))

    def _assemble(self, making: _Making, boxes: tuple[Box, ...], assembly: Assembly) -> None:
        """Sees to it that every box of one shard comes from where it is named to be."""
        identifier, dtype = making.identifier, making.dtype
        for box in boxes:
            if isinstance(box.source, Shard):
                self._put_local(identifier, assembly, box, box.source)
                continue

            def take(data: Any, box: Box = box) -> None:
                try:
                    assembly.put(box.start, _values(data, dtype, box.shape))
                except Exception as error:
                    self._objects.poison(identifier, failure_of(error, Reason.INVALID_ARGUMENT))

            making.sinks.setdefault(box.source, []).append(take)

    def _put_local(self, identifier: int, assembly: Assembly, box: Box, source: Shard) -> None:
        """Takes a box of a shard that lives here, once it is computed; another thread waits for that."""
        objects = self._objects

        def resolved(array: runtime.Array | None, failure: FailureMessage | None) -> None:
            if array is None:
                objects.poison(identifier, failure)
                return
            objects.pin(array)

            def act() -> None:
                try:
                    shard = runtime.local_shard(array, source.local_index)
                    shard.block_until_ready()
                    assembly.put(box.start, cut_at(runtime.host_copy(shard), box.local_start, box.shape))
                except Exception as error:
                    objects.poison(identifier, read_failure(array, error))
                finally:
                    objects.unpin(array)

            self._cutting.put(act)

        objects.when_resolved(source.identifier, resolved)

    def _fill_from_local(
        self, identifier: int, pending: Pending, index: int, source: Shard, make: Callable[[runtime.Array], runtime.Array]
    ) -> None:
        def resolved(array: runtime.Array | None, failure: FailureMessage | None) -> None:
            if array is None:
                self._objects.poison(identifier, failure)
            else:
                self._objects.fill(identifier, pending, index, lambda: make(runtime.local_shard(array, source.local_index)))

        self._objects.when_resolved(source.identifier, resolved)

    def place_view(self, message: Any) -> None:
        """Carries out a PlaceView: the view shares the memory of what it covers."""
        arrays = self._objects.arrays
        self._objects.views.add(message.view_id, ((shard.id, shard.local_index) for shard in message.shards))
        if self._objects.view_aside(message.view_id):
            return
        whole = arrays.get(message.shards[0].id) if message.shards else None
        if whole is not None and _covers(message.shards, runtime.shard_count(whole)):
            arrays[message.view_id] = whole
            return
        pending = self._objects.begin(message.view_id, len(message.shards))
        for index, shard in enumerate(message.shards):
            self._fill_from_local(message.view_id, pending, index, Shard(shard.id, shard.local_index), lambda shard: shard)


def _source(piece: Any) -> bytes | int | Shard | tuple[Box, ...]:
    """Where the shard of a LocalPiece comes from."""
    match piece.WhichOneof("source"):
        case "inline":
            return bytes(piece.inline)
        case "transfer_id":
            return int(piece.transfer_id)
        case "local":
            return Shard(piece.local.id, piece.local.local_index)
        case _:
            return tuple(
                Box(
                    tuple(box.start),
                    tuple(box.shape),
                    Shard(box.local.id, box.local.local_index) if box.HasField("local") else int(box.transfer_id),
                    tuple(box.local_start),
                )
                for box in piece.boxes
            )


def _covers(shards: Sequence[Any], count: int) -> bool:
    first = shards[0].id
    return len(shards) == count and all(shard.id == first and shard.local_index == index for index, shard in enumerate(shards))


def _values(data: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The array that row-major bytes stand for; ValueError if there are too few or too many."""
    size_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if len(data) != size_bytes:
        raise ValueError(f"a shard of {dtype.name}{list(shape)} takes {size_bytes} bytes, {len(data)} came")
    return np.frombuffer(data, np.uint8).view(dtype).reshape(shape)
