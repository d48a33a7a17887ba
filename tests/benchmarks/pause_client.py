"""Awaited gangs over all hosts, one after the other, without an end, and how long there was no value.

A line on stdin asks for the longest time since the last line; the answer comes as JSON once a gang that was begun after it has
its value. Anything but the right value, an error among it, ends it.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

COUNT = jax.device_count()
rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
ones = jax.device_put(np.ones(COUNT, np.float32), rows)
total = jax.jit(lambda x: x + x.sum(), in_shardings=rows, out_shardings=rows)

asked = threading.Semaphore(0)
threading.Thread(target=lambda: [asked.release() for _ in sys.stdin], daemon=True).start()
longest_s, calls, since_s = 0.0, 0, time.monotonic()
while True:
    wanted = asked.acquire(blocking=False)
    value = np.asarray(total(ones)).tolist()
    if value != [1.0 + COUNT] * COUNT:
        raise SystemExit(f"a gang gave {value}")
    now_s = time.monotonic()
    longest_s, calls, since_s = max(longest_s, now_s - since_s), calls + 1, now_s
    if wanted:
        print(json.dumps({"longest_s": longest_s, "calls": calls}), flush=True)
        longest_s, calls = 0.0, 0
