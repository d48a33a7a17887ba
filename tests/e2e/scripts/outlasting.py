"""Makes arrays on all devices, waits for a line on its input, and reads them: `equal`, or `lost` and what it was told."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding, PartitionSpec

sharding = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d"))
large = np.arange(len(jax.devices()) << 18, dtype=np.float32)
noise = np.random.default_rng(36).standard_normal(64 * len(jax.devices()), dtype=np.float32)
put = [jax.device_put(each, sharding) for each in (large, noise)]


@jax.jit
def total(values: jax.Array) -> jax.Array:
    return values + jnp.sum(values.astype(jnp.int32))


made = total(put[0])
jax.block_until_ready(made)
expected = large + np.sum(large.astype(np.int32), dtype=np.int32).astype(np.float32)
print("made", flush=True)
sys.stdin.readline()
try:
    found = [np.asarray(each) for each in (*put, made, total(put[0]))]
except jax.errors.JaxRuntimeError as error:
    told = pw.errors.of(error)
    print("lost", told.reason.name if told is not None else "untyped", str(error).replace("\n", " "), flush=True)
else:
    wanted = [large, noise, expected, expected]
    same = all(each.tobytes() == other.tobytes() for each, other in zip(found, wanted, strict=True))
    print("equal" if same else f"different: {found} {wanted}", flush=True)
