"""pure_callback: Python of the client in the middle of a program, with several results, in a loop and under vmap."""

import jax
import jax.numpy as jnp
import numpy as np


def host_sort(x):
    x = np.asarray(x)
    return np.sort(x), np.int32(x.size)


@jax.jit
def sort(x):
    shapes = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((), jnp.int32))
    values, size = jax.pure_callback(host_sort, shapes, x * 2)
    return values + 1, size


def run():
    def double(v):
        return jax.pure_callback(lambda a: np.asarray(a) * 2, jax.ShapeDtypeStruct(v.shape, v.dtype), v, vmap_method="sequential")

    x = jnp.array([3.0, 1.0, 2.0])
    return {
        "sorted": sort(x),
        "in a loop": jax.jit(lambda v: jax.lax.fori_loop(0, 4, lambda _, a: double(a) + 1, v))(x),
        "mapped": jax.jit(jax.vmap(double))(jnp.arange(6.0).reshape(2, 3)),
        "eager": double(x),
        "large": jax.jit(double)(jnp.arange(100_000, dtype=jnp.float32))[-3:],
    }
