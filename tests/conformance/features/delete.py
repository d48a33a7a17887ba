"""`.delete()` ends a value at once; later use says so; what was computed from it stays."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def reading(array):
    try:
        np.asarray(array)
    except RuntimeError as error:
        return "deleted" if "deleted" in str(error) else str(error)
    return "readable"


def run():
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
    x = jnp.arange(6.0)
    spread = jax.device_put(np.arange(8.0, dtype=np.float32), rows)
    y = jax.jit(lambda a: a * 2)(x)
    total = jax.jit(jnp.sum)(spread)
    before = x.is_deleted()
    x.delete()
    spread.delete()
    spread.delete()
    return {
        "before": before,
        "after": [x.is_deleted(), spread.is_deleted()],
        "reading": [reading(x), reading(spread)],
        "computed from it": [y, total],
    }
