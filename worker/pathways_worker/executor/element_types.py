"""One table of element types: xla.PrimitiveType numbers, NumPy dtypes, HLO names and MLIR names.

Types smaller than a byte travel one byte per element, as NumPy with ml_dtypes holds them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

DType: TypeAlias = np.dtype[Any]

TOKEN = 17
# A token travels as an empty array of bool: that is what JAX hands around.
TOKEN_STAND_IN = 1

_ROWS: tuple[tuple[int, Any, str, str], ...] = (
    (1, np.bool_, "pred", "i1"),
    (2, np.int8, "s8", "i8"),
    (3, np.int16, "s16", "i16"),
    (4, np.int32, "s32", "i32"),
    (5, np.int64, "s64", "i64"),
    (6, np.uint8, "u8", "ui8"),
    (7, np.uint16, "u16", "ui16"),
    (8, np.uint32, "u32", "ui32"),
    (9, np.uint64, "u64", "ui64"),
    (10, np.float16, "f16", "f16"),
    (11, np.float32, "f32", "f32"),
    (12, np.float64, "f64", "f64"),
    (15, np.complex64, "c64", "complex<f32>"),
    (16, ml_dtypes.bfloat16, "bf16", "bf16"),
    (18, np.complex128, "c128", "complex<f64>"),
    (19, ml_dtypes.float8_e5m2, "f8e5m2", "f8E5M2"),
    (20, ml_dtypes.float8_e4m3fn, "f8e4m3fn", "f8E4M3FN"),
    (21, ml_dtypes.int4, "s4", "i4"),
    (22, ml_dtypes.uint4, "u4", "ui4"),
    (23, ml_dtypes.float8_e4m3b11fnuz, "f8e4m3b11fnuz", "f8E4M3B11FNUZ"),
    (24, ml_dtypes.float8_e5m2fnuz, "f8e5m2fnuz", "f8E5M2FNUZ"),
    (25, ml_dtypes.float8_e4m3fnuz, "f8e4m3fnuz", "f8E4M3FNUZ"),
    (26, ml_dtypes.int2, "s2", "i2"),
    (27, ml_dtypes.uint2, "u2", "ui2"),
    (28, ml_dtypes.float8_e4m3, "f8e4m3", "f8E4M3"),
    (29, ml_dtypes.float8_e3m4, "f8e3m4", "f8E3M4"),
    (30, ml_dtypes.float4_e2m1fn, "f4e2m1fn", "f4E2M1FN"),
    (31, ml_dtypes.float8_e8m0fnu, "f8e8m0fnu", "f8E8M0FNU"),
)

DTYPES: dict[int, DType] = {number: np.dtype(kind) for number, kind, _, _ in _ROWS}
NUMBERS: dict[DType, int] = {np.dtype(kind): number for number, kind, _, _ in _ROWS}
HLO_NUMBERS: dict[str, int] = {name: number for number, _, name, _ in _ROWS} | {"token": TOKEN}
MLIR_NUMBERS: dict[str, int] = {name: number for number, _, _, name in _ROWS}


def dtype_of(number: int) -> DType | None:
    """The NumPy dtype of a PrimitiveType number, a token's stand-in included; None for types without one."""
    return DTYPES.get(TOKEN_STAND_IN if number == TOKEN else number)
