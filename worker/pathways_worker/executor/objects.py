"""The object store: global id -> this host's shards, a failure, or a place that bytes have yet to reach.

`arrays` is a plain dict that the launch path reads without a lock; only the dispatcher adds launches to it. Everything that waits
for bytes goes through `_Pending` under the lock, because transfers land on another thread. A waiter is called exactly once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from pathways_common.model.failure import Reason

from pathways_worker.executor import runtime
from pathways_worker.executor.boxes import Assembly, cut_at
from pathways_worker.executor.completion import Lane
from pathways_worker.executor.element_types import TOKEN, dtype_of
from pathways_worker.executor.failures import FailureMessage, failure_of, make_failure, missing_buffer, read_failure

Waiter: TypeAlias = Callable[[runtime.Array | None, FailureMessage | None], None]
# Puts the bytes of a transfer into their place.
Sink: TypeAlias = Callable[[Any], None]


class _Pending:
    """A buffer some of whose pieces are not here. Filled under the store's lock; `pieces` is complete when `missing` is 0."""

    __slots__ = ("done", "missing", "pieces", "waiters")

    def __init__(self, count: int) -> None:
        self.pieces: list[runtime.Array | None] = [None] * count
        self.missing = count
        self.waiters: list[Waiter] = []
        self.done = threading.Event()


