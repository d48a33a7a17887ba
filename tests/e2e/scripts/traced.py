"""Calls one program for a trace: `moves` has a value move between two layouts, `loop` turns until a value is 5."""

import sys

import jax
import numpy as np
import pathways as pw
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

with pw.connect():
    slices = pw.make_virtual_device_set()
    rows = NamedSharding(slices.add_slice(devices=2).mesh("x"), P("x"))
    whole = NamedSharding(slices.add_slice(devices=2).mesh("x"), P())
    double = jax.jit(lambda x: x * 2, in_shardings=rows, out_shardings=rows)
    triple = jax.jit(lambda x: x * 3, in_shardings=whole, out_shardings=whole)
    add = jax.jit(lambda x: x + 1, in_shardings=rows, out_shardings=rows)

    @pw.program
    def moves(x):
        return triple(double(x))

    @pw.program
    def loop(x):
        return pw.while_loop(lambda c: c[0] < 5, add, add(x), max_iterations=9)

    print(np.asarray({"moves": moves, "loop": loop}[sys.argv[1]](np.zeros(8, np.float32) + 1)).tolist(), flush=True)
    sys.stdin.readline()
