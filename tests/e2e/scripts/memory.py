"""Holds 1 GiB of arrays over all hosts and changes it stage by stage: a line of input each, answered when it is done."""

import gc
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

COUNT, ELEMENTS = 64, 4 << 20  # of 16 MiB each
mesh = Mesh(np.array(jax.devices()), ("x",))
lies = NamedSharding(mesh, P("x"))
half = jax.jit(lambda x: x.reshape(len(mesh.devices), -1)[:, : ELEMENTS // 4].reshape(-1), in_shardings=lies, out_shardings=lies)
donate = jax.jit(lambda x: x + 1, in_shardings=lies, out_shardings=lies, donate_argnums=0)


def refuse(x):
    raise ValueError("no")


failing = jax.jit(lambda x: x + jax.pure_callback(refuse, jax.ShapeDtypeStruct((), np.float32), x[0]))


def put():
    return jax.device_put(np.ones(ELEMENTS, np.float32), lies)


def fail(count):
    small = jnp.zeros(ELEMENTS // 2, np.float32)
    for _ in range(count):
        kept.append(failing(small))
        try:
            np.asarray(kept[-1])
        except Exception as error:
            print("failure told:", "no" in str(error), file=sys.stderr)
        else:
            raise AssertionError("the callback's failure was not told")


# Once through everything, so that what programs and libraries need is there before anything is measured.
kept = []
np.asarray(half(put()))
np.asarray(donate(put()))
fail(1)
kept.clear()
arrays, slices = [], []
gc.collect()
print("warm", flush=True)
for line in sys.stdin:
    match line.strip():
        case "puts":
            arrays += [put() for _ in range(COUNT)]
        case "slices":
            kept += [shard.data for array in arrays for shard in array.addressable_shards]  # views
            slices += [half(array) for array in arrays[:8]]
        case "donations":
            kept.clear()
            arrays[:16] = [donate(array) for array in arrays[:16]]
        case "failures":
            fail(8)
        case "frees":
            del arrays[: COUNT // 2], slices[:]
            kept.clear()
    gc.collect()
    jax.block_until_ready((arrays, slices))
    print(line.strip(), flush=True)
