"""Three programs that XLA compiles in no time: two for all devices, one for the first; prints their values."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
numbers = jax.device_put(np.arange(jax.device_count(), dtype=np.float32), rows)
plus = jax.jit(lambda x: x + 1, out_shardings=rows)(numbers)
total = jax.jit(lambda x: x - x + x.sum(), out_shardings=rows)(plus)
alone = jax.jit(lambda x: x * 3)(jax.device_put(np.float32(2), jax.devices()[0]))
print(np.asarray(plus).tolist(), np.asarray(total).tolist(), float(alone), flush=True)
