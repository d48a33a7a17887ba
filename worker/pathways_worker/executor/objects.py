"""The object store: global id -> this host's shards, a failure, or a place that bytes have yet to reach.

`arrays` is a plain dict that the launch path reads without a lock; only the dispatcher adds launches to it. Everything that waits
for bytes goes through `Pending` under the lock, because transfers land on another thread. A waiter is called exactly once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from pathways_common.model.failure import Reason
from pathways_proto.v1 import workers_pb2

from pathways_worker.core.plans import COUNT_BITS, RUN_NUMBERS
from pathways_worker.executor import runtime
from pathways_worker.executor.device_memory import DeviceMemory
from pathways_worker.executor.failures import FailureMessage, failure_of, missing_buffer, spilled_buffer
from pathways_worker.executor.views import Part, Views
from pathways_worker.holdings import Held

# Runs that are over are remembered so that their late bytes are dropped; a late transfer ends with its deadline.
CLOSED_RUNS_MAX = 4096
# So are transfers that were withdrawn: their bytes may be on their way here.
WITHDRAWN_MAX = 65536

Waiter: TypeAlias = Callable[[runtime.Array | None, FailureMessage | None], None]
# Puts the bytes of a transfer into their place.
Sink: TypeAlias = Callable[[Any], None]


class Pending:
    """A buffer some of whose pieces are not here. Filled under the store's lock; `pieces` is complete when `missing` is 0."""

    __slots__ = ("done", "missing", "pieces", "waiters")

    def __init__(self, count: int) -> None:
        self.pieces: list[runtime.Array | None] = [None] * count
        self.missing = count
        self.waiters: list[Waiter] = []
        self.done = threading.Event()


