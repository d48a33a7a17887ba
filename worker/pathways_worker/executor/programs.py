"""The compile step: parse, check, rebuild options, compile for this epoch, and describe the result once for everybody.

A loaded program carries all that a launch needs: bound execute method, result handlers, donation, types of its arguments.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jaxlib
import numpy as np
from pathways_common.model.agreement import digest_of
from pathways_common.model.failure import Reason
from pathways_common.model.ids import GlobalId, session_of
from pathways_proto.ifrt import xla_data_pb2
from pathways_proto.v1 import types_pb2, workers_pb2

from pathways_worker.executor import compile_options, images, module_reader, runtime
from pathways_worker.executor.callbacks import CallbackStandIn
from pathways_worker.executor.colocated import PythonProgram
from pathways_worker.executor.custom_calls import check_custom_calls
from pathways_worker.executor.element_types import TOKEN, TOKEN_STAND_IN, dtype_of
from pathways_worker.executor.failures import failure_of, refuse
from pathways_worker.executor.hlo_header import DeviceType, HloHeader, parse_header
from pathways_worker.executor.module_facts import ModuleFacts, callback_types

_MINOR_TO_MAJOR = re.compile(r"\{([\d,]*)")


class Program:
    """One loaded executable of this epoch."""

    __slots__ = (
        "callbacks",
        "devices",
        "donated",
        "executable",
        "execute",
        "fallible",
        "handlers",
        "info",
        "name",
        "parameter_bytes",
        "parameters",
        "places",
        "result_bytes",
        "result_count",
        "reused",
        "spans_hosts",
    )

    def __init__(
        self,
        machine: runtime.Runtime,
        executable: runtime.LoadedExecutable,
        info: Any,
        header: HloHeader,
        handlers: Sequence[runtime.ResultHandler],
        devices: Sequence[runtime.Device],
        spans_hosts: bool,
        callbacks: Sequence[CallbackStandIn],
        reused: bool,
    ) -> None:
        self.executable = executable
        self.execute: Callable[..., Any] = executable.execute_sharded
        self.info = info
        self.name = str(info.name)
        self.handlers = list(handlers)
        self.result_count = max(1, len(self.handlers))  # without outputs, one result tells how it ended
        self.donated = frozenset(header.donated)
        self.parameters: tuple[DeviceType, ...] = header.parameters
        self.devices = tuple(devices)
        self.spans_hosts = spans_hosts
        self.fallible = bool(info.fallible)
        self.callbacks = tuple(callbacks)
        self.reused = reused
        # What one device needs for them in its own memory.
        self.parameter_bytes = [_size_bytes(kind) for kind in header.parameters]
        self.result_bytes = [
            _size_bytes(kind) if machine.is_device_memory(output.memory_kind) else 0
            for kind, output in zip(header.results, info.outputs, strict=True)
        ]
        # Which of this host's devices run the program.
        self.places = tuple(machine.local_devices.index(device) for device in self.devices)


def load_program(
    machine: runtime.Runtime,
    load: Any,
    stand_in: Callable[[int, Sequence[Any]], CallbackStandIn],
    ffi_targets: Mapping[str, bool],
) -> Program:
    """Carries out a Load. `stand_in(callback_id, result_types)` makes a callback's stand-in. Raises Refused."""
    devices = _devices(machine, load.devices)
    local = [device for device in devices if device.process_index == machine.rank]
    module, facts = module_reader.read(load.program, len(devices), session_of(GlobalId(load.executable_id)))
    fallible = check_custom_calls(facts.custom_calls, len(load.callback_ids), ffi_targets)
    types = callback_types(facts, len(load.callback_ids))
    callbacks = [stand_in(identifier, kinds) for identifier, kinds in zip(load.callback_ids, types, strict=True)]
    options = _options(load.options, len(devices), len(facts.parameters), len(facts.results))
    executable = images.load_image(machine, load.image, devices, options) if load.image and not callbacks else None
    reused = executable is not None
    if executable is None:
        try:
            executable = machine.compile(module, devices, options, callbacks)
        except Exception as error:
            raise refuse(Reason.COMPILE_ERROR, str(error)) from error
    if list(executable.local_devices()) != local:
        raise refuse(Reason.INTERNAL, "the runtime placed the program on other devices than it was told")
    text = executable.hlo_modules()[0].to_string()
    header = parse_header(text)
    counts = (len(header.parameters), len(header.results))
    if counts != (len(facts.parameters), len(facts.results)):
        text = f"the compiled program has {counts[0]} parameters and {counts[1]} results, its module says otherwise"
        raise refuse(Reason.INTERNAL, text)
    kinds = _output_memory_kinds(executable, len(facts.results))
    info = _describe(executable, facts, header, kinds, fallible, load.program, load.options)
    handlers = [
        machine.result_handler(*_result_type(result), local, kind) for result, kind in zip(header.results, kinds, strict=True)
    ]
    return Program(machine, executable, info, header, handlers, local, len(local) < len(devices), callbacks, reused)


