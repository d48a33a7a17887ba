"""Gangs over all hosts until one fails, and then until one works again: one JSON command per line, JSON answers on the way.

A command is `{"lost_bytes": n, "kept_bytes": n, "executables": n}`: arrays that are held while that happens, over all hosts or on
the first alone, and programs that have run. It answers `running`, `failed` with what the typed error says and when, `again` when
a gang compiled before has run, and `all_again` when every executable has run again and what the first host had was used.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

AHEAD = 8
# What a fault may cost; anything else does not pass by itself.
LOSSES = (pw.errors.SliceLostError, pw.errors.BufferLostError, pw.errors.UnavailableError)
COUNT = jax.device_count()
ROWS = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
_made: list[Callable[[Any], Any]] = []


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def ones() -> jax.Array:
    return jax.device_put(np.ones(COUNT, np.float32), ROWS)


total = jax.jit(lambda x: x + x.sum(), in_shardings=ROWS, out_shardings=ROWS)


def executables(count: int) -> list[Callable[[Any], Any]]:
    """So many different programs, each of which has run once."""
    while len(_made) < count:
        number = len(_made) + 1
        _made.append(jax.jit(lambda x, number=number: x * number + x.sum(), in_shardings=ROWS, out_shardings=ROWS))
        check(number - 1)
    return _made[:count]


def check(index: int) -> None:
    got = np.asarray(_made[index](ones())).tolist()
    if got != [float(index + 1 + COUNT)] * COUNT:
        raise SystemExit(f"program {index + 1} gave {got}, which is wrong")


def until_it_works(step: Callable[[], Any]) -> None:
    while True:
        try:
            step()
            return
        except jax.errors.JaxRuntimeError as error:
            if not isinstance(pw.errors.of(error), LOSSES):
                raise
            time.sleep(0.02)


def gang() -> None:
    got = np.asarray(total(ones())).tolist()
    if got != [1.0 + COUNT] * COUNT:
        raise SystemExit(f"a gang gave {got}, which is wrong")


def measure(lost_bytes: int, kept_bytes: int, executables_count: int) -> None:
    """One fault, whatever it is."""
    programs = executables(executables_count)
    for index in range(len(programs)):
        check(index)
    lost = jax.jit(lambda: jnp.ones((COUNT, lost_bytes // COUNT // 4), jnp.int32), out_shardings=ROWS)()
    kept = jax.jit(lambda: jnp.ones(kept_bytes // 4, jnp.int32), out_shardings=SingleDeviceSharding(jax.devices()[0]))()
    jax.block_until_ready([lost, kept])
    gang()
    under_way: deque[jax.Array] = deque()
    running = False
    try:
        while True:
            under_way.append(total(ones()))
            if len(under_way) == AHEAD:
                under_way.popleft().block_until_ready()
                if not running:  # from now on something is always under way
                    running = True
                    tell(running=True)
    except jax.errors.JaxRuntimeError as error:
        failed_s = time.time()
        typed = pw.errors.of(error)
        tell(failed=type(typed).__name__, host=typed.host, message=str(typed), at_s=failed_s)
    until_it_works(gang)
    tell(again=True, at_s=time.time())
    for index in range(len(programs)):
        until_it_works(lambda index=index: check(index))
    if kept_bytes and int(jnp.sum(kept)) != kept_bytes // 4:
        raise SystemExit("what was kept has other values")
    tell(all_again=True, at_s=time.time())


def main() -> None:
    gang()
    tell(ready=True)
    for line in sys.stdin:
        command = json.loads(line)
        measure(command["lost_bytes"], command["kept_bytes"], command["executables"])


if __name__ == "__main__":
    main()
