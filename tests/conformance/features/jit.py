"""Compiled functions: static arguments, keyword arguments, nesting, constants, and a second call with another shape."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def inner(x):
    return jnp.sin(x) * 2


@partial(jax.jit, static_argnames="power")
def outer(x, *, power, shift=1.0):
    return inner(x) ** power + shift + jnp.asarray(np.arange(3, dtype=np.float32))


def run():
    x = jnp.linspace(0.0, 1.0, 3, dtype=jnp.float32)
    rows = jnp.ones((4, 3), jnp.float32) * x
    return {
        "square": outer(x, power=2),
        "cube": outer(x, power=3, shift=2.0),
        "rows": outer(rows, power=2),
        "scalar": jax.jit(lambda a, b: a * b)(3, 4.5),
        "no output": jax.jit(lambda a: ())(x),
        "unused argument": jax.jit(lambda a, b: a + 1)(x, rows),
        "argument itself": jax.jit(lambda a: (a, a))(x),
        "empty": jax.jit(lambda a: a + 1)(jnp.zeros((0, 3))),
    }
