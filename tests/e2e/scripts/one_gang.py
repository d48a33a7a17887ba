"""An all-reduce over all hosts, as a jitted function and as a traced program; prints results or the last lines of errors."""

import jax
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

pw.connect()
mesh = Mesh(np.array(jax.devices()), ("x",))
add = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x")))
for name, function in (("jit", add), ("program", pw.program(lambda x: add(add(x))))):
    x = jax.device_put(np.ones(jax.device_count(), np.float32), NamedSharding(mesh, P("x")))
    try:
        print(name, np.asarray(function(x)).tolist(), flush=True)
    except jax.errors.JaxRuntimeError as error:
        print(name, *str(error).splitlines()[-2:], flush=True)
