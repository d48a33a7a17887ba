"""Which device a pickle means: it names devices as the client does, and here they are those of this host.

JAX's own functions for pickling meshes, shardings and device lists go by the ids of devices. In the sidecar they go by the
client's numbers, which a call brings along: one device of a host may have several, in several slices of the session.
All names of JAX that are private and needed here are in this file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.experimental.colocated_python import serialization

_present = threading.local()


@contextmanager
def numbered(numbers: Mapping[int, jax.Device]) -> Iterator[None]:
    """In here, on this thread, pickles name devices by these numbers. A call that opens another pickle has the same ones."""
    _present.numbers = numbers
    _present.names = {device: number for number, device in reversed(list(numbers.items()))}
    try:
        yield
    finally:
        del _present.numbers, _present.names


def load(text: bytes) -> Any:
    """Opens what colocated_python pickled; its module has to know the function's devices (`numbered`)."""
    return serialization._deserialize(text)


def install() -> None:
    """Once per process."""
    reduced: Callable[..., Any] = serialization._make_reduce_func_with_common_obj
    serialization._get_cpu_device_map = _devices
    serialization._reduce_mesh = mesh = reduced(_reduce_mesh)
    serialization._reduce_named_sharding = reduced(lambda sharding: _reduce_named_sharding(sharding, mesh))
    serialization._reduce_device_list = reduced(_reduce_device_list)
    serialization._reduce_single_device_sharding = reduced(_reduce_single_device_sharding)


def _devices() -> Mapping[int, jax.Device]:
    found: Mapping[int, jax.Device] | None = getattr(_present, "numbers", None)
    return found if found is not None else {device.id: device for device in jax.devices("cpu")}


def _number(device: jax.Device) -> int:
    names = getattr(_present, "names", None)
    if names is None:
        return int(device.id)
    if device not in names:
        raise ValueError(f"{device} of this host is none of the devices that this colocated Python was called for")
    return int(names[device])


def _numbers(devices: Sequence[jax.Device]) -> list[int]:
    return [_number(device) for device in devices]


def _reduce_mesh(mesh: jax.sharding.Mesh) -> tuple[Callable[..., Any], Any]:
    numbers = np.array(_numbers(list(mesh.devices.flat))).reshape(mesh.devices.shape)
    return serialization._unreduce_mesh, (numbers, mesh.axis_names, mesh.axis_types)


def _reduce_named_sharding(sharding: jax.sharding.NamedSharding, mesh: Callable[..., Any]) -> tuple[Callable[..., Any], Any]:
    return serialization._unreduce_named_sharding, (mesh(sharding.mesh), sharding.spec, sharding.memory_kind)


def _reduce_device_list(devices: Any) -> tuple[Callable[..., Any], Any]:
    return serialization._unreduce_device_list, (_numbers(list(devices)),)


def _reduce_single_device_sharding(sharding: Any) -> tuple[Callable[..., Any], Any]:
    (device,) = sharding.device_set
    return serialization._unreduce_single_device_sharding, (_number(device), sharding.memory_kind)
