"""Traces tanh(x) - mean(tanh(x)) as a program of two nodes on the first two devices, and keeps it under the name given.

Stays until its input ends.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding, PartitionSpec

sharding = NamedSharding(Mesh(np.array(jax.devices()[:2]), ("d",)), PartitionSpec("d"))
squash = jax.jit(jnp.tanh, in_shardings=sharding, out_shardings=sharding)
centre = jax.jit(lambda x: x - x.mean(), in_shardings=sharding, out_shardings=sharding)


@pw.program
def centred(x):
    return centre(squash(x))


print("version", centred.compile(np.ones((8, 3), np.float32)).register(sys.argv[1], replace=True), flush=True)
sys.stdin.readline()
