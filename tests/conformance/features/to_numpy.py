"""Values come back: np.asarray, float, tolist, printing, indexing, iteration, device_get of a tree, shards one by one."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def run():
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
    spread = jax.device_put(np.arange(12, dtype=np.float32).reshape(4, 3), rows)
    small = jnp.arange(4) * 2
    return {
        "asarray": np.asarray(spread),
        "float": float(spread.sum()),
        "int": int(small[3]),
        "bool": bool((small > 5).any()),
        "list": small.tolist(),
        "item": small[1].item(),
        "text": str(small),
        "representation": repr(spread),
        "iteration": [int(value) for value in small],
        "tree": jax.device_get({"a": spread, "b": (small, 3)}),
        "shards": [np.asarray(shard.data) for shard in spread.addressable_shards],
        "asynchronous": [array.copy_to_host_async() or np.asarray(array) for array in (spread, small)],
        "row-major": np.asarray(spread).flags["C_CONTIGUOUS"],
        "large": np.asarray(jnp.arange(400_000, dtype=jnp.float32)),
    }