class Objects:
    """See the module's docstring. `landed(transfer_id)` is called once the bytes of a transfer are in their place.

    `transfer_failed(transfer_id, failure)` is called instead for an array whose end has to be reported.
    """

    def __init__(
        self, machine: runtime.Runtime, landed: Callable[[int], None], transfer_failed: Callable[[int, FailureMessage], None]
    ) -> None:
        self.arrays: dict[int, runtime.Array] = {}
        self.failed: dict[int, FailureMessage] = {}
        self._machine = machine
        self._landed = landed
        self._transfer_failed = transfer_failed
        self._cutting = Lane("boxes")
        self._pending: dict[int, _Pending] = {}
        self._expected: dict[int, tuple[int, list[Sink]]] = {}
        self._staged: dict[int, Any] = {}
        self._pins: dict[int, int] = {}
        self._lock = threading.RLock()

    # ---- values ---------------------------------------------------------------------------------------------------

    def drop(self, identifiers: Iterable[int]) -> None:
        """Forgets buffers and views; what others still hold stays alive with them."""
        for identifier in identifiers:
            if self.arrays.pop(identifier, None) is None and self.failed.pop(identifier, None) is None:
                self._end_pending(identifier, missing_buffer(identifier))

    def poison(self, identifier: int, failure: FailureMessage) -> None:
        """This id will never hold a value; the first failure stays."""
        self.arrays.pop(identifier, None)
        self.failed.setdefault(identifier, failure)
        self._end_pending(identifier, failure)

    def failure(self, identifier: int) -> FailureMessage | None:
        """Why an id holds no value and never will; None if it does or may."""
        if identifier in self.arrays or identifier in self._pending:
            return None
        return self.failed.get(identifier) or missing_buffer(identifier)

    def when_resolved(self, identifier: int, waiter: Waiter) -> None:
        """Calls the waiter with the array or the failure: now, or on the thread that lands the last piece."""
        with self._lock:
            pending = self._pending.get(identifier)
            if pending is not None:
                pending.waiters.append(waiter)
                return
        array = self.arrays.get(identifier)
        waiter(array, None if array is not None else self.failure(identifier))

    def wait(self, identifier: int, timeout_s: float) -> None:
        """Blocks until an id is no longer pending, or the time is over."""
        with self._lock:
            pending = self._pending.get(identifier)
        if pending is not None:
            pending.done.wait(timeout_s)

    # ---- placing ---------------------------------------------------------------------------------------------------

    def place(self, message: Any) -> None:
        """Carries out a PlaceArray."""
        dtype = np.dtype(np.bool_) if message.spec.dtype == TOKEN else dtype_of(message.spec.dtype)
        if dtype is None or not message.pieces:
            reason = f"element type {message.spec.dtype}" if dtype is None else "a buffer without local shards"
            self.poison(message.buffer_id, make_failure(Reason.UNSUPPORTED, f"executors do not hold {reason}"))
            return
        shape, kind = tuple(message.spec.shard_shape), message.spec.memory_kind
        if self._place_at_once(message, dtype, shape, kind):
            return
        pending = self._begin(message.buffer_id, len(message.pieces))
        if message.transfer_id:
            pending.waiters.append(self._reporter(message.transfer_id))
        sinks: dict[int, list[Sink]] = {}
        for index, piece in enumerate(message.pieces):
            if piece.local_device >= len(self._machine.local_devices):
                text = f"this host has {len(self._machine.local_devices)} devices, a piece is for number {piece.local_device}"
                self.poison(message.buffer_id, make_failure(Reason.INVALID_ARGUMENT, text))
                return
            self._fill_from(message.buffer_id, pending, index, piece, dtype, shape, kind, sinks)
        for transfer_id, takers in sinks.items():
            self._expect(message.buffer_id, transfer_id, takers)

    def _reporter(self, transfer_id: int) -> Waiter:
        def report(array: runtime.Array | None, failure: FailureMessage | None) -> None:
            if array is not None:
                self._landed(transfer_id)
            else:
                self._transfer_failed(transfer_id, failure)

        return report

    def _expect(self, identifier: int, transfer_id: int, takers: list[Sink]) -> None:
        """Waits for the bytes of a transfer, which go to all of `takers`; they may be here already."""
        with self._lock:
            data = self._staged.pop(transfer_id, None)
            if data is None:
                self._expected[transfer_id] = (identifier, takers)
                return
        for take in takers:
            take(data)
        self._landed(transfer_id)

    def _place_at_once(self, message: Any, dtype: np.dtype[Any], shape: tuple[int, ...], kind: str) -> bool:
        """The common case: all bytes came along."""
        if any(piece.WhichOneof("source") != "inline" for piece in message.pieces):
            return False
        try:
            values = [_values(piece.inline, dtype, shape) for piece in message.pieces]
            devices = [self._machine.local_devices[piece.local_device] for piece in message.pieces]
            self.arrays[message.buffer_id] = self._machine.place(values, devices, kind)
        except Exception as error:
            self.poison(message.buffer_id, failure_of(error, Reason.INVALID_ARGUMENT))
        return True

    def _fill_from(
        self,
        identifier: int,
        pending: _Pending,
        index: int,
        piece: Any,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        kind: str,
        sinks: dict[int, list[Sink]],
    ) -> None:
        device = self._machine.local_devices[piece.local_device]

        def from_bytes(data: Any) -> runtime.Array:
            return self._machine.place([_values(data, dtype, shape)], [device], kind)

        source = piece.WhichOneof("source")
        if source == "inline":
            self._fill(identifier, pending, index, lambda: from_bytes(piece.inline))
        elif source == "transfer_id":
            sinks.setdefault(piece.transfer_id, []).append(
                lambda data: self._fill(identifier, pending, index, lambda: from_bytes(data))
            )
        elif source == "local":
            default = device.default_memory().kind
            self._fill_from_local(
                identifier, pending, index, piece.local, lambda shard: self._machine.copy(shard, device, kind or default)
            )
        else:

            def assembled(values: np.ndarray[Any, Any]) -> None:
                self._fill(identifier, pending, index, lambda: self._machine.place([values], [device], kind))

            self._assemble(identifier, piece.boxes, Assembly(dtype, shape, len(piece.boxes), assembled), dtype, sinks)

    def _assemble(
        self, identifier: int, boxes: Any, assembly: Assembly, dtype: np.dtype[Any], sinks: dict[int, list[Sink]]
    ) -> None:
        """Sees to it that every box of one shard comes from where it is named to be."""
        for box in boxes:
            start, shape = tuple(box.start), tuple(box.shape)
            if box.HasField("local"):
                self._put_local(identifier, assembly, box.local, start, shape, tuple(box.local_start))
                continue

            def take(data: Any, start: tuple[int, ...] = start, shape: tuple[int, ...] = shape) -> None:
                try:
                    assembly.put(start, _values(data, dtype, shape))
                except Exception as error:
                    self.poison(identifier, failure_of(error, Reason.INVALID_ARGUMENT))

            sinks.setdefault(box.transfer_id, []).append(take)

    def _put_local(
        self,
        identifier: int,
        assembly: Assembly,
        source: Any,
        start: tuple[int, ...],
        shape: tuple[int, ...],
        local_start: tuple[int, ...],
    ) -> None:
        """Takes a box of a shard that lives here, once it is computed; another thread waits for that."""

        def resolved(array: runtime.Array | None, failure: FailureMessage | None) -> None:
            if array is None:
                self.poison(identifier, failure)
                return
            self.pin(array)

            def act() -> None:
                try:
                    shard = runtime.local_shard(array, source.local_index)
                    shard.block_until_ready()
                    assembly.put(start, cut_at(runtime.host_copy(shard), local_start, shape))
                except Exception as error:
                    self.poison(identifier, read_failure(array, error))
                finally:
                    self.unpin(array)

            self._cutting.put(act)

        self.when_resolved(source.id, resolved)

    def _fill_from_local(
        self, identifier: int, pending: _Pending, index: int, source: Any, make: Callable[[runtime.Array], runtime.Array]
    ) -> None:
        def resolved(array: runtime.Array | None, failure: FailureMessage | None) -> None:
            if array is None:
                self.poison(identifier, failure)
            else:
                self._fill(identifier, pending, index, lambda: make(runtime.local_shard(array, source.local_index)))

        self.when_resolved(source.id, resolved)

    def place_view(self, message: Any) -> None:
        """Carries out a PlaceView: the view shares the memory of what it covers."""
        whole = self.arrays.get(message.shards[0].id) if message.shards else None
        if whole is not None and _covers(message.shards, runtime.shard_count(whole)):
            self.arrays[message.view_id] = whole
            return
        pending = self._begin(message.view_id, len(message.shards))
        for index, source in enumerate(message.shards):
            self._fill_from_local(message.view_id, pending, index, source, lambda shard: shard)

    # ---- pending ---------------------------------------------------------------------------------------------------

    def _begin(self, identifier: int, count: int) -> _Pending:
        pending = _Pending(count)
        with self._lock:
            self._pending[identifier] = pending
        return pending

    def _fill(self, identifier: int, pending: _Pending, index: int, make: Callable[[], runtime.Array]) -> None:
        with self._lock:
            if self._pending.get(identifier) is not pending:
                return
        try:
            array = make()
        except Exception as error:
            self.poison(identifier, failure_of(error, Reason.INVALID_ARGUMENT))
            return
        with self._lock:
            if self._pending.get(identifier) is not pending:
                return
            pending.pieces[index] = array
            pending.missing -= 1
            if pending.missing:
                return
            whole = self._machine.assemble(pending.pieces)
            self.arrays[identifier] = whole
            del self._pending[identifier]
        pending.done.set()
        for waiter in pending.waiters:
            waiter(whole, None)

    def _end_pending(self, identifier: int, failure: FailureMessage) -> None:
        with self._lock:
            pending = self._pending.pop(identifier, None)
            if pending is None:
                return
            for transfer_id in [number for number, (owner, _) in self._expected.items() if owner == identifier]:
                del self._expected[transfer_id]
        pending.done.set()
        for waiter in pending.waiters:
            waiter(None, failure)

    def land(self, transfer_id: int, data: Any) -> None:
        """Bytes of a transfer arrived; they are kept if their place is not known yet."""
        with self._lock:
            expected = self._expected.pop(transfer_id, None)
            if expected is None:
                self._staged[transfer_id] = data
                return
        _, takers = expected
        for take in takers:
            take(data)
        self._landed(transfer_id)

    def cancel_transfers(self, transfer_ids: Iterable[int]) -> None:
        """Forgets bytes that nobody will place."""
        with self._lock:
            for transfer_id in transfer_ids:
                self._staged.pop(transfer_id, None)

    # ---- pins ------------------------------------------------------------------------------------------------------

    def pin(self, array: runtime.Array) -> None:
        """A reader still needs this array: it is copied before it is donated."""
        with self._lock:
            self._pins[id(array)] = self._pins.get(id(array), 0) + 1

    def unpin(self, array: runtime.Array) -> None:
        """The reader is done; the caller still holds the array, so its identity is its own."""
        with self._lock:
            count = self._pins[id(array)] - 1
            if count:
                self._pins[id(array)] = count
            else:
                del self._pins[id(array)]

    def pinned(self, array: runtime.Array) -> bool:
        """Whether a reader still needs this array."""
        return id(array) in self._pins

    @property
    def anything_pinned(self) -> bool:
        """Whether a reader still needs any array."""
        return bool(self._pins)

    # ---- figures ---------------------------------------------------------------------------------------------------

    def live(self) -> tuple[int, int, float]:
        """Bytes of this host's live shards, number of buffers, and the seconds it took to add them up."""
        begin = time.perf_counter()
        # A copy: transfers land meanwhile.
        distinct = {id(array): array for array in list(self.arrays.values())}
        live_bytes = sum(array.nbytes * runtime.shard_count(array) for array in distinct.values() if not array.is_deleted())
        return live_bytes, len(self.arrays), time.perf_counter() - begin


def _covers(shards: Sequence[Any], count: int) -> bool:
    first = shards[0].id
    return len(shards) == count and all(shard.id == first and shard.local_index == index for index, shard in enumerate(shards))


def _values(data: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The array that row-major bytes stand for; ValueError if there are too few or too many."""
    size_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if len(data) != size_bytes:
        raise ValueError(f"a shard of {dtype.name}{list(shape)} takes {size_bytes} bytes, {len(data)} came")
    return np.frombuffer(data, np.uint8).view(dtype).reshape(shape)
