"""`compile SEED`: compiles one program that takes seconds, on the first device. `call`: awaits one small call after the other.
`queue SEED`: asks for several that take seconds, at once. `small SEED`: compiles a tiny one.

All say when they are ready, begin when they are told, and tell moments of the clock that all processes of a machine share.
`call` uses the first device and a gang of all devices in turns, until its input ends.
"""

from __future__ import annotations

import json
import select
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

LENGTH = 4_000
QUEUED = 6
QUEUED_LENGTH = 2_000


def say(**values: object) -> None:
    print(json.dumps(values), flush=True)


def compile_one(seed: int) -> None:
    def long(x: Any) -> Any:
        for number in range(LENGTH):
            x = x * (1 + 2.0**-20) + (number % 7 + seed) * 2.0**-30
            x = jnp.sin(x)
        return x

    lowered = jax.jit(long).lower(jax.ShapeDtypeStruct((8, 8), jnp.float32))
    say(ready=True)
    sys.stdin.readline()
    began_s = time.monotonic()
    compiled = lowered.compile()
    ended_s = time.monotonic()
    value = np.asarray(compiled(np.zeros((8, 8), np.float32)))
    assert value.shape == (8, 8)
    assert np.isfinite(value).all()
    say(began_s=began_s, ended_s=ended_s)


def queue(seed: int) -> None:
    def long(number: int) -> Any:
        def steps(x: Any) -> Any:
            for step in range(QUEUED_LENGTH):
                x = jnp.sin(x * (1 + 2.0**-20) + (step % 7 + seed + number) * 2.0**-30)
            return x

        return jax.jit(steps).lower(jax.ShapeDtypeStruct((8, 8), jnp.float32))

    lowered = [long(number) for number in range(QUEUED)]
    say(ready=True)
    sys.stdin.readline()
    ends_s: list[float] = []

    def compile_one(program: Any) -> None:
        program.compile()
        ends_s.append(time.monotonic())
        say(compiled=len(ends_s))

    with ThreadPoolExecutor(QUEUED) as threads:
        list(threads.map(compile_one, lowered))
    say(ends_s=ends_s)


def compile_small(seed: int) -> None:
    small = jax.jit(lambda x: x * 3 + seed)
    lowered = small.lower(jax.ShapeDtypeStruct((8, 8), jnp.float32))
    say(ready=True)
    sys.stdin.readline()
    began_s = time.monotonic()
    compiled = lowered.compile()
    ended_s = time.monotonic()
    np.testing.assert_array_equal(np.asarray(compiled(np.ones((8, 8), np.float32))), np.full((8, 8), 3 + seed, np.float32))
    say(began_s=began_s, ended_s=ended_s)


def call() -> None:
    devices = jax.devices()
    add = jax.jit(lambda x: x + 1)
    everywhere = NamedSharding(Mesh(np.array(devices), ("d",)), PartitionSpec("d"))
    total = jax.jit(lambda x: x - x + x.sum(), out_shardings=everywhere)
    alone = jax.device_put(np.float32(0), devices[0])
    together = jax.device_put(np.ones(len(devices), np.float32), everywhere)
    add(alone).block_until_ready()
    total(together).block_until_ready()
    say(ready=True)
    sys.stdin.readline()
    ends_s: list[float] = []
    while not select.select([sys.stdin], [], [], 0)[0]:
        alone = add(alone).block_until_ready()
        ends_s.append(time.monotonic())
        total(together).block_until_ready()
        ends_s.append(time.monotonic())
    assert float(alone) == len(ends_s) // 2
    assert np.asarray(total(together)).tolist() == [float(len(devices))] * len(devices)
    say(ends_s=ends_s)


if __name__ == "__main__":
    if sys.argv[1] == "call":
        call()
    else:
        {"compile": compile_one, "queue": queue, "small": compile_small}[sys.argv[1]](int(sys.argv[2]))
