"""Twenty Adam steps of a small network, data-parallel over the hosts, with donation: every loss to the bit."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def run():
    mesh = Mesh(np.array(jax.devices()), ("data",))
    everywhere, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    random = np.random.default_rng(0)
    x = jax.device_put(random.normal(size=(32, 8)).astype(np.float32), rows)
    y = jax.device_put(random.normal(size=(32, 1)).astype(np.float32), rows)
    weights = jax.device_put(
        {"in": random.normal(size=(8, 16)).astype(np.float32), "out": random.normal(size=(16, 1)).astype(np.float32)}, everywhere
    )
    optimizer = optax.adam(1e-2)

    def step(weights, state):
        def loss_of(w):
            return jnp.mean((jnp.tanh(x @ w["in"]) @ w["out"] - y) ** 2)

        loss, gradients = jax.value_and_grad(loss_of)(weights)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(weights, updates), state, loss

    train = jax.jit(step, donate_argnums=(0, 1))
    state = jax.device_put(optimizer.init(weights), everywhere)
    losses = []
    for _ in range(20):
        weights, state, loss = train(weights, state)
        losses.append(float(loss))
    return {"losses": [loss.hex() for loss in losses], "weights": weights}
