"""COUNT all-reduces of scalars over all hosts, none awaited before the last; prints how many results are wrong by arithmetic.

`all_reduces.py FACTOR COUNT`: number `i` adds `i % 32` of one host to `i % 32 + 100` of the other, FACTOR times. Begins when a
line comes on standard input, so that clients can begin together.
"""

import sys

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

INPUTS = 32
factor, count = int(sys.argv[1]), int(sys.argv[2])
mesh = Mesh(np.array(jax.devices()), ("x",))
rows = NamedSharding(mesh, P("x"))
add = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x * factor, "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x")))
numbers = [jax.device_put(np.array([k, k + 100], np.float32), rows) for k in range(INPUTS)]
add(numbers[0]).block_until_ready()
print("ready", flush=True)
sys.stdin.readline()
results = [add(numbers[index % INPUTS]) for index in range(count)]
wrong, failure = 0, ""
for index, result in enumerate(results):
    try:
        sums = np.asarray(result)
    except jax.errors.JaxRuntimeError as error:
        failure = failure or str(error).splitlines()[-1]
        continue
    wrong += not np.array_equal(sums, np.full(2, factor * (2 * (index % INPUTS) + 100), np.float32))
print(f"wrong {wrong}", flush=True)
print(f"failure {failure}", flush=True)
