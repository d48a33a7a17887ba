"""The measured program, the same for the cluster and for multi-controller JAX: one JSON command per line, one JSON answer each.

A gang step is an all-reduce of a scalar over all devices and an addition, its output fed to the next; a call is an addition on
one device. A timed step is a gang step that then takes emulated device time. `--peer RANK COUNT PORT LIBRARY` makes this process
one of COUNT controllers over gloo instead of a client; `split-threads` behind it places its threads apart. What only the cluster
has, chains of 128 nodes, runs step by step there.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks import placed_threads
from tests.benchmarks.emulator import device_time

NODES = 128


class Steps:
    """What a side can run, by name: a function of an array and how many steps one call of it is. Compiled when first used."""

    def __init__(self, peer: bool) -> None:
        devices = jax.devices()
        self.devices = len(devices)
        self._peer = peer
        self._rows = NamedSharding(Mesh(np.array(devices), ("x",)), P("x"))
        self._spread = jax.make_array_from_callback((self.devices,), self._rows, lambda _: np.zeros(1, np.float32))
        self._single = jax.device_put(np.zeros(1, np.float32), jax.local_devices()[0])
        self._gang = self._over_all(lambda x: self._step(x))
        self._call = jax.jit(lambda x: x + 1)
        timed = jax.shard_map(
            lambda x, lasts: device_time.busy(self._step(x), lasts),
            mesh=self._rows.mesh,
            in_specs=(P("x"), P()),
            out_specs=P("x"),
            check_vma=False,
        )
        self._timed = jax.jit(timed)
        self._lasts = self._duration(0)
        counter = jax.shard_map(device_time.busy_us, mesh=self._rows.mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
        self._busy = jax.jit(counter)

    def _step(self, x: Any) -> Any:
        return jax.lax.psum(x, "x") / self.devices + 1

    def _many(self, x: Any) -> Any:
        for _ in range(NODES):
            x = self._step(x)
        return x

    def _over_all(self, function: Callable[[Any], Any]) -> Any:
        return jax.jit(jax.shard_map(function, mesh=self._rows.mesh, in_specs=P("x"), out_specs=P("x")))

    def _duration(self, lasts_ns: int) -> Any:
        everywhere = NamedSharding(self._rows.mesh, P())
        return jax.make_array_from_callback((1,), everywhere, lambda _: np.array([lasts_ns], np.uint32))

    @functools.cache  # noqa: B019 - one object per process
    def kind(self, what: str) -> tuple[Callable[[Any], Any], int, Any]:
        """The function, the steps of one call, and what the first call gets; has run once."""
        if what == "call":
            found = self._call, 1, self._single
        elif what == "fused":
            many = self._over_all(self._many)
            found = (many if self._peer else _program(lambda x: many(x), fuse=False)), NODES, self._spread
        elif what == "gang" or (self._peer and what in ("chain", "chain_fused")):
            found = self._gang, 1, self._spread
        elif what == "timed" or (self._peer and what == "timed_chain"):
            found = (lambda x: self._timed(x, self._lasts)), 1, self._spread
        elif what == "timed_chain":
            chain = _program(self._timed_chain, fuse=False)
            found = (lambda x: chain(x, self._lasts)), NODES, self._spread
        elif what in ("chain", "chain_fused"):
            found = _program(self._chain, fuse=what == "chain_fused"), NODES, self._spread
        else:
            raise SystemExit(f"there is nothing to measure under the name {what!r}")
        function, _, x = found
        for _ in range(3):
            x = function(x)
        x.block_until_ready()
        if what == "chain_fused" and not self._peer:
            _wait_until_fused()
        return found

    def _chain(self, x: Any) -> Any:
        for _ in range(NODES):
            x = self._gang(x)
        return x

    def _timed_chain(self, x: Any, lasts: Any) -> Any:
        for _ in range(NODES):
            x = self._timed(x, lasts)
        return x

    def has(self, what: str) -> bool:
        """Whether this build of the cluster's client can run it."""
        return what != "chain_fused" or self._peer or _can_fuse()

    def measure(self, what: str, count: int, awaited: bool, lasts_ns: int = 0) -> dict[str, Any]:
        """`seconds` for `count` chained steps, to the end of the last; `count` is a multiple of the steps of a call.

        `call_us`: how long the calls took to return; dispatch only, so no rate. With `awaited` each call is waited for,
        and `latencies_us` lists them. `lasts_ns`: the device time asked of a timed step; `busy_us` is what it really was, on
        the first device.
        """
        timed = what.startswith("timed")
        if timed:
            self._lasts = self._duration(lasts_ns)
            busy_before_us = self._busy_us()
        function, steps, x = self.kind(what)
        assert count % steps == 0, f"{count} is no multiple of {steps} steps"
        clock = time.perf_counter_ns
        returned_ns, ready_ns = [], []
        started_ns = clock()
        for _ in range(count // steps):
            before_ns = clock()
            x = function(x)
            returned_ns.append(clock() - before_ns)
            if awaited:
                x.block_until_ready()
                ready_ns.append(clock() - before_ns)
        x.block_until_ready()
        seconds = 1e-9 * (clock() - started_ns)
        value = float(np.asarray(x.addressable_shards[0].data)[0])
        call_us = float(np.median(returned_ns)) / 1000
        answer = {"seconds": seconds, "latencies_us": [ns / 1000 for ns in ready_ns], "value": value, "call_us": call_us}
        if timed:
            answer["busy_us"] = (self._busy_us() - busy_before_us) % 2**32 / count
        return answer

    def _busy_us(self) -> int:
        return int(np.asarray(self._busy(self._spread).addressable_shards[0].data)[0])


def _program(function: Callable[[Any], Any], fuse: bool) -> Any:
    import pathways as pw

    return pw.program(function, fuse=fuse) if _can_fuse() else pw.program(function)


def _wait_until_fused() -> None:
    """A program is fused in the background, after its second run."""
    from pathways import _fusing

    if not _fusing.settle(120):
        raise SystemExit("the chain was not fused within two minutes; see the client's log")


def _can_fuse() -> bool:
    import pathways as pw

    return "fuse" in inspect.signature(pw.program).parameters


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", 1)
    os.dup2(2, 1)  # gloo writes on descriptor 1
    peer = sys.argv[1:2] == ["--peer"]
    if peer:
        rank, count, port = (int(word) for word in sys.argv[2:5])
        device_time.register(sys.argv[5])
        address = f"127.0.0.1:{port}"
        jax.distributed.initialize(address, count, rank, coordinator_bind_address=address if rank == 0 else None)
        if placed_threads.PEER_WORD in sys.argv[6:]:
            placed_threads.place_peer()
    else:
        import pathways as pw

        pw.connect()
    steps = Steps(peer)
    answers.write(json.dumps({"devices": steps.devices, "jax": jax.__version__, "fuses": steps.has("chain_fused")}) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(steps.measure(**json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
