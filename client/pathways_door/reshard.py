"""Reshards: the same array in another layout, on any devices of the session. The cluster moves the bytes, host to host.

An array that lies right already is the same array again, unless the client wants a copy. A donated array has ended for the
client as soon as the request is handled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pathways_common.model.failure import Reason, fail
from pathways_proto.ifrt import arrays_pb2, strides_pb2
from pathways_proto.v1 import sessions_pb2

from pathways_door.arrays import form_from_spec, make_value
from pathways_door.context import Context, Handler, Operation, failure_in
from pathways_door.handles import ArrayRecord, Form

_DONATE = strides_pb2.ARRAY_COPY_SEMANTICS_DONATE_INPUT
_ALWAYS_COPY = strides_pb2.ARRAY_COPY_SEMANTICS_ALWAYS_COPY


# result handle, source handle, what makes the result's form from the source's
Move = tuple[int, int, Callable[[Form], Form]]


class Reshards:
    """The handler of ReshardArrays."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def handlers(self) -> dict[str, Handler]:
        """Member of IfrtRequest -> handler."""
        return {"reshard_arrays_request": self._reshard}

    def _reshard(self, operation: Operation, request: arrays_pb2.ReshardArraysRequest) -> None:
        context = self._context
        handles = list(request.result_handles) or [context.arrays.new_handle() for _ in request.array_handles]

        def wanted(position: int) -> Callable[[Form], Form]:
            return lambda _: form_from_spec(context, request.array_specs[position])

        sources = request.array_handles
        moves = [(handle, sources[position], wanted(position)) for position, handle in enumerate(handles[: len(sources)])]
        move_arrays(context, moves, request.copy_semantics)
        context.reply_with(operation, reshard_arrays_response=arrays_pb2.ReshardArraysResponse(array_handles=handles))


def move_arrays(context: Context, moves: Sequence[Move], semantics: int) -> None:
    """Registers the results of all moves; what cannot be moved is kept under its result."""
    message = sessions_pb2.Reshard(donate=semantics == _DONATE)
    kept: list[ArrayRecord] = []
    moved: list[ArrayRecord] = []
    for handle, source, wanted in moves:
        try:
            record = context.arrays.get(source)
            if (failure := record.problem()) is not None:
                context.arrays.poison(handle, failure)
                continue
            (moved if _add(context, handle, record, wanted(record.form), semantics, message) else kept).append(record)
        except Exception as error:
            context.arrays.poison(handle, failure_in(error))
    if message.views:
        context.upstream.push(sessions_pb2.ClientOperation(reshard=message))
    if message.donate:
        for record in (*kept, *moved):
            record.deleted = True
        context.arrays.donated(value for record in moved if (value := record.whole) is not None)


def _add(context: Context, handle: int, record: ArrayRecord, form: Form, semantics: int, message: sessions_pb2.Reshard) -> bool:
    """Registers one result, and appends it to the message unless it is its source again; whether it did."""
    old = record.form
    if (form.dtype, form.shape) != (old.dtype, old.shape):
        raise fail(
            Reason.INVALID_ARGUMENT,
            f"an array of shape {list(old.shape)} cannot be laid out as one of shape {list(form.shape)} or of another type",
        )
    if form.placement == old.placement and semantics != _ALWAYS_COPY:
        context.arrays.add(handle, form, record.ranges)
        return False
    view = context.arrays.view_of(record)
    value = make_value(context, form)
    context.arrays.add(handle, form, ((value, 0, value.shard_count),))
    message.result_ids.append(value.value_id)
    message.views.append(view)
    message.sources.append(old.to_spec())
    message.destinations.append(form.to_spec())
    return True
