"""device_put between the devices and the CPU device of this process, which belongs to another client where there is a cluster."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

VALUES = np.arange(64, dtype=np.float32).reshape(8, 8)
WIDE = [np.array([2**40 + 3, 7]), np.array([1 / 3, 2 / 3])]


def run():
    devices, local = jax.devices()[:2], jax.devices("cpu")[0]
    rows = NamedSharding(Mesh(np.array(devices), ("x",)), P("x"))
    copies = NamedSharding(rows.mesh, P())
    here = [local, SingleDeviceSharding(local), NamedSharding(Mesh(np.array([local]), ("x",)), P("x"))]
    found = {}
    for name, source in (("rows", rows), ("copies", copies), ("one", SingleDeviceSharding(devices[1]))):
        there = jax.jit(lambda x: x * 2)(jax.device_put(VALUES, source))
        taken = jax.device_put([there] * len(here), here)
        found[name] = [[array, array.devices() == {local}] for array in taken]
        back = jax.device_put([*taken], [rows] * len(here))
        found[f"{name}, back"] = [[array, array.sharding == rows] for array in back]
    given = jax.jit(lambda x: x + 1)(jax.device_put(VALUES, rows))
    found["donated"] = jax.device_put(given, here[1], donate=True)
    keys = jax.device_put(jax.random.split(jax.random.key(3), 4), rows)
    taken = jax.device_put(keys, here[1])
    found["keys"] = [jax.random.key_data(taken), taken.devices() == {local}]
    # Made with 64 bits, and put where these are off. Cut over devices, plain JAX itself would lose half of them.
    for name, source in (("copies", copies), ("one", SingleDeviceSharding(devices[1]))):
        with jax.enable_x64(True):
            wide = jax.device_put(WIDE, [source] * 2)
        taken = jax.device_put(wide, here[1])
        found[f"wide, {name}"] = [taken, jax.device_put(taken, [source] * 2)]
    seen = []
    jax.debug.callback(lambda key, x: seen.append([jax.random.key_data(key), x + 1]), jax.random.key(4), jnp.arange(3))
    jax.effects_barrier()
    found["in a callback"] = seen
    return found
