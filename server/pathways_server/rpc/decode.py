"""Client operations to events: ids become global, program bytes become names, and the form of everything is checked.

A table by the name of the operation; each entry takes the session and its message. A breach of form raises PathwaysError
(INVALID_ARGUMENT), which ends that session only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from pathways_common.model.bounds import DIMENSIONS_MAX, FRAME_OPERATIONS_MAX, INLINE_BYTES_MAX, LIST_ITEMS_MAX, PROGRAM_BYTES_MAX
from pathways_common.model.failure import Reason, fail
from pathways_common.model.ids import CallId, SessionNumber
from pathways_common.rpc.channels import parse_frame
from pathways_proto.v1 import sessions_pb2

from pathways_server.core import events
from pathways_server.rpc.decode_programs import PROGRAM_OPERATIONS
from pathways_server.rpc.form import (
    bad,
    checked_failure,
    checked_first_result,
    checked_id,
    checked_ids,
    checked_length,
    checked_natural,
    checked_naturals,
    checked_optional_failure,
    checked_slice,
    checked_spec,
    checked_words,
)
from pathways_server.shell.programs import Programs

Make = Callable[[SessionNumber, Any], events.Event]


def client_frame(data: bytes) -> sessions_pb2.ClientFrame:
    """The frame behind the bytes; raises PathwaysError if they are none or hold too many operations."""
    frame = parse_frame(sessions_pb2.ClientFrame, data)
    if len(frame.operations) > FRAME_OPERATIONS_MAX:
        raise bad(f"a frame has more than {FRAME_OPERATIONS_MAX} operations", len(frame.operations))
    return frame


class OperationDecoder:
    """Decodes the operations of all sessions; `counts` gets the number of operations by name."""

    def __init__(self, programs: Programs, counts: MutableMapping[str, int]) -> None:
        self._programs = programs
        self._counts = counts
        self._table: dict[str, Make] = {
            "execute": _execute,
            "release": _release,
            "make_view": _make_view,
            "wait": _wait,
            "fetch": _fetch,
            "make_array": _make_array,
            "compile": self._compile,
            "copy": _copy,
            "reshard": _reshard,
            "delete": _delete,
            "make_error_array": _make_error_array,
            "inspect": _inspect,
            "callback_result": _callback_result,
            "fence": _fence,
            "goodbye": _goodbye,
            "add_slice": _add_slice,
            "release_slice": _release_slice,
            "suspend_slice": _suspend_slice,
            "resume_slice": _resume_slice,
            **PROGRAM_OPERATIONS,
        }
        for name in self._table:
            counts.setdefault(name, 0)

    def decode(self, session: SessionNumber, operations: Iterable[Any]) -> list[events.Event]:
        """The events of a frame's operations, in order; raises PathwaysError at the first malformed one."""
        table, counts = self._table, self._counts
        decoded: list[events.Event] = []
        try:
            for operation in operations:
                name = operation.WhichOneof("operation")
                if name is None:
                    raise bad("an operation is empty or newer than this server", "none set")
                if decoded and type(decoded[-1]) is events.SessionClosed:
                    raise bad("an operation after the goodbye", name)
                decoded.append(table[name](session, getattr(operation, name)))
                counts[name] += 1
        except BaseException:
            self.let_go(decoded)
            raise
        return decoded

    def let_go(self, decoded: list[events.Event]) -> None:
        """Nothing of a malformed frame reaches the core: its programs are let go."""
        for event in decoded:
            if isinstance(event, events.CompileRequested):
                self._programs.withdraw(event.program)

    def _compile(self, session: SessionNumber, message: sessions_pb2.Compile) -> events.Event:
        size = len(message.program) + len(message.options)
        if size > PROGRAM_BYTES_MAX:
            raise fail(Reason.INVALID_ARGUMENT, f"the program has {size} bytes; at most {PROGRAM_BYTES_MAX} are taken", size=size)
        executable_id = checked_id(session, message.executable_id, "compile.executable_id")
        devices = checked_naturals(message.devices, "compile.devices")
        checked_length(message.callback_ids, "compile.callback_ids")
        name = self._programs.hold(message.program, message.options)
        return events.CompileRequested(session, executable_id, name, devices, tuple(message.callback_ids))


def _execute(session: SessionNumber, message: sessions_pb2.Execute) -> events.Event:
    return events.ExecuteRequested(
        session,
        checked_id(session, message.execution_id, "execute.execution_id"),
        checked_id(session, message.executable_id, "execute.executable_id"),
        checked_ids(session, message.arguments, "execute.arguments"),
        checked_first_result(session, message.first_result_id),
        tuple(message.non_donatable),
        message.launch_id,
        message.stream,
    )


def _release(session: SessionNumber, message: sessions_pb2.Release) -> events.Event:
    return events.Released(
        session,
        checked_ids(session, message.views, "release.views"),
        checked_ids(session, message.executables, "release.executables"),
        checked_ids(session, message.programs, "release.programs"),
    )


def _make_view(session: SessionNumber, message: sessions_pb2.MakeView) -> events.Event:
    checked_length(message.ranges, "make_view.ranges")
    checked_length(message.copies, "make_view.copies")
    ranges, copies = (
        tuple((checked_id(session, part.view_id, f"make_view.{name}"), part.start, part.count) for part in listed)
        for name, listed in (("ranges", message.ranges), ("copies", message.copies))
    )
    return events.ViewMade(session, checked_id(session, message.view_id, "make_view.view_id"), ranges, copies)


