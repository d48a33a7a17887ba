"""A callback's exception reaches whoever reads the value, with the user's own words; the session stays usable."""

import jax
import jax.numpy as jnp
import numpy as np


def broken(_):
    raise ValueError("the tide table has no entry for Tuesday")


def run():
    @jax.jit
    def program(x):
        return jax.pure_callback(broken, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1

    kind, text = "no error", ""
    try:
        np.asarray(program(jnp.ones(3)) * 2)
    except jax.errors.JaxRuntimeError as error:
        kind, text = type(error).__name__, str(error)
    return {
        "kind": kind,
        "the user's words": "the tide table has no entry for Tuesday" in text,
        "afterwards": jax.jit(lambda x: x * 3)(jnp.arange(3)),
    }
