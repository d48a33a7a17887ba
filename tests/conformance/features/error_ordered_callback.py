"""An ordered callback that failed is told once, by the barrier or by the next ordered call; later ones run again, in order."""

import jax
import jax.numpy as jnp
from jax.experimental import io_callback


def broken(_):
    raise ValueError("the tide table has no entry for Tuesday")


def run():
    seen = []
    fail = jax.jit(lambda x: (io_callback(broken, None, x, ordered=True), x + 1)[1])
    note = jax.jit(lambda x: (io_callback(lambda value: seen.append(int(value)), None, x, ordered=True), x + 1)[1])
    told = 0
    for action in (jax.effects_barrier, lambda: note(jnp.int32(0))):
        try:
            fail(jnp.int32(7))
            action()
        except jax.errors.JaxRuntimeError as error:
            told += "the tide table has no entry for Tuesday" in str(error)
    x = jnp.int32(0)
    for _ in range(5):
        x = note(x)
    jax.effects_barrier()
    return {"told": told, "seen": seen, "value": x}
