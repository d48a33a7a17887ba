"""Trains a byte-level Transformer language model on Python's own standard library, data-parallel. Plain JAX and Optax.

The script knows nothing of clusters. It trains over all devices of the first group (devices with the same `slice_index`)
and evaluates on the second group where there is one, so the same file runs on a laptop and on several islands.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, VOCABULARY = 4, 128, 4, 64, 8, 256
EVALUATION_BATCHES = 4
Parameters = dict[str, Any]


def read_corpus(bytes_max: int) -> np.ndarray:
    """The first `bytes_max` bytes of the standard library's top-level modules in alphabetical order."""
    text = bytearray()
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        text += path.read_bytes()
        if len(text) >= bytes_max:
            break
    return np.frombuffer(bytes(text[:bytes_max]), np.uint8)


def sample(text: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """[BATCH, CONTEXT + 1] int32: random windows; the last CONTEXT bytes of each are the targets."""
    starts = random.integers(0, len(text) - CONTEXT - 1, BATCH)
    return np.stack([text[start : start + CONTEXT + 1] for start in starts]).astype(np.int32)


def initialise(key: jax.Array) -> Parameters:
    """Float32 parameters; what belongs to a layer is stacked over the layers."""
    shapes = {
        "query_key_value": (LAYERS, WIDTH, 3 * WIDTH),
        "attention_out": (LAYERS, WIDTH, WIDTH),
        "mlp_in": (LAYERS, WIDTH, 4 * WIDTH),
        "mlp_out": (LAYERS, 4 * WIDTH, WIDTH),
    }
    keys = jax.random.split(key, len(shapes) + 2)
    layers = {
        name: jax.random.normal(k, shape) / math.sqrt(shape[1]) for k, (name, shape) in zip(keys[2:], shapes.items(), strict=True)
    }
    layers |= {"attention_scale": jnp.ones((LAYERS, WIDTH)), "mlp_scale": jnp.ones((LAYERS, WIDTH))}
    return {
        "bytes": 0.02 * jax.random.normal(keys[0], (VOCABULARY, WIDTH)),
        "positions": 0.02 * jax.random.normal(keys[1], (CONTEXT, WIDTH)),
        "final_scale": jnp.ones(WIDTH),
        "layers": layers,
    }


def normalise(x: jax.Array, scale: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def layer(x: jax.Array, weights: Parameters) -> jax.Array:
    batch, length, _ = x.shape
    projected = normalise(x, weights["attention_scale"]) @ weights["query_key_value"]
    query, key, value = jnp.split(projected.reshape(batch, length, 3 * HEADS, WIDTH // HEADS), 3, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(WIDTH // HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value).reshape(batch, length, WIDTH)
    x = x + mixed @ weights["attention_out"]
    return x + jax.nn.gelu(normalise(x, weights["mlp_scale"]) @ weights["mlp_in"]) @ weights["mlp_out"]


def loss_of(parameters: Parameters, tokens: jax.Array) -> jax.Array:
    """Mean cross-entropy in nats per byte."""
    x = math.sqrt(WIDTH) * parameters["bytes"][tokens[:, :-1]] + parameters["positions"]
    for index in range(LAYERS):
        x = layer(x, {name: stacked[index] for name, stacked in parameters["layers"].items()})
    logits = normalise(x, parameters["final_scale"]) @ parameters["bytes"].T
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def group_devices() -> list[list[jax.Device]]:
    """Devices by slice; plain CPU devices have no slice and make one group."""
    groups: dict[int, list[jax.Device]] = {}
    for device in jax.devices():
        groups.setdefault(getattr(device, "slice_index", 0), []).append(device)
    return [groups[index] for index in sorted(groups)]


def describe(devices: list[jax.Device]) -> str:
    return ", ".join(f"{device} on {getattr(device, 'host_name', 'this process')}" for device in devices)


class Progress:
    """One line that is rewritten on a terminal, and a line every 20 steps elsewhere."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._live = sys.stdout.isatty()
        self._since_s = time.perf_counter()

    def show(self, done: int, loss: float) -> None:
        if done == 1:  # the first step is mostly compilation
            self._since_s = time.perf_counter()
        if not self._live and done % 20 and done != self._steps:
            return
        rate = (done - 1) * BATCH * CONTEXT / max(time.perf_counter() - self._since_s, 1e-9)
        filled = 30 * done // self._steps
        line = f"[{'#' * filled}{'.' * (30 - filled)}] {done}/{self._steps}  loss {loss:.4f}  {rate:,.0f} tokens/s"
        if self._live:
            print(f"\r{line}", end="" if done < self._steps else "\n", flush=True)
        else:
            print(line, flush=True)


class Evaluation:
    """The same model on its own devices and on held-out text."""

    def __init__(self, devices: list[jax.Device], text: np.ndarray) -> None:
        mesh = Mesh(np.array(devices), ("data",))
        self._replicated = NamedSharding(mesh, P())
        sharding = NamedSharding(mesh, P("data"))
        random = np.random.default_rng(0)
        self._batches = [jax.device_put(sample(text, random), sharding) for _ in range(EVALUATION_BATCHES)]
        self._loss_of = jax.jit(loss_of)

    def __call__(self, parameters: Parameters) -> float:
        moved = jax.device_put(parameters, self._replicated)
        losses = [float(self._loss_of(moved, batch)) for batch in self._batches]
        return sum(losses) / len(losses)


def train(steps: int, seed: int, evaluate_every: int) -> dict[str, list[float]]:
    """Returns the loss of every training step and of every evaluation."""
    groups = group_devices()
    text = read_corpus(1 << 20)
    training_text, held_out = text[: -len(text) // 8], text[-len(text) // 8 :]
    mesh = Mesh(np.array(groups[0]), ("data",))
    replicated, sharded = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    print(f"trains on    {describe(groups[0])}")
    print(f"evaluates on {describe(groups[-1] if len(groups) == 1 else groups[1])}")

    optimizer = optax.adam(optax.warmup_cosine_decay_schedule(0.0, 2e-3, 20, max(steps, 21)))
    parameters = jax.jit(initialise, out_shardings=replicated)(jax.random.key(seed))
    state = jax.jit(optimizer.init, out_shardings=replicated)(parameters)
    count = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    print(f"{count:,} parameters, {BATCH} x {CONTEXT} bytes per step, {len(training_text):,} bytes of text")

    def step(parameters: Parameters, state: Any, tokens: jax.Array) -> tuple[Parameters, Any, jax.Array]:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    train_step = jax.jit(step, donate_argnums=(0, 1), out_shardings=(replicated, replicated, replicated))
    evaluate = Evaluation(groups[min(1, len(groups) - 1)], held_out)
    random = np.random.default_rng(seed)
    progress = Progress(steps)
    losses: list[float] = []
    evaluations: list[float] = []
    waiting: list[jax.Array] = []
    for index in range(steps):
        tokens = jax.device_put(sample(training_text, random), sharded)
        parameters, state, loss = train_step(parameters, state, tokens)
        waiting.append(loss)
        # A loss is read two steps late, so that no step waits for it and few are in flight.
        while waiting and (len(waiting) > 2 or index + 1 == steps):
            losses.append(float(waiting.pop(0)))
            progress.show(len(losses), losses[-1])
        if (index + 1) % evaluate_every == 0 or index + 1 == steps:
            evaluations.append(evaluate(parameters))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}; on held-out text {evaluations[0]:.4f} -> {evaluations[-1]:.4f}")
    return {"training": losses, "evaluation": evaluations}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--evaluate-every", type=int, default=50)
    parser.add_argument("--losses-out", type=Path, help="write every loss here as JSON, in hexadecimal so that no bit is lost")
    options = parser.parse_args()
    losses = train(options.steps, options.seed, options.evaluate_every)
    if options.losses_out:
        exact = {name: [value.hex() for value in values] for name, values in losses.items()}
        options.losses_out.write_text(json.dumps(exact, indent=1) + "\n")


if __name__ == "__main__":
    main()
