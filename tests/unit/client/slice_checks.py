"""Checks of virtual slices that run in a process of their own against the address in the first argument. Prints JSON.

Expected values are arithmetic; the test holds them.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pathways as pw


def error_of(work: Callable[[], object]) -> tuple[str, str]:
    try:
        work()
    except Exception as error:
        found = pw.errors.of(error)
        return type(found).__name__, str(found)
    return "", "it did not fail"


def paper(np: Any, jax: Any) -> list[list[float]]:
    devices = [pw.make_virtual_device_set().add_slice(tpu_devices=2).tpus for _ in range(3)]
    a = jax.pmap(lambda x: x * 2.0, devices=devices[0])
    b = jax.pmap(lambda x: x + 1.0, devices=devices[1])
    c = jax.pmap(lambda x: x / 2.0, devices=devices[2])
    x = a(np.array([1.0, 2.0]))
    return [np.asarray(b(x)).tolist(), np.asarray(a(c(x))).tolist()]


def one(number: int, np: Any, jax: Any) -> float:
    from jax.sharding import NamedSharding, PartitionSpec

    with pw.make_virtual_device_set() as device_set:
        added = device_set.add_slice(mesh_shape=(2,))
        values = jax.device_put(np.full(8, number, np.float32), NamedSharding(added.mesh("x"), PartitionSpec("x")))
        return float(jax.jit(lambda x: (x * 2).sum())(values))


def main() -> None:
    said: dict[str, Any] = {}
    device_set = pw.make_virtual_device_set()
    said["unconnected"] = error_of(lambda: device_set.add_slice(devices=1))
    with pw.connect(sys.argv[1]) as connection:
        import jax
        import numpy as np

        said["devices"] = [jax.device_count(), jax.local_device_count(), connection.device_count]
        said["paper"] = paper(np, jax)
        said["one after another"] = [one(number, np, jax) for number in range(6)]
        added = device_set.add_slice(devices=2)
        said["slice"] = [len(added.devices), added.island, added.hosts, repr(added), added.mesh(("x",)).shape["x"]]
        held = jax.device_put(np.zeros(2, np.float32), added.devices[0])
        added.release()
        added.release()
        said["released"] = [added.released, repr(added)]
        said["used after release"] = error_of(lambda: np.asarray(jax.device_put(np.ones(2), added.devices[0]) + 1))
        del held
        said["never"] = error_of(lambda: device_set.add_slice(devices=99))
        logging.basicConfig(stream=sys.stderr, format="%(message)s")
        said["waited"] = error_of(lambda: device_set.add_slice(devices=2, wait=True, timeout=1))
        said["near"] = error_of(lambda: device_set.add_slice(devices=1, near=[added]))
        with ThreadPoolExecutor(2) as threads:
            said["threads"] = list(threads.map(lambda number: one(number, np, jax), range(2)))
        last = device_set.add_slice(devices=1)
    said["closed"] = [last.released, error_of(lambda: device_set.add_slice(devices=1))[0]]
    last.release()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
