"""device_put between layouts and sets of devices leaves the values where they are: on the cluster, not in this process."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _pathways

ISLANDS = "all"
VALUES = np.arange(64, dtype=np.float32).reshape(8, 8)


def on(devices, spec):
    return NamedSharding(Mesh(np.array(devices), ("x",)), spec)


def shards(array):
    return [[shard.device.id, np.asarray(shard.data)] for shard in sorted(array.addressable_shards, key=lambda s: s.device.id)]


def was_fetched(array):
    # Where JAX keeps the values of an array that it has fetched.
    return array._npy_value is not None


def run():
    near, far = jax.devices()[:2], jax.devices()[2:]
    rows = on(near, P("x"))
    layouts = [
        on(near, P(None, "x")),
        on(near, P()),
        on(near[::-1], P("x")),
        SingleDeviceSharding(near[1]),
        on(far, P("x")),
        on(far[::-1], P(None, "x")),
        on(far, P()),
        SingleDeviceSharding(far[1]),
    ]
    found = {}
    for name, source in (("rows", rows), ("one", SingleDeviceSharding(near[0])), ("copies", on(near, P()))):
        here = jax.jit(lambda x: x * 2)(jax.device_put(VALUES, source))
        moved = jax.device_put([here] * len(layouts), layouts)
        stayed = not was_fetched(here)
        found[name] = [stayed, [shards(array) for array in moved], [a.sharding == s for a, s in zip(moved, layouts, strict=True)]]
        by_jaxlib = _pathways._transfer_to_shardings([here] * len(layouts), layouts, False)
        found[f"{name}, by jaxlib"] = [[shards(array) for array in by_jaxlib], here.is_deleted()]

    here = jax.device_put(VALUES, rows)
    found["as it is"] = jax.device_put(here, rows) is here
    given = jax.jit(lambda x: x + 1)(here)
    found["donated"] = [jax.device_put(given, on(far, P(None, "x")), donate=True), given.is_deleted()]
    given = jax.jit(lambda x: x + 1)(here)
    found["donated by jaxlib"] = [*_pathways._transfer_to_shardings([given], [on(far, P())], True), given.is_deleted()]
    total = jax.jit(jnp.sum)(jax.device_put(here, on(far, P())))
    loose = jnp.ones((8, 8)) + jnp.float32(1)  # on the first device, and not committed to it
    there = jax.jit(lambda x: x * 3, in_shardings=on(far, P("x")), out_shardings=on(far, P("x")))(loose)
    found["goes on"] = [total, here, shards(there), was_fetched(loose)]
    keys = jax.device_put(jax.random.split(jax.random.key(3), 4), rows)
    moved = jax.device_put(keys, on(far, P()))
    found["keys"] = np.array_equal(jax.random.key_data(moved), jax.random.key_data(keys))
    return found


def expected():
    halves = np.split(VALUES, 2), np.split(VALUES, 2, axis=1)
    lie = []
    for first, second in ((0, 1), (2, 3)):
        rows, columns = ([[first, part[0]], [second, part[1]]] for part in halves)
        copies, one = [[first, VALUES], [second, VALUES]], [[second, VALUES]]
        lie += (
            [columns, copies, [[first, rows[1][1]], [second, rows[0][1]]], one]
            if not first
            else [rows, [[first, columns[1][1]], [second, columns[0][1]]], copies, one]
        )
    twice = [[[device, part * 2] for device, part in array] for array in lie]
    found = {}
    for name in ("rows", "one", "copies"):
        found[name] = [True, twice, [True] * 8]
        found[f"{name}, by jaxlib"] = [twice, False]
    found["as it is"] = True
    found["donated"] = found["donated by jaxlib"] = [VALUES + 1, True]
    sixes = np.full((4, 8), 6, np.float32)
    found["goes on"] = [VALUES.sum(), VALUES, [[2, sixes], [3, sixes]], False]
    found["keys"] = True
    return found
