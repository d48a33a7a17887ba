"""Optax: a chain with clipping, a schedule, weight decay and accumulated steps; state and parameters lie over all devices."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def run():
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
    schedule = optax.warmup_cosine_decay_schedule(0.0, 0.3, warmup_steps=2, decay_steps=8)
    chain = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=0.01))
    optimizer = optax.MultiSteps(chain, every_k_schedule=2)
    params = {"w": jax.device_put(np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4), rows), "b": jnp.zeros(4)}
    state = optimizer.init(params)
    x = jax.random.normal(jax.random.key(0), (6, 8))

    @jax.jit
    def step(params, state):
        gradients = jax.grad(lambda p: jnp.sum(jnp.tanh(x @ p["w"] + p["b"]) ** 2))(params)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(8):
        params, state = step(params, state)
    return {"params": params, "steps": state.gradient_step, "moments": jax.tree.leaves(state.inner_opt_state)}


if __name__ == "__main__":
    print(run())
