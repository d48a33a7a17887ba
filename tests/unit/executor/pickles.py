"""Programs of colocated Python as stock JAX pickles them, for one device, under whatever number the session calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import tree_util
from jax.experimental.colocated_python import serialization
from jax.sharding import SingleDeviceSharding
from pathways_common.model.colocated import STRING_SHARD_BYTES
from pathways_proto.v1 import colocated_pb2, types_pb2
from pathways_worker.executor.element_types import NUMBERS
from pathways_worker.sidecar import devices


def spec(shape: tuple[int, ...] = (3,), dtype: Any = np.int32) -> jax.ShapeDtypeStruct:
    """An array on the one device of this process."""
    return jax.ShapeDtypeStruct(shape, dtype, sharding=SingleDeviceSharding(jax.devices("cpu")[0]))


def pickled(number: int, function: Callable[..., Any], takes: Any, gives: Any, name: str = "f") -> Any:
    """The function for the device that the session calls `number`."""
    in_specs, in_tree = tree_util.tree_flatten((takes, {}))
    out_specs, out_tree = tree_util.tree_flatten(gives)
    device = jax.devices("cpu")[0]
    devices.install()
    with devices.numbered({number: device}):
        content = (function, in_tree, tuple(in_specs), out_tree, tuple(out_specs), serialization.DeviceList((device,)))
        text = serialization._serialize(content)
    parameters, outputs = [_proto(each) for each in in_specs], [_proto(each) for each in out_specs]
    return colocated_pb2.ColocatedProgram(name=name, text=text, devices=[number], parameters=parameters, outputs=outputs)


def _proto(each: Any) -> Any:
    if isinstance(each.dtype, np.dtypes.StringDType):
        return types_pb2.ArraySpec(dtype=6, shape=(STRING_SHARD_BYTES,), shard_shape=(STRING_SHARD_BYTES,))
    return types_pb2.ArraySpec(dtype=NUMBERS[np.dtype(each.dtype)], shape=each.shape, shard_shape=each.shape)
