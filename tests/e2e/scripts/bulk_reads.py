"""What `pw.fetch` gives, against NumPy: every function is one check, its name a sentence; prints `ok NAME` for each.

On two islands of one host with four devices.
"""

from __future__ import annotations

import contextlib
import resource
import sys
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from pathways import _plugin

ISLANDS = np.array(jax.devices()).reshape(2, 4)
DEVICES = ISLANDS[0]
RNG = np.random.default_rng(7)
MIB = 1 << 20


def values(dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
    """Random bytes seen as this type; of types that have no byte of their own, random values."""
    if np.dtype(dtype) in (np.dtype(bool), np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)):
        return RNG.integers(0, 2 if np.dtype(dtype) == bool else 7, shape).astype(dtype)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(RNG.bytes(size), np.uint8).view(dtype).reshape(shape)


def same(got: Any, wanted: np.ndarray[Any, Any]) -> None:
    assert type(got) is np.ndarray, type(got)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), (got.shape, got.dtype)
    assert got.tobytes() == wanted.tobytes()


def error_of(work: Callable[[], object]) -> Exception:
    try:
        work()
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


def through_memory(count: int) -> None:
    """So many segments were made or used again since the last time."""
    reads = _plugin.bulk()
    assert reads is not None
    assert reads.read_count - through_memory.before == count, (reads.read_count, through_memory.before)  # type: ignore[attr-defined]
    through_memory.before = reads.read_count  # type: ignore[attr-defined]


through_memory.before = 0  # type: ignore[attr-defined]


