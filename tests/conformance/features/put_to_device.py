"""device_put to one device: from NumPy in odd layouts, from Python numbers, and from one host to the other."""

import jax
import jax.numpy as jnp
import numpy as np


def run():
    first, last = jax.devices()[0], jax.devices()[-1]
    grid = np.arange(24, dtype=np.int32).reshape(4, 6)
    there = jax.device_put(jnp.arange(5.0), last)
    computed = jax.jit(lambda x: x * 2)(there)
    return {
        "numpy": jax.device_put(grid, last),
        "column slice": jax.device_put(grid[:, 1:3], last),
        "transposed": jax.device_put(grid.T, first),
        "column order": jax.device_put(np.asfortranarray(grid), last),
        "number": jax.device_put(3.25, last),
        "empty": jax.device_put(np.zeros((0, 4), np.float32), last),
        "no dimensions": jax.device_put(np.float32(2), last),
        "tree": jax.device_put({"a": grid, "b": [1, 2.0]}, last),
        "computed where the data is": [device.id for device in computed.devices()],
        "computed": computed,
        "back again": jax.device_put(computed, first),
        "back again on": [device.id for device in jax.device_put(computed, first).devices()],
        "large": jax.device_put(np.arange(300_000, dtype=np.float32), last).sum(),
    }
