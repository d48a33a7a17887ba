"""Reshards: the same array in another layout, on any devices of the session. The cluster moves the bytes, host to host.

An array that lies right already is the same array again, unless the client wants a copy. A donated array has ended for the
client as soon as the request is handled.
"""

from __future__ import annotations

from pathways_common.model.failure import Reason, fail
from pathways_proto.ifrt import arrays_pb2, strides_pb2
from pathways_proto.v1 import sessions_pb2

from pathways_door.arrays import form_from_spec, make_value
from pathways_door.context import Context, Handler, Operation, failure_in
from pathways_door.handles import ArrayRecord, Form

_DONATE = strides_pb2.ARRAY_COPY_SEMANTICS_DONATE_INPUT
_ALWAYS_COPY = strides_pb2.ARRAY_COPY_SEMANTICS_ALWAYS_COPY


class Reshards:
    """The handler of ReshardArrays."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._arrays = context.arrays

    def handlers(self) -> dict[str, Handler]:
        """Member of IfrtRequest -> handler."""
        return {"reshard_arrays_request": self._reshard}

    def _reshard(self, operation: Operation, request: arrays_pb2.ReshardArraysRequest) -> None:
        handles = list(request.result_handles) or [self._arrays.new_handle() for _ in request.array_handles]
        message = sessions_pb2.Reshard(donate=request.copy_semantics == _DONATE)
        kept: list[ArrayRecord] = []
        moved: list[ArrayRecord] = []
        for position, handle in enumerate(handles):
            try:
                record = self._arrays.get(request.array_handles[position])
                if (failure := record.problem()) is not None:
                    self._arrays.poison(handle, failure)
                    continue
                form = form_from_spec(self._context, request.array_specs[position])
                (moved if self._add(handle, record, form, request.copy_semantics, message) else kept).append(record)
            except Exception as error:
                self._arrays.poison(handle, failure_in(error))
        if message.views:
            self._context.upstream.push(sessions_pb2.ClientOperation(reshard=message))
        if message.donate:
            for record in (*kept, *moved):
                record.deleted = True
            self._arrays.donated(value for record in moved if (value := record.whole) is not None)
        self._context.reply_with(operation, reshard_arrays_response=arrays_pb2.ReshardArraysResponse(array_handles=handles))

    def _add(self, handle: int, record: ArrayRecord, form: Form, semantics: int, message: sessions_pb2.Reshard) -> bool:
        """Registers one result, and appends it to the message unless it is its source again; whether it did."""
        old = record.form
        if (form.dtype, form.shape) != (old.dtype, old.shape):
            raise fail(
                Reason.INVALID_ARGUMENT,
                f"an array of shape {list(old.shape)} cannot be laid out as one of shape {list(form.shape)} or of another type",
            )
        if form.placement == old.placement and semantics != _ALWAYS_COPY:
            self._arrays.add(handle, form, record.ranges)
            return False
        view = self._arrays.view_of(record)
        value = make_value(self._context, form)
        self._arrays.add(handle, form, ((value, 0, value.shard_count),))
        message.result_ids.append(value.value_id)
        message.views.append(view)
        message.sources.append(old.to_spec())
        message.destinations.append(form.to_spec())
        return True
