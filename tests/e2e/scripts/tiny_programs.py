"""Tiny programs of every kind, as many as a line on standard input says, then `done` and the value that arithmetic gives.

Of a hundred programs one is compiled anew, twelve are runs of a traced program of three nodes, a few of those newly traced,
and the rest are executions of one compiled function. Ends when standard input does.
"""

import gc
import sys

import jax
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

BATCH = 100
COMPILED, TRACED = 1, 12
# So many programs are compiled between two times at which JAX forgets them, and newly traced ones are rarer still.
FORGOTTEN_EVERY, TRACED_ANEW_EVERY = 50, 50

pw.connect()
here = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P())
add = jax.jit(lambda x: x + 1, in_shardings=here, out_shardings=here)


def chain():
    """A traced program of three additions of one."""
    return pw.program(lambda x: add(add(add(x))), fuse=False)


def compiled_anew(x, number):
    """Adds one by a program that nobody compiled before: its constants are its own."""
    return jax.jit(lambda x: (x + float(number)) - float(number - 1))(x)


traced = chain()
compiled = 0
for line in sys.stdin:
    count = int(line)
    x = jax.device_put(np.zeros(1, np.float32), here)
    added = 0
    for batch in range(count // BATCH):
        for _ in range(COMPILED):
            compiled += 1
            x = compiled_anew(x, compiled)
        if batch % TRACED_ANEW_EVERY == 0:
            traced = chain()
        for _ in range(TRACED):
            x = traced(x)
        for _ in range(BATCH - COMPILED - TRACED):
            x = add(x)
        added += BATCH + 2 * TRACED
        if batch % FORGOTTEN_EVERY == FORGOTTEN_EVERY - 1:
            x.block_until_ready()
            jax.clear_caches()
            gc.collect()
        value = float(np.asarray(x)[0])
        if value != added:
            print("wrong", value, added, flush=True)
            raise SystemExit(1)
    print("done", added, flush=True)
