"""`pw.fetch` and `pw.put` of a client whose workers are on no machine of its own: bytes come and go as streams.

Prints `ok`, or fails. Expected values are NumPy's.
"""

from __future__ import annotations

import contextlib

import jax
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from pathways import _plugin

MIB = 1 << 20
DEVICES = np.array(jax.devices())


def main() -> None:
    data = np.frombuffer(np.random.default_rng(3).bytes(4 * MIB), np.uint8).reshape(4, 2, -1)
    mesh = Mesh(DEVICES.reshape(2, 2), ("x", "y"))
    shardings = [NamedSharding(mesh, spec) for spec in (P("x"), P(), P("x", "y"), P(None, None, "y"))]
    put = pw.put([data] * 4, shardings)
    for array, sharding in zip(put, shardings, strict=True):
        assert array.sharding == sharding
        np.testing.assert_array_equal(np.asarray(array), data)
    for got in pw.fetch(put):
        np.testing.assert_array_equal(got, data)
    bulk = _plugin.bulk()
    assert bulk is not None
    assert (bulk.put_count, bulk.read_count) == (4, 4)
    with contextlib.suppress(RuntimeError):
        pw.fetch([array.delete() or array for array in put])
        raise AssertionError("they are deleted")
    print("ok")


if __name__ == "__main__":
    main()
