"""Keeps a program with a loop and a branch in it, on the first two devices, under the name given; it counts Collatz's steps."""

import sys

import jax
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

with pw.connect():
    rows = NamedSharding(Mesh(np.array(jax.devices()[:2]), ("d",)), P("d"))
    half, triple, add = (
        jax.jit(function, in_shardings=rows, out_shardings=rows)
        for function in (lambda x: x / 2, lambda x: x * 3, lambda x: x + 1)
    )

    def step(carried):
        count, value = carried
        return count + 1, pw.cond(value[0] % 2 == 1, lambda v: add(triple(v)), half, value)

    @pw.program
    def collatz(x):
        return pw.while_loop(lambda carried: carried[1][0] > 1, step, (0, x), max_iterations=200)

    x = np.full(2, 6, np.float32)
    count, value = collatz(x)
    print("ran", int(count), np.asarray(value).tolist())
    print("version", collatz.compile(x).register(sys.argv[1], replace=True))
