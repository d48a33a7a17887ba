"""Arrays that are whole on every device of two islands: tells what it reads of them, and again after a line from stdin."""

import json

import jax
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

everywhere = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P())
SIZES = (4, 50_000)  # read through the controller, and from a worker


def whole_everywhere(size):
    parts = [jax.device_put(np.arange(size, dtype=np.float32), device) for device in jax.devices()]
    return jax.make_array_from_single_device_arrays((size,), everywhere, parts)


first, second, third = ([whole_everywhere(size) for size in SIZES] for _ in range(3))


def tell(key, arrays):
    print(json.dumps({key: [[array.size, float(np.asarray(array).sum())] for array in arrays]}), flush=True)


def failure(read):
    try:
        read()
    except Exception as error:
        return type(pw.errors.of(error)).__name__
    return ""


tell("before", first)
input()
tell("after", second)
moved = [jax.device_put(array, jax.devices()[-1]) for array in third]
tell("moved", moved)
print(json.dumps({"lost": failure(lambda: np.asarray(third[0].addressable_shards[0].data))}), flush=True)
