"""N chained steps over all hosts, each a mean over the devices plus one: the result is N + start. Prints it and the devices."""

import sys

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

steps, start = int(sys.argv[1]), float(sys.argv[2])
mesh = Mesh(np.array(jax.devices()), ("x",))
step = jax.jit(jax.shard_map(lambda x: jax.lax.pmean(x, "x") + 1, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
x = jax.device_put(np.full(jax.device_count(), start, np.float32), NamedSharding(mesh, P("x")))
for index in range(steps):
    x = step(x)
    if index % 4 == 3:  # plain local JAX deadlocks with many collectives in flight
        x.block_until_ready()
print("devices", jax.device_count())
print("result", np.asarray(x).tolist())
