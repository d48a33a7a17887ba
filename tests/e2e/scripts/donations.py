"""Donated parameters whose arrays are needed later, over two hosts: an intermediate that is a result, and an argument."""

import jax
import numpy as np
import pathways as pw
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

with pw.connect():
    rows = NamedSharding(pw.make_virtual_device_set().add_slice(devices=2).mesh("x"), P("x"))
    double = jax.jit(lambda x: x * 2, in_shardings=rows, out_shardings=rows)
    ending = jax.jit(lambda x: x + 1, in_shardings=rows, out_shardings=rows, donate_argnums=0)

    @pw.program
    def both(x):
        y = double(x)
        return ending(y), y

    @pw.program(donate_argnums=0)
    def given(x):
        return ending(ending(x))

    start = np.array([1.0, 2.0], np.float32)
    print([value.tolist() for value in both(start)])
    kept = double(start)
    print(pw.program(lambda x: ending(x))(kept).tolist(), kept.tolist())
    last = given(kept)
    print(last.tolist(), kept.is_deleted())
