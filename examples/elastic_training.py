"""Trains a small network and goes on when hosts are lost: without their islands until they are back, at the same global batch.

PATHWAYS_ISLANDS=all pathways run -- python examples/elastic_training.py

The losses are those of `--plain`, the same steps in plain JAX on one device without a cluster, to the last bit.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pathways as pw

MICROBATCHES = 8
Batch = tuple[np.ndarray, np.ndarray]

optimizer = optax.adam(3e-3)


def loss_of(parameters: dict[str, jax.Array], batch: Batch) -> jax.Array:
    inputs, wanted = batch
    hidden = jnp.tanh(inputs @ parameters["in"] + parameters["bias"])
    return jnp.mean((hidden @ parameters["out"] - wanted) ** 2)


# Of a whole batch, computed in eight parts on whatever devices are there.
gradients_of = pw.microbatched(jax.jit(jax.value_and_grad(loss_of)), MICROBATCHES)


def update(state: Any, gradients: Any) -> Any:
    parameters, moments = state
    changes, moments = optimizer.update(gradients, moments, parameters)
    return optax.apply_updates(parameters, changes), moments


update = jax.jit(update, donate_argnums=0)


def step(state: Any, batch: Batch) -> tuple[Any, jax.Array]:
    loss, gradients = gradients_of(state[0], batch)
    return update(state, gradients), loss


def first_state(seed: int) -> Any:
    random = np.random.default_rng(seed)
    shapes = {"in": (16, 64), "bias": (64,), "out": (64, 4)}
    parameters = {name: jnp.asarray(0.2 * random.standard_normal(shape), jnp.float32) for name, shape in shapes.items()}
    return parameters, optimizer.init(parameters)


def batches(steps: int, seed: int) -> Iterator[Batch]:
    """What shall be learned: four sums of sines."""
    random = np.random.default_rng(seed + 1)
    weights = random.standard_normal((16, 4))
    for _ in range(steps):
        inputs = random.standard_normal((64, 16))
        yield inputs.astype(np.float32), np.sin(inputs @ weights).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="without pw.elastic")
    parser.add_argument("--losses-out", type=Path, help="write every loss here as JSON, in hexadecimal so that no bit is lost")
    options = parser.parse_args()
    trainer = step if options.plain else pw.elastic(step, snapshot_every=10, min_devices=1)
    state = first_state(options.seed)
    losses: list[float] = []
    for number, batch in enumerate(batches(options.steps, options.seed), 1):
        state, loss = trainer(state, batch)
        losses.append(float(loss))
        if number % 10 == 0:
            used = 1 if options.plain else len(trainer.devices)
            print(f"step {number}: loss {losses[-1]:.5f} on {used} devices", flush=True)
    if options.losses_out:
        options.losses_out.write_text(json.dumps([loss.hex() for loss in losses], indent=1) + "\n")


if __name__ == "__main__":
    main()
