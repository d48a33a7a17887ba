"""`exits.py MANNER`: 200 launches that nobody awaits, then the script ends in the manner that is named, while they are under way.

MANNER is words from left to right: `read` the last value and print it, `drop` all arrays, `close` the connection, `exit` by
SystemExit.
"""

import sys

import jax
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

connection = pw.connect()
sharding = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
mean = jax.jit(lambda x: x - x + x.mean() + 1, out_shardings=sharding)
arrays = [jax.device_put(np.zeros(jax.device_count(), np.float32), sharding)]
for _ in range(200):
    arrays.append(mean(arrays[-1]))

for word in sys.argv[1].split(","):
    if word == "read":
        print(float(arrays[-1][0]), flush=True)
    elif word == "drop":
        arrays.clear()
    elif word == "close":
        connection.close()
    elif word == "exit":
        sys.exit()
