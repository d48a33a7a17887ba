"""Steps over all hosts for ever, one line per step with its value: 1, 2, 3 ..."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("x",))
step = jax.jit(jax.shard_map(lambda x: jax.lax.pmean(x, "x") + 1, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
x = jax.device_put(np.zeros(jax.device_count(), np.float32), NamedSharding(mesh, P("x")))
while True:
    x = step(x)
    print("step", int(np.asarray(x)[0]), flush=True)
