"""One of several clients that share an island: keeps asking for steps of emulated device time, as long as it is told.

`sharing_client.py NUMBER` is a client of the cluster; with `--peer RANK COUNT PORT LIBRARY` behind it, one of COUNT processes of
plain JAX over gloo. One JSON command per line, one JSON answer each. A step is an all-reduce over all devices within the time it
is told to last; a step that lasts NUMBER nanoseconds longer is told by that in the timelines of the emulator.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.emulator import device_time

NODES = 16
# After two a program is fused, in the background.
RUNS = 3


class Work:
    """What a client can run, by name: a function of an array and a duration."""

    def __init__(self, peer: bool) -> None:
        devices = jax.devices()
        count = len(devices)
        mesh = Mesh(np.array(devices), ("x",))
        self._everywhere = NamedSharding(mesh, P())
        self.spread = jax.make_array_from_callback((count,), NamedSharding(mesh, P("x")), lambda _: np.zeros(1, np.float32))

        def step(x: Any, lasts: Any) -> Any:
            return device_time.busy(x, lasts, lambda x: jax.lax.psum(x, "x") / count + 1)

        each = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"), check_vma=False))

        def nodes(x: Any, lasts: Any) -> Any:
            for _ in range(NODES):
                x = each(x, lasts)
            return x

        program: Callable[[Any, Any], Any] = nodes
        fused = program
        if not peer:
            import pathways as pw

            program, fused = pw.program(nodes, fuse=False), pw.program(nodes)
        self.kinds = {"step": (each, 1), "op_by_op": (nodes, NODES), "program": (program, NODES), "fused": (fused, NODES)}
        for function, _ in self.kinds.values():
            for _ in range(RUNS):
                function(self.spread, self.lasting(0)).block_until_ready()

    def lasting(self, lasts_ns: int) -> Any:
        return jax.make_array_from_callback((1,), self._everywhere, lambda _: np.array([lasts_ns], np.uint32))


def keep_busy(work: Work, kind: str, lasts_ns: int, seconds: float, ahead: int) -> dict[str, Any]:
    """Calls one after the other, `ahead` of them not awaited, for so long; steps that ran, and from when to when."""
    function, steps = work.kinds[kind]
    lasts = work.lasting(lasts_ns)
    lasts.block_until_ready()
    waiting: deque[Any] = deque()
    x, calls = work.spread, 0
    began_ns = time.monotonic_ns()
    until_ns = began_ns + round(seconds * 1e9)
    while (ended_ns := time.monotonic_ns()) < until_ns:
        x = function(x, lasts)
        calls += 1
        waiting.append(x)
        if len(waiting) > ahead:
            waiting.popleft().block_until_ready()
    value = float(np.asarray(x.addressable_shards[0].data)[0])
    return {"steps": calls * steps, "value": value, "began_ns": began_ns, "ended_ns": ended_ns}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", 1)
    os.dup2(2, 1)  # gloo writes on descriptor 1
    number = int(sys.argv[1])
    peer = sys.argv[2:3] == ["--peer"]
    if peer:
        rank, count, port = (int(word) for word in sys.argv[3:6])
        device_time.register(sys.argv[6])
        address = f"127.0.0.1:{port}"
        jax.distributed.initialize(address, count, rank, coordinator_bind_address=address if rank == 0 else None)
    else:
        import pathways as pw

        pw.connect()
    work = Work(peer)
    answers.write(json.dumps({"devices": len(jax.devices())}) + "\n")
    for line in sys.stdin:
        command = json.loads(line)
        if peer:
            # Every process does the same number of calls: those that fit if nothing is lost.
            steps = work.kinds[command["kind"]][1]
            answers.write(json.dumps(calls_of(work, steps=steps, **command)) + "\n")
        else:
            command["lasts_ns"] += number
            answers.write(json.dumps(keep_busy(work, **command)) + "\n")


def calls_of(work: Work, kind: str, lasts_ns: int, seconds: float, ahead: int, steps: int) -> dict[str, Any]:
    """As `keep_busy`, by number of calls: processes that stop by their own clocks would wait for one another for ever."""
    function, _ = work.kinds[kind]
    lasts = work.lasting(lasts_ns)
    calls = max(1, round(seconds * 1e9 / (lasts_ns * steps)))
    waiting: deque[Any] = deque()
    x = work.spread
    began_ns = time.monotonic_ns()
    for _ in range(calls):
        x = function(x, lasts)
        waiting.append(x)
        if len(waiting) > ahead:
            waiting.popleft().block_until_ready()
    x.block_until_ready()
    ended_ns = time.monotonic_ns()
    value = float(np.asarray(x.addressable_shards[0].data)[0])
    return {"steps": calls * steps, "value": value, "began_ns": began_ns, "ended_ns": ended_ns}


if __name__ == "__main__":
    main()
