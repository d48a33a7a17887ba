"""jax.debug.print and jax.debug.callback run in the client: in a program, in a loop, ordered, and over both hosts."""

import contextlib
import io

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


@jax.jit
def chatty(x):
    jax.debug.print("sum {}", x.sum(), ordered=True)

    def turn(i, value):
        jax.debug.print("turn {i}: {v}", i=i, v=value[0], ordered=True)
        return value * 2

    return jax.lax.fori_loop(0, 3, turn, x)


def run():
    seen = []
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = chatty(jnp.arange(1, 4))
        jax.effects_barrier()
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))

    @jax.jit
    def spread(x):
        jax.debug.callback(lambda total: seen.append(int(total)), x.sum())
        return x + 1

    after = spread(jax.device_put(np.arange(8, dtype=np.int32), rows))
    jax.effects_barrier()
    return {"result": result, "text": out.getvalue(), "spread": after, "seen": sorted(set(seen))}