class Objects:
    """See the module's docstring. `landed(transfer_id)` is called once the bytes of a transfer are in their place.

    Nobody is told so of the transfers of runs. `memory` is the account of the devices, if they have a limit.
    """

    def __init__(self, machine: runtime.Runtime, landed: Callable[[int], None], memory: DeviceMemory | None = None) -> None:
        self.arrays: dict[int, runtime.Array] = {}
        self.failed: dict[int, FailureMessage] = {}
        self.views = Views()
        self._machine = machine
        self._landed = landed
        self._memory = memory
        # Buffers that are spilled, or about to be; and the views on them, with those of their shards that are still here.
        self._aside: dict[int, None] = {}
        self._views_aside: dict[int, list[runtime.Array | None]] = {}
        self._pending: dict[int, Pending] = {}
        self._expected: dict[int, tuple[int, list[Sink]]] = {}
        # Bytes or failures that came before their place was known.
        self._staged: dict[int, tuple[Any, FailureMessage | None]] = {}
        self._closed_runs: dict[int, None] = {}
        self._withdrawn: dict[int, None] = {}
        self._pins: dict[int, int] = {}
        self._lock = threading.RLock()

    # ---- values ---------------------------------------------------------------------------------------------------

    def drop(self, identifiers: Sequence[int]) -> None:
        """Forgets buffers and views; what others still hold stays alive with them."""
        for identifier in identifiers:
            if self.arrays.pop(identifier, None) is None and self.failed.pop(identifier, None) is None:
                self._end_pending(identifier, missing_buffer(identifier))
                # Its last bytes, or their failure, may have come just before.
                self.arrays.pop(identifier, None)
                self.failed.pop(identifier, None)
                self._aside.pop(identifier, None)
                self._views_aside.pop(identifier, None)
            if self.views.parts:
                self.views.forget(identifier)
        if self._memory is not None:
            self._memory.release(identifiers)

    def poison(self, identifier: int, failure: FailureMessage) -> None:
        """This id will never hold a value; the first failure stays."""
        self.arrays.pop(identifier, None)
        self.failed.setdefault(identifier, failure)
        self._end_pending(identifier, failure)
        self._aside.pop(identifier, None)
        self._views_aside.pop(identifier, None)
        if self._memory is not None:
            self._memory.release((identifier,))

    def failure(self, identifier: int) -> FailureMessage | None:
        """Why an id holds no value and never will; None if it does or may."""
        if identifier in self.arrays or identifier in self._pending:
            return None
        if identifier in self._aside or identifier in self._views_aside:
            return spilled_buffer(identifier)
        return self.failed.get(identifier) or missing_buffer(identifier)

    def holds(self, identifier: int) -> bool:
        """Whether the id has a value here, or waits for one."""
        return identifier in self.arrays or identifier in self._pending

    def when_resolved(self, identifier: int, waiter: Waiter) -> None:
        """Calls the waiter with the array or the failure: now, or on the thread that lands the last piece."""
        with self._lock:
            pending = self._pending.get(identifier)
            if pending is not None:
                pending.waiters.append(waiter)
                return
        array = self.arrays.get(identifier)
        waiter(array, None if array is not None else self.failure(identifier))

    def wait(self, identifier: int, timeout_s: float) -> bool:
        """Blocks until an id is no longer pending, or the time is over; says whether it is not pending."""
        with self._lock:
            pending = self._pending.get(identifier)
        return pending is None or pending.done.wait(timeout_s)

    def fail_pending(self, identifiers: Iterable[int], failure: FailureMessage) -> None:
        """Those of these ids that wait for something wait no longer; the failure is told and not kept."""
        for identifier in identifiers:
            self._end_pending(identifier, failure)
            if self._memory is not None and not self.holds(identifier):
                self._memory.release((identifier,))

    @property
    def anything_pending(self) -> bool:
        """Whether bytes of any buffer are still to come."""
        return bool(self._pending)

    # ---- pending ---------------------------------------------------------------------------------------------------

    def begin(self, identifier: int, count: int, waiter: Waiter | None = None) -> Pending:
        """A buffer of `count` pieces that are still to come; `waiter` is told how it ends."""
        pending = Pending(count)
        if waiter is not None:
            pending.waiters.append(waiter)
        with self._lock:
            self._pending[identifier] = pending
        return pending

    def fill(self, identifier: int, pending: Pending, index: int, make: Callable[[], runtime.Array]) -> None:
        """Brings one piece; an exception of `make` poisons the buffer."""
        with self._lock:
            if self._pending.get(identifier) is not pending:
                return
        try:
            array = make()
        except Exception as error:
            self._poison_pending(identifier, failure_of(error, Reason.INVALID_ARGUMENT))
            return
        with self._lock:
            if self._pending.get(identifier) is not pending:
                return
            pending.pieces[index] = array
            pending.missing -= 1
            if pending.missing:
                return
            try:
                whole = self._machine.assemble(pending.pieces)
            except Exception as error:  # a view of shards that make no array
                self._poison_pending(identifier, failure_of(error, Reason.INVALID_ARGUMENT))
                return
            self.arrays[identifier] = whole
            del self._pending[identifier]
            if identifier in self._aside:
                self._return_views(identifier, whole)
        pending.done.set()
        for waiter in pending.waiters:
            waiter(whole, None)

    def give_up(self, identifier: int, failure: FailureMessage) -> None:
        """What a buffer waits for will never come. From any thread."""
        self._poison_pending(identifier, failure)
        if self._memory is not None and not self.holds(identifier):
            self._memory.release((identifier,))

    def _poison_pending(self, identifier: int, failure: FailureMessage) -> None:
        """The failure is kept unless the buffer was freed meanwhile."""
        with self._lock:
            if identifier not in self._pending:
                return
            self.failed.setdefault(identifier, failure)
        self._end_pending(identifier, failure)

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

    # ---- transfers -------------------------------------------------------------------------------------------------

    def expect(self, identifier: int, transfer_id: int, takers: list[Sink]) -> None:
        """Waits for the bytes of a transfer, which go to all of `takers`; they may be here already."""
        with self._lock:
            staged = self._staged.pop(transfer_id, None)
            if staged is None:
                self._expected[transfer_id] = (identifier, takers)
                return
        self._take(transfer_id, identifier, takers, *staged)

    def land(self, transfer_id: int, data: Any, failure: FailureMessage | None = None) -> None:
        """Bytes of a transfer arrived, or it failed; kept if their place is not known yet."""
        with self._lock:
            expected = self._expected.pop(transfer_id, None)
            if expected is None:
                closed = (transfer_id - RUN_NUMBERS) >> COUNT_BITS in self._closed_runs
                if not closed and transfer_id not in self._withdrawn:
                    self._staged[transfer_id] = (data, failure)
                return
        self._take(transfer_id, *expected, data, failure)

    def _take(self, transfer_id: int, identifier: int, takers: list[Sink], data: Any, failure: FailureMessage | None) -> None:
        if failure is not None:
            self._poison_pending(identifier, failure)
            return
        for take in takers:
            take(data)
        if transfer_id < RUN_NUMBERS:
            self._landed(transfer_id)

    def cancel_transfers(self, transfer_ids: Iterable[int]) -> None:
        """Forgets bytes that nobody will place, now and when they come."""
        with self._lock:
            for transfer_id in transfer_ids:
                self._staged.pop(transfer_id, None)
                self._withdrawn[transfer_id] = None
            if len(self._withdrawn) > WITHDRAWN_MAX:
                for transfer_id in list(self._withdrawn)[: WITHDRAWN_MAX // 2]:
                    del self._withdrawn[transfer_id]

    def close_run(self, number: int) -> None:
        """Nothing of this run is placed any more: its bytes that are here or come late are dropped."""
        with self._lock:
            if len(self._closed_runs) >= CLOSED_RUNS_MAX:
                del self._closed_runs[next(iter(self._closed_runs))]
            self._closed_runs[number] = None
            for transfer_id in [key for key in self._staged if (key - RUN_NUMBERS) >> COUNT_BITS == number]:
                del self._staged[transfer_id]

    # ---- spilling --------------------------------------------------------------------------------------------------

    def put_aside(self, identifier: int) -> None:
        """The id of an array, and the views on it, name nothing until it is put back or its bytes are placed again."""
        with self._lock:
            self.arrays.pop(identifier)
            self._aside[identifier] = None
            for view_id in self.views.on(identifier):
                parts = self.views.parts[view_id]
                shards = self._views_aside.get(view_id)
                if shards is None:
                    array = self.arrays.pop(view_id, None)
                    if array is None:
                        continue
                    shards = self._views_aside[view_id] = [runtime.local_shard(array, index) for index in range(len(parts))]
                for index, part in enumerate(parts):
                    if part.buffer_id == identifier:
                        shards[index] = None

    def put_back(self, identifier: int, array: runtime.Array) -> None:
        """An array that was put aside is where it was."""
        with self._lock:
            self.arrays[identifier] = array
            self._return_views(identifier, array)

    def left(self, identifier: int) -> None:
        """An array that was put aside takes up no room any more."""
        if self._memory is not None:
            self._memory.release((identifier,))

    def forget_aside(self, identifier: int) -> None:
        """What was put aside will not come back; the views on it that are still named wait in vain."""
        with self._lock:
            self._aside.pop(identifier, None)

    def view_aside(self, view_id: int) -> bool:
        """Whether a view that was just made rests on something that is put aside; then it will be there with it."""
        with self._lock:
            parts = self.views.parts[view_id]
            if not self._aside or all(part.buffer_id not in self._aside for part in parts):
                return False
            self._views_aside[view_id] = [self._shard_of(part) for part in parts]
            return True

    def _shard_of(self, part: Part) -> runtime.Array | None:
        array = self.arrays.get(part.buffer_id)
        return None if array is None else runtime.local_shard(array, part.local_index)

    def _return_views(self, identifier: int, array: runtime.Array) -> None:
        self._aside.pop(identifier, None)
        for view_id in self.views.on(identifier):
            shards = self._views_aside.get(view_id)
            if shards is None:
                continue
            parts = self.views.parts[view_id]
            for index, part in enumerate(parts):
                if part.buffer_id == identifier:
                    shards[index] = runtime.local_shard(array, part.local_index)
            if all(shard is not None for shard in shards):
                del self._views_aside[view_id]
                self.arrays[view_id] = array if _is_whole(parts, array) else self._machine.assemble(shards)

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

    def held(self) -> list[Held]:
        """Everything that is here, by kind."""
        with self._lock:
            arrays = list(self.arrays.items())
            failed, staged = list(self.failed), list(self._staged)
            # What is out of here on its way to the daemon's store, or in it, has its place; so have views of it.
            pending = list(dict.fromkeys([*self._pending, *self._aside, *self._views_aside]))
        sizes = [0 if array.is_deleted() else array.nbytes * runtime.shard_count(array) for _, array in arrays]
        return [
            Held(workers_pb2.HELD_KIND_VALUE, [identifier for identifier, _ in arrays], sizes),
            Held(workers_pb2.HELD_KIND_FAILED, failed),
            Held(workers_pb2.HELD_KIND_PENDING, pending),
            Held(workers_pb2.HELD_KIND_TRANSFER, staged),
        ]

    def live(self) -> tuple[int, int, float]:
        """Bytes of this host's live shards, number of buffers, and the seconds it took to add them up."""
        begin = time.perf_counter()
        # A copy: transfers land meanwhile.
        arrays = list(self.arrays.items())
        parts = self.views.parts
        distinct = {
            id(array): array
            for identifier, array in arrays
            # The bytes of a view are those of its buffers.
            if identifier not in parts or any(part.buffer_id not in self.arrays for part in parts[identifier])
        }
        live_bytes = sum(array.nbytes * runtime.shard_count(array) for array in distinct.values() if not array.is_deleted())
        return live_bytes, len(self.arrays), time.perf_counter() - begin


def _is_whole(parts: Sequence[Part], array: runtime.Array) -> bool:
    """Whether a view covers one buffer and no other, in order."""
    return len(parts) == runtime.shard_count(array) and all(
        part == (parts[0].buffer_id, index) for index, part in enumerate(parts)
    )
