"""Requests that make, rearrange and end arrays. Parts, assemblies and remaps move nothing: they are ranges over what is there.

The client made the result handles and goes on at once, so every one of them is registered before the next request is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pathways_common.model.bounds import FAILURE_MESSAGE_BYTES_MAX
from pathways_common.model.failure import Failure, Reason, fail
from pathways_common.rpc.convert import failure_to_proto
from pathways_proto.ifrt import arrays_pb2, strides_pb2, values_pb2
from pathways_proto.v1 import sessions_pb2

from pathways_door.context import Context, Handler, Operation, failure_in
from pathways_door.handles import ArrayRecord, Form, Range, Value, form_of, merged, shards_of
from pathways_door.sharding import Placement, checked_devices, placement_of

_DONATE = strides_pb2.ARRAY_COPY_SEMANTICS_DONATE_INPUT
_ALWAYS_COPY = strides_pb2.ARRAY_COPY_SEMANTICS_ALWAYS_COPY


def form_from_spec(context: Context, spec: values_pb2.ArraySpecProto) -> Form:
    """The form of an IFRT array spec; raises PathwaysError if it cannot be placed in this session."""
    placement = context.with_memory_kind(placement_of(spec.sharding))
    checked_devices(placement.devices, context.device_count)
    return form_of(spec.dtype.kind, tuple(spec.shape.dims), placement)


def checked_shards(have: Form, wanted: Form) -> None:
    """Raises PathwaysError if shards of one array cannot be those of another: nothing is converted here."""
    if (have.dtype, have.shard_shape) != (wanted.dtype, wanted.shard_shape):
        raise fail(
            Reason.INVALID_ARGUMENT,
            f"shards of shape {list(have.shard_shape)} and type {have.dtype} are not those of an array of shards "
            f"{list(wanted.shard_shape)} and type {wanted.dtype}",
        )


def make_value(context: Context, form: Form) -> Value:
    """A fresh upstream id for an array of this form."""
    count = len(form.placement.devices)
    return Value(context.upstream.new_ids(), count, form.shard_bytes * count)


class Arrays:
    """Handlers of array requests, by the request's member name."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._arrays = context.arrays

    def handlers(self) -> dict[str, Handler]:
        """Member of IfrtRequest -> handler."""
        return {
            "make_error_arrays_request": self._make_error,
            "assemble_array_from_single_device_arrays_request": self._assemble,
            "remap_arrays_request": self._remap,
            "bitcast_arrays_request": self._bitcast,
            "disassemble_into_single_device_arrays_request": self._disassemble,
            "delete_array_request": self._delete,
            "copy_arrays_request": self._copy,
            "fully_replicated_shard_request": self._first_shard,
            "is_array_deleted_request": self._is_deleted,
            "destruct_array_request": self._destruct,
        }

    def _results(self, handles: Sequence[int], make: Callable[[], None]) -> None:
        """Runs `make`, which registers all handles; if it raises, the failure is kept under them instead."""
        try:
            make()
        except Exception as error:
            self._context.poison(handles, failure_in(error))

    def _make_error(self, operation: Operation, request: arrays_pb2.MakeErrorArraysRequest) -> None:
        words = request.error.message[:FAILURE_MESSAGE_BYTES_MAX] or "an array was made from an error"
        failure = Failure(Reason.EXECUTION_ERROR, words)

        def make() -> None:
            for handle, spec in zip(request.array_handles, request.array_specs, strict=True):
                form = form_from_spec(self._context, spec)
                value = make_value(self._context, form)
                message = sessions_pb2.MakeErrorArray(buffer_id=value.value_id, failure=failure_to_proto(failure))
                self._context.upstream.push(sessions_pb2.ClientOperation(make_error_array=message))
                self._arrays.add(handle, form, ((value, 0, value.shard_count),)).failure = failure

        self._results(request.array_handles, make)
        member = arrays_pb2.MakeErrorArraysResponse(array_handles=request.array_handles)
        self._context.reply_with(operation, make_error_arrays_response=member)

    def _assemble(self, operation: Operation, request: arrays_pb2.AssembleArrayFromSingleDeviceArraysRequest) -> None:
        handle = request.result_handle or self._arrays.new_handle()

        def make() -> None:
            records = [self._arrays.get(part) for part in request.single_device_array_handles]
            failure = next((found for record in records if (found := record.problem()) is not None), None)
            if failure is not None:
                self._arrays.poison(handle, failure)
                return
            placement = self._context.with_memory_kind(placement_of(request.sharding))
            checked_devices(placement.devices, self._context.device_count)
            dtype = request.dtype.kind if request.HasField("dtype") else records[0].form.dtype
            form = form_of(dtype, tuple(request.shape.dims), placement)
            ranges = merged(found for record in records for found in record.ranges)
            if sum(count for _, _, count in ranges) != len(placement.devices):
                raise fail(
                    Reason.INVALID_ARGUMENT, f"{len(records)} parts do not make an array over {len(placement.devices)} devices"
                )
            for record in records:
                checked_shards(record.form, form)
            self._arrays.add(handle, form, ranges)

        self._results([handle], make)
        member = arrays_pb2.AssembleArrayFromSingleDeviceArraysResponse(array_handle=handle)
        self._context.reply_with(operation, assemble_array_from_single_device_arrays_response=member)

    def _disassemble(self, operation: Operation, request: arrays_pb2.DisassembleIntoSingleDeviceArraysRequest) -> None:
        record = self._arrays.get(request.array_handle)
        handles = list(request.result_handles)
        if not handles:
            handles = [self._arrays.new_handle() for _ in record.form.placement.devices]
        failure = record.problem()

        def make() -> None:
            shards = shards_of(record)
            if len(shards) != len(handles):
                raise fail(
                    Reason.INVALID_ARGUMENT, f"an array of {len(shards)} shards was taken apart into {len(handles)} handles"
                )
            for position, (handle, shard) in enumerate(zip(handles, shards, strict=True)):
                self._arrays.add(handle, _part_form(record, position), (shard,))

        if failure is None:
            self._results(handles, make)
        else:
            self._context.poison(handles, failure)
        member = arrays_pb2.DisassembleIntoSingleDeviceArraysResponse(array_handles=handles)
        self._context.reply_with(operation, disassemble_into_single_device_arrays_response=member)

    def _first_shard(self, operation: Operation, request: arrays_pb2.FullyReplicatedShardRequest) -> None:
        record = self._arrays.get(request.array_handle)
        handle = request.result_handle or self._arrays.new_handle()
        failure = record.problem()
        if failure is None:
            shards = self._one_of_each_island(record)
            if len(shards) > 1:
                self._arrays.first_of_copies(handle, _part_form(record, 0), shards)
            else:
                self._arrays.add(handle, _part_form(record, 0), (shards[0],))
        else:
            self._arrays.poison(handle, failure)
        member = arrays_pb2.FullyReplicatedShardResponse(array_handle=handle)
        self._context.reply_with(operation, fully_replicated_shard_response=member)

    def _one_of_each_island(self, record: ArrayRecord) -> list[Range]:
        """The first shard, and the first on each further island that the array lies on."""
        value, start, _ = record.ranges[0]
        if len(record.ranges) == 1 and not value.is_mixed:
            return [(value, start, 1)]
        found: dict[int, Range] = {}
        for device, shard in zip(record.form.placement.devices, shards_of(record), strict=True):
            found.setdefault(self._context.islands[device], shard)
        return list(found.values())

    def _remap(self, operation: Operation, request: arrays_pb2.RemapArraysRequest) -> None:
        handles = list(request.result_handles) or [self._arrays.new_handle() for _ in request.plan.output_specs]

        def make() -> None:
            records = [self._arrays.get(handle) for handle in request.array_handles]
            failure = next((found for record in records if (found := record.problem()) is not None), None)
            if failure is not None:
                self._context.poison(handles, failure)
                return
            forms = [form_from_spec(self._context, spec) for spec in request.plan.output_specs]
            sources = [shards_of(record) for record in records]
            outputs = _remapped(request.plan, sources, [len(form.placement.devices) for form in forms])
            for mapping in request.plan.mappings:
                checked_shards(records[mapping.in_array].form, forms[mapping.out_array])
            for handle, form, shards in zip(handles, forms, outputs, strict=True):
                self._arrays.add(handle, form, merged(shards))
            for record in records:
                record.deleted = request.copy_semantics == _DONATE

        self._results(handles, make)
        self._context.reply_with(operation, remap_arrays_response=arrays_pb2.RemapArraysResponse(array_handles=handles))

    def _copy(self, operation: Operation, request: arrays_pb2.CopyArraysRequest) -> None:
        handles = list(request.result_handles) or [self._arrays.new_handle() for _ in request.array_handles]

        def make() -> None:
            devices = tuple(request.device_ids)
            checked_devices(devices, self._context.device_count)
            copies: list[tuple[Value, int, Form]] = []
            for handle, source in zip(handles, request.array_handles, strict=True):
                record = self._arrays.get(source)
                failure = record.problem()
                if failure is not None:
                    self._arrays.poison(handle, failure)
                    continue
                form = self._copied_form(record.form, devices, request)
                if form.placement == record.form.placement and request.copy_semantics != _ALWAYS_COPY:
                    self._arrays.add(handle, form, record.ranges)
                    continue
                view = self._arrays.view_of(record)
                value = make_value(self._context, form)
                copies.append((value, view, form))
                self._arrays.add(handle, form, ((value, 0, value.shard_count),))
                if request.copy_semantics == _DONATE:
                    record.deleted = True
            if copies:
                message = sessions_pb2.Copy(
                    result_ids=[value.value_id for value, _, _ in copies],
                    views=[view for _, view, _ in copies],
                    specs=[form.to_spec() for _, _, form in copies],
                )
                self._context.upstream.push(sessions_pb2.ClientOperation(copy=message))

        self._results(handles, make)
        self._context.reply_with(operation, copy_arrays_response=arrays_pb2.CopyArraysResponse(array_handles=handles))

    def _copied_form(self, form: Form, devices: tuple[int, ...], request: arrays_pb2.CopyArraysRequest) -> Form:
        old = form.placement
        if devices and len(devices) != len(old.devices):
            raise fail(Reason.INVALID_ARGUMENT, f"an array over {len(old.devices)} devices cannot be copied onto {len(devices)}")
        kind = request.memory_kind or old.memory_kind
        placement = self._context.with_memory_kind(Placement(devices or old.devices, old.sharding, kind))
        return Form(form.dtype, form.shape, form.shard_shape, placement)

    def _bitcast(self, operation: Operation, request: arrays_pb2.BitcastArraysRequest) -> None:
        failure = Failure(
            Reason.UNSUPPORTED, "arrays cannot be reinterpreted in place on a Pathways cluster; use jax.lax.bitcast_convert_type"
        )
        self._context.poison(request.result_handles, failure)
        self._context.refuse(operation, failure)

    def _delete(self, operation: Operation, request: arrays_pb2.DeleteArrayRequest) -> None:
        for handle in request.array_handle:
            record = self._arrays.find(handle)
            if record is not None:
                self._arrays.delete(record)
        member = arrays_pb2.DeleteArrayResponse(deletion_future_handle=self._context.futures.add_deletion())
        self._context.reply_with(operation, counted=False, delete_array_response=member)

    def _destruct(self, operation: Operation, request: arrays_pb2.DestructArrayRequest) -> None:
        for handle in request.array_handle:
            self._arrays.destruct(handle)
        self._context.reply_empty(operation, "destruct_array_response", counted=False, awaited=False)

    def _is_deleted(self, operation: Operation, request: arrays_pb2.IsArrayDeletedRequest) -> None:
        record = self._arrays.find(request.array_handle)
        deleted = record is not None and (record.deleted or any(value.deleted for value, _, _ in record.ranges))
        member = arrays_pb2.IsArrayDeletedResponse(deleted=deleted)
        self._context.reply_with(operation, is_array_deleted_response=member)


