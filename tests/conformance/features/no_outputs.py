"""Programs without outputs: their effects have happened once `jax.effects_barrier` returns, and their errors come there."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def run() -> dict[str, Any]:
    seen: list[float] = []

    @jax.jit
    def tell(x: jax.Array) -> None:
        jax.debug.callback(lambda value: seen.append(float(value)), x * 2)

    for turn in range(3):
        tell(jnp.float32(turn))
    jax.effects_barrier()
    told = sorted(seen)

    def refuse(_value: Any) -> None:
        raise ValueError("not this one")

    @jax.jit
    def fail(x: jax.Array) -> None:
        jax.debug.callback(refuse, x)

    try:
        fail(jnp.float32(1))
        jax.effects_barrier()
        failed = "nothing was raised"
    except Exception as error:
        failed = "not this one" if "not this one" in str(error) else str(error)
    return {"told": told, "failed": failed}
