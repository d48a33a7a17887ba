"""Adds up a matrix that is spread over every device in view. Plain JAX; runs anywhere.

pathways run -- python examples/hello.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

for device in jax.devices():
    print(device, "island", getattr(device, "slice_index", 0), "host", getattr(device, "host_name", "here"))

mesh = Mesh(np.array(jax.devices()), ("rows",))
matrix = jax.device_put(np.ones((8 * len(jax.devices()), 1000), np.float32), NamedSharding(mesh, P("rows")))
total = jax.jit(jnp.sum)(matrix)
print("sum", float(total), "expected", matrix.size)