def _wait(session: SessionNumber, message: sessions_pb2.Wait) -> events.Event:
    return events.WaitRequested(session, message.wait_id, checked_ids(session, message.views, "wait.views"))


def _fetch(session: SessionNumber, message: sessions_pb2.Fetch) -> events.Event:
    view_id = checked_id(session, message.view_id, "fetch.view_id")
    return events.FetchRequested(session, message.fetch_id, view_id, message.shard, message.size_bytes, message.held)


def _piece(message: sessions_pb2.Piece) -> events.Piece:
    shards = checked_naturals(message.shards, "make_array.pieces.shards")
    if message.upload_id:
        if message.inline:
            raise bad("a piece has inline bytes and an upload_id", message.upload_id)
        return events.Piece(shards, message.size_bytes, None, message.upload_id)
    size = len(message.inline)
    if size > INLINE_BYTES_MAX:
        raise bad(f"a piece has more than {INLINE_BYTES_MAX} inline bytes", size)
    if message.size_bytes not in (0, size):
        raise bad(f"a piece has {size} inline bytes and another size_bytes", message.size_bytes)
    return events.Piece(shards, size, message.inline, 0)


def _make_array(session: SessionNumber, message: sessions_pb2.MakeArray) -> events.Event:
    checked_length(message.pieces, "make_array.pieces")
    return events.ArrayMade(
        session,
        checked_id(session, message.buffer_id, "make_array.buffer_id"),
        checked_spec(message.spec, "make_array.spec"),
        tuple(_piece(piece) for piece in message.pieces),
    )


def _make_error_array(session: SessionNumber, message: sessions_pb2.MakeErrorArray) -> events.Event:
    buffer_id = checked_id(session, message.buffer_id, "make_error_array.buffer_id")
    return events.ErrorArrayMade(session, buffer_id, checked_failure(message.failure, "make_error_array.failure"))


def _copy(session: SessionNumber, message: sessions_pb2.Copy) -> events.Event:
    checked_length(message.specs, "copy.specs")
    return events.CopyRequested(
        session,
        checked_ids(session, message.result_ids, "copy.result_ids"),
        checked_ids(session, message.views, "copy.views"),
        tuple(checked_spec(spec, "copy.specs") for spec in message.specs),
    )


def _reshard(session: SessionNumber, message: sessions_pb2.Reshard) -> events.Event:
    checked_length(message.sources, "reshard.sources")
    checked_length(message.destinations, "reshard.destinations")
    return events.ReshardRequested(
        session,
        checked_ids(session, message.result_ids, "reshard.result_ids"),
        checked_ids(session, message.views, "reshard.views"),
        tuple(checked_spec(spec, "reshard.sources") for spec in message.sources),
        tuple(checked_spec(spec, "reshard.destinations") for spec in message.destinations),
        message.donate,
    )


def _delete(session: SessionNumber, message: sessions_pb2.Delete) -> events.Event:
    return events.ViewsDeleted(session, checked_ids(session, message.views, "delete.views"))


def _inspect(session: SessionNumber, message: sessions_pb2.Inspect) -> events.Event:
    executable_id = checked_id(session, message.executable_id, "inspect.executable_id")
    return events.InspectRequested(session, message.inspect_id, executable_id, message.kind)


def _callback_result(session: SessionNumber, message: sessions_pb2.CallbackResult) -> events.Event:
    failure = checked_optional_failure(message, "callback_result.failure")
    if len(message.results.arrays) > LIST_ITEMS_MAX:
        raise bad("callback_result.results has too many arrays", len(message.results.arrays))
    return events.CallbackReturned(session, CallId(message.call_id), message.results.SerializeToString(), failure)


def _fence(session: SessionNumber, message: sessions_pb2.Fence) -> events.Event:
    return events.FenceRequested(session, message.fence_id)


def _add_slice(session: SessionNumber, message: sessions_pb2.AddSlice) -> events.Event:
    if len(message.mesh_shape) > DIMENSIONS_MAX:
        raise bad(f"add_slice.mesh_shape has more than {DIMENSIONS_MAX} dimensions", len(message.mesh_shape))
    checked_length(message.with_slices, "add_slice.with_slices")
    checked_length(message.apart_from_slices, "add_slice.apart_from_slices")
    return events.SliceRequested(
        session,
        checked_slice(message.slice_id, "add_slice.slice_id"),
        message.device_count,
        tuple(message.mesh_shape),
        checked_words(message.kind, "add_slice.kind"),
        checked_words(message.island, "add_slice.island"),
        message.exclusive,
        tuple(message.with_slices),
        tuple(message.apart_from_slices),
        message.wait,
        checked_natural(message.timeout_ns, "add_slice.timeout_ns"),
    )


def _release_slice(session: SessionNumber, message: sessions_pb2.ReleaseSlice) -> events.Event:
    return events.SliceReleased(session, checked_slice(message.slice_id, "release_slice.slice_id"))


def _suspend_slice(session: SessionNumber, message: sessions_pb2.SuspendSlice) -> events.Event:
    return events.SuspendRequested(session, checked_slice(message.slice_id, "suspend_slice.slice_id"))


def _resume_slice(session: SessionNumber, message: sessions_pb2.ResumeSlice) -> events.Event:
    return events.ResumeRequested(session, checked_slice(message.slice_id, "resume_slice.slice_id"))


def _goodbye(session: SessionNumber, message: sessions_pb2.Goodbye) -> events.Event:
    return events.SessionClosed(session, checked_words(message.reason, "goodbye.reason") or "goodbye")
