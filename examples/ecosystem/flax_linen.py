"""Flax Linen: a small attention classifier, its parameters laid out by name over the devices, trained with a TrainState."""

import flax.linen as nn
import jax
import numpy as np
import optax
from flax.training.train_state import TrainState
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


class Classifier(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(32, 16)(tokens)
        x = x + nn.MultiHeadDotProductAttention(num_heads=2)(nn.LayerNorm()(x))
        x = x + nn.Dense(16)(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x))))
        return nn.Dense(4)(x.mean(axis=1))


@jax.jit
def train_step(state, tokens, labels):
    def loss_of(params):
        logits = state.apply_fn({"params": params}, tokens)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    loss, gradients = jax.value_and_grad(loss_of)(state.params)
    return state.apply_gradients(grads=gradients), loss


def run():
    mesh = Mesh(np.array(jax.devices()), ("model",))

    def layout(leaf):
        wide = leaf.ndim == 2 and leaf.shape[1] % len(jax.devices()) == 0
        return NamedSharding(mesh, P(None, "model") if wide else P())

    random = np.random.default_rng(0)
    tokens = random.integers(0, 32, (8, 6))
    labels = random.integers(0, 4, 8)
    params = jax.jit(Classifier().init)(jax.random.key(0), tokens)["params"]
    params = jax.device_put(params, jax.tree.map(layout, params))
    state = TrainState.create(apply_fn=Classifier().apply, params=params, tx=optax.adamw(1e-2))
    losses = []
    for _ in range(5):
        state, loss = train_step(state, tokens, labels)
        losses.append(loss)
    return {"losses": losses, "params": jax.tree.leaves(state.params)}


if __name__ == "__main__":
    print(run())
