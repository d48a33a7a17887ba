"""block_until_ready on one array, on a tree, on what is ready already, and as a method; it returns its argument."""

import jax
import jax.numpy as jnp


def run():
    step = jax.jit(lambda x: jnp.tanh(x @ x))
    x = jnp.eye(32) * 0.9
    for _ in range(20):
        x = step(x)
    tree = jax.block_until_ready({"a": step(x), "b": [step(x + 1)]})
    return {
        "method": x.block_until_ready(),
        "returns itself": x.block_until_ready() is x,
        "again": x.block_until_ready().is_ready(),
        "tree": tree,
    }
