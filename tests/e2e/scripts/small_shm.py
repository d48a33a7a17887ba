"""Puts, moves and fetches more than /dev/shm holds, through shared memory; prints what it found."""

import os

import jax
import numpy as np
import pathways as pw

SIZE_BYTES = 256 << 20

pw.connect()
first, other = jax.devices()[0], jax.devices()[-1]
data = np.arange(SIZE_BYTES // 4, dtype=np.uint32)
array = jax.block_until_ready(pw.put(data, first))
moved = jax.block_until_ready(pw.reshard(array + 1, other))
found = pw.fetch(moved)
address = found.__array_interface__["data"][0]
with open("/proc/self/maps") as maps:
    lines = [line.split() for line in maps]
(mapped,) = [
    line[5] for line in lines if int(line[0].split("-")[0], 16) <= address < int(line[0].split("-")[1], 16) and len(line) > 5
]
shm = os.statvfs("/dev/shm")
print("shm", shm.f_blocks * shm.f_frsize, shm.f_bavail * shm.f_frsize)
print("right", np.array_equal(found, data + 1))
print("mapped", mapped)
