"""while, fori, cond and switch: the number of turns and the branch depend on values."""

import jax
import jax.numpy as jnp


@jax.jit
def collatz(start):
    def turn(state):
        n, count = state
        return jax.lax.cond(n % 2 == 0, lambda m: m // 2, lambda m: 3 * m + 1, n), count + 1

    return jax.lax.while_loop(lambda state: state[0] != 1, turn, (start, 0))[1]


def run():
    branches = [jnp.sin, jnp.cos, lambda x: x**2]
    return {
        "collatz": [collatz(jnp.int32(n)) for n in (1, 6, 27)],
        "fori": jax.lax.fori_loop(0, 10, lambda i, x: x * 1.1 + i, jnp.ones(3)),
        "switch": [jax.jit(lambda i, x: jax.lax.switch(i, branches, x))(i, jnp.arange(3.0)) for i in range(3)],
    }