def _size_bytes(kind: DeviceType) -> int:
    """Of a parameter or result on one device; types without a NumPy dtype, tokens among them, take none."""
    dtype = None if kind.dtype == TOKEN else dtype_of(kind.dtype)
    return 0 if dtype is None else math.prod(kind.shape) * dtype.itemsize


def _devices(machine: runtime.Runtime, positions: Sequence[int]) -> list[runtime.Device]:
    if not positions or any(not 0 <= position < len(machine.devices) for position in positions):
        raise refuse(Reason.INVALID_ARGUMENT, f"device positions {list(positions)} are outside 0..{len(machine.devices) - 1}")
    return [machine.devices[position] for position in positions]


def _options(data: bytes, device_count: int, parameter_count: int, result_count: int) -> Any:
    """The options to compile with. Without any from the client: one partition per device, partitioned as the module says.

    What it does not say of its results XLA chooses; parameters stay as they are written.
    """
    try:
        received = runtime.parse_compile_options(data) if data else runtime.new_compile_options()
    except Exception as error:
        raise refuse(Reason.INVALID_ARGUMENT, f"the compile options cannot be read: {error}") from error
    options = compile_options.rebuild(received, runtime.new_compile_options())
    if not data:
        build = options.executable_build_options
        options.num_partitions = build.num_partitions = device_count
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = True
        build.allow_spmd_sharding_propagation_to_parameters = [False] * max(1, parameter_count)
        build.allow_spmd_sharding_propagation_to_output = [True] * max(1, result_count)
    if options.num_replicas * options.num_partitions != device_count:
        raise refuse(
            Reason.INVALID_ARGUMENT,
            f"the options ask for {options.num_replicas} x {options.num_partitions} devices, the program got {device_count}",
        )
    return options


def _result_type(result: DeviceType) -> tuple[Any, tuple[int, ...]]:
    """What one device's shard of a result looks like to JAX; a token is an empty array of bool."""
    if result.dtype == TOKEN:
        return np.dtype(np.bool_), (0,)
    dtype = dtype_of(result.dtype)
    if dtype is None:
        raise refuse(Reason.UNSUPPORTED, f"the program returns element type {result.dtype}, which executors do not support")
    return dtype, result.shape


def _output_memory_kinds(executable: runtime.LoadedExecutable, count: int) -> list[str]:
    try:
        kinds = [str(kind) for kind in executable.get_output_memory_kinds()[0]]
    except Exception:  # old and unusual runtimes lack it; then everything is in the default memory
        kinds = []
    return kinds if len(kinds) == count else [""] * count


def _describe(
    executable: runtime.LoadedExecutable,
    facts: ModuleFacts,
    header: HloHeader,
    kinds: Sequence[str],
    fallible: bool,
    program: bytes,
    options: bytes,
) -> Any:
    info = types_pb2.ExecutableInfo(name=facts.name, fallible=fallible, parameter_count=len(facts.parameters))
    info.donated_parameters.extend(header.donated)
    output_shardings = _shardings(executable.get_output_shardings, len(facts.results))
    for index, result in enumerate(facts.results):
        token = result.dtype == TOKEN
        info.outputs.add(
            dtype=TOKEN_STAND_IN if token else result.dtype,
            shape=(0,) if token else result.shape,
            sharding=output_shardings[index] if output_shardings and not token else b"",
            shard_shape=(0,) if token else header.results[index].shape,
            memory_kind=kinds[index],
        )
    parameter_shardings = _shardings(executable.get_parameter_shardings, len(facts.parameters))
    if parameter_shardings is not None:
        info.parameter_shardings.extend(parameter_shardings)
        info.parameter_shardings_known = True
    layouts, info.parameter_layouts_error = _layouts(executable.get_parameter_layouts)
    info.parameter_layouts.extend(layouts)
    layouts, info.output_layouts_error = _layouts(executable.get_output_layouts)
    info.output_layouts.extend(layouts)
    _add_fields(info, program, options)
    # Not compared: what code for one processor needs may be another's too little, and an image does not tell all of it.
    _add_memory(executable, info)
    return info


