"""Every dtype goes there and back unchanged, through a program and without one."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

NAMES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    "float16",
    "bfloat16",
    "float32",
    "complex64",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e4m3b11fnuz",
    "float8_e5m2fnuz",
    "float8_e4m3fnuz",
    "float8_e4m3",
    "float8_e3m4",
    "float8_e8m0fnu",
    "float4_e2m1fn",
    "int4",
    "uint4",
    "int2",
    "uint2",
]


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def run():
    results = {}
    for name in NAMES:
        dtype = dtype_of(name)
        values = np.array([0, 1, 1, 0, 1, 0, 0, 1]).reshape(2, 4).astype(dtype)
        placed = jax.device_put(values)
        results[name] = {
            "dtype": str(placed.dtype),
            "there and back": placed,
            "program": jax.jit(lambda x: jnp.concatenate([x[::-1], x]))(placed),
            "converted": jax.jit(lambda x: x.astype(jnp.float32) + 1)(placed),
            "made": jax.jit(lambda x, d=dtype: (x > 0.5).astype(d))(np.float32([0.0, 1.0])),
        }
    return results
