"""The only module of the executor that touches private jaxlib names; everything else speaks of devices, arrays and executables.

An array of the object store holds this host's shards of one buffer and nothing of the others: its Python-level shape is that
of one shard. XLA checks sizes and the number of local shards, so the same array serves programs of one host and of many.
"""

from __future__ import annotations

import ctypes
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from jaxlib import _jax, lapack, xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from pathways_worker.executor.compiler_name import compiler_name
from pathways_worker.executor.element_types import DType
from pathways_worker.executor.thread_placement import NotPlaced, place_apart, started_by

# In a string of a program: a byte of which a text need not be made.
_ESCAPED_BYTE = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")
# Made ahead; a module keeps the one that it was read with.
_contexts: list[Any] = []

Array: TypeAlias = Any
Device: TypeAlias = Any
Token: TypeAlias = Any
LoadedExecutable: TypeAlias = Any
ResultHandler: TypeAlias = Any

# Joining a group takes milliseconds once all ranks are there; a rank may still be importing jax on a busy machine.
CONNECT_TIMEOUT_S = 60
REACH_TIMEOUT_S = 10
# As in coordinator.py: who is stuck the controller finds out.
HEARTBEAT_TIMEOUT_S = 3600
SHUTDOWN_TIMEOUT_S = 2


def prepare_process() -> None:
    """Once per process, before any client: 64-bit types as they are, and LAPACK, whose uninitialised call is a SIGSEGV."""
    jax.config.update("jax_enable_x64", True)
    lapack._lapack.initialize()


def collect_garbage() -> None:
    """Lets go of host memory whose copy to a device has ended; else the runtime keeps it until it is next called to place one."""
    _jax.collect_garbage()


def register_ffi_target(name: str, handler: int) -> None:
    """Makes a native handler callable from programs of this process; `handler` is its address."""
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    xla_client.register_custom_call_target(name, capsule(handler, None, None), platform="cpu", api_version=1)