def _add_fields(info: Any, program: bytes, options: bytes) -> None:
    """What members must agree on, by name, and the digest of all of it."""
    fields = {
        "code": hashlib.sha256(program).digest(),
        "compile options": hashlib.sha256(options).digest(),
        "compiler version": digest_of(jaxlib.__version__),
        "compiler flags": digest_of(os.environ.get("XLA_FLAGS", "")),
        "name": digest_of(info.name),
        "parameters": digest_of((info.parameter_count, info.parameter_shardings_known, tuple(info.parameter_shardings))),
        "parameter layouts": digest_of((tuple(info.parameter_layouts), info.parameter_layouts_error)),
        "output specs": digest_of(tuple(output.SerializeToString(deterministic=True) for output in info.outputs)),
        "output layouts": digest_of((tuple(info.output_layouts), info.output_layouts_error)),
        "donation": digest_of(tuple(info.donated_parameters)),
        "custom calls": digest_of(info.fallible),
    }
    info.fields.extend(types_pb2.FieldDigest(name=name, digest=digest) for name, digest in fields.items())
    info.digest = hashlib.sha256(b"".join(fields.values())).digest()


def _shardings(getter: Callable[[], Any], count: int) -> list[bytes] | None:
    if not count:
        return []  # of nothing one that was compiled and one that was loaded tell differently
    try:
        shardings = getter()
    except Exception:  # not every executable can tell; the answer then says unknown
        return None
    if shardings is None or len(shardings) != count:
        return None
    return [sharding.SerializeToString() for sharding in shardings]


def _layouts(getter: Callable[[], Any]) -> tuple[list[bytes], str]:
    """Serialized LayoutProtos, or none and the reason: jaxlib raises for programs with tokens."""
    try:
        texts = [str(layout) for layout in getter()]
    except Exception as error:
        return [], str(error)
    layouts = []
    for text in texts:
        match = _MINOR_TO_MAJOR.match(text)
        numbers = [int(part) for part in match.group(1).split(",") if part] if match else []
        layouts.append(xla_data_pb2.LayoutProto(minor_to_major=numbers).SerializeToString())
    return layouts, ""


def _add_memory(executable: runtime.LoadedExecutable, info: Any) -> None:
    try:
        stats = executable.get_compiled_memory_stats()
    except Exception:  # figures for people and admission; their absence stops nothing
        return
    info.memory.argument_bytes = stats.argument_size_in_bytes
    info.memory.output_bytes = stats.output_size_in_bytes
    info.memory.alias_bytes = stats.alias_size_in_bytes
    info.memory.temporary_bytes = stats.temp_size_in_bytes
    info.memory.generated_code_bytes = stats.generated_code_size_in_bytes
    info.code_bytes = max(0, executable.size_of_generated_code_in_bytes())


def inspected(program: Program | PythonProgram | None, message: Any) -> Any:
    """The answer to an InspectExecutable; `program` is the one it names, if that is loaded."""
    answer = workers_pb2.InspectedExecutable(inspect_id=message.inspect_id)
    try:
        if program is None:
            raise LookupError(f"executable {message.executable_id:#x} is not loaded on this host")
        if isinstance(program, PythonProgram):
            raise refuse(Reason.UNSUPPORTED, f"colocated Python {program.name} has no costs and no program text")
        answer.inspection.CopyFrom(_inspection(program, message.kind))
    except Exception as error:
        answer.failure.CopyFrom(failure_of(error, Reason.EXECUTION_ERROR))
    return answer


def _inspection(program: Program, kind: int) -> Any:
    """Raises whatever the runtime raises."""
    inspection = types_pb2.Inspection()
    if kind == types_pb2.INSPECT_KIND_COST_ANALYSIS:
        costs = program.executable.cost_analysis()
        for name, value in (costs[0] if isinstance(costs, list) else costs).items():
            inspection.costs[str(name)] = float(value)
    elif kind == types_pb2.INSPECT_KIND_PROGRAM_TEXT:
        inspection.text = "\n\n".join(module.to_string() for module in program.executable.hlo_modules())
    else:
        raise refuse(Reason.INVALID_ARGUMENT, f"there is nothing to inspect of kind {kind}")
    return inspection
