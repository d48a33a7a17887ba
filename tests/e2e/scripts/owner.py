"""Owns something of every kind and then ends in the way that the first word names.

`waits`: by a line of input. `killed`: by SIGKILL, with work in flight. `door`: by the SIGKILL of its door. `failed`: after a
program failed. `cancelled`: after a program was cancelled. `dropped`: stays, when everything was let go of.
"""

import gc
import os
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
import psutil
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

end = sys.argv[1]
mesh = Mesh(np.array(jax.devices()), ("x",))
lies = NamedSharding(mesh, P("x"))
step = jax.jit(lambda x: x * 2 + 1, in_shardings=lies, out_shardings=lies)
value = jax.device_put(np.ones(1 << 18, np.float32), lies)
parts = [step(value) for _ in range(8)]
turned = pw.reshard(value, NamedSharding(mesh, P()))
chain = pw.program(lambda x: step(step(x)))
result = chain(value)
print("made", float(np.asarray(turned)[0]), float(np.asarray(result)[0]), flush=True)


def door():
    """The door of this script: a child of it."""
    children = psutil.Process().children(recursive=True)
    return next(child.pid for child in children if any("pathways_door" in word for word in child.cmdline()))


def told(function):
    try:
        function()
    except Exception as error:
        print(type(pw.errors.of(error)).__name__, flush=True)


if end == "failed":

    def refuse(x):
        raise ValueError("no")

    broken = jax.jit(lambda x: jax.pure_callback(refuse, jax.ShapeDtypeStruct((), np.float32), x) + 1)(np.float32(1))
    after = jax.jit(lambda x: x * 2)(broken)
    told(lambda: np.asarray(after))
elif end == "cancelled":
    endless = pw.program(lambda x: pw.while_loop(lambda c: c[0] >= 0, step, x, max_iterations=10**6))
    turning = endless(value)
    pw.cancel(turning)
    told(lambda: np.asarray(turning))
elif end == "dropped":
    del value, parts, turned, result
    gc.collect()
    print("let go", int(jnp.zeros(())), flush=True)
elif end in ("killed", "door"):
    parts += [step(parts[-1]) for _ in range(200)]
    os.kill(os.getpid() if end == "killed" else door(), signal.SIGKILL)
sys.stdin.readline()