def every_type_comes_bit_by_bit() -> None:
    types = [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.bool_, np.complex64, np.uint8, np.int16]
    wanted = {str(np.dtype(dtype)): values(dtype, 3, MIB // 2) for dtype in types}
    got = pw.fetch({name: jax.device_put(data, DEVICES[at % 4]) for at, (name, data) in enumerate(wanted.items())})
    assert got.keys() == wanted.keys()
    for name, data in wanted.items():
        same(got[name], data)
    through_memory(len(types))


def every_sharding_comes_as_one_array() -> None:
    mesh = Mesh(DEVICES.reshape(2, 2), ("x", "y"))
    data = values(np.float32, 8, 16, 4096)
    specs = [P("x"), P(("x", "y")), P("y", "x"), P(None, "x"), P(None, None, ("y", "x")), P("x", None, "y"), P(), P(None, "y")]
    arrays = [jax.device_put(data, NamedSharding(mesh, spec)) for spec in specs]
    for got in pw.fetch(arrays):
        same(got, data)
    through_memory(len(specs))


def arrays_over_islands_come_as_one_array() -> None:
    data = values(np.float32, 8, MIB)
    mesh = Mesh(ISLANDS[:, 1], "x")
    cut, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    halves = [jax.device_put(data[:4], ISLANDS[0, 1]), jax.device_put(data[4:], ISLANDS[1, 1])]
    copies = [jax.device_put(data, device) for device in ISLANDS[:, 1]]
    arrays = [
        jax.make_array_from_single_device_arrays(data.shape, cut, halves),
        jax.make_array_from_single_device_arrays(data.shape, whole, copies),
    ]
    for got in pw.fetch(arrays):
        same(got, data)
    through_memory(2)


def small_and_foreign_leaves_are_given_to_numpy() -> None:
    mine = values(np.float32, 3)
    tree = {
        "scalar": jnp.float32(2.5), "none": jax.device_put(np.zeros((0, 5), np.int8)), "numpy": mine, "python": 3,
        "sharded": jax.device_put(np.arange(8), NamedSharding(Mesh(DEVICES, "x"), P("x"))),
        "local": jax.device_put(np.arange(MIB), jax.local_devices(backend="cpu")[0]),
        "nothing": None,
    }  # fmt: skip
    got = pw.fetch(tree)
    same(got["scalar"], np.float32(2.5).reshape(()))
    same(got["none"], np.zeros((0, 5), np.int8))
    assert got["numpy"] is mine
    assert int(got["python"]) == 3
    same(got["sharded"], np.arange(8, dtype=np.int32))
    same(got["local"], np.arange(MIB, dtype=np.int32))
    assert got["nothing"] is None
    assert pw.fetch([]) == []
    through_memory(0)


def what_is_fetched_is_the_callers() -> None:
    data = values(np.uint8, MIB)
    array = jax.device_put(data)
    first = pw.fetch(array)
    first[:] = 0
    second = pw.fetch(array)
    same(second, data)
    view = second[5:]
    del first, second
    third, fourth = pw.fetch([array, array])
    third[:] = 1
    same(view, data[5:])
    same(fourth, data)
    through_memory(4)


def computed_values_are_waited_for_and_later_donations_change_nothing() -> None:
    step = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)
    data = np.arange(MIB, dtype=np.float32)
    wanted, x = data, jax.device_put(data, NamedSharding(Mesh(DEVICES[:2], "x"), P("x")))
    for _ in range(5):
        wanted, x = wanted * 2 + 1, step(x)
        got = pw.fetch(x)
        x = step(x)
        same(got, wanted)
        wanted = wanted * 2 + 1
    through_memory(5)


def threads_read_at_once() -> None:
    datas = [values(np.uint8, MIB + 4096 * at) for at in range(8)]
    arrays = [jax.device_put(data, DEVICES[at % 4]) for at, data in enumerate(datas)]
    found: list[list[Any]] = [[] for _ in datas]

    def read(at: int) -> None:
        for _ in range(4):
            found[at].append(pw.fetch(arrays[at]))

    threads = [threading.Thread(target=read, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for data, gots in zip(datas, found, strict=True):
        assert len(gots) == 4
        for got in gots:
            same(got, data)
    through_memory(32)


def more_arrays_than_fit_one_call_come() -> None:
    datas = [values(np.uint8, MIB) for _ in range(40)]
    for got, data in zip(pw.fetch([jax.device_put(data) for data in datas]), datas, strict=True):
        same(got, data)
    through_memory(40)


def deleted_arrays_raise_what_jax_raises() -> None:
    array = jax.device_put(np.zeros(MIB, np.float32))
    array.delete()
    expected = error_of(lambda: np.asarray(array))
    found = error_of(lambda: pw.fetch([np.zeros(3), array]))
    assert (type(found), str(found)) == (type(expected), str(expected))
    through_memory(0)


def failed_values_raise_their_cause() -> None:
    def bad(_: Any) -> Any:
        raise KeyError("nobody")

    for size in (4, MIB):
        shape = jax.ShapeDtypeStruct((size,), np.float32)
        result = jax.jit(lambda x, shape=shape: jax.pure_callback(bad, shape, x) + 1)(np.float32(1))
        with contextlib.suppress(Exception):
            jax.block_until_ready(result)
        error = error_of(lambda result=result: pw.fetch(result))  # type: ignore[misc]
        assert isinstance(error, pw.errors.UserError), repr(error)
        assert "KeyError: 'nobody'" in str(error)
    good = values(np.uint8, MIB)
    same(pw.fetch(jax.device_put(good)), good)


def keys_are_refused_as_by_jax() -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    assert type(error_of(lambda: pw.fetch(keys))) is type(error_of(lambda: np.asarray(keys)))


def without_memory_it_goes_the_other_way() -> None:
    reads = _plugin.bulk()
    assert reads is not None
    reads.close()  # what it keeps would do
    data = values(np.uint8, MIB + 1)
    array = jax.device_put(data)
    before = reads.read_count
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        got = pw.fetch(array)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    same(got, data)
    assert reads.read_count == before
    got[:] = 0


def main() -> None:
    for check in (
        every_type_comes_bit_by_bit, every_sharding_comes_as_one_array, arrays_over_islands_come_as_one_array,
        small_and_foreign_leaves_are_given_to_numpy, what_is_fetched_is_the_callers,
        computed_values_are_waited_for_and_later_donations_change_nothing, threads_read_at_once,
        more_arrays_than_fit_one_call_come, deleted_arrays_raise_what_jax_raises, failed_values_raise_their_cause,
        keys_are_refused_as_by_jax, without_memory_it_goes_the_other_way,
    ):  # fmt: skip
        through_memory.before = _plugin.bulk().read_count  # type: ignore[attr-defined,union-attr]
        check()
        print("ok", check.__name__, flush=True)


if __name__ == "__main__":
    sys.exit(main())
