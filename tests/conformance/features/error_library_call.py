"""A library call that returns an error (a factorisation without its attribute) fails where the value is read."""

import jax
import jax.numpy as jnp
import numpy as np


def run():
    @jax.jit
    def program(x):
        shapes = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((), jnp.int32))
        return jax.ffi.ffi_call("lapack_spotrf_ffi", shapes)(x)

    jnp.linalg.cholesky(jnp.eye(2))
    kind, text = "no error", ""
    try:
        np.asarray(program(jnp.eye(2))[0] + 1)
    except Exception as error:
        kind, text = type(error).__name__, str(error)
    return {"kind": kind, "attribute named": "attribute" in text, "afterwards": jnp.linalg.cholesky(jnp.eye(3) * 4)}
