"""Colocated Python: JAX's program becomes one of the session stream, and arrays meet its devices in its own order.

What a function takes and returns may lie on the same devices in another order; a view puts an argument in the program's order,
and a result is a range per shard. Arrays of strings are blocks of bytes to everybody but the two ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pathways_common.model.colocated import MAGIC, string_block
from pathways_common.model.failure import Reason, fail
from pathways_common.model.sharding import Slices
from pathways_common.rpc.version import pickle_mismatch
from pathways_proto.ifrt import colocated_pb2 as ifrt_colocated_pb2
from pathways_proto.ifrt import strings_pb2
from pathways_proto.v1 import colocated_pb2, sessions_pb2, types_pb2

from pathways_door.arrays import form_from_spec
from pathways_door.context import Context
from pathways_door.executables import Executable
from pathways_door.handles import ArrayRecord, ArrayTable, Range, Value, merged, shards_of
from pathways_door.hostbuffers import Data
from pathways_door.sharding import checked_devices

PROGRAM_TYPE = "xla::ifrt::CustomCallProgram"
_KIND = "jax_colocated_python_v0.0"
# What JAX calls a user's function while it finds out what that returns, and when it takes what was found.
_SUFFIXES = ("_output_specs_and_push_result", "_pop_result")


class ReadProgram:
    """A program of colocated Python: its bytes for the session stream, its devices, and the forms of its results."""

    def __init__(self, context: Context, data: bytes) -> None:
        read = ifrt_colocated_pb2.CustomCallProgramProto.FromString(data)
        if not read.type.startswith(_KIND):
            raise fail(Reason.UNSUPPORTED, f"programs of kind {read.type} are not supported by the Pathways door")
        self.devices = tuple(read.devices.device_ids)
        checked_devices(self.devices, context.device_count)
        parameters = [form_from_spec(context, spec) for spec in read.input_specs]
        self.forms = tuple(form_from_spec(context, spec) for spec in read.output_specs)
        for form in (*parameters, *self.forms):
            if strange := [device for device in form.placement.devices if device not in self.devices]:
                sentence = f"colocated Python {read.name} has an array on device {strange[0]}, which is none of its devices"
                raise fail(Reason.INVALID_ARGUMENT, f"{sentence}; specialize it with devices=")
        name = read.name
        for suffix in _SUFFIXES:
            name = name.removesuffix(suffix)
        message = colocated_pb2.ColocatedProgram(
            name=name,
            text=read.serialized_program_text,
            parameters=[form.to_spec() for form in parameters],
            outputs=[form.to_spec() for form in self.forms],
            devices=self.devices,
        )
        self.program = MAGIC + message.SerializeToString(deterministic=True)


class ColocatedExecutable(Executable):
    """An executable whose arguments and results may lie in another order than its devices."""

    __slots__ = ("_ranges",)

    def __init__(self, context: Context, executable_id: int, program: ReadProgram, info: types_pb2.ExecutableInfo) -> None:
        super().__init__(context, executable_id, program.devices, info)
        self.python = True
        self.forms = program.forms
        self.size_bytes = tuple(form.shard_bytes * len(program.devices) for form in program.forms)
        self._ranges = [[program.devices.index(device) for device in form.placement.devices] for form in program.forms]

    def results(self, index: int, value: Value) -> tuple[Range, ...]:
        """The shards of a result in the order of its own devices."""
        return merged((value, position, 1) for position in self._ranges[index])

    def argument(self, arrays: ArrayTable, record: ArrayRecord, temporary: list[int]) -> ArrayRecord:
        """The array in the program's order. `temporary` gets the handle of what is made for it; destruct it after use."""
        lies = record.form.placement.devices
        if lies == self.devices or sorted(lies) != sorted(self.devices):
            return record
        shards = shards_of(record)
        handle = arrays.new_handle()
        temporary.append(handle)
        return arrays.add(handle, record.form, merged(shards[lies.index(device)] for device in self.devices))


def unreadable(own: types_pb2.Versions, welcome: sessions_pb2.Welcome, devices: Sequence[int]) -> str:
    """Why the hosts of these devices cannot read functions of this client, in one sentence; empty if they can.

    Of other hosts nothing is asked. Where a slice will lie is not known yet: it is refused if there is no host that could.
    """
    workers = [each for each in welcome.versions if "controller" not in each.processes]
    hosts = {welcome.devices[device].host for device in devices}
    asked = [
        types_pb2.VersionRow(processes=names, versions=each.versions)
        for each in workers
        if (names := [name for name in each.processes if name.removeprefix("worker ") in hosts])
    ]
    sentence = pickle_mismatch(own, asked)
    if sentence or "" not in hosts:
        return sentence
    sentences = [pickle_mismatch(own, [each]) for each in workers]
    return sentences[0] if sentences and all(sentences) else ""


def string_parts(data: Data, shape: tuple[int, ...], wanted: Sequence[Slices]) -> list[bytes]:
    """The blocks of shards of an array of strings that arrived as a whole; raises PathwaysError if it does not fit its shape."""
    strings = strings_pb2.StringArrayContents.FromString(bytes(data)).strings
    if len(strings) != prod(shape):
        raise fail(Reason.INVALID_ARGUMENT, f"a host buffer holds {len(strings)} strings; the array has {prod(shape)}")
    blocks = []
    for slices in wanted:
        positions = [0]
        for (start, stop), size in zip(slices, shape, strict=True):
            positions = [position * size + index for position in positions for index in range(start, stop)]
        part = strings_pb2.StringArrayContents(strings=[strings[position] for position in positions])
        blocks.append(string_block(part.SerializeToString()))
    return blocks
