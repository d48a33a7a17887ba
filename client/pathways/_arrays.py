"""Arrays of a callback as messages and back: row-major bytes, types numbered as xla.PrimitiveType; None stands for a token."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from pathways_proto.v1 import types_pb2

TOKEN = 17
_NUMPY = {1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64",
          10: "float16", 11: "float32", 12: "float64", 15: "complex64", 18: "complex128"}  # fmt: skip
_ML = {16: "bfloat16", 19: "float8_e5m2", 20: "float8_e4m3fn", 21: "int4", 22: "uint4", 23: "float8_e4m3b11fnuz",
       24: "float8_e5m2fnuz", 25: "float8_e4m3fnuz", 26: "int2", 27: "uint2", 28: "float8_e4m3", 29: "float8_e3m4",
       30: "float4_e2m1fn", 31: "float8_e8m0fnu", 32: "int1", 33: "uint1"}  # fmt: skip


@cache
def _dtypes() -> tuple[dict[int, np.dtype[Any]], dict[np.dtype[Any], int]]:
    import ml_dtypes

    by_number = {number: np.dtype(name) for number, name in _NUMPY.items()}
    by_number.update({number: np.dtype(getattr(ml_dtypes, name)) for number, name in _ML.items() if hasattr(ml_dtypes, name)})
    return by_number, {dtype: number for number, dtype in by_number.items()}


def element_number(dtype: Any) -> int:
    """The xla.PrimitiveType of a NumPy type; raises KeyError for a type that XLA does not have."""
    return _dtypes()[1][np.dtype(dtype)]


def to_numpy(message: types_pb2.CallbackArrays) -> list[np.ndarray[Any, Any] | None]:
    """Read-only arrays over the message's bytes. Raises ValueError if a type is unknown or the size is wrong."""
    by_number, _ = _dtypes()
    arrays: list[np.ndarray[Any, Any] | None] = []
    for array in message.arrays:
        if array.dtype == TOKEN:
            arrays.append(None)
            continue
        dtype = by_number.get(array.dtype)
        if dtype is None:
            raise ValueError(f"a callback was called with element type {array.dtype}, which NumPy has no word for here")
        arrays.append(np.frombuffer(array.data, dtype).reshape(tuple(array.shape)))
    return arrays


def from_numpy(values: Iterable[Any]) -> types_pb2.CallbackArrays:
    """The message of a callback's results. Raises TypeError for a type that XLA does not have."""
    _, by_dtype = _dtypes()
    message = types_pb2.CallbackArrays()
    for value in values:
        if value is None:
            message.arrays.add(dtype=TOKEN)
            continue
        array = np.asarray(value)
        number = by_dtype.get(array.dtype)
        if number is None:
            raise TypeError(f"a callback returned elements of type {array.dtype}, which XLA does not have")
        message.arrays.add(dtype=number, shape=array.shape, data=array.tobytes())
    return message
