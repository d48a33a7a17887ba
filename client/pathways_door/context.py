"""What the handlers of one IFRT session share: tables, the stream upstream, and the outbox of answers.

A handler is called with (operation, request) in the client's order, never waits, and sees to exactly one answer. Requests
whose results the client does not wait for are answered with success whatever happens: a failure is kept under the result
handles and shows when a value is read. Such an answer is not `awaited`: it may leave a moment later, with one that is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from pathways_common.model.bounds import WORDS_BYTES_MAX
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_proto.ifrt import session_pb2

from pathways_door.bulk import Bulk
from pathways_door.devices import primary_count
from pathways_door.envelope import Envelope, empty_member
from pathways_door.errors import status_of
from pathways_door.futures import Futures
from pathways_door.handles import ArrayTable
from pathways_door.hostbuffers import HostBuffers
from pathways_door.sharding import Placement
from pathways_door.uploads import Uploads
from pathways_door.upstream import Upstream


class Operation(NamedTuple):
    """Where an answer belongs."""

    op_id: int
    user_context_id: int


Handler = Callable[[Operation, Any], None]


class Context:
    """One IFRT session. Answers are appended to `outbox` as bytes; then `wake` is called with whether the client waits."""

    def __init__(self, upstream: Upstream, bulk: Bulk, wake: Callable[[bool], None]) -> None:
        self.upstream = upstream
        self.bulk = bulk
        self.arrays = ArrayTable(upstream)
        self.futures = Futures(self.arrays.new_handle)
        self.buffers = HostBuffers()
        self.uploads = Uploads(bulk, upstream.welcome.inline_bytes_max, self.spawn)
        self.outbox: list[bytes] = []
        self._envelope = Envelope()
        self._wake = wake
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty: dict[str, bytes] = {}
        self.device_count = len(upstream.welcome.devices)
        self.primary_count = primary_count(upstream.welcome)
        # Of each device; of those of slices a number of its own, as it is not known yet.
        self.islands = [device.slice_index for device in upstream.welcome.devices]
        kinds = [tuple(device.memory_kinds) or ("device",) for device in upstream.welcome.devices]
        self._memory_kinds = kinds
        upstream.late = self.uploads
        upstream.listeners["upload_grant"] = self.uploads.granted
        upstream.listeners["upload_withdrawn"] = self.uploads.withdrawn

    def reply(self, operation: Operation, member: bytes, counted: bool = True, awaited: bool = True) -> None:
        """Answers with a serialized IfrtResponse that holds one member."""
        self.outbox.append(self._envelope.answer(operation.op_id, operation.user_context_id, member, counted))
        self._wake(awaited)

    def reply_with(self, operation: Operation, counted: bool = True, **member: Any) -> None:
        """Answers with one member given by name."""
        self.reply(operation, session_pb2.IfrtResponse(**member).SerializeToString(), counted)

    def reply_empty(self, operation: Operation, name: str, counted: bool = True, awaited: bool = True) -> None:
        """Answers with the member `name`, empty."""
        member = self._empty.get(name)
        if member is None:
            member = self._empty[name] = empty_member(name)
        self.reply(operation, member, counted, awaited)

    def refuse(self, operation: Operation, failure: Failure) -> None:
        """Answers with a failure."""
        self.outbox.append(self._envelope.refuse(operation.op_id, operation.user_context_id, status_of(failure)))
        self._wake(True)

    def poison(self, handles: Sequence[int], failure: Failure) -> None:
        """Keeps a failure under these handles."""
        for handle in handles:
            self.arrays.poison(handle, failure)

    def default_memory_kind(self, device: int) -> str:
        """The memory kind an array has when nothing was said."""
        return self._memory_kinds[device][0] if 0 <= device < self.device_count else "device"

    def with_memory_kind(self, placement: Placement) -> Placement:
        """The placement with its memory kind spelled out; raises PathwaysError for one that is no word."""
        kind = placement.memory_kind
        if len(kind) > WORDS_BYTES_MAX or not kind.isprintable():
            known = ", ".join(dict.fromkeys(name for kinds in self._memory_kinds for name in kinds))
            raise fail(Reason.INVALID_ARGUMENT, f"an array names a memory kind that no device has; devices have {known}")
        if kind or not placement.devices:
            return placement
        return Placement(placement.devices, placement.sharding, self.default_memory_kind(placement.devices[0]))

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task of the session; `close` cancels it."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Cancels what still runs."""
        for task in list(self._tasks):
            task.cancel()


def failure_in(error: Exception) -> Failure:
    """The failure of an exception that a handler raised: its own, or a malformed request."""
    if isinstance(error, PathwaysError):
        return error.failure
    return Failure(Reason.INVALID_ARGUMENT, f"the door could not make sense of a request: {type(error).__name__}: {error}")
