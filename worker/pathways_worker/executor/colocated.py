"""Programs of colocated Python as the executor loads them: nothing is compiled, and the pickle is opened in a sidecar only.

Whoever may send a pickle may run anything on the host, so a cluster that serves without tokens takes none.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError
from pathways_common.model.agreement import digest_of
from pathways_common.model.colocated import MAGIC
from pathways_common.model.failure import Reason
from pathways_proto.v1 import colocated_pb2, types_pb2

from pathways_worker.executor import runtime, storage_programs
from pathways_worker.executor.element_types import DType, dtype_of
from pathways_worker.executor.failures import refuse


class PythonProgram:
    """One function for devices of this host, with what a call needs to know of its results."""

    callbacks = ()
    reused = False

    def __init__(self, machine: runtime.Runtime, message: Any, devices: Sequence[runtime.Device], program: bytes) -> None:
        self.message = message
        self.name = str(message.name)
        self.devices = tuple(devices)
        self.places = tuple(machine.local_devices.index(device) for device in devices)
        self.result_count = max(1, len(message.outputs))
        self.outputs: list[tuple[DType, tuple[int, ...], str]] = [_output(spec) for spec in message.outputs]
        self.info = _describe(message, program)

    @property
    def result_bytes(self) -> list[int]:
        """What each result takes up on a device."""
        return [math.prod(shape) * dtype.itemsize for dtype, shape, _ in self.outputs]


def is_colocated(program: bytes) -> bool:
    """Whether these are the bytes of colocated Python."""
    return program.startswith(MAGIC)


def load_colocated(machine: runtime.Runtime, load: Any, allowed: bool) -> PythonProgram:
    """Carries out a Load of colocated Python. Raises Refused."""
    if not allowed:
        text = "colocated Python is not run on this host, which serves without tokens; start the cluster without --no-auth"
        raise refuse(Reason.UNSUPPORTED, text)
    try:
        message = colocated_pb2.ColocatedProgram.FromString(load.program[len(MAGIC) :])
    except DecodeError as error:
        raise refuse(Reason.COMPILE_ERROR, f"the program is no colocated Python that this host can read: {error}") from error
    if len(message.devices) != len(load.devices) or any(not 0 <= place < len(machine.devices) for place in load.devices):
        raise refuse(Reason.INVALID_ARGUMENT, f"colocated Python {message.name} names other devices than its program")
    devices = [machine.devices[place] for place in load.devices]
    here = [index for index, device in enumerate(devices) if device.process_index == machine.rank]
    if message.HasField("storage"):
        storage_programs.check(message)
        message = storage_programs.part(message, here)  # its devices may have come apart since the client asked for it
    elif len(here) < len(devices):
        text = f"colocated Python {message.name} is for devices of several hosts; call it once for the devices of each host"
        raise refuse(Reason.UNSUPPORTED, text)
    return PythonProgram(machine, message, [devices[index] for index in here], load.program)


def _output(spec: Any) -> tuple[DType, tuple[int, ...], str]:
    dtype = dtype_of(spec.dtype)
    if dtype is None:
        raise refuse(Reason.UNSUPPORTED, f"colocated Python returns element type {spec.dtype}, which executors do not hold")
    return dtype, tuple(spec.shard_shape), str(spec.memory_kind)


def _describe(message: Any, program: bytes) -> Any:
    """What the client is told; all members say the same of the same bytes."""
    info = types_pb2.ExecutableInfo(
        name=message.name, python=True, stateless=message.HasField("storage"), parameter_count=len(message.parameters)
    )
    for spec in message.outputs:
        info.outputs.add().CopyFrom(spec)
        info.outputs[-1].ClearField("devices")
    info.parameter_layouts_error = info.output_layouts_error = "colocated Python has no layouts of its own"
    info.fields.add(name="code", digest=hashlib.sha256(program).digest())
    info.fields.add(name="name", digest=digest_of(message.name))
    info.digest = hashlib.sha256(b"".join(field.digest for field in info.fields)).digest()
    return info
