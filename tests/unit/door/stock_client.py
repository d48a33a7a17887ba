"""Plain JAX checks that run in a stock client process against a door; every function is one check, its name a sentence.

Prints one JSON line per check. Expected values are NumPy's or arithmetic.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import xla_bridge
from jax.experimental import colocated_python
from jax.extend.backend import ifrt_proxy, register_backend_factory
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P


def _make() -> object:
    options = ifrt_proxy.ClientConnectionOptions()
    options.connection_timeout_in_seconds = int(os.environ.get("DOOR_TIMEOUT_S", "20"))
    options.initialization_data = {"pathways_door_secret": os.environ["DOOR_SECRET"].encode()}
    return ifrt_proxy.get_client(jax.config.read("jax_backend_target"), options)


def _mesh(*shape: int) -> Mesh:
    return Mesh(np.array(jax.devices()).reshape(shape), tuple("xyz"[: len(shape)]))


def _error_of(work: Callable[[], object]) -> str:
    try:
        work()
    except Exception as error:
        return str(error)
    raise AssertionError("it did not fail")


def devices_are_one_process_with_hosts_and_slices() -> None:
    assert len(jax.devices()) == 4
    assert jax.process_count() == 1
    assert [d.host_name for d in jax.devices()] == ["a0", "a1", "a2", "a3"]
    assert {d.slice_index for d in jax.devices()} == {0}
    assert jax.devices()[0].client.runtime_type == "proxy/pathways"


def jit_computes_again_and_again() -> None:
    f = jax.jit(lambda x: x * 2 + 1)
    x = jnp.float32(1)
    for _ in range(20):
        x = f(x)
    assert float(x) == 2.0**21 - 1


def sharded_put_computes_and_fetches() -> None:
    mesh = _mesh(2, 2)
    data = np.arange(64.0).reshape(8, 8)
    for spec in (P("x", "y"), P("y", "x"), P(("x", "y")), P(None, "y"), P("x"), P()):
        x = jax.device_put(data, NamedSharding(mesh, spec))
        np.testing.assert_array_equal(np.asarray(x), data)
        y = jax.jit(lambda a: a @ a.T)(x)
        np.testing.assert_array_equal(np.asarray(y), data @ data.T)
        for shard in x.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), data[shard.index])


def large_arrays_take_the_bulk_path() -> None:
    data = np.random.default_rng(0).normal(size=(512, 1024)).astype(np.float32)
    x = jax.device_put(data, jax.devices()[1])
    np.testing.assert_array_equal(np.asarray(x), data)
    y = jax.device_put(data, NamedSharding(_mesh(4), P("x")))
    np.testing.assert_array_equal(np.asarray(y + 1), data + 1)


def strided_views_arrive_dense() -> None:
    data = np.arange(24, dtype=np.int32).reshape(4, 6)
    np.testing.assert_array_equal(np.asarray(jax.device_put(data[:, 1:3])), data[:, 1:3])
    np.testing.assert_array_equal(np.asarray(jax.device_put(data.T)), data.T)
    np.testing.assert_array_equal(np.asarray(jax.device_put(np.asfortranarray(data)) + 1), data + 1)


def all_element_types_survive_a_round_trip() -> None:
    names = "bool int8 int16 int32 uint8 uint16 uint32 float16 bfloat16 float32 complex64 float8_e5m2 float8_e4m3fn int4 uint4"
    for name in names.split():
        data = np.array([0, 1, 1, 0, 3], dtype=jnp.dtype(name)) if name != "bool" else np.array([True, False])
        x = jax.device_put(data)
        assert x.dtype == data.dtype, name
        np.testing.assert_array_equal(np.asarray(x), data, err_msg=name)


def strings_come_back_as_they_are() -> None:
    words = np.array([["ab", "ü"], ["", "long " * 1000]], dtype=np.dtypes.StringDType())
    for spec in (P(), P("x"), P(None, "x")):
        x = jax.device_put(words, NamedSharding(Mesh(np.array(jax.devices()[:2]), ("x",)), spec))
        assert np.asarray(x).tolist() == words.tolist()
    text = _error_of(lambda: np.asarray(jax.device_put(np.array(["x" * 70000], dtype=np.dtypes.StringDType()), jax.devices()[0])))
    assert "take more than 65532 bytes, the most there is; use an array of bytes" in text, text


def colocated_python_runs_on_its_devices() -> None:
    first, second = jax.devices()[2], jax.devices()[1]
    rows = NamedSharding(Mesh(np.array([first, second]), ("x",)), P("x"))
    turned = NamedSharding(Mesh(np.array([second, first]), ("x",)), P("x"))
    x = jax.device_put(np.arange(4, dtype=np.int32), rows)

    def halves(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.device_put(np.asarray(a) * 10, b.sharding), a + 1

    tens, more = colocated_python.colocated_python(halves)(x, x)
    assert (np.asarray(tens).tolist(), np.asarray(more).tolist()) == ([0, 10, 20, 30], [1, 2, 3, 4])
    # Arguments and results in another order than the function's devices.
    function = colocated_python.colocated_python(halves).specialize(devices=[first, second])
    y = jax.device_put(np.arange(4, dtype=np.int32) + 5, turned)
    tens, more = function(x, y)
    assert tens.sharding == turned
    assert [(shard.device, np.asarray(shard.data).tolist()) for shard in tens.addressable_shards] == [
        (second, [0, 10]), (first, [20, 30]),
    ]  # fmt: skip
    tens, more = function(y, x)
    assert (np.asarray(tens).tolist(), np.asarray(more).tolist()) == ([50, 60, 70, 80], [6, 7, 8, 9])
    assert np.asarray(jax.jit(lambda a: a.sum())(more)) == 30


def colocated_python_keeps_its_objects_and_raises() -> None:
    class Counter:
        def __init__(self, start: int) -> None:
            self.value = start

        def add(self, x: jax.Array) -> jax.Array:
            self.value += int(x)
            if self.value > 100:
                raise OverflowError("too much")
            return jax.device_put(np.int32(self.value), x.sharding)

    counter = colocated_python.colocated_python_class(Counter)(5)
    x = jax.device_put(np.int32(2), jax.devices()[3])
    assert [int(counter.add(x)) for _ in range(3)] == [7, 9, 11]
    text = _error_of(lambda: int(counter.add(x * 50)))
    assert "OverflowError: too much" in text, text


def many_small_puts_keep_their_order() -> None:
    f = jax.jit(lambda a, b: a * 3 + b)
    total = jnp.float32(0)
    expected = np.float32(0)
    for i in range(40):
        total = f(total, np.float32(i % 5))
        expected = np.float32(expected * np.float32(3) + np.float32(i % 5)) if i < 15 else expected
        if i == 14:
            assert float(total) == expected
    assert np.isfinite(float(total))


def donation_consumes_the_argument() -> None:
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jax.device_put(np.arange(8.0), NamedSharding(_mesh(4), P("x")))
    y = f(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(np.asarray(y), np.arange(8.0) + 1)
    assert "deleted" in _error_of(lambda: x + 1).lower()


def delete_ends_an_array() -> None:
    x = jnp.arange(4.0)
    x.delete()
    assert x.is_deleted()


def block_until_ready_waits_for_many() -> None:
    xs = [jnp.full((3,), i) for i in range(10)]
    jax.block_until_ready(xs)
    assert [int(x[0]) for x in xs] == list(range(10))


def parts_assemble_into_one_array() -> None:
    mesh = _mesh(4)
    parts = [jax.device_put(np.full((2,), float(i)), d) for i, d in enumerate(jax.devices())]
    x = jax.make_array_from_single_device_arrays((8,), NamedSharding(mesh, P("x")), parts)
    np.testing.assert_array_equal(np.asarray(x), np.repeat(np.arange(4.0), 2))
    y = jax.jit(lambda a: a * 2)(x)
    np.testing.assert_array_equal(np.asarray(y), np.repeat(np.arange(4.0), 2) * 2)
    again = [s.data for s in y.addressable_shards]
    z = jax.make_array_from_single_device_arrays((8,), NamedSharding(mesh, P("x")), again)
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda a: a + 1)(z)), np.repeat(np.arange(4.0), 2) * 2 + 1)
    one = jax.jit(lambda a: a + 1)(again[3])
    np.testing.assert_array_equal(np.asarray(one), [7.0, 7.0])


def device_put_moves_between_devices_and_memories() -> None:
    x = jnp.arange(6.0)
    y = jax.device_put(x, jax.devices()[3])
    assert y.devices() == {jax.devices()[3]}
    np.testing.assert_array_equal(np.asarray(y), np.arange(6.0))
    z = jax.device_put(x, SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host"))
    assert z.sharding.memory_kind == "pinned_host"
    np.testing.assert_array_equal(np.asarray(z), np.arange(6.0))


def device_put_reorders_the_same_devices() -> None:
    data = np.arange(8.0)
    x = jax.device_put(data, NamedSharding(_mesh(4), P("x")))
    turned = Mesh(np.array(jax.devices()[::-1]), ("x",))
    y = jax.device_put(x, NamedSharding(turned, P("x")))
    np.testing.assert_array_equal(np.asarray(y), data)
    z = jax.device_put(x, NamedSharding(_mesh(4), P()))
    np.testing.assert_array_equal(np.asarray(z), data)


def shard_map_and_pmap_reduce() -> None:
    mesh = _mesh(4)
    f = jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
    np.testing.assert_array_equal(np.asarray(f(np.arange(8.0))), np.arange(8.0).reshape(4, 2).sum(0))
    g = jax.pmap(lambda a: jax.lax.pmean(a, "i"), axis_name="i")
    np.testing.assert_array_equal(np.asarray(g(np.arange(4.0))), np.full(4, 1.5))


def grad_scan_and_keys_work() -> None:
    def step(carry: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return carry + 1, jax.random.normal(key, ())

    count, values = jax.lax.scan(step, jnp.int32(0), jax.random.split(jax.random.key(0), 5))
    assert int(count) == 5
    with jax.default_device(jax.devices("cpu")[0]):
        expected = jax.vmap(lambda k: jax.random.normal(k, ()))(jax.random.split(jax.random.key(0), 5))
    np.testing.assert_allclose(np.asarray(values), np.asarray(expected), rtol=1e-6)
    assert float(jax.grad(lambda x: x**3)(2.0)) == 12.0


def ahead_of_time_compiles_and_inspects() -> None:
    compiled = jax.jit(lambda x: x @ x).lower(jax.ShapeDtypeStruct((8, 8), np.float32)).compile()
    assert compiled.cost_analysis()["flops"] > 0
    assert "HloModule" in compiled.as_text()
    assert compiled.memory_analysis() is not None
    np.testing.assert_array_equal(np.asarray(compiled(np.eye(8, dtype=np.float32))), np.eye(8))


def fingerprints_name_the_executables() -> None:
    """Our client library finds an executable's number in it; JAX itself only writes it to its debugging log."""
    jax.config.update("jax_distributed_debug", True)
    numbers = []
    for factor in (2.0, 3.0):
        f = jax.jit(lambda x, factor=factor: x * factor)
        lowered = f.lower(jax.ShapeDtypeStruct((4,), np.float32))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled = lowered.compile()
            name = compiled.runtime_executable().fingerprint
            for _ in range(3):
                np.testing.assert_array_equal(np.asarray(f(np.ones(4, np.float32))), np.full(4, factor))
        assert f._cache_size() == 1
        assert isinstance(name, bytes)
        prefix, number = name.decode().split(" ")
        assert prefix == "pathways-executable"
        numbers.append(int(number))
        assert compiled.cost_analysis()["flops"] > 0
        assert "HloModule" in compiled.as_text()
    jax.config.update("jax_distributed_debug", False)
    assert 0 < numbers[0] < numbers[1]


