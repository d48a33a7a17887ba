"""Bytes to JAX arrays on the host's devices and back, as a pickle's specs say how they lie.

A shard of strings is a block; all others are row-major elements. The element types come from the specs: 64-bit ones are placed
as they are, whatever the user's Python has switched on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from pathways_common.model.colocated import string_block, string_contents
from pathways_proto.ifrt import strings_pb2


def is_string(dtype: Any) -> bool:
    """Whether an element type is NumPy's variable-length string."""
    return isinstance(dtype, np.dtypes.StringDType)


def to_array(spec: Any, shards: Mapping[jax.Device, bytes]) -> jax.Array:
    """The array of a spec; `shards` are its shards by device."""
    shape = spec.sharding.shard_shape(spec.shape)
    with jax.enable_x64(True):
        parts = [
            jax.device_put(_value(shards[device], spec.dtype, shape), device)
            for device in spec.sharding._device_assignment
            if device in shards
        ]
        if len(parts) == 1 and len(spec.sharding.device_set) == 1:
            return parts[0]
        return jax.make_array_from_single_device_arrays(spec.shape, spec.sharding, parts)


def to_shards(array: Any, spec: Any, devices: Sequence[jax.Device]) -> list[bytes]:
    """The shards of a result on these devices, zeros where it has none; raises TypeError if it is not what the spec says."""
    if not isinstance(array, jax.Array):
        raise TypeError(f"colocated Python returned {type(array).__name__} where a jax.Array was promised")
    if array.shape != spec.shape or array.dtype != spec.dtype:
        raise TypeError(
            f"colocated Python returned {array.dtype}{list(array.shape)}, promised was {spec.dtype}{list(spec.shape)}"
        )
    shape = spec.sharding.shard_shape(spec.shape)
    found = {shard.device: np.asarray(shard.data) for shard in array.addressable_shards}
    missing = [device for device in spec.sharding.device_set if device in devices and device not in found]
    if missing:
        raise TypeError(f"colocated Python returned an array that does not lie on {missing[0]}, as was promised")
    return [_bytes(found[device], spec.dtype, shape) if device in found else _nothing(spec.dtype, shape) for device in devices]


def _value(data: bytes, dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if is_string(dtype):
        texts = strings_pb2.StringArrayContents.FromString(string_contents(data)).strings
        return np.array([text.decode() for text in texts], dtype=np.dtypes.StringDType()).reshape(shape)
    return np.frombuffer(data, dtype).reshape(shape)


def _bytes(value: np.ndarray[Any, Any], dtype: Any, shape: tuple[int, ...]) -> bytes:
    if value.shape != shape:
        raise TypeError(f"colocated Python returned shards of shape {list(value.shape)}, promised were {list(shape)}")
    if is_string(dtype):
        contents = strings_pb2.StringArrayContents(strings=[str(text).encode() for text in value.ravel()])
        return string_block(contents.SerializeToString())
    return value.tobytes()


def _nothing(dtype: Any, shape: tuple[int, ...]) -> bytes:
    return string_block(b"") if is_string(dtype) else np.zeros(shape, dtype).tobytes()
