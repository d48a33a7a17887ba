"""64-bit numbers: with JAX_ENABLE_X64 nothing is narrowed on the way there, in the program, or on the way back."""

import jax
import jax.numpy as jnp
import numpy as np

ENVIRONMENT = {"JAX_ENABLE_X64": "1"}


def run():
    whole = np.array([2**40 + 1, -(2**62), 7], np.int64)
    real = np.array([1 / 3, np.pi, 1e-300])
    return {
        "int64": jax.jit(lambda x: x * 3 + 1)(whole),
        "uint64": jax.jit(lambda x: x >> np.uint64(1))(np.array([2**64 - 1, 5], np.uint64)),
        "float64": jax.jit(lambda x: jnp.sqrt(x) + 1)(real),
        "complex128": jax.jit(lambda x: jnp.exp(1j * x))(real),
        "dtypes": [str(jnp.asarray(v).dtype) for v in (whole, real, 1.0, 1, 1j)],
        "solve": jnp.linalg.solve(jnp.array([[4.0, 1.0], [1.0, 3.0]]), jnp.array([1.0, 2.0])),
        "there and back": [jax.device_put(whole), jax.device_put(real)],
        "random": jax.random.normal(jax.random.key(0), (3,)),
    }
