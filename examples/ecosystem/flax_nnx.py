"""Flax NNX: a small network with dropout and batch statistics, trained data-parallel over all devices with nnx.jit and optax."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


class Network(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(8, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.second = nnx.Linear(16, 4, rngs=rngs)

    def __call__(self, x):
        return self.second(self.dropout(nnx.relu(self.norm(self.first(x)))))


@nnx.jit
def train_step(model, optimizer, x, y):
    def loss_of(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

    loss, gradients = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, gradients)
    return loss


def run():
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
    model = Network(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    random = np.random.default_rng(0)
    losses = []
    for _ in range(5):
        x = jax.device_put(random.standard_normal((16, 8), dtype=np.float32), rows)
        y = jax.device_put(random.integers(0, 4, 16), rows)
        losses.append(train_step(model, optimizer, x, y))
    model.eval()
    state = nnx.state(model, nnx.Param, nnx.BatchStat)
    return {"losses": losses, "state": jax.tree.leaves(state), "logits": model(jnp.ones((2, 8)))}


if __name__ == "__main__":
    print(run())
