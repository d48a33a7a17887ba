"""Four stages of one program, each on a slice of one host of its own; the third takes seconds to compile: `slow_stage.py SEED`.

Tells what it sees as JSON, one line each: the hosts of the stages, in their order, and then, twice, whenever a line comes, the
value of a call.
"""

import json
import sys

import jax
import numpy as np
import pathways as pw

SEED = int(sys.argv[1])
# Sorts by comparators of their own, which LLVM takes long for.
SORTS = 640


def tell(**what):
    print(json.dumps(what), flush=True)


def slow(x):
    for turn in range(SORTS):
        x, _ = jax.lax.sort((x + turn + SEED, -x), num_keys=2)
    return x


with pw.connect(islands="all"):
    device_set = pw.make_virtual_device_set()
    slices = []
    for island in ("a", "a", "b", "b"):
        slices.append(device_set.add_slice(devices=1, island=island, apart=[each for each in slices if each.island == island]))
    devices = [each.devices[0] for each in slices]
    tell(hosts=[host for each in slices for host in each.hosts])

    def on(stage, function):
        place = jax.sharding.SingleDeviceSharding(devices[stage])
        return jax.jit(function, in_shardings=place, out_shardings=place)

    first, second, third, last = on(0, lambda x: x + SEED), on(1, lambda x: x * 2), on(2, slow), on(3, lambda x: x - 1)

    @pw.program
    def stages(x):
        return last(third(second(first(x))))

    for call in range(2):
        sys.stdin.readline()
        tell(value=np.asarray(stages(np.arange(8, dtype=np.int32) + call)).tolist())
