"""Computes until a line comes on standard input, checks every value, starts again after a loss, and says when its gangs ran.

Lines: `computing` once all is compiled, `lost REASON` and `again` for each loss, at the end `times [[begin, end], ...]` of gangs
on one device, in nanoseconds of this machine's monotonic clock, and `done STEPS`.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MODULUS = 10_007
stopped = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stopped.set()), daemon=True).start()
begun: list[int] = []
times: list[tuple[int, int]] = []
mesh = Mesh(np.array(jax.devices()), ("hosts",))
spread = NamedSharding(mesh, PartitionSpec("hosts"))


@jax.jit
def stepped(value: jax.Array) -> jax.Array:
    """All hosts meet in the sum."""
    return (value * 3 + value.sum()) % MODULUS


def note_begin(value: np.ndarray) -> np.ndarray:
    begun.append(time.monotonic_ns())
    return value


def note_end(value: np.ndarray) -> np.ndarray:
    times.append((begun[-1], time.monotonic_ns()))
    return value


@jax.jit
def timed(value: jax.Array) -> jax.Array:
    shape = jax.ShapeDtypeStruct(value.shape, value.dtype)
    value = jax.pure_callback(note_begin, shape, value)
    value = jax.lax.fori_loop(0, 2_000, lambda _, each: (each * 3 + 1) % MODULUS, value)
    return jax.pure_callback(note_end, shape, value)


def expected(start: np.ndarray, count: int) -> np.ndarray:
    for _ in range(count):
        start = (start * 3 + start.sum()) % MODULUS
    return start


START = np.arange(8, dtype=np.int32)
one = np.arange(4, dtype=np.int32)
ONCE = one.copy()
for _ in range(2_000):
    ONCE = (ONCE * 3 + 1) % MODULUS
steps, told = 0, False
while not stopped.is_set():
    try:
        value, here = jax.device_put(START, spread), jax.device_put(one, jax.devices()[0])
        wanted = START
        while not stopped.is_set():
            for _ in range(5):
                value = stepped(value)
            wanted = expected(wanted, 5)
            assert np.asarray(value).tolist() == wanted.tolist(), "a wrong number"
            assert np.asarray(timed(here)).tolist() == ONCE.tolist(), "a wrong number"
            steps += 5
            if not told:
                print("again" if steps > 5 else "computing", flush=True)
                told = True
    except jax.errors.JaxRuntimeError as error:
        told = False
        print("lost", " ".join(str(error).split()), flush=True)
print("times", json.dumps(times), flush=True)
print("done", steps, flush=True)