class Runtime:
    """The PJRT client of one epoch. Builds arrays, moves them and compiles; knows no ids.

    `split_threads`: the thread that makes it, and gloo's, are kept on different CPUs.
    """

    def __init__(
        self, rank: int, rank_count: int, coordinator_address: str, device_count: int, split_threads: bool = False
    ) -> None:
        if rank_count == 1:
            self._client = xla_client.make_cpu_client(num_devices=device_count)
        else:
            # Gloo listens on it, too.
            own_address = _own_address(coordinator_address)
            self._group = _jax.get_distributed_runtime_client(
                coordinator_address,
                rank,
                init_timeout=CONNECT_TIMEOUT_S,
                heartbeat_timeout=HEARTBEAT_TIMEOUT_S,
                shutdown_timeout=SHUTDOWN_TIMEOUT_S,
                shutdown_on_destruction=False,
                use_compression=True,
            )
            self._group.connect()
            collectives, gloo_threads = started_by(
                lambda: _jax.make_gloo_tcp_collectives(distributed_client=self._group, hostname=own_address)
            )
            self._client = xla_client.make_cpu_client(
                distributed_client=self._group,
                node_id=rank,
                num_nodes=rank_count,
                collectives=collectives,
                num_devices=device_count,
            )
            # Not before: the client sizes its pool of threads by the CPUs of this one, and they inherit them.
            if split_threads:
                _split(gloo_threads)
        self.rank = rank
        by_rank: dict[int, list[Device]] = {}
        for device in self._client.devices():
            by_rank.setdefault(device.process_index, []).append(device)
        # Position of a device in the epoch: rank * devices per host + local index.
        self.devices: list[Device] = [
            device for number in sorted(by_rank) for device in sorted(by_rank[number], key=lambda device: device.id)
        ]
        self.local_devices: list[Device] = [device for device in self.devices if device.process_index == rank]
        self._shardings: dict[tuple[tuple[int, ...], str], Any] = {}
        # Names all that decides, besides a program and its options, what is compiled here.
        self.compiler = compiler_name(self.platform, self.platform_version, self.device_kind)

    @property
    def platform(self) -> str:
        """PJRT's platform name."""
        return str(self._client.platform)

    @property
    def platform_version(self) -> str:
        """PJRT's own version text."""
        return str(self._client.platform_version)

    @property
    def device_kind(self) -> str:
        """Kind of the local devices."""
        return str(self.local_devices[0].device_kind)

    @property
    def memory_kinds(self) -> list[str]:
        """Memory kinds of a local device, the default first."""
        device = self.local_devices[0]
        default = device.default_memory().kind
        return [default, *(memory.kind for memory in device.addressable_memories() if memory.kind != default)]

    def is_device_memory(self, memory_kind: str) -> bool:
        """Whether this kind ("" is the default) is a device's own memory, and not the host's."""
        return memory_kind in ("", self.local_devices[0].default_memory().kind)

    def spans_hosts(self, positions: Sequence[int]) -> bool:
        """Whether devices of other hosts are at any of these positions."""
        return any(0 <= each < len(self.devices) and self.devices[each].process_index != self.rank for each in positions)

    def tunes_with_others(self, positions: Sequence[int]) -> bool:
        """Whether hosts meet while they compile for these devices: on accelerators they measure kernels together."""
        return self.platform != "cpu" and self.spans_hosts(positions)

    def sharding(self, devices: Sequence[Device], memory_kind: str) -> Any:
        """What places one shard of the same shape on each of these devices."""
        key = (tuple(device.id for device in devices), memory_kind)
        known = self._shardings.get(key)
        if known is None:
            kind = memory_kind or devices[0].default_memory().kind
            if len(devices) == 1:
                known = SingleDeviceSharding(devices[0], memory_kind=kind)
            else:
                known = NamedSharding(Mesh(np.array(devices), ("shard",)), PartitionSpec(), memory_kind=kind)
            self._shardings[key] = known
        return known

    def result_handler(self, dtype: DType, shape: Sequence[int], devices: Sequence[Device], memory_kind: str) -> ResultHandler:
        """Wraps the shards of one result. Building one costs as much as a launch: do it once per program."""
        aval = jax.core.ShapedArray(tuple(shape), dtype)
        return _jax.array_result_handler(aval, self.sharding(devices, memory_kind), True, True)

    def place(
        self, values: Sequence[np.ndarray[Any, Any]], devices: Sequence[Device], memory_kind: str, given: bool = False
    ) -> Array:
        """Copies one host array to each device. `given`: nobody will change its memory, so it may become that of the array."""
        shards = []
        # One by one: for a sharding that says "replicated" the runtime would spread the first value over all devices.
        for value, device in zip(values, devices, strict=True):
            aval = jax.core.ShapedArray(value.shape, value.dtype)
            lies = self.sharding([device], memory_kind)
            shards.append(_jax.batched_device_put(aval, lies, [value], [device], True, not given))
        return self.assemble(shards)

    def assemble(self, shards: Sequence[Array]) -> Array:
        """One array of several single-device arrays; moves nothing."""
        if len(shards) == 1:
            return shards[0]
        sharding = self.sharding([next(iter(shard.devices())) for shard in shards], memory_kind_of(shards[0]))
        aval = jax.core.ShapedArray(shards[0].shape, shards[0].dtype)
        return _jax.ArrayImpl(aval, sharding, list(shards), True, _skip_checks=True)

    def copy(self, array: Array, device: Device | None = None, memory_kind: str | None = None) -> Array:
        """A copy in fresh memory, to where the array is, or of a single-device array to another device or kind."""
        if device is None:
            # Shard by shard: to the runtime, a result of a program over several hosts spans all of their devices.
            shards = [local_shard(array, index) for index in range(shard_count(array))]
            return self.assemble([self.copy(shard, next(iter(shard.sharding.device_set)), memory_kind) for shard in shards])
        sharding = self.sharding([device], memory_kind_of(array) if memory_kind is None else memory_kind)
        devices = _jax.DeviceList((device,))
        always = _jax.ArrayCopySemantics.ALWAYS_COPY
        return _jax.batched_copy_array_to_devices_with_sharding([array], [devices], [sharding], [always])[0]

    def compile(self, module: Any, devices: Sequence[Device], options: Any, callbacks: Sequence[Any]) -> LoadedExecutable:
        """Compiles a module for these devices of the epoch, this host's and others'."""
        _assign(options, devices)
        device_list = _jax.DeviceList(tuple(devices))
        if callbacks:
            return self._client.compile_and_load(module, device_list, options, list(callbacks))
        return self._client.compile_and_load(module, device_list, options)

    def serialize(self, executable: LoadedExecutable) -> bytes:
        """What was compiled, without the devices that it was loaded for."""
        return bytes(executable.serialize())

    def deserialize(self, data: bytes, devices: Sequence[Device], options: Any) -> LoadedExecutable:
        """Loads for these devices what an executor compiled for as many others. The bytes are code: never give it a client's."""
        _assign(options, devices)
        return self._client.deserialize_executable(data, _jax.DeviceList(tuple(devices)), options)


