"""Reverse and forward derivatives, a Hessian, a custom rule and recomputation."""

import jax
import jax.numpy as jnp


@jax.custom_vjp
def clipped(x):
    return x * 3


clipped.defvjp(lambda x: (x * 3, x), lambda x, g: (jnp.clip(g, -0.5, 0.5) + 0 * x,))


def loss(weights, x):
    hidden = jnp.tanh(x @ weights["first"])
    return jnp.mean((hidden @ weights["second"]) ** 2)


def run():
    weights = {"first": jnp.linspace(-1, 1, 20).reshape(4, 5), "second": jnp.linspace(1, 2, 5)}
    x = jnp.linspace(0, 3, 12).reshape(3, 4)
    direction = jax.tree.map(jnp.ones_like, weights)
    return {
        "value and grad": jax.jit(jax.value_and_grad(loss))(weights, x),
        "forward": jax.jvp(lambda w: loss(w, x), (weights,), (direction,)),
        "hessian": jax.jit(jax.hessian(lambda v: jnp.sum(jnp.sin(v) ** 3)))(weights["second"]),
        "custom": jax.grad(lambda v: jnp.sum(clipped(v)))(weights["second"]),
        "recomputed": jax.jit(jax.grad(jax.checkpoint(lambda v: jnp.sum(jnp.exp(jnp.sin(v))))))(weights["second"]),
    }
