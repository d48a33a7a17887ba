"""An array that can never fit is refused with RESOURCE_EXHAUSTED; the session stays usable."""

import jax
import jax.numpy as jnp


def run():
    kind, text = "no error", ""
    try:
        jax.block_until_ready(jax.jit(lambda: jnp.zeros(1 << 50, jnp.int8))())
    except jax.errors.JaxRuntimeError as error:
        kind, text = type(error).__name__, str(error)
    return {"kind": kind, "status": "RESOURCE_EXHAUSTED" in text, "afterwards": jax.jit(lambda x: x * 3)(jnp.arange(3))}