def _assign(options: Any, devices: Sequence[Device]) -> None:
    """Has the options say these devices, in this order."""
    assignment = _jax.DeviceAssignment.create(
        np.array([device.id for device in devices], dtype=np.int32).reshape(options.num_replicas, options.num_partitions)
    )
    options.device_assignment = assignment
    options.executable_build_options.device_assignment = assignment


def _split(gloo_threads: Sequence[int]) -> None:
    """Says what it did, or why it did nothing, in one line of the host's executor log."""
    try:
        print(place_apart(gloo_threads), file=sys.stderr, flush=True)
    except NotPlaced as refusal:
        print(refusal, file=sys.stderr, flush=True)


def _own_address(coordinator_address: str) -> str:
    """The address by which this host reaches the coordinator; OSError if it does not: joining would then abort the process."""
    host, _, port = coordinator_address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_TIMEOUT_S) as probe:
        return str(probe.getsockname()[0])


def memory_kind_of(array: Array) -> str:
    """Memory kind in which an array lives; empty for the default."""
    return str(array.sharding.memory_kind or "")


def shard_count(array: Array) -> int:
    """How many local shards an array holds."""
    return len(array.sharding.device_set)


def local_shard(array: Array, index: int) -> Array:
    """One local shard as a single-device array; IndexError if there is none."""
    if not 0 <= index < shard_count(array):
        raise IndexError(f"the buffer has {shard_count(array)} shards on this host, not one at index {index}")
    # Also of one shard: to the runtime, a result of a program over several hosts spans all of their devices.
    return array._arrays[index]


def is_row_major(shard: Array) -> bool:
    """Whether a single-device array lies as `place` would lay it; a program may have asked for another layout."""
    return tuple(shard.format.layout.major_to_minor) == tuple(range(shard.ndim))


def host_copy(shard: Array) -> np.ndarray[Any, Any]:
    """A row-major view or copy of a single-device array on the host; raises if the array holds an error.

    Does not leave the host view cached on the array: a live view would silently disable a later donation.
    """
    if 0 in shard.shape:
        # A token among them, which the runtime will not convert.
        shard.block_until_ready()
        return np.zeros(shard.shape, shard.dtype)
    value, _ = shard._single_device_array_to_np_array_did_copy()
    return np.ascontiguousarray(value)


def new_compile_options() -> Any:
    """Options with this process's defaults."""
    return _jax.CompileOptions()


def parse_compile_options(data: bytes) -> Any:
    """Reads a serialized xla.CompileOptionsProto; raises if it is none."""
    return _jax.CompileOptions.ParseFromString(data)


def prepare_context(alone: bool = False) -> None:
    """Makes what the next module is read with, which takes longer than to read a small one. `alone`: read by one thread."""
    if not _contexts:
        context = jax_mlir.make_ir_context()
        if alone:
            context.enable_multithreading(False)
        _contexts.append(context)


def _context() -> Any:
    try:
        return _contexts.pop()
    except IndexError:
        return jax_mlir.make_ir_context()


def parse_program(data: bytes) -> Any:
    """StableHLO bytes, portable (as JAX sends them) or plain, as an MLIR module; raises if they are neither."""
    context = _context()
    # What is wrong goes to the log: told in an exception, words of the client that are no UTF-8 would end this process.
    context.emit_error_diagnostics = True
    with context:
        try:
            return stablehlo.deserialize_portable_artifact(context, data)
        except ValueError:
            return ir.Module.parse(data)


