"""A donated argument is gone and its result right; what cannot be donated is refused with JAX's own words."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def spread():
    """What lies on one device is copied to the others to be donated, and its source is gone all the same."""
    everywhere = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P())
    x = jnp.arange(16)
    y = jax.jit(lambda a: a * 2, in_shardings=everywhere, donate_argnums=0)(x)
    try:
        np.asarray(x)  # is_deleted() is no question to the cluster: the client goes by what it donated itself
        source = "readable"
    except RuntimeError as error:
        source = "deleted" if "deleted" in str(error) else str(error)
    return {"result": y, "source": source}


def run():
    step = jax.jit(lambda state, x: ({name: leaf + x for name, leaf in state.items()}, x * 2), donate_argnums=0)
    state = {"a": jnp.zeros(4), "b": jnp.ones((2, 4))}
    first = state
    for _ in range(5):
        state, doubled = step(state, jnp.arange(4.0))
    try:
        first["a"] + 1
        used_again = "worked"
    except RuntimeError as error:
        used_again = "deleted" if "deleted" in str(error) else str(error)
    return {
        "state": state,
        "doubled": doubled,
        "old is deleted": first["a"].is_deleted(),
        "used again": used_again,
        "spread": spread(),
    }
