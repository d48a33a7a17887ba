"""The measured program of bulk data: one JSON command per line, one JSON answer each; `local` beside it: plain JAX, no cluster.

{"what": "put" | "fetch" | "device_put" | "asarray" | "move", "size": BYTES, "lies": "one" | "sharded" | "replicated", "count": N}
gives the seconds of each of N turns, to the bytes being there; every value is compared outside of the time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P


class Moves:
    """Host data of each size, changed every time, and where it is to lie."""

    def __init__(self) -> None:
        self.devices = jax.devices()
        # Of the first island.
        mesh = Mesh(np.array(self.devices[:2]), ("x",))
        self._lies = {
            "one": SingleDeviceSharding(self.devices[0]),
            "sharded": NamedSharding(mesh, P("x")),
            "replicated": NamedSharding(mesh, P()),
        }
        self._data: dict[int, np.ndarray[Any, Any]] = {}

    def measure(self, what: str, size: int, lies: str, count: int, **_: Any) -> dict[str, Any]:
        """`times_s` of each turn; `value` counts the turns whose bytes were right."""
        data = self._data.setdefault(size, np.arange(size // 4, dtype=np.float32))
        turn = getattr(self, f"_{what}")
        times_s, right = [], 0
        for _ in range(count):
            data[::4096] += 1
            seconds, found = turn(data, self._lies[lies])
            times_s.append(seconds)
            right += bool(np.array_equal(found, data))
            del found
        return {"times_s": times_s, "seconds": sum(times_s), "value": right}

    def _to(self, put: Callable[[Any, Any], Any], data: Any, sharding: Any) -> tuple[float, Any]:
        began_s = time.perf_counter()
        array = jax.block_until_ready(put(data, sharding))
        return time.perf_counter() - began_s, self._read(array)

    def _from(self, read: Callable[[Any], Any], data: Any, sharding: Any) -> tuple[float, Any]:
        # What a computation gave: JAX may still have the host's memory of what was put.
        array = jax.block_until_ready(jax.jit(lambda x: x + 0, out_shardings=sharding)(jax.device_put(data, sharding)))
        began_s = time.perf_counter()
        found = read(array)
        return time.perf_counter() - began_s, found

    def _read(self, array: Any) -> Any:
        return np.asarray(array)

    def _device_put(self, data: Any, sharding: Any) -> tuple[float, Any]:
        return self._to(jax.device_put, data, sharding)

    def _asarray(self, data: Any, sharding: Any) -> tuple[float, Any]:
        return self._from(np.asarray, data, sharding)


class ClusterMoves(Moves):
    """What only the cluster has."""

    def _read(self, array: Any) -> Any:
        import pathways as pw

        return pw.fetch(array)

    def _put(self, data: Any, sharding: Any) -> tuple[float, Any]:
        import pathways as pw

        return self._to(pw.put, data, sharding)

    def _fetch(self, data: Any, sharding: Any) -> tuple[float, Any]:
        import pathways as pw

        array = jax.block_until_ready(pw.put(data, sharding))
        began_s = time.perf_counter()
        found = pw.fetch(array)
        return time.perf_counter() - began_s, found

    def _move(self, data: Any, _sharding: Any) -> tuple[float, Any]:
        """From the first island to the last."""
        import pathways as pw

        array = jax.block_until_ready(pw.put(data, self.devices[0]))
        began_s = time.perf_counter()
        moved = jax.block_until_ready(pw.reshard(array, self.devices[-1]))
        return time.perf_counter() - began_s, pw.fetch(moved)


def main() -> None:
    moves = Moves() if sys.argv[1:] == ["local"] else ClusterMoves()
    print(json.dumps({"devices": len(moves.devices)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(moves.measure(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
