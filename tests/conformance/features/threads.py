"""Several Python threads trace, compile, dispatch and read at once; each gets its own numbers."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np


def work(number):
    step = jax.jit(lambda x: x * 0.5 + number)
    x = jax.device_put(np.full(number + 1, number, np.float32), jax.devices()[number % jax.device_count()])
    for turn in range(30):
        x = step(x)
        if turn % 10 == 0:
            x.block_until_ready()
    return np.asarray(x), float(jnp.sum(x))


def run():
    with ThreadPoolExecutor(4) as pool:
        return {"threads": list(pool.map(work, range(8)))}
