"""The measured program, the same for the cluster and for multi-controller JAX: one JSON command per line, one JSON answer each.

A gang step is an all-reduce of a scalar over all devices and an addition, its output fed to the next. A call is an addition
on one device. `--peer RANK COUNT PORT` makes this process one of COUNT controllers over gloo instead of a client.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


class Steps:
    """Compiled once; both programs have run when this is made."""

    def __init__(self) -> None:
        devices = jax.devices()
        mesh = Mesh(np.array(devices), ("x",))
        self._gang = jax.jit(
            jax.shard_map(lambda x: jax.lax.psum(x, "x") / len(devices) + 1, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
        )
        self._call = jax.jit(lambda x: x + 1)
        sharding = NamedSharding(mesh, P("x"))
        self._spread = jax.make_array_from_callback((len(devices),), sharding, lambda _: np.zeros(1, np.float32))
        self._single = jax.device_put(np.zeros(1, np.float32), jax.local_devices()[0])
        self.devices = len(devices)
        for what in ("gang", "call"):
            self.measure(what, 20, awaited=True)

    def measure(self, what: str, count: int, awaited: bool) -> dict[str, Any]:
        """`seconds` for `count` chained steps; with `awaited` each step is waited for and `latencies_us` lists them."""
        function, x = (self._gang, self._spread) if what == "gang" else (self._call, self._single)
        latencies_us = []
        started_s = time.perf_counter()
        for _ in range(count):
            before_s = time.perf_counter()
            x = function(x)
            if awaited:
                x.block_until_ready()
                latencies_us.append(1e6 * (time.perf_counter() - before_s))
        x.block_until_ready()
        seconds = time.perf_counter() - started_s
        value = float(np.asarray(x.addressable_shards[0].data)[0])
        return {"seconds": seconds, "latencies_us": latencies_us, "value": value}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", 1)
    os.dup2(2, 1)  # gloo writes on descriptor 1
    if sys.argv[1:2] == ["--peer"]:
        rank, count, port = (int(word) for word in sys.argv[2:5])
        address = f"127.0.0.1:{port}"
        jax.distributed.initialize(address, count, rank, coordinator_bind_address=address if rank == 0 else None)
    steps = Steps()
    answers.write(json.dumps({"devices": steps.devices, "jax": jax.__version__}) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(steps.measure(**json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
