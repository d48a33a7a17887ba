"""Buffers leave this process for the daemon's store (put aside, offered, sent) and come back (expected, received, placed).

From its SpillArray on a buffer is no value that anything could name; it comes back to its place if the daemon has no room for it
or if it holds an error. Nothing that was launched before is harmed: the runtime keeps what a computation still reads. Views on a
buffer are put aside with it and come back with it. Bytes pass row-major and shard after shard, in pieces, so that reads of
others go on in between.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from pathways_common.model.failure import Reason
from pathways_proto.v1 import spilling_pb2

from pathways_worker.executor import runtime
from pathways_worker.executor.completion import Lane
from pathways_worker.executor.data_channel import DataChannel
from pathways_worker.executor.device_memory import DeviceMemory
from pathways_worker.executor.element_types import DTYPES, NUMBERS
from pathways_worker.executor.failures import (
    FailureMessage,
    Refused,
    execution_failure,
    failure_of,
    make_failure,
    missing_buffer,
    refuse,
)
from pathways_worker.executor.objects import Objects, Pending
from pathways_worker.executor.reports import Reports

SEND = spilling_pb2.SPILL_DECISION_SEND
FORGET = spilling_pb2.SPILL_DECISION_FORGET
KEEP = spilling_pb2.SPILL_DECISION_KEEP


class _Leaving(NamedTuple):
    """A buffer that was put aside, with its rows on the host once it was offered. `number`: of the SpillArray."""

    number: int
    array: runtime.Array
    rows: list[np.ndarray[Any, Any]]


class _Coming:
    """A buffer that is received; `shard` is the one whose bytes are next."""

    __slots__ = ("arrays", "filled_bytes", "forms", "pending", "values")

    def __init__(self, forms: Sequence[Any], pending: Pending) -> None:
        self.forms = forms
        self.pending = pending
        self.arrays: list[runtime.Array] = []
        self.values = bytearray(forms[0].size_bytes)
        self.filled_bytes = 0


def offer_of(
    machine: runtime.Runtime,
    identifier: int,
    array: runtime.Array,
    rows: list[np.ndarray[Any, Any]],
    chosen: Sequence[int] = (),
) -> Any:
    """Waits for an array and puts its shards on the host, or those that are chosen by index, into `rows`; the SpillOffered.

    Raises if it cannot be spilled.
    """
    count = runtime.shard_count(array)
    if any(index >= count for index in chosen):
        raise refuse(Reason.INVALID_ARGUMENT, f"buffer {identifier:#x} cannot be kept: its array has {count} shards here")
    shards = [runtime.local_shard(array, index) for index in chosen or range(count)]
    if not all(map(runtime.is_row_major, shards)):
        # It would come back in another layout, which programs that were compiled for this one must not get.
        raise refuse(Reason.UNSUPPORTED, f"buffer {identifier:#x} cannot be spilled: it has a layout of its own")
    # Views of the memory, not copies, on CPU.
    rows.extend(runtime.host_copy(shard) for shard in shards)
    offer = spilling_pb2.SpillOffered(buffer_id=identifier)
    for shard, values in zip(shards, rows, strict=True):
        offer.shards.add(
            local_device=machine.local_devices.index(next(iter(shard.devices()))),
            dtype=NUMBERS[values.dtype],
            shape=values.shape,
            memory_kind=runtime.memory_kind_of(shard),
            size_bytes=values.nbytes,
        )
    return offer


class Spilling:
    """Carries out SpillArray, SpillDecided and RestoreArray for the dispatcher, and takes restored bytes on the data thread."""

    def __init__(
        self,
        machine: runtime.Runtime,
        objects: Objects,
        reports: Reports,
        data: DataChannel,
        memory: DeviceMemory | None = None,
    ) -> None:
        self._machine = machine
        self._objects = objects
        self._reports = reports
        self._data = data
        self._memory = memory
        self._waiting = Lane("spill")
        self._lock = threading.Lock()
        self._leaving: dict[int, _Leaving] = {}
        # Freed while they were put aside.
        self._dropped: set[int] = set()
        self._coming: dict[int, _Coming] = {}

    # ---- out -------------------------------------------------------------------------------------------------------

    def spill(self, message: Any) -> None:
        """Carries out a SpillArray: puts the buffer aside and offers it once it is computed."""
        identifier = message.buffer_id
        array = self._objects.arrays.get(identifier)
        if array is None:
            late = make_failure(Reason.UNAVAILABLE, f"buffer {identifier:#x} cannot be spilled before all of its bytes are here")
            self._refuse(identifier, message.spill_number, self._objects.failure(identifier) or late)
            return
        if array.is_deleted():
            self._refuse(identifier, message.spill_number, missing_buffer(identifier))
            return
        self._objects.put_aside(identifier)
        leaving = self._leaving[identifier] = _Leaving(message.spill_number, array, [])
        self._waiting.put(lambda: self._offer(identifier, leaving))

    def _offer(self, identifier: int, leaving: _Leaving) -> None:
        """On the waiting thread: as soon as it is computed the daemon is asked."""
        if identifier in self._dropped:
            self._give_up(identifier)
            return
        try:
            offer = offer_of(self._machine, identifier, leaving.array, leaving.rows)
        except Exception as error:
            self._put_back(identifier)
            failure = error.failure if isinstance(error, Refused) else execution_failure(error)
            self._refuse(identifier, leaving.number, failure)
            return
        self._reports.post(spill_offered=offer)

    def decide(self, message: Any) -> None:
        """Carries out a SpillDecided."""
        identifier, decision = message.buffer_id, message.decision
        leaving = self._leaving.get(identifier)
        if leaving is None:
            return
        if decision == SEND and identifier in self._dropped:
            self._give_up(identifier)
        elif decision == SEND:
            self._data.send_spilled(identifier, leaving.rows)
        elif decision == KEEP:
            self._put_back(identifier)
        else:
            with self._lock:
                del self._leaving[identifier]
                self._dropped.discard(identifier)
            self._objects.left(identifier)

    def _put_back(self, identifier: int) -> None:
        # All under the lock: a Free finds it put aside, or back in its place.
        with self._lock:
            leaving = self._leaving.pop(identifier)
            if identifier in self._dropped:
                self._dropped.discard(identifier)
            else:
                self._objects.put_back(identifier, leaving.array)

    def _give_up(self, identifier: int) -> None:
        """It was freed before a byte of it was sent."""
        with self._lock:
            leaving = self._leaving.pop(identifier)
            self._dropped.discard(identifier)
        self._refuse(identifier, leaving.number, missing_buffer(identifier))

    def _refuse(self, identifier: int, number: int, failure: FailureMessage) -> None:
        answer = spilling_pb2.ArraySpilled(buffer_id=identifier, spill_number=number, failure=failure)
        self._reports.post(array_spilled=answer)

    def freed(self, identifiers: Iterable[int]) -> None:
        """Of a Free: what is put aside does not come back."""
        if not self._leaving:
            return
        for identifier in identifiers:
            with self._lock:
                if identifier in self._leaving:
                    self._dropped.add(identifier)

    def drop(self, message: Any) -> None:
        """Carries out a DropSpilled: nothing comes back of what has gone, and nothing of what is coming is placed."""
        for identifier in message.ids:
            if identifier in self._coming:
                self._objects.fail_pending((identifier,), missing_buffer(identifier))
            if identifier not in self._leaving:
                self._objects.forget_aside(identifier)

    # ---- in --------------------------------------------------------------------------------------------------------

    def restore(self, message: Any) -> None:
        """Carries out a RestoreArray: from here on the buffer is pending, until its bytes are in their place."""
        identifier, number, forms = message.buffer_id, message.spill_number, list(message.shards)
        failure = self._reason_against(identifier, forms)
        if failure is not None:
            self._answer(identifier, number, failure)
            return

        def ended(array: runtime.Array | None, failure: FailureMessage | None) -> None:
            with self._lock:
                self._coming.pop(identifier, None)
            self._answer(identifier, number, failure)

        pending = self._objects.begin(identifier, len(forms), ended)
        with self._lock:
            self._coming[identifier] = _Coming(forms, pending)
        self._reports.post(restore_expected=spilling_pb2.RestoreExpected(buffer_id=identifier))

    def _reason_against(self, identifier: int, forms: Sequence[Any]) -> FailureMessage | None:
        count = len(self._machine.local_devices)
        if not forms or any(form.local_device >= count or form.dtype not in DTYPES for form in forms):
            text = f"buffer {identifier:#x} cannot be restored: its shards are not for the {count} devices of this host"
            return make_failure(Reason.INVALID_ARGUMENT, text)
        if self._objects.holds(identifier):
            return make_failure(Reason.INVALID_ARGUMENT, f"buffer {identifier:#x} cannot be restored: it is here")
        if self._memory is None:
            return None
        own = self._machine.is_device_memory
        return self._memory.admit(
            identifier, [(form.local_device, form.size_bytes if own(form.memory_kind) else 0) for form in forms]
        )

    def receive(self, identifier: int, data: Any, failure: FailureMessage | None) -> None:
        """On the data thread: the next bytes of a buffer, or why there are none."""
        with self._lock:
            coming = self._coming.get(identifier)
        if coming is None:
            return
        if failure is None:
            try:
                failure = self._take(identifier, coming, data)
            except Exception as error:
                failure = failure_of(error, Reason.INTERNAL)
        if failure is not None:
            self._objects.fail_pending((identifier,), failure)

    def _take(self, identifier: int, coming: _Coming, data: Any) -> FailureMessage | None:
        view = memoryview(data)
        while True:
            form = coming.forms[len(coming.arrays)]
            part = view[: form.size_bytes - coming.filled_bytes]
            coming.values[coming.filled_bytes : coming.filled_bytes + len(part)] = part
            coming.filled_bytes += len(part)
            view = view[len(part) :]
            if coming.filled_bytes < form.size_bytes:
                return None
            values = np.frombuffer(coming.values, np.uint8).view(DTYPES[form.dtype]).reshape(tuple(form.shape))
            device = self._machine.local_devices[form.local_device]
            coming.arrays.append(self._machine.place([values], [device], form.memory_kind))
            if len(coming.arrays) == len(coming.forms):
                break
            coming.values = bytearray(coming.forms[len(coming.arrays)].size_bytes)
            coming.filled_bytes = 0
        if view:
            return make_failure(Reason.INTERNAL, f"of buffer {identifier:#x} {len(view)} bytes too many came")
        for index, array in enumerate(coming.arrays):
            self._objects.fill(identifier, coming.pending, index, partial(_same, array))
        return None

    def _answer(self, identifier: int, number: int, failure: FailureMessage | None) -> None:
        answer = spilling_pb2.ArrayRestored(buffer_id=identifier, spill_number=number, failure=failure)
        self._reports.post(array_restored=answer)


def _same(array: runtime.Array) -> runtime.Array:
    return array
