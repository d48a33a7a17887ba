"""Steps over all devices, each with a sum across them, in wrapping 32-bit arithmetic; every value is read. Arguments: steps.

Prints each step when it has been read, then the values, and ends when a line comes on its input.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

steps = int(sys.argv[1])
sharding = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d"))


@jax.jit
def step(values: jax.Array) -> jax.Array:
    return values * 3 + jnp.sum(values, dtype=jnp.int32)


values = jax.device_put(np.arange(1, 4 * len(jax.devices()) + 1, dtype=np.int32), sharding)
for number in range(1, steps + 1):
    values = jax.lax.with_sharding_constraint(step(values), sharding)
    np.asarray(values)
    print(f"step {number}", flush=True)
print("values", np.asarray(values).tolist(), flush=True)
sys.stdin.readline()
