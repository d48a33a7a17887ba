"""Profiles some launches with JAX's own profiler. `profiled.py profile FOLDER`: says what it did; each `\\n` lets it go on.

`profiled.py beside`: launches something of its own until a line comes.
"""

import sys
import threading

import jax
import numpy as np
import pathways as pw
from jax.profiler import TraceAnnotation, start_trace, stop_trace
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

rows = NamedSharding(jax.make_mesh((2,), ("x",)), P("x"))
whole = NamedSharding(rows.mesh, P())


def doubled(x):
    return x * 2


def summed(x):
    return x.sum(keepdims=True)


def unprofiled(x):
    return x + 7


def anothers(x):
    return x * 11


double = jax.jit(doubled, out_shardings=rows)
add_up = jax.jit(summed, out_shardings=whole)
other = jax.jit(unprofiled)
foreign = jax.jit(anothers)


@pw.program
def both(x):
    return add_up(double(x))


def say(*words):
    print(*words, flush=True)


value = jax.device_put(np.arange(8, dtype=np.float32), rows)
if sys.argv[1] == "beside":
    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
    foreign(value).block_until_ready()
    say("ready")
    while not told.is_set():
        foreign(value).block_until_ready()
else:
    jax.block_until_ready([double(value), add_up(value), other(value), both(value)])
    say("ready")
    sys.stdin.readline()
    start_trace(sys.argv[2])
    with TraceAnnotation("the steps"):
        for _ in range(3):
            double(value).block_until_ready()
        for _ in range(5):
            add_up(value).block_until_ready()
        total = np.asarray(both(value)).tolist()
    say(total)
    sys.stdin.readline()
    stop_trace()
    other(value).block_until_ready()
    say("stopped")
    sys.stdin.readline()
