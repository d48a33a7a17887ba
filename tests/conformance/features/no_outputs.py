"""Programs without outputs: their effects have happened once `jax.effects_barrier` returns, and their errors come there."""

import jax
import jax.numpy as jnp


def run():
    seen = []

    @jax.jit
    def tell(x):
        jax.debug.callback(lambda value: seen.append(float(value)), x * 2)

    for turn in range(3):
        tell(jnp.float32(turn))
    jax.effects_barrier()
    told = sorted(seen)

    def refuse(_value):
        raise ValueError("not this one")

    @jax.jit
    def fail(x):
        jax.debug.callback(refuse, x)

    try:
        fail(jnp.float32(1))
        jax.effects_barrier()
        failed = "nothing was raised"
    except Exception as error:
        failed = "not this one" if "not this one" in str(error) else str(error)
    return {"told": told, "failed": failed}
