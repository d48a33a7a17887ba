"""Loops inside one program: scan with carry and outputs, reversed, nested, and a cumulative operation."""

import jax
import jax.numpy as jnp


def cell(carry, x):
    carry = jnp.tanh(0.5 * carry + x)
    return carry, carry * 2


def run():
    inputs = jnp.linspace(-1, 1, 40).reshape(10, 4)
    nested = jax.jit(lambda c: jax.lax.scan(lambda a, _: (jax.lax.scan(cell, a, inputs)[0], a.sum()), c, None, length=5))
    return {
        "scan": jax.jit(lambda c: jax.lax.scan(cell, c, inputs))(jnp.zeros(4)),
        "reversed": jax.lax.scan(cell, jnp.zeros(4), inputs, reverse=True),
        "nested": nested(jnp.ones(4)),
        "gradient": jax.grad(lambda c: jax.lax.scan(cell, c, inputs)[1].sum())(jnp.zeros(4)),
        "map": jax.lax.map(lambda row: row[::-1].cumsum(), inputs),
    }
