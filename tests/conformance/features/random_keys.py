"""PRNG keys, old and new style: split, fold, draw in several distributions; keys as arguments and results of programs."""

import jax
import jax.numpy as jnp


def run():
    key = jax.random.key(42)
    left, right = jax.random.split(key)
    passed = jax.jit(lambda k: jax.random.fold_in(k, 3))(left)
    return {
        "data": jax.random.key_data(jax.random.split(key, 3)),
        "passed": jax.random.key_data(passed),
        "normal": jax.random.normal(left, (3, 4)),
        "uniform": jax.jit(lambda k: jax.random.uniform(k, (5,)))(right),
        "integers": jax.random.randint(passed, (6,), 0, 100),
        "permutation": jax.random.permutation(left, jnp.arange(8)),
        "categorical": jax.random.categorical(right, jnp.zeros((4, 5))),
        "gamma": jax.random.gamma(left, 2.0, (4,)),
        "raw": jax.random.bernoulli(jax.random.PRNGKey(7), 0.3, (8,)),
        "mapped": jax.vmap(lambda k: jax.random.normal(k, (2,)))(jax.random.split(key, 3)),
        "other generator": jax.random.bits(jax.random.key(1, impl="rbg"), (4,)),
    }
