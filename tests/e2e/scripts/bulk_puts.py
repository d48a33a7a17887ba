"""What `pw.put` makes, against NumPy: every function is one check, its name a sentence; prints `ok NAME` for each.

On two islands of one host with four devices.
"""

from __future__ import annotations

import resource
import sys
import threading
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pathways as pw
from bulk_reads import DEVICES, MIB, error_of, values
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from pathways import _plugin


def same(array: Any, wanted: np.ndarray[Any, Any], sharding: Any) -> None:
    """As `device_put` makes it: the same bits in every shard, read by JAX alone."""
    assert isinstance(array, jax.Array)
    assert (array.shape, array.dtype) == (wanted.shape, wanted.dtype)
    assert array.sharding == sharding, (array.sharding, sharding)
    assert array.committed
    for shard in array.addressable_shards:
        assert np.asarray(shard.data).tobytes() == np.ascontiguousarray(wanted[shard.index]).tobytes()


def put_count() -> int:
    bulk = _plugin.bulk()
    assert bulk is not None
    return bulk.put_count


def every_type_is_put_bit_by_bit() -> None:
    types = [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.bool_, np.complex64, np.uint8, np.int16]
    tree = {str(np.dtype(dtype)): values(dtype, 3, MIB // 2) for dtype in types}
    made = pw.put(tree, DEVICES[3])
    for name, data in tree.items():
        same(made[name], data, SingleDeviceSharding(DEVICES[3]))
    assert put_count() == len(types)


def every_sharding_is_cut_and_spread() -> None:
    mesh = Mesh(DEVICES.reshape(2, 2), ("x", "y"))
    data = values(np.float32, 8, 16, 4096)
    specs = [P("x"), P(("x", "y")), P("y", "x"), P(None, "x"), P(None, None, ("y", "x")), P("x", None, "y"), P(), P(None, "y")]
    shardings = [NamedSharding(mesh, spec) for spec in specs]
    for array, sharding in zip(pw.put([data] * len(specs), shardings), shardings, strict=True):
        same(array, data, sharding)
    transposed = data.transpose(2, 0, 1)[:, ::-1]
    same(pw.put(transposed, shardings[0]), transposed, shardings[0])
    assert put_count() == len(specs) + 1


def what_was_put_may_be_changed_at_once_and_computed_with() -> None:
    sharding = NamedSharding(Mesh(DEVICES, "x"), P("x"))
    step = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)
    data = np.arange(8 * MIB, dtype=np.float32)
    results = []
    for turn in range(6):
        data[:] = turn + np.arange(8 * MIB, dtype=np.float32) % 1000
        results.append(step(pw.put(data, sharding)))
        data[:] = -1
    for turn, result in enumerate(results):
        wanted = (turn + np.arange(8 * MIB, dtype=np.float32) % 1000) * 2 + 1
        np.testing.assert_array_equal(pw.fetch(result), wanted)
    assert put_count() == 6


def small_and_foreign_leaves_go_as_jax_puts_them() -> None:
    device = SingleDeviceSharding(DEVICES[1])
    small = np.arange(5)
    moved = jax.device_put(np.arange(MIB, dtype=np.int32), DEVICES[0])
    tree = [np.float32(2), small, 7, jax.numpy.ones(3), moved, np.zeros((0, 4), np.float32)]
    made = pw.put(tree, [device] * len(tree))
    small[:] = 0
    wanted = [np.float32(2), np.arange(5), 7, np.ones(3, np.float32), np.arange(MIB), np.zeros((0, 4), np.float32)]
    for array, value in zip(made, wanted, strict=True):
        assert array.sharding == device
        np.testing.assert_array_equal(np.asarray(array), value)
    wide = np.arange(MIB, dtype=np.int64)
    same(pw.put(wide, DEVICES[1]), wide.astype(np.int32), device)
    assert put_count() == 1, "only the last one is host data and large"


def threads_put_at_once() -> None:
    datas = [values(np.uint8, MIB + 4096 * at) for at in range(8)]
    found: list[list[Any]] = [[] for _ in datas]

    def work(at: int) -> None:
        for _ in range(4):
            found[at].append(pw.put(datas[at], DEVICES[at % 4]))

    threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for at, data in enumerate(datas):
        for array in found[at]:
            same(array, data, SingleDeviceSharding(DEVICES[at % 4]))
    assert put_count() == 32


def shardings_that_do_not_fit_raise_what_jax_raises() -> None:
    sharding = NamedSharding(Mesh(DEVICES, "x"), P("x"))
    odd = values(np.uint8, MIB + 1)
    expected, found = error_of(lambda: jax.device_put(odd, sharding)), error_of(lambda: pw.put(odd, sharding))
    assert (type(found), str(found)) == (type(expected), str(expected))
    assert isinstance(error_of(lambda: pw.put(odd, "x")), TypeError)
    assert put_count() == 0


def without_memory_it_goes_the_other_way() -> None:
    bulk = _plugin.bulk()
    assert bulk is not None
    bulk.close()  # what it keeps would do
    data = values(np.uint8, MIB + 1)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        array = pw.put(data, DEVICES[2])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    same(array, data, SingleDeviceSharding(DEVICES[2]))
    assert put_count() == 0


def main() -> None:
    for check in (
        every_type_is_put_bit_by_bit, every_sharding_is_cut_and_spread, what_was_put_may_be_changed_at_once_and_computed_with,
        small_and_foreign_leaves_go_as_jax_puts_them, threads_put_at_once, shardings_that_do_not_fit_raise_what_jax_raises,
        without_memory_it_goes_the_other_way,
    ):  # fmt: skip
        _plugin.bulk().put_count = 0  # type: ignore[union-attr]
        check()
        print("ok", check.__name__, flush=True)


if __name__ == "__main__":
    sys.exit(main())