def _part_form(record: ArrayRecord, position: int) -> Form:
    form = record.form
    return Form(form.dtype, form.shard_shape, form.shard_shape, form.placement.on(position))


def _steps(starts: Any, ends: Any, steps: Any, count: int) -> list[int]:
    """Positions among so many shards; raises IndexError before it lists what reaches beyond them."""
    found: list[int] = []
    for start, end, step in zip(starts, ends, steps, strict=True):
        positions = range(start, end, max(1, step))
        if (positions and not 0 <= positions[0] <= positions[-1] < count) or len(found) > count:
            raise IndexError(f"shards {start} to {end} of {count}")
        found.extend(positions)
    return found


def _remapped(plan: values_pb2.RemapPlanProto, sources: list[list[Range]], counts: list[int]) -> list[list[Range]]:
    """The shards of every output; raises PathwaysError if the plan leaves one open or names one that is not there."""
    outputs: list[dict[int, Range]] = [{} for _ in counts]
    try:
        for mapping in plan.mappings:
            if mapping.in_array < 0 or mapping.out_array < 0:
                raise IndexError(f"array {min(mapping.in_array, mapping.out_array)}")
            source, output = sources[mapping.in_array], outputs[mapping.out_array]
            taken = _steps(mapping.from_start, mapping.from_end, mapping.from_step, len(source))
            put = _steps(mapping.to_start, mapping.to_end, mapping.to_step, counts[mapping.out_array])
            for from_shard, to_shard in zip(taken, put, strict=True):
                output[to_shard] = source[from_shard]
        return [[shards[position] for position in range(count)] for shards, count in zip(outputs, counts, strict=True)]
    except (IndexError, KeyError, ValueError) as error:
        raise fail(Reason.INVALID_ARGUMENT, "a remap plan does not fit its arrays") from error
