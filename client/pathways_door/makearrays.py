"""Arrays from host buffers. The array exists at once; its bytes ride inline or go to the workers, see uploads.py."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pathways_common.model.failure import Reason, fail
from pathways_common.model.sharding import Slices, distinct_shards
from pathways_common.process.logs import fields
from pathways_proto.ifrt import arrays_pb2
from pathways_proto.v1 import sessions_pb2

from pathways_door.arrays import form_from_spec, make_value
from pathways_door.colocated import string_parts
from pathways_door.context import Context, Handler, Operation, failure_in
from pathways_door.handles import Form, form_of
from pathways_door.hostbuffers import Data, cut, to_dense
from pathways_door.sharding import checked_devices, placement_of

_LOG = logging.getLogger(__name__)
_Strides = Sequence[int] | None


class MakeArrays:
    """Handlers of the two requests that consume host buffers."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def handlers(self) -> dict[str, Handler]:
        """Member of IfrtRequest -> handler."""
        return {
            "make_array_from_host_buffer_request": self._from_buffer,
            "make_arrays_from_host_buffer_shards_request": self._from_shards,
        }

    def _from_buffer(self, operation: Operation, request: arrays_pb2.MakeArrayFromHostBufferRequest) -> None:
        handle = request.array_handle if request.HasField("array_handle") else self._context.arrays.new_handle()
        try:
            placement = self._context.with_memory_kind(placement_of(request.sharding))
            checked_devices(placement.devices, self._context.device_count)
            form = form_of(request.dtype.kind, tuple(request.shape.dims), placement)
            strides = tuple(request.byte_strides.strides) if request.HasField("byte_strides") else None
            self._whole(handle, form, request.host_buffer_handle, strides)
        except Exception as error:
            self._context.buffers.consume(request.host_buffer_handle, _drop)
            self._context.arrays.poison(handle, failure_in(error))
        member = arrays_pb2.MakeArrayFromHostBufferResponse(array_handle=handle)
        self._context.reply_with(operation, make_array_from_host_buffer_response=member)

    def _whole(self, handle: int, form: Form, buffer: int, strides: _Strides) -> None:
        """One buffer holds the whole array; each distinct shard is cut out of it."""
        made = self._made(form)
        targets: list[tuple[sessions_pb2.Piece, Slices]] = []
        for slices, positions in distinct_shards(form.placement.sharding, form.shape, len(form.placement.devices)):
            targets.append((made.make_array.pieces.add(shards=positions, size_bytes=form.shard_bytes), slices))
        if form.shard_bytes == 0:
            self._context.buffers.consume(buffer, _drop)
        else:
            self._fill(buffer, form, targets, form.shape, strides)
        self._push(handle, form, made)

    def _fill(
        self,
        buffer: int,
        form: Form,
        targets: list[tuple[sessions_pb2.Piece, Slices]],
        shape: tuple[int, ...],
        strides: _Strides,
    ) -> None:
        """Puts the bytes of a buffer into pieces, now if they are there and small, else by upload."""
        uploads = self._context.uploads
        here = self._context.buffers.read(buffer) is not None

        def take(data: Data) -> None:
            for (piece, _), part in zip(
                targets, _parts(data, form, shape, strides, [slices for _, slices in targets]), strict=True
            ):
                if here and uploads.inline(piece, part):
                    continue
                uploads.arrived(piece.upload_id or uploads.begin(piece), part)

        def take_later(data: Data) -> None:
            try:
                take(data)
            except Exception as error:  # the client's bytes; its array fails when they do not come
                _LOG.warning("host buffer refused", extra=fields(handle=buffer, cause=failure_in(error).message))

        if not here:
            for piece, _ in targets:
                uploads.begin(piece)
        self._context.buffers.consume(buffer, take if here else take_later)

    def _made(self, form: Form) -> sessions_pb2.ClientOperation:
        """A MakeArray without pieces; pieces are added in place, so that one can still be filled until its frame leaves."""
        operation = sessions_pb2.ClientOperation()
        operation.make_array.spec.CopyFrom(form.to_spec())
        return operation

    def _push(self, handle: int, form: Form, made: sessions_pb2.ClientOperation) -> None:
        value = make_value(self._context, form)
        made.make_array.buffer_id = value.value_id
        self._context.upstream.push(made)
        self._context.arrays.add(handle, form, ((value, 0, value.shard_count),))

    def _from_shards(self, operation: Operation, request: arrays_pb2.MakeArraysFromHostBufferShardsRequest) -> None:
        handles = list(request.array_handles) or [self._context.arrays.new_handle() for _ in request.specs]
        for handle, spec in zip(handles, request.specs, strict=False):
            try:
                self._shards(handle, spec)
            except Exception as error:
                self._context.arrays.poison(handle, failure_in(error))
        member = arrays_pb2.MakeArraysFromHostBufferShardsResponse(array_handles=handles)
        self._context.reply_with(operation, make_arrays_from_host_buffer_shards_response=member)

    def _shards(
        self, handle: int, spec: arrays_pb2.MakeArraysFromHostBufferShardsRequest.MakeArraysFromHostBufferShardsSpec
    ) -> None:
        """One buffer per distinct shard; the index lists say which shards it feeds."""
        buffers = list(spec.host_buffers)
        try:
            form = form_from_spec(self._context, spec.array_spec)
            fed = sorted(index for indices in spec.addressable_shard_indices for index in indices.indices)
            if fed != list(range(len(form.placement.devices))) or len(buffers) != len(spec.addressable_shard_indices):
                raise fail(Reason.INVALID_ARGUMENT, f"host buffers do not feed each of {len(form.placement.devices)} shards once")
            made = self._made(form)
            pieces = made.make_array.pieces
            for indices, buffer in zip(spec.addressable_shard_indices, buffers, strict=True):
                shape = tuple(buffer.shape.dims)
                if shape != form.shard_shape:
                    raise fail(
                        Reason.INVALID_ARGUMENT, f"a host buffer of shape {shape} does not fit shards of shape {form.shard_shape}"
                    )
                pieces.add(shards=indices.indices, size_bytes=form.shard_bytes)
        except Exception:
            for buffer in buffers:
                self._context.buffers.consume(buffer.host_buffer_handle, _drop)
            raise
        for piece, buffer in zip(pieces, buffers, strict=True):
            if piece.size_bytes == 0:
                self._context.buffers.consume(buffer.host_buffer_handle, _drop)
                continue
            strides = tuple(buffer.byte_strides.strides) if buffer.HasField("byte_strides") else None
            whole = tuple((0, size) for size in form.shard_shape)
            self._fill(buffer.host_buffer_handle, form, [(piece, whole)], form.shard_shape, strides)
        self._push(handle, form, made)


def _parts(data: Data, form: Form, shape: tuple[int, ...], strides: _Strides, wanted: Sequence[Slices]) -> Sequence[Data]:
    """What shards are made of, cut out of a buffer of this shape."""
    if form.is_string:
        return string_parts(data, shape, wanted)
    dense = to_dense(data, shape, form.item_bytes, strides)
    return [cut(dense, shape, form.item_bytes, slices) for slices in wanted]


def _drop(_data: Data) -> None:
    """The bytes of an array that was refused: read to the end and thrown away."""
