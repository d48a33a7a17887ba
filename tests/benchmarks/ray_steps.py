"""The measured program of Ray: a gang of actors, each one process of a gloo group, driven one step at a time by the driver.

Runs in an environment of its own (see ray_peer.py), so it imports nothing of this project. One JSON command per line, one JSON
answer each, as steps.py.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import time
from typing import Any, TextIO

import ray

# Ray replaces 127.0.0.1 by the machine's own address, and loopback is what is compared.
NODE = "127.0.0.2"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@ray.remote(num_cpus=0)
class Member:
    """One process of the gang; holds its part of the array between the steps."""

    def __init__(self, rank: int, count: int, port: int) -> None:
        import jax
        import numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        jax.distributed.initialize(f"127.0.0.1:{port}", count, rank)
        spec = PartitionSpec("x")
        rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), spec)
        self._make = lambda: jax.make_array_from_callback((count,), rows, lambda _: np.zeros(1, np.float32))
        self._step = jax.jit(
            jax.shard_map(lambda x: jax.lax.psum(x, "x") / count + 1, mesh=rows.mesh, in_specs=spec, out_specs=spec)
        )
        self._x: Any = None
        self.start()
        self.step()

    def start(self) -> None:
        self._x = self._make()

    def step(self) -> None:
        self._x = self._step(self._x).block_until_ready()

    def value(self) -> float:
        return float(self._x.addressable_shards[0].data[0])

    def pid(self) -> int:
        return os.getpid()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", 1)
    os.dup2(2, 1)
    count = int(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        ray.init(_node_ip_address=NODE, _temp_dir=folder, include_dashboard=False, configure_logging=False, log_to_driver=False)
        try:
            serve(answers, count)
        finally:
            ray.shutdown()


def serve(answers: TextIO, count: int) -> None:
    """Answers commands until standard input ends."""
    port = free_port()
    members = [Member.remote(rank, count, port) for rank in range(count)]  # type: ignore[attr-defined]
    ray.get([member.pid.remote() for member in members])
    answers.write(json.dumps({"devices": count, "ray": ray.__version__}) + "\n")
    for line in sys.stdin:
        steps = json.loads(line)["count"]
        ray.get([member.start.remote() for member in members])
        began_s = time.perf_counter()
        for _ in range(steps):
            ray.get([member.step.remote() for member in members])
        seconds = time.perf_counter() - began_s
        values = set(ray.get([member.value.remote() for member in members]))
        answers.write(
            json.dumps({"seconds": seconds, "latencies_us": [], "value": values.pop() if len(values) == 1 else None}) + "\n"
        )


if __name__ == "__main__":
    main()
