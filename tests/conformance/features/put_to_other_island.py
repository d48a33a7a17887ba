"""device_put from an island to another: one device, a whole sharding, results of programs, and a tree; both go on computing."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

ISLANDS = "all"


def run():
    islands = {}
    for device in jax.devices():
        islands.setdefault(getattr(device, "slice_index", device.id // 2), []).append(device)
    near, far = (islands[index] for index in sorted(islands)[:2])
    rows = [NamedSharding(Mesh(np.array(devices), ("x",)), P("x")) for devices in (near, far)]
    everywhere = [NamedSharding(sharding.mesh, P()) for sharding in rows]
    values = np.arange(48, dtype=np.float32).reshape(8, 6)
    here = jax.jit(lambda x: x * 2)(jax.device_put(values, rows[0]))
    there = jax.device_put(here, rows[1])
    return {
        "one device": jax.device_put(jax.device_put(values, near[0]), far[1]),
        "sharding": there,
        "sharding on": len(there.sharding.device_set & set(far)),
        "computed there": jax.jit(lambda x: x @ x.T, out_shardings=everywhere[1])(there),
        "still here": jax.jit(jnp.sum)(here),
        "replicated": jax.device_put(jax.device_put(values, everywhere[0]), everywhere[1]),
        "and back": jax.device_put(jax.jit(lambda x: x + 1)(there), rows[0]),
        "tree": jax.device_put({"a": here, "b": [here[0]]}, everywhere[1]),
        "large": jax.device_put(jax.device_put(np.arange(2**18, dtype=np.float32), rows[0]), rows[1]),
    }
