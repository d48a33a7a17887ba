"""A chain of 128 small nodes on all devices, called as a program that is fused, as one that is not, and function by function.

Speaks like steps.py: one JSON command per line, one JSON answer each. `fused` and `nodes` want a cluster, `plain` does not.
`--peer RANK COUNT PORT` makes this process one of COUNT controllers over gloo instead of a client.
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

NODES = 128


class Chains:
    """All are compiled and the fused one is fused when this is made."""

    def __init__(self, local: bool) -> None:
        devices = jax.devices()
        sharding = NamedSharding(Mesh(np.array(devices), ("x",)), P("x"))
        step = jax.jit(
            jax.shard_map(
                lambda x: jax.lax.psum(x, "x") / len(devices) + 1, mesh=sharding.mesh, in_specs=P("x"), out_specs=P("x")
            )
        )

        def chain(x: Any) -> Any:
            for _ in range(NODES):
                x = step(x)
            return x

        self._start = jax.make_array_from_callback((len(devices),), sharding, lambda _: np.zeros(1, np.float32))
        self._chains = {"plain": chain}
        if not local:
            import pathways as pw
            from pathways import _fusing

            self._chains |= {"fused": pw.program(chain), "nodes": pw.program(fuse=False)(chain)}
            for _ in range(3):
                self.measure("fused", 1)
            if not _fusing.settle(120):
                raise SystemExit("nothing was fused")
        for what in self._chains:
            self.measure(what, 3)
        self.devices = len(devices)

    def measure(self, what: str, count: int, awaited: bool = False) -> dict[str, Any]:
        """`seconds` for `count` chained calls; with `awaited` each is waited for. `value` is how many calls it counted."""
        chain, x = self._chains[what], self._start
        began_s = time.perf_counter()
        for _ in range(count):
            x = chain(x)
            if awaited:
                x.block_until_ready()
        x.block_until_ready()
        seconds = time.perf_counter() - began_s
        value = float(np.asarray(x.addressable_shards[0].data)[0])
        return {"seconds": seconds, "latencies_us": [], "value": value / NODES}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", 1)
    os.dup2(2, 1)  # gloo writes on descriptor 1
    local = sys.argv[1:2] == ["--peer"]
    if local and sys.argv[3] != "1":
        rank, count, port = (int(word) for word in sys.argv[2:5])
        address = f"127.0.0.1:{port}"
        jax.distributed.initialize(address, count, rank, coordinator_bind_address=address if rank == 0 else None)
    chains = Chains(local)
    answers.write(json.dumps({"devices": chains.devices, "jax": jax.__version__}) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(chains.measure(**json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
