"""A compiled program as the door knows it, and the answers it can give about it without asking anybody.

Output specs are constant for an executable's life, so the forms of its results and the pieces of its answers are made once.
"""

from __future__ import annotations

from collections.abc import Sequence

from pathways_common.model.failure import Failure, Reason
from pathways_proto.ifrt import programs_pb2, session_pb2, values_pb2, xla_data_pb2
from pathways_proto.v1 import types_pb2

from pathways_door.context import Context
from pathways_door.envelope import serialized
from pathways_door.errors import status_of
from pathways_door.handles import Form
from pathways_door.sharding import Placement, placement_to_proto

_PRED = values_pb2.DTypeProto.KIND_PRED
_TOKEN = values_pb2.DTypeProto.KIND_TOKEN


class Executable:
    """One executable: its upstream id, devices, result forms and what donation does to its arguments."""

    __slots__ = ("devices", "donated", "executable_id", "forms", "info", "python", "size_bytes")

    def __init__(self, context: Context, executable_id: int, devices: tuple[int, ...], info: types_pb2.ExecutableInfo) -> None:
        self.executable_id = executable_id
        self.devices = devices
        self.info = info
        self.python = False
        self.donated = frozenset(info.donated_parameters)
        self.forms = tuple(result_form(context, devices, spec) for spec in info.outputs)
        self.size_bytes = tuple(form.shard_bytes * len(devices) for form in self.forms)

    def compile_response(self, handle: int, future: int) -> bytes:
        """The answer to the compile request."""
        response = programs_pb2.CompileResponse(
            loaded_executable_handle=handle,
            name=self.info.name,
            num_devices=len(self.devices),
            device_ids=self.devices,
            addressable_device_ids=self.devices,
            # By this name a program of our client library says which executables its nodes run.
            fingerprint_value=b"pathways-executable %d" % self.executable_id,
            ready_future_handle=future,
        )
        return serialized(session_pb2.IfrtResponse(compile_response=response))

    def metadata_response(self) -> bytes:
        """The answer to the metadata request. What is not known goes into error members: a failure would end the executable."""
        info = self.info
        out = programs_pb2.LoadedExecutableMetadataResponse(size_of_generated_code_in_bytes=info.code_bytes)
        if info.parameter_shardings_known:
            out.parameter_shardings.shardings.extend(_sharding(data) for data in info.parameter_shardings)
            out.parameter_shardings.SetInParent()
        out.output_shardings.shardings.extend(_sharding(spec.sharding) for spec in info.outputs)
        out.output_shardings.SetInParent()
        if info.parameter_layouts_error:
            out.parameter_layouts_error.CopyFrom(_unknown(info.parameter_layouts_error))
        else:
            out.parameter_layouts_list.layouts.extend(
                xla_data_pb2.LayoutProto.FromString(data) for data in info.parameter_layouts
            )
            out.parameter_layouts_list.SetInParent()
        if info.output_layouts_error:
            out.output_layouts_error.CopyFrom(_unknown(info.output_layouts_error))
        else:
            out.output_layouts_list.layouts.extend(xla_data_pb2.LayoutProto.FromString(data) for data in info.output_layouts)
            out.output_layouts_list.SetInParent()
        out.output_memory_kinds.memory_kind_lists.add(memory_kinds=[form.placement.memory_kind for form in self.forms])
        out.donated_input_indices.donated_input_indices.extend(info.donated_parameters)
        out.donated_input_indices.SetInParent()
        if info.HasField("memory"):
            out.compiled_memory_stats.CopyFrom(
                xla_data_pb2.CompiledMemoryStatsProto(
                    generated_code_size_in_bytes=info.memory.generated_code_bytes,
                    argument_size_in_bytes=info.memory.argument_bytes,
                    output_size_in_bytes=info.memory.output_bytes,
                    alias_size_in_bytes=info.memory.alias_bytes,
                    temp_size_in_bytes=info.memory.temporary_bytes,
                )
            )
        else:
            out.compiled_memory_stats_error.CopyFrom(_unknown("memory figures are not known for this platform"))
        return serialized(session_pb2.IfrtResponse(loaded_executable_metadata_response=out))


def first_response(forms: Sequence[Form], handles: Sequence[int], status_handle: int) -> bytes:
    """The answer to an execution whose result handles the door made."""
    out = programs_pb2.LoadedExecutableExecuteResponse(status_handle=status_handle)
    for handle, form in zip(handles, forms, strict=True):
        out.outputs.add(
            dtype=values_pb2.DTypeProto(kind=form.dtype),
            shape=values_pb2.ShapeProto(dims=form.shape),
            sharding=placement_to_proto(form.placement),
            array_handle=handle,
        )
    return serialized(session_pb2.IfrtResponse(loaded_executable_execute_response=out))


def result_form(context: Context, devices: tuple[int, ...], spec: types_pb2.ArraySpec) -> Form:
    """The form of one output that lies on these devices."""
    placement = context.with_memory_kind(Placement(devices, spec.sharding, spec.memory_kind))
    if spec.dtype == _TOKEN:
        # JAX wants a token result as an empty array of bools, one per device.
        return Form(_PRED, (0,), (0,), Placement(devices, b"", placement.memory_kind))
    return Form(spec.dtype, tuple(spec.shape), tuple(spec.shard_shape), placement)


def _sharding(data: bytes) -> xla_data_pb2.OpSharding:
    return xla_data_pb2.OpSharding.FromString(data)


def _unknown(sentence: str) -> object:
    return status_of(Failure(Reason.UNSUPPORTED, sentence))