def compile_errors_are_raised_with_their_reason() -> None:
    lowered = jax.jit(lambda x: x + 1).lower(np.float32(1))
    text = _error_of(lambda: lowered.compile(compiler_options={"no_such_option": 1}))
    assert "no_such_option" in text, text
    assert "[pathways reason=COMPILE_ERROR host=fake0 id=f1]" in text, text


def pytrees_with_hundreds_of_leaves_work() -> None:
    tree = {str(i): jnp.full((2,), i, jnp.float32) for i in range(200)}
    out = jax.jit(lambda t: jax.tree.map(lambda v: v * 2, t))(tree)
    assert float(sum(out[str(i)][0] for i in range(200))) == 2 * sum(range(200))


def several_threads_compute() -> None:
    found: list[float] = []

    def work(seed: int) -> None:
        x = jnp.float32(seed)
        for _ in range(10):
            x = jax.jit(lambda a: a + 1)(x)
        found.append(float(x) - seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [10.0] * 4


def empty_arrays_and_scalars_work() -> None:
    assert np.asarray(jnp.zeros((0, 3)) + 1).shape == (0, 3)
    assert np.asarray(jax.device_put(np.zeros((4, 0)), NamedSharding(_mesh(4), P("x")))).shape == (4, 0)
    assert float(jnp.float32(3)) == 3.0


def wide_types_work() -> None:
    with jax.enable_x64(True):
        x = jnp.arange(5, dtype=jnp.int64) + 2**40
        assert int(x[4]) == 2**40 + 4
        assert np.asarray(jnp.float64(1) / 3) == 1 / 3


def partial_shards_of_partial_sharding() -> None:
    mesh = _mesh(2, 2)
    x = jax.device_put(np.arange(16.0).reshape(4, 4), NamedSharding(mesh, P("x")))
    y = jax.jit(partial(jnp.sum, axis=1))(x)
    np.testing.assert_array_equal(np.asarray(y), np.arange(16.0).reshape(4, 4).sum(1))
    z = jax.jit(lambda a: a.T, out_shardings=NamedSharding(mesh, P("y", "x")))(x)
    np.testing.assert_array_equal(np.asarray(z), np.arange(16.0).reshape(4, 4).T)


def lost_session_says_so_when_values_are_read() -> None:
    """Runs last: the test ends the cluster on this line of output."""
    x = jnp.arange(4.0) + 1
    print(json.dumps({"name": "end the cluster", "error": ""}), flush=True)
    sys.stdin.readline()
    for _ in range(3):
        text = _error_of(lambda: np.asarray(jax.jit(lambda a: a + 1)(x)))
        assert "UNAVAILABLE: the session with the Pathways controller was lost" in text, text
        assert "[pathways reason=UNAVAILABLE" in text, text


CHECKS = [
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__ and name[0] != "_"
]


def _main() -> None:
    xla_bridge.discover_pjrt_plugins = lambda: None  # stock JAX: no plugin of anybody
    register_backend_factory("proxy", _make, priority=-1)
    wanted = sys.argv[1:]
    for check in CHECKS:
        if wanted and check.__name__ not in wanted:
            continue
        try:
            check()
            print(json.dumps({"name": check.__name__, "error": ""}), flush=True)
        except Exception:
            print(json.dumps({"name": check.__name__, "error": traceback.format_exc()}), flush=True)


if __name__ == "__main__":
    _main()
