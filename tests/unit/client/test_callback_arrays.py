"""Callback arrays keep type, shape and value in both directions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from pathways import _arrays
from pathways_proto.v1 import types_pb2

_TYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128", *(f"ml:{name}" for name in (
        "bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e4m3", "float8_e3m4", "float8_e8m0fnu",
        "int4", "uint4", "int2", "uint2", "float4_e2m1fn")),
]  # fmt: skip


@pytest.mark.parametrize("name", _TYPES)
def test_every_type_comes_back(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name[3:])) if name.startswith("ml:") else np.dtype(name)
    array = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype)
    (back,) = _arrays.to_numpy(_arrays.from_numpy([array]))
    assert back is not None
    assert (back.dtype, back.shape) == (dtype, (2, 3))
    assert back.tobytes() == array.tobytes()


def test_scalars_empty_arrays_strides_and_tokens() -> None:
    values = [np.float32(2.5), np.zeros((0, 3), np.int32), np.arange(6).reshape(2, 3).T, None]
    scalar, empty, strided, token = _arrays.to_numpy(_arrays.from_numpy(values))
    assert scalar is not None
    assert (scalar.shape, scalar.item()) == ((), 2.5)
    assert empty is not None
    assert empty.shape == (0, 3)
    assert strided is not None
    assert strided.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert token is None


def test_numbers_are_those_of_xla() -> None:
    message = _arrays.from_numpy([np.bool_(True), np.float32(1), np.array(1, ml_dtypes.bfloat16), None])
    assert [array.dtype for array in message.arrays] == [1, 11, 16, 17]


def test_type_without_a_number_is_refused() -> None:
    with pytest.raises(TypeError, match="datetime64"):
        _arrays.from_numpy([np.array("2020-01-01", "datetime64[D]")])
    with pytest.raises(ValueError, match="element type 99"):
        _arrays.to_numpy(types_pb2.CallbackArrays(arrays=[types_pb2.CallbackArray(dtype=99)]))
