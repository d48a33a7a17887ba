"""Small jobs without end, one after the other, each on a device that it has to itself for half a second; says how many are done.

A job that fails is begun again; what came of it is the caller's to judge by the count.
"""

import sys
import time

import jax
import numpy as np
import pathways as pw

add = jax.jit(lambda x: x + 1)
with pw.connect():
    done = 0
    while True:
        try:
            with pw.make_virtual_device_set() as devices:
                x = jax.device_put(np.float32(done), devices.add_slice(1, exclusive=True, wait=True, timeout=120).devices[0])
                for _ in range(10):
                    x = add(x)
                    time.sleep(0.05)
                if float(x) != done + 10:
                    sys.exit(f"10 additions to {done} gave {float(x)}")
        except (pw.errors.PathwaysError, jax.errors.JaxRuntimeError):
            continue
        done += 1
        print(done, flush=True)
