"""Rax: ranking losses and metrics over lists of different length, and a linear ranker that learns from clicks."""

import jax
import jax.numpy as jnp
import rax


def run():
    keys = jax.random.split(jax.random.key(0), 3)
    features = jax.random.normal(keys[0], (8, 6, 5))
    labels = jnp.clip(jnp.round(features.sum(axis=-1)), 0, 3)
    where = jnp.arange(6) < jax.random.randint(keys[1], (8, 1), 3, 7)

    @jax.jit
    def step(weights):
        def loss_of(weights):
            return rax.softmax_loss(features @ weights, labels, where=where, reduce_fn=jnp.mean)

        loss, gradient = jax.value_and_grad(loss_of)(weights)
        return weights - 0.1 * gradient, loss

    weights = jnp.zeros(5)
    losses = []
    for _ in range(10):
        weights, loss = step(weights)
        losses.append(loss)
    scores = features @ weights
    return {
        "losses": losses,
        "weights": weights,
        "ndcg": rax.ndcg_metric(scores, labels, where=where, topn=3),
        "mrr": rax.mrr_metric(scores, labels > 1, where=where),
        "ranks": rax.utils.ranks(scores, where=where),
        "pairwise": jax.grad(lambda s: rax.pairwise_hinge_loss(s, labels, where=where))(scores),
    }


if __name__ == "__main__":
    print(run())
