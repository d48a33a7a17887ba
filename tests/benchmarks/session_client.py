"""The measured program of long sessions: one JSON command per line, one JSON answer each; stock JAX, on a cluster or locally.

{"what": "dispatches" | "dropped" | "kept" | "forget" | "arrays" | "read" | "drop", "count": N} does so much more of it; `value`
is how much of it had the value that arithmetic gives. Programs differ from all before by two constants, which no other has.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Few are in flight: the stock client starts a thread for each answer that finds no idle one.
AWAITED_EVERY = 100
# Of float32, one KiB: an array of every session, not of its data.
ELEMENTS = 256


def program(number: int) -> Callable[[Any], Any]:
    """x * number + number / 2, exact in float32 for x = 2 and numbers below a million."""
    return jax.jit(lambda x: x * float(number) + number / 2)


class Session:
    """One client for all that is asked, as a notebook would be."""

    def __init__(self) -> None:
        self._add = jax.jit(lambda x: x + 1)
        self._fill = jax.jit(lambda x: jnp.full((ELEMENTS,), 1.0, jnp.float32) * x)
        self._count = 0
        self._x = self._add(jnp.int32(-1))
        self._two = jnp.float32(2)
        self._programs = 0
        self._kept: list[Callable[[Any], Any]] = []
        self._arrays: list[Any] = []

    def dispatches(self, count: int) -> int:
        before = self._count
        for _ in range(count):
            self._count += 1
            self._x = self._add(self._x)
            if self._count % AWAITED_EVERY == 0:
                self._x.block_until_ready()
        return int(self._x) - before

    def _run(self, compiled: Callable[[Any], Any], number: int) -> bool:
        return float(compiled(self._two)) == 2.5 * number

    def dropped(self, count: int) -> int:
        right = 0
        for _ in range(count):
            self._programs += 1
            right += self._run(program(self._programs), self._programs)
        return right

    def kept(self, count: int) -> int:
        right = 0
        for _ in range(count):
            self._programs += 1
            self._kept.append(program(self._programs))
            right += self._run(self._kept[-1], self._programs)
        return right

    def forget(self, count: int) -> int:
        """Drops the kept programs, as many as there are."""
        assert count == len(self._kept)
        self._kept.clear()
        self._forget()
        return count

    def _forget(self) -> None:
        self._x.block_until_ready()
        jax.clear_caches()
        gc.collect()

    def arrays(self, count: int) -> int:
        """Every other one is put, every other one computed."""
        for _ in range(count):
            number = len(self._arrays)
            host = np.full(ELEMENTS, number, np.float32)
            self._arrays.append(jax.device_put(host) if number % 2 else self._fill(jnp.float32(number)))
        jax.block_until_ready(self._arrays[-count:])
        return count

    def read(self, count: int) -> int:
        assert count == len(self._arrays)
        return sum(bool((np.asarray(array) == number).all()) for number, array in enumerate(self._arrays))

    def drop(self, count: int) -> int:
        assert count == len(self._arrays)
        self._arrays.clear()
        self._forget()
        return count


def main() -> None:
    session = Session()
    print(json.dumps({"devices": jax.device_count()}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        began_s = time.perf_counter()
        value = getattr(session, command["what"])(command["count"])
        print(json.dumps({"value": value, "seconds": time.perf_counter() - began_s}), flush=True)


if __name__ == "__main__":
    main()
