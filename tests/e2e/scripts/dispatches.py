"""WARM_UP calls, then N more of a tiny compiled function, awaited every EVERY; prints the value and how many MiB the N cost."""

import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp


def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


warm_up, count, every = (int(word) for word in sys.argv[1:4])
add = jax.jit(lambda x: x + 1)
x = add(jnp.int32(-1)).block_until_ready()
before = resident_mib() if warm_up == 0 else None
for index in range(warm_up + count):
    if index == warm_up and before is None:
        x.block_until_ready()
        before = resident_mib()
    x = add(x)
    if index % every == every - 1:
        x.block_until_ready()
print("value", int(x))
print("grew_mib", round(resident_mib() - before, 2))
