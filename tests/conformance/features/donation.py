"""A donated argument is gone and its result right; what cannot be donated is refused with JAX's own words."""

import jax
import jax.numpy as jnp


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
    return {"state": state, "doubled": doubled, "old is deleted": first["a"].is_deleted(), "used again": used_again}
