"""A traced program of two nodes on a slice, and the same on another slice that lies apart; prints where, and what came out."""

import jax
import numpy as np
import pathways as pw
from jax.sharding import NamedSharding, PartitionSpec


def on(slice_):
    lies = NamedSharding(slice_.mesh("d"), PartitionSpec("d"))
    double = jax.jit(lambda x: 2 * x, in_shardings=lies, out_shardings=lies)
    add_one = jax.jit(lambda x: x + 1, in_shardings=lies, out_shardings=lies)
    return pw.program(lambda x: add_one(double(x)))


with pw.connect():
    devices = pw.make_virtual_device_set()
    first = devices.add_slice(devices=1)
    second = devices.add_slice(devices=1, apart=[first])
    for each in (first, second):
        print(*each.hosts, np.asarray(on(each)(np.arange(4, dtype=np.float32))).tolist(), flush=True)
