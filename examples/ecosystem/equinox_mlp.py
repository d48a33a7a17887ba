"""Equinox: a filtered jit and gradient over a module that holds static fields beside its arrays, with a vmapped ensemble."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


@eqx.filter_jit
def step(model, state, x, y, optimizer):
    def loss_of(model):
        return jnp.mean((jax.vmap(model)(x) - y) ** 2)

    loss, gradients = eqx.filter_value_and_grad(loss_of)(model)
    updates, state = optimizer.update(gradients, state)
    return eqx.apply_updates(model, updates), state, loss


def run():
    model = eqx.nn.MLP(4, 2, 8, 2, key=jax.random.key(0))
    optimizer = optax.sgd(0.1, momentum=0.9)
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    x = jax.random.normal(jax.random.key(1), (16, 4))
    y = jnp.stack([x.sum(axis=1), x.prod(axis=1)], axis=1)
    losses = []
    for _ in range(5):
        model, state, loss = step(model, state, x, y, optimizer)
        losses.append(loss)
    ensemble = eqx.filter_vmap(lambda key: eqx.nn.Linear(4, 3, key=key))(jax.random.split(jax.random.key(2), 5))
    together = eqx.filter_vmap(lambda layer, row: layer(row), in_axes=(eqx.if_array(0), None))(ensemble, x[0])
    try:
        eqx.error_if(x, jnp.any(x > 0), "some are positive").block_until_ready()
        checked = "no error"
    except RuntimeError as error:
        checked = "some are positive" if "some are positive" in str(error) else str(error)
    return {"losses": losses, "model": jax.tree.leaves(eqx.filter(model, eqx.is_array)), "ensemble": together, "check": checked}


if __name__ == "__main__":
    print(run())
