"""Trains a little on devices that may move meanwhile: `moved.py slice|view|local LINES`. Three steps at each line of stdin.

Says "ready" first, then at each line a digest of all bits of its weights and of an array that it made in the beginning.
"local" is the same in plain JAX, without a cluster. The lines "suspend" and "resume" do that with the slice.
"""

import contextlib
import hashlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

kind, lines = sys.argv[1], int(sys.argv[2])
if kind == "local":
    connected = contextlib.nullcontext()
else:
    import pathways as pw

    connected = pw.connect(islands="a")


def step(weights, batch):
    """The mean goes over all rows, so over all devices."""
    error = jnp.tanh(weights * batch) - 0.5
    return weights - 0.1 * (error - error.mean())


def digest(array):
    return hashlib.sha256(np.asarray(array).tobytes()).hexdigest()[:16]


with connected:
    if kind == "slice":
        held = pw.make_virtual_device_set().add_slice(devices=2, island="a")
        mesh = held.mesh("rows")
    else:
        mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))
    rows = NamedSharding(mesh, PartitionSpec("rows"))
    weights = jax.device_put(np.linspace(-1, 1, 8 * 1024, dtype=np.float32).reshape(8, 1024), rows)
    kept = jax.device_put(np.sqrt(np.arange(2**17, dtype=np.float32)).reshape(8, -1), rows)
    once = jax.jit(step, in_shardings=(rows, None), out_shardings=rows)
    shapes = jax.jit(lambda x: jnp.roll(x, 3, axis=1), in_shardings=rows, out_shardings=rows)
    traced = (lambda x: shapes(shapes(x))) if kind == "local" else pw.program(lambda x: shapes(shapes(x)))
    print("ready", flush=True)
    for number in range(lines):
        while (word := sys.stdin.readline().strip()) in ("suspend", "resume"):
            getattr(pw, word)(held)
            print(word, held.island, *held.hosts, flush=True)
        for each in range(3):
            weights = once(weights, np.float32(0.5 + number + each))
        weights = traced(weights)
        print(digest(weights), digest(kept), flush=True)
