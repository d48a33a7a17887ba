"""COUNT all-reduces of one array, and as many that take each other's results, none of them awaited; then says what came."""

import sys

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

count = int(sys.argv[1])
rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
total = jax.jit(jax.shard_map(lambda x: x - x + jax.lax.psum(x, "x"), mesh=rows.mesh, in_specs=P("x"), out_specs=P("x")))
mean = jax.jit(jax.shard_map(lambda x: jax.lax.pmean(x, "x") + 1, mesh=rows.mesh, in_specs=P("x"), out_specs=P("x")))
start = jax.device_put(np.arange(jax.device_count(), dtype=np.float32), rows)
sums = [total(start) for _ in range(count)]
last = start
for _ in range(count):
    last = mean(last)
wrong = sum(np.asarray(each).tolist() != [float(sum(range(jax.device_count())))] * jax.device_count() for each in sums)
print("wrong", wrong)
print("last", np.asarray(last).tolist())
