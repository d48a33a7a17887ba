"""Vectorised functions over the first, the last and two axes, with a derivative inside."""

import jax
import jax.numpy as jnp


def run():
    matrices = jnp.arange(24.0).reshape(2, 3, 4)
    vectors = jnp.arange(8.0).reshape(2, 4)
    return {
        "products": jax.jit(jax.vmap(jnp.dot))(matrices, vectors),
        "last axis": jax.vmap(jnp.sum, in_axes=2, out_axes=0)(matrices),
        "two axes": jax.vmap(jax.vmap(lambda row, v: row * v, in_axes=(0, None)))(matrices, vectors),
        "per-example gradient": jax.vmap(jax.grad(lambda v: jnp.sum(v**3)))(vectors),
        "axis name": jax.vmap(lambda v: v / jax.lax.psum(v, "batch"), axis_name="batch")(vectors + 1),
    }
