"""Reads and waits: the dispatcher resolves an id at once, so that what is launched or freed later cannot change the answer.

A value that is ready is answered on the spot. Otherwise the array is pinned (a later donation copies it), and another thread
waits. What a run sends is read like any other pull, but only the host that pulls is told.
"""

from __future__ import annotations

import threading
from typing import Any, TypeAlias

from pathways_proto.v1 import workers_pb2

from pathways_worker.core.plans import RUN_NUMBERS
from pathways_worker.executor import runtime
from pathways_worker.executor.boxes import cut
from pathways_worker.executor.completion import Lane
from pathways_worker.executor.data_channel import DataChannel
from pathways_worker.executor.failures import FailureMessage, execution_failure, read_failure
from pathways_worker.executor.objects import Objects
from pathways_worker.executor.reports import Reports

Box: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # start and limit; empty: the whole shard


class Readers:
    """Serves FetchShard and AwaitReady."""

    def __init__(self, objects: Objects, reports: Reports, data: DataChannel) -> None:
        self._objects = objects
        self._reports = reports
        self._data = data
        self._waiting = Lane("completion")

    # ---- fetches ---------------------------------------------------------------------------------------------------

    def fetch(self, message: Any) -> None:
        """Carries out a FetchShard."""
        box = (tuple(message.start), tuple(message.limit))
        self.read(message.fetch_id, bool(message.ticket), message.shard.id, message.shard.local_index, box, message.held)

    def read(self, fetch_id: int, pull: bool, identifier: int, index: int, box: Box, held: bool = False) -> None:
        """Reads a box of local shard `index`; `pull`: onto the data pair, else in an event. `held`: when it is told where."""

        def resolved(array: runtime.Array | None, failure: FailureMessage | None) -> None:
            if array is None:
                self._fetch_failed(fetch_id, pull, failure)
            else:
                self._fetch_array(fetch_id, pull, array, index, box, held)

        self._objects.when_resolved(identifier, resolved)

    def _fetch_array(self, fetch_id: int, pull: bool, array: runtime.Array, index: int, box: Box, held: bool) -> None:
        try:
            shard = runtime.local_shard(array, index)
            if shard.is_ready() and not pull:
                data = cut(runtime.host_copy(shard), *box).tobytes()
                self._reports.post(shard_fetched=workers_pb2.ShardFetched(fetch_id=fetch_id, data=data))
                return
        except Exception as error:
            self._fetch_failed(fetch_id, pull, read_failure(array, error))
            return
        self._objects.pin(array)
        self._waiting.put(lambda: self._finish_fetch(fetch_id, pull, array, shard, box, held))

    def _finish_fetch(self, fetch_id: int, pull: bool, array: runtime.Array, shard: runtime.Array, box: Box, held: bool) -> None:
        try:
            shard.block_until_ready()
            value = cut(runtime.host_copy(shard), *box)
        except Exception as error:
            self._objects.unpin(array)
            self._fetch_failed(fetch_id, pull, read_failure(array, error))
            return
        if pull:

            def sent() -> None:
                self._objects.unpin(array)
                # Without bytes: tells the controller that nobody reads this buffer for the fetch any more.
                if fetch_id < RUN_NUMBERS:
                    self._reports.post(shard_fetched=workers_pb2.ShardFetched(fetch_id=fetch_id))

            if held and self._data.segments is not None:
                self._data.segments.hold(fetch_id, value, sent)
            else:
                self._data.send(fetch_id, value, sent)
            return
        self._objects.unpin(array)
        self._reports.post(shard_fetched=workers_pb2.ShardFetched(fetch_id=fetch_id, data=value.tobytes()))

    def _fetch_failed(self, fetch_id: int, pull: bool, failure: FailureMessage) -> None:
        if pull:
            self._data.send_failure(fetch_id, failure)
        if fetch_id < RUN_NUMBERS:
            self._reports.post(fetch_failed=workers_pb2.FetchFailedOnHost(fetch_id=fetch_id, failure=failure))

    # ---- waits -----------------------------------------------------------------------------------------------------

    def await_ready(self, message: Any) -> None:
        """Carries out an AwaitReady."""
        wait_id, identifiers = message.wait_id, list(message.ids)
        arrays = [self._objects.arrays.get(identifier) for identifier in identifiers]
        if all(array is not None for array in arrays):
            self._await_arrays(wait_id, arrays)
        else:
            self._await_pending(wait_id, identifiers)

    def _await_pending(self, wait_id: int, identifiers: list[int]) -> None:
        """Some are not here: counts until every one has become an array or a failure."""
        lock = threading.Lock()
        found: list[runtime.Array] = []
        failures: list[FailureMessage] = []

        def resolved(array: runtime.Array | None, failure: FailureMessage | None) -> None:
            with lock:
                (failures if array is None else found).append(failure if array is None else array)
                if len(found) + len(failures) < len(identifiers):
                    return
            if failures:
                self._reports.post(became_ready=workers_pb2.BecameReady(wait_id=wait_id, failure=failures[0]))
            else:
                self._await_arrays(wait_id, found)

        for identifier in identifiers:
            self._objects.when_resolved(identifier, resolved)

    def _await_arrays(self, wait_id: int, arrays: list[runtime.Array]) -> None:
        # Asking a deleted array raises; it was ready enough to be donated, and the wait is about its computation.
        if all(array.is_deleted() or array.is_ready() for array in arrays):
            self._finish_wait(wait_id, arrays)
        else:
            self._waiting.put(lambda: self._finish_wait(wait_id, arrays))

    def _finish_wait(self, wait_id: int, arrays: list[runtime.Array]) -> None:
        answer = workers_pb2.BecameReady(wait_id=wait_id)
        for array in arrays:
            try:
                array.block_until_ready()
            except Exception as error:
                if not array.is_deleted():
                    answer.failure.CopyFrom(execution_failure(error))
                    break
        self._reports.post(became_ready=answer)