def parse_text(text: str) -> Any:
    """StableHLO text as an MLIR module; raises if it does not parse. The module keeps its context."""
    context = _context()
    context.emit_error_diagnostics = _ESCAPED_BYTE.search(text) is not None
    with context:
        return ir.Module.parse(text)


def write_module(module: Any) -> bytes:
    """Bytes of a module for `parse_written`."""
    return bytes(jax_mlir.module_to_bytecode(module))


def parse_written(data: bytes) -> Any:
    """The module that `write_module` wrote; raises if it cannot be read."""
    context = _context()
    context.emit_error_diagnostics = True
    with context:
        return ir.Module.parse(data)


class Exported(NamedTuple):
    """What a jax.export artifact holds: StableHLO bytes, and for what they were made."""

    module: bytes
    device_count: int
    platforms: tuple[str, ...]


def read_exported(data: bytes) -> Exported:
    """Reads a jax.export artifact; raises if it is none."""
    # Rarely needed, and it brings flatbuffers.
    from jax import export

    exported = export.deserialize(bytearray(data))
    return Exported(exported.mlir_module_serialized, exported.nr_devices, tuple(exported.platforms))


def operations(module: Any) -> Iterator[tuple[Any, int]]:
    """Every operation of a module, and how deep inside others it is; one that holds others comes before them."""
    # Not by recursion, MLIR's or ours: how deep it goes a client decides.
    stack = [(iter([module.operation]), 0)]
    while stack:
        siblings, depth = stack[-1]
        operation = next(siblings, None)
        if operation is None:
            stack.pop()
            continue
        operation = operation.operation
        yield operation, depth
        for region in operation.regions:
            for block in region.blocks:
                stack.append((iter(block.operations), depth + 1))


def shape_of(kind: Any) -> tuple[int, ...] | None:
    """Sizes of a ranked tensor, negative where they are not known; None for other types."""
    if not isinstance(kind, ir.RankedTensorType):
        return None
    return tuple(-1 if kind.is_dynamic_dim(index) else kind.get_dim_size(index) for index in range(kind.rank))


def callees(operation: Any) -> list[str]:
    """The functions that an operation names, by what it calls them."""
    found = []
    for name in ("callee", "decomposition", "called_computations"):
        if name in operation.attributes:
            attribute = operation.attributes[name]
            several = attribute if isinstance(attribute, ir.ArrayAttr) else [attribute]
            found += [ir.FlatSymbolRefAttr(each).value for each in several if isinstance(each, ir.FlatSymbolRefAttr)]
    return found


def argument_strings(function: Any, name: str) -> list[bytes]:
    """What a function says of its arguments and results in string attributes of this name."""
    found: list[bytes] = []
    for key in ("arg_attrs", "res_attrs"):
        if key not in function.attributes:
            continue
        for each in function.attributes[key]:
            if name in each and isinstance(each[name], ir.StringAttr):
                found.append(string_bytes(each[name]))
    return found


def string_attribute(operation: Any, name: str) -> str:
    """A string or symbol attribute; empty if missing."""
    if name not in operation.attributes:
        return ""
    attribute = operation.attributes[name]
    return string_bytes(attribute).decode("utf-8", "replace") if isinstance(attribute, ir.StringAttr) else ""


def attribute_bytes(operation: Any, name: str) -> bytes:
    """What a string attribute of this name holds; empty if there is none."""
    attribute = operation.attributes[name]
    return string_bytes(attribute) if isinstance(attribute, ir.StringAttr) else b""


def string_bytes(attribute: Any) -> bytes:
    """What a string attribute holds, text or not."""
    return bytes(ir.StringAttr(attribute).value_bytes)


def integer_entries(operation: Any, name: str, key: str) -> list[int] | None:
    """Values of an integer `key` in a dictionary attribute: one or none; None if the attribute says anything else."""
    if name not in operation.attributes:
        return []
    attribute = operation.attributes[name]
    if isinstance(attribute, ir.StringAttr):
        return [] if not string_bytes(attribute) else None
    if not isinstance(attribute, ir.DictAttr) or key not in attribute:
        return None
    return [int(attribute[key])] if isinstance(attribute[key], ir.IntegerAttr) else None
