"""Arrays on an island of two hosts one of which is lost. A line on stdin: it has happened. Tells what it has as JSON."""

import json
import sys

import jax
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P


def tell(**what):
    print(json.dumps(what), flush=True)


def drawn(number, shape=(256, 256)):
    return np.random.default_rng(number).standard_normal(shape, np.float32)


with pw.connect():
    mesh = Mesh(np.array(jax.devices()), ("x",))
    hosts = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("host", "x", "y"))
    survivor = SingleDeviceSharding(jax.devices()[-1])
    alone = jax.device_put(drawn(1), survivor)
    computed = jax.jit(lambda x: x * 2 + 1)(alone)
    everywhere = jax.device_put(drawn(2), NamedSharding(mesh, P()))
    cut = jax.device_put(drawn(3), NamedSharding(mesh, P("x")))
    twice = jax.device_put(drawn(4), NamedSharding(hosts, P("x")))  # each host has all of it, on two devices each half
    for array in (alone, computed, everywhere, cut, twice):
        array.block_until_ready()
    tell(ready=True)
    sys.stdin.readline()
    try:  # somebody has to wait for a host that is stuck
        jax.jit(lambda x: x + 1)(cut).block_until_ready()
    except Exception as error:
        print(error, file=sys.stderr)
    tell(alone=np.asarray(alone).tobytes() == drawn(1).tobytes())
    tell(used=np.asarray(jax.jit(lambda x: x - 1)(computed)).tobytes() == (drawn(1) * 2 + 1 - 1).tobytes())
    tell(everywhere=[np.asarray(shard.data).tobytes() == drawn(2).tobytes() for shard in everywhere.addressable_shards])
    tell(twice=[np.array_equal(shard.data, drawn(4)[shard.index]) for shard in twice.addressable_shards])
    try:
        np.asarray(cut)
        tell(failed="", message="")
    except Exception as error:
        typed = pw.errors.of(error)
        tell(failed=type(typed).__name__, message=str(typed))
