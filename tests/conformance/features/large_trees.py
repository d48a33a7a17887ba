"""Trees with hundreds of leaves go in and out of one program, sharded and not, and over many calls."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def run():
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
    tree = {f"layer {i}": {"w": np.full((4, 2), i, np.float32), "b": (np.arange(2) + i, i)} for i in range(100)}
    step = jax.jit(lambda t: jax.tree.map(lambda leaf: leaf * 2 + 1, t), donate_argnums=0)
    state = jax.device_put(tree)
    for _ in range(5):
        state = step(state)
    spread = jax.device_put([np.full(8, i, np.int32) for i in range(200)], rows)
    return {
        "leaves": len(jax.tree.leaves(state)),
        "structure": str(jax.tree.structure(state)) == str(jax.tree.structure(tree)),
        "state": state,
        "total": jax.jit(lambda leaves: sum(jnp.sum(leaf) for leaf in leaves))(spread),
    }
