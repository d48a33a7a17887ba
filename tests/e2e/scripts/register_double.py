"""Traces 2 x + 1 as a program of two nodes on the first two devices and keeps it under the name given."""

import sys

import jax
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding, PartitionSpec

sharding = NamedSharding(Mesh(np.array(jax.devices()[:2]), ("d",)), PartitionSpec("d"))
double = jax.jit(lambda x: 2 * x, in_shardings=sharding, out_shardings=sharding)
add_one = jax.jit(lambda x: x + 1, in_shardings=sharding, out_shardings=sharding)


@pw.program
def double_plus_one(x):
    return add_one(double(x))


x = np.arange(8, dtype=np.float32)
assert np.array_equal(double_plus_one(x), 2 * x + 1)
print("version", double_plus_one.compile(x).register(sys.argv[1], replace=True))
