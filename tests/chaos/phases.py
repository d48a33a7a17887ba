"""A client in one phase of its program's life at a time, as it is told to: one JSON command per line, JSON answers on the way.

It works on all devices (argument `all`), or on a slice of two (`slice`).

A command is `{"phase": p, "seed": n}`. It answers `entered` when it is about to do what the phase is about, `ended` with what
came of it (`right`, `wrong`, or the kind of the typed error, with host and sentence), and `again` when the same has given its
value. Expected values are made by numpy.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

HELD = pw.make_virtual_device_set().add_slice(devices=2) if sys.argv[1:] == ["slice"] else None
DEVICES = jax.devices() if HELD is None else HELD.devices
COUNT = len(DEVICES)
MESH = Mesh(np.array(DEVICES), ("x",))
ROWS = NamedSharding(MESH, P("x"))
LARGE = 1 << 22  # of int32, 16 MiB: beyond what travels in messages
ALL_REDUCES = 4000
TRAINED_STEPS = 60
TRY_S = 40.0

Work = Callable[[int], None]


class WrongError(Exception):
    """A value that is not what numpy says."""


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def same(got: Any, wanted: Any) -> None:
    if not np.array_equal(np.asarray(got), wanted):
        raise WrongError(f"got {np.asarray(got).ravel()[:4]}, not {np.asarray(wanted).ravel()[:4]}")


def numbers(seed: int, count: int = 4 * COUNT) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 1 << 20, count, np.int32)


def spread(values: np.ndarray[Any, Any]) -> jax.Array:
    return jax.device_put(values, ROWS)


def stepped(values: np.ndarray[Any, Any], steps: int) -> np.ndarray[Any, Any]:
    """What `step` gives, by numpy: wrapping arithmetic."""
    for _ in range(steps):
        values = values * np.int32(3) + np.sum(values, dtype=np.int32)
    return values


@jax.jit
def step(values: jax.Array) -> jax.Array:
    return jax.lax.with_sharding_constraint(values * 3 + jnp.sum(values, dtype=jnp.int32), ROWS)


@jax.jit
def long_step(values: jax.Array) -> jax.Array:
    """The same after a while of computing that adds nothing."""
    waste = jax.lax.fori_loop(0, 1 << 20, lambda _, y: jnp.cos(y), jnp.float32(values))
    return jax.lax.with_sharding_constraint(values * 3 + jnp.sum(values, dtype=jnp.int32) + jnp.int32(0 * waste), ROWS)


def over_all(values: jax.Array) -> jax.Array:
    """Thousands of all-reduces in one gang."""

    def turn(_: Any, mine: jax.Array) -> jax.Array:
        return mine * 3 + jax.lax.psum(jnp.sum(mine, dtype=jnp.int32), "x")

    return jax.lax.fori_loop(0, ALL_REDUCES, turn, values)


collective = jax.jit(jax.shard_map(over_all, mesh=MESH, in_specs=P("x"), out_specs=P("x"), check_vma=False))


def compiling(seed: int) -> None:
    """A program that nothing has compiled: its constants are of the seed."""

    def sorts(x: jax.Array) -> jax.Array:
        for turn in range(4):
            x, _ = jax.lax.sort((x ^ (seed + turn), -x), num_keys=2)
        return x

    wanted = numbers(seed)
    given = spread(wanted)
    for turn in range(4):
        wanted = np.sort(wanted ^ np.int32(seed + turn))
    same(jax.jit(sorts, out_shardings=ROWS)(given), wanted)


def loading(seed: int) -> None:
    """Everything that this client had compiled is compiled again: hosts load it from what they keep."""
    jax.clear_caches()
    same(step(spread(numbers(seed))), stepped(numbers(seed), 1))


def uploading(seed: int) -> None:
    values = numbers(seed, LARGE)
    there = spread(values)
    there.block_until_ready()
    same(there[:: LARGE // 64], values[:: LARGE // 64])


def chained(seed: int, steps: int) -> None:
    values = spread(numbers(seed))
    for _ in range(steps):
        values = long_step(values)
    same(values, stepped(numbers(seed), steps))


def in_a_collective(seed: int) -> None:
    same(collective(spread(numbers(seed))), stepped(numbers(seed), ALL_REDUCES))


def transferring(seed: int) -> None:
    """From the first device to the last one, which is on another host unless both are of a slice."""
    values = numbers(seed, LARGE)
    there = jax.device_put(values, DEVICES[0])
    same(jax.device_put(there, DEVICES[-1])[:: LARGE // 64], values[:: LARGE // 64])


def reading(seed: int) -> None:
    there = jax.jit(lambda: jnp.arange(LARGE, dtype=jnp.int32) * 3 + seed, out_shardings=ROWS)()
    same(there, np.arange(LARGE, dtype=np.int32) * np.int32(3) + np.int32(seed))


def idle(seed: int) -> None:
    """Nothing under way, an array held; and then work with it."""
    held = spread(numbers(seed))
    held.block_until_ready()
    time.sleep(0.3)  # the phase itself
    same(step(held), stepped(numbers(seed), 1))


def weighed(total: jax.Array, part: np.ndarray[Any, Any]) -> jax.Array:
    return jnp.sum(part, axis=0) + 0 * total


PARTS = pw.microbatched(jax.jit(weighed), COUNT)
ADD = jax.jit(jnp.add)


def training(seed: int) -> None:
    """Small whole numbers in float32: every sum and mean of them is exact.

    What a step gives is judged by its copy on the host: the state itself may be lost between the last step and its read.
    """

    def step_of(state: jax.Array, batch: np.ndarray[Any, Any]) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        mean = PARTS(state, batch)
        state = ADD(state, mean)
        return state, (mean, state)

    batches = np.random.default_rng(seed).integers(0, 64, (TRAINED_STEPS, 2 * COUNT, 4)).astype(np.float32)
    trainer = pw.elastic(step_of, snapshot_every=5, devices=None if HELD is None else [HELD])
    state: Any = np.zeros(4, np.float32)  # an array of the cluster could be lost before the trainer has it
    for batch in batches:
        state, (mean, total) = trainer(state, batch)
        same(mean, batch.sum(axis=0) / COUNT)
    same(total, batches.sum(axis=(0, 1)) / COUNT)


PHASES: dict[str, Work] = {
    "compiling": compiling,
    "loading": loading,
    "uploading": uploading,
    "queued": lambda seed: chained(seed, 30),
    "granted": lambda seed: chained(seed, 3),
    "in a collective": in_a_collective,
    "transferring": transferring,
    "reading": reading,
    "idle": idle,
    "training": training,
}


def outcome(work: Work, seed: int) -> dict[str, str]:
    try:
        work(seed)
    except WrongError as error:
        return {"ended": "wrong", "host": "", "message": str(error)}
    except Exception as error:
        typed = pw.errors.of(error)
        known = type(typed).__name__ if typed is not None else type(error).__name__
        return {"ended": known, "host": typed.host if typed is not None else "", "message": str(typed or error)[:600]}
    return {"ended": "right", "host": "", "message": ""}


def main() -> None:
    for work in (loading, uploading, lambda seed: chained(seed, 2), in_a_collective, transferring, reading, training):
        work(0)
    tell(ready=True)
    for line in sys.stdin:
        command = json.loads(line)
        work = PHASES[command["phase"]]
        tell(entered=True)
        found = outcome(work, command["seed"])
        tell(**found)
        deadline_s = time.monotonic() + TRY_S
        while found["ended"] not in ("right", "wrong") and time.monotonic() < deadline_s:
            time.sleep(0.05)
            found = outcome(work, command["seed"])
        tell(again=found["ended"], message=found["message"])


if __name__ == "__main__":
    main()
