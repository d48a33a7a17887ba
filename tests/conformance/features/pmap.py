"""pmap over every device of the island, with a collective and a broadcast argument."""

import jax
import jax.numpy as jnp
import numpy as np


def run():
    count = jax.device_count()
    shards = np.arange(count * 6, dtype=np.float32).reshape(count, 6)
    share = jax.pmap(lambda x: x / jax.lax.psum(x, "devices"), axis_name="devices")
    scaled = jax.pmap(lambda x, k: x * k + jax.lax.axis_index("devices"), axis_name="devices", in_axes=(0, None))
    gathered = jax.pmap(lambda x: jax.lax.all_gather(x, "devices"), axis_name="devices")
    return {"share": share(shards + 1), "scaled": scaled(shards, 3.0), "gathered": gathered(jnp.asarray(shards))}
