"""`@pw.program` without a cluster: graphs, names, lines, refusals, and the numbers of plain JAX, on eight local CPU devices."""

from __future__ import annotations

import functools
import gc
import inspect
import threading
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
import pytest
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from tests.unit.client.local_programs import LocalRunner

pytestmark = pytest.mark.usefixtures("eight_devices", "runner")


def slice_of(start: int, count: int) -> list[Any]:
    return jax.devices()[start : start + count]


def mesh_of(start: int, count: int, name: str = "x") -> Mesh:
    return Mesh(np.array(slice_of(start, count)), (name,))


def line_of(function: Any, text: str) -> int:
    """The line of this file where `text` stands within a function."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def same(found: Any, expected: Any) -> None:
    """Equal structure, types, weakness and bits."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        plain = jnp.asarray(theirs)
        assert isinstance(mine, jax.Array)
        assert (mine.dtype, mine.shape) == (plain.dtype, plain.shape)
        if jax.dtypes.issubdtype(mine.dtype, jax.dtypes.prng_key):
            mine, plain = jax.random.key_data(mine), jax.random.key_data(plain)
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(plain))


def names(graph: pw.Graph) -> list[str]:
    return [node.name for node in graph.nodes]


def test_paper_example_has_its_nodes_and_its_numbers(runner: LocalRunner) -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))
    b = jax.pmap(lambda x: x + 1.0, devices=slice_of(2, 2))
    c = jax.pmap(lambda x: x / 2.0, devices=slice_of(4, 2))

    def f(v: Any) -> Any:
        x = a(v)
        y = b(x)
        z = a(c(x))
        return (y, z)

    traced = pw.program(f)
    found = traced(np.array([1.0, 2.0]))
    same(found, (np.array([3.0, 5.0], np.float32), np.array([2.0, 4.0], np.float32)))
    same(found, f(np.array([1.0, 2.0])))
    assert names(traced.graph) == ["Arg", "a", "b", "c", "a", "Result"]
    assert [str(edge) for node in traced.graph.nodes for edge in node.inputs] == ["0.0", "1.0", "1.0", "3.0", "2.0", "4.0"]
    assert [node.devices for node in traced.graph.nodes] == [(), (0, 1), (2, 3), (4, 5), (0, 1), ()]
    assert traced.graph.nodes[2].place == f"{__file__}:{line_of(f, 'y = b(x)')}"
    # `a` is one compiled function, used twice.
    assert len(runner.defined[0].program.computations) == 3
    assert found[0].sharding.is_equivalent_to(NamedSharding(mesh_of(2, 2), P("x")), 1)


def test_graph_reads_and_draws() -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 4))

    @pw.program
    def f(v: Any) -> Any:
        return a(v)

    with pytest.raises(pw.errors.InvalidArgumentError, match="no graph before it is traced"):
        _ = f.graph
    assert names(f.trace(np.ones(4, np.float32)).graph) == ["Arg", "a", "Result"]
    lines = str(f.graph).splitlines()
    assert len(lines) == 4
    assert "devices 0-3" in lines[2]
    assert "from 0.0" in lines[2]
    assert f"{__file__}:{line_of(f._function, 'return a(v)')}" in lines[2]
    assert 'n1 -> n2 [label="float32[4]"]' in f.graph.to_dot()


def test_sharded_jit_keeps_its_shardings_and_compiles_as_plain_jax_does(runner: LocalRunner) -> None:
    mesh = Mesh(np.array(slice_of(0, 4)).reshape(2, 2), ("x", "y"))
    rows, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())

    @functools.partial(jax.jit, in_shardings=(rows, whole), out_shardings=(rows, whole))
    def layer(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w), jnp.sum(w)

    total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))

    def f(x: Any, w: Any) -> Any:
        hidden, size = layer(x, w)
        return {"sum": total(hidden), "size": size}

    x, w = np.random.default_rng(0).normal(size=(2, 8, 8)).astype(np.float32)
    traced = pw.program(f)
    same(traced(x, w), f(x, w))
    assert names(traced.graph) == ["Arg", "layer", "total", "Result"]
    first = runner.defined[0].program
    assert [tuple(spec.shard_shape) for spec in first.computations[0].parameters] == [(4, 8), (8, 8)]
    assert [spec.sharding == b"" for spec in first.computations[0].parameters] == [False, True]
    assert first.computations[1].parameters[0] == first.computations[0].results[0]
    assert list(first.devices) == [0, 1, 2, 3]


def test_eager_operations_join_the_node_they_read_from() -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))
    b = jax.pmap(lambda x: x + 1.0, devices=slice_of(2, 2))

    def f(v: Any) -> Any:
        x = jnp.sin(a(v)).astype(jnp.bfloat16).astype(jnp.float32)
        return b(x) - 1, x

    v = np.array([0.3, 0.7], np.float32)
    traced = pw.program(f)
    same(traced(v), f(v))
    assert names(traced.graph) == ["Arg", "a", "b", "Result"]


def test_what_reads_no_node_joins_the_nodes_that_read_it() -> None:
    a = jax.pmap(lambda x, k: x * jax.random.uniform(k), devices=slice_of(0, 2))
    b = jax.pmap(lambda x: x + 1.0, devices=slice_of(2, 2))

    def f(v: Any) -> Any:
        keys = jax.random.split(jax.random.key(3), 2)
        doubled = v * 2
        return a(doubled, keys), b(doubled), doubled

    v = np.array([1.0, 2.0], np.float32)
    traced = pw.program(f)
    same(traced(v), f(v))
    assert names(traced.graph) == ["Arg", "a", "b", "Result"]
    # Both compute it by themselves; neither waits for the other.
    assert [str(edge) for edge in traced.graph.nodes[2].inputs] == ["0.0"]


def test_random_keys_pass_in_between_and_out(runner: LocalRunner) -> None:
    here, there = NamedSharding(mesh_of(0, 2), P()), SingleDeviceSharding(jax.devices()[3])
    split = jax.jit(lambda k: jax.random.split(k, 2), in_shardings=here, out_shardings=here)
    draw = jax.jit(lambda k: jax.random.normal(k[0], (4,)), in_shardings=there, out_shardings=there)

    def f(key: Any) -> Any:
        keys = split(key)
        return draw(keys), keys

    traced = pw.program(f)
    same(traced(jax.random.key(5)), f(jax.random.key(5)))
    spec = runner.defined[0].program.computations[0].parameters[0]
    assert (spec.dtype, list(spec.shape)) == (8, [2])  # U32


def test_device_put_moves_between_devices() -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))

    def f(v: Any) -> Any:
        x, y = jax.device_put((a(v), a(v + 1)), (jax.devices()[4], jax.devices()[5]))
        return x + 1, y * 3

    v = np.array([1.0, 2.0], np.float32)
    traced = pw.program(f)
    found = traced(v)
    same(found, f(v))
    assert [each.devices() for each in found] == [{jax.devices()[4]}, {jax.devices()[5]}]
    assert names(traced.graph) == ["Arg", "a", "a", "device_put", "device_put", "Result"]


def test_closed_over_arrays_of_the_cluster_are_arguments_and_small_host_ones_are_baked_in(runner: LocalRunner) -> None:
    lies = NamedSharding(mesh_of(0, 2), P("x"))
    weights = jax.device_put(np.arange(4, dtype=np.float32), lies)
    small, large = np.full(4, 2.0, np.float32), np.ones((4, 1 << 15), np.float32)
    inner = jax.jit(lambda x: x * weights + small)
    outer = jax.jit(lambda x: inner(x) + jnp.sum(large, axis=1))

    def f(v: Any) -> Any:
        return outer(v) + weights

    v = np.arange(4, dtype=np.float32)
    traced = pw.program(f)
    same(traced(v), f(v))
    assert names(traced.graph) == ["Arg", "outer", "Result"]
    specs = runner.defined[0].program.graphs[0].nodes[0].argument.specs
    assert sorted(tuple(spec.shape) for spec in specs) == [(4,), (4,), (4, 1 << 15)]
    same(traced(v + 1), f(v + 1))
    assert len(runner.defined) == 1


def test_plain_jit_runs_where_the_arrays_insist() -> None:
    here, there = NamedSharding(mesh_of(0, 2), P("x")), NamedSharding(mesh_of(2, 2), P("x"))
    forward = jax.jit(lambda w, x: jnp.tanh(w * x))
    finish = jax.jit(lambda x: x + 1, in_shardings=there, out_shardings=there)

    @pw.program
    def f(w: Any, x: Any) -> Any:
        return finish(forward(w, x))

    w, x = jax.device_put(np.arange(2, dtype=np.float32), here), np.array([3.0, 4.0], np.float32)
    same(f(w, x), np.asarray(jnp.tanh(np.arange(2, dtype=np.float32) * x)) + 1)
    assert [node.devices for node in f.graph.nodes] == [(), (0, 1), (2, 3), ()]
    same(f(np.asarray(w), x), np.asarray(jnp.tanh(np.arange(2, dtype=np.float32) * x)) + 1)
    assert [node.devices for node in f.graph.nodes] == [(), (2, 3), ()]


def test_arrays_that_lie_elsewhere_are_moved_first(runner: LocalRunner) -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))
    traced = pw.program(lambda v: a(v), name="twice")
    for array in (
        np.array([1.0, 2.0], np.float32),
        jax.device_put(np.array([1.0, 2.0], np.float32), jax.devices()[5]),
        jax.device_put(np.array([1.0, 2.0], np.float32), NamedSharding(mesh_of(3, 2), P())),
        a(np.array([0.5, 1.0], np.float32)),
    ):
        same(traced(array), np.array([2.0, 4.0], np.float32))
    assert len(runner.defined) == 1


def test_nested_programs_become_one() -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))

    @pw.program
    def inner(v: Any) -> Any:
        return a(v)

    @pw.program
    def outer(v: Any) -> Any:
        return inner(inner(v))

    same(outer(np.array([1.0, 2.0], np.float32)), np.array([4.0, 8.0], np.float32))
    assert names(outer.graph) == ["Arg", "a", "a", "Result"]
    assert outer.graph.nodes[1].place == f"{__file__}:{line_of(inner._function, 'return a(v)')}"


def test_static_arguments_choose_the_path_and_trace_again(runner: LocalRunner) -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))
    traces = []

    @functools.partial(pw.program, static_argnums=1, static_argnames="more")
    def f(v: Any, times: int, *, more: bool = False) -> Any:
        traces.append(times)
        for _ in range(times):
            v = a(v)
        return (v, a(v)) if more else v

    one = np.array([1.0, 2.0], np.float32)
    same(f(one, 1), one * 2)
    same(f(one, 3), one * 8)
    same(f(one, 1), one * 2)
    same(f(one, times=3, more=True), (one * 8, one * 16))
    assert traces == [1, 3, 3]
    with pytest.raises(pw.errors.InvalidArgumentError, match="has no hash"):
        f(one, [1])


def test_new_shapes_trace_again_and_known_ones_do_not(runner: LocalRunner) -> None:
    double = jax.jit(lambda x: x * 2, out_shardings=NamedSharding(mesh_of(0, 2), P()))
    traces = []

    @pw.program
    def f(v: Any) -> Any:
        traces.append(v.shape)
        return double(v)

    for size in (2, 4, 2, 4):
        same(f(np.ones(size, np.float32)), np.full(size, 2.0, np.float32))
    same(f(3), 6)
    assert traces == [(2,), (4,), ()]


def test_trees_go_in_and_out_with_passed_and_doubled_values() -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))

    def f(tree: Any, other: Any = None) -> Any:
        x = a(tree["v"])
        return {"twice": [x, x], "same": tree["w"], "none": None, "number": 3.0, "other": other, "all": (a(x), tree)}

    tree = {"v": np.array([1.0, 2.0], np.float32), "w": np.arange(3)}
    traced = pw.program(f)
    same(traced(tree, other=7), f(tree, other=7))
    assert names(traced.graph) == ["Arg", "a", "a", "Result"]


def test_nothing_runs_for_what_nobody_reads(runner: LocalRunner) -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))

    def f(v: Any) -> Any:
        a(v)
        return v

    traced = pw.program(f)
    same(traced(np.ones(2, np.float32)), np.ones(2, np.float32))
    assert names(traced.graph) == ["Arg", "Result"]
    assert runner.runs == 0


def test_donated_arguments_end_and_intermediates_are_donated_as_the_function_says(runner: LocalRunner) -> None:
    lies = NamedSharding(mesh_of(0, 2), P("x"))
    step = jax.jit(lambda w, g: w - g, in_shardings=(lies, lies), out_shardings=lies, donate_argnums=0)

    @functools.partial(pw.program, donate_argnums=0)
    def f(w: Any, g: Any) -> Any:
        return step(step(w, g), g)

    w, g = (jax.device_put(np.full(2, value, np.float32), lies) for value in (5.0, 1.0))
    same(f(w, g), np.full(2, 3.0, np.float32))
    assert w.is_deleted()
    assert not g.is_deleted()
    assert list(runner.defined[0].donated) == [0]
    with pytest.raises(pw.errors.InvalidArgumentError, match="donated argument and as another one"):
        f(g, g)


def test_training_step_over_three_slices_equals_plain_jax() -> None:
    first, last = NamedSharding(mesh_of(0, 2), P()), NamedSharding(mesh_of(2, 2), P())

    def lower(w: Any, x: Any) -> Any:
        return jnp.tanh(x @ w)

    def loss(w: Any, h: Any, y: Any) -> Any:
        return jnp.mean((h @ w - y) ** 2)

    forward = jax.jit(lower, in_shardings=(first, first), out_shardings=first)
    gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)), in_shardings=(last, last, last), out_shardings=last)
    backward = jax.jit(
        lambda w, x, dh: jax.vjp(lambda w: lower(w, x), w)[1](dh)[0], in_shardings=(first,) * 3, out_shardings=first
    )
    update = jax.jit(lambda w, g: w - 0.1 * g)

    def step(w: Any, x: Any, y: Any) -> Any:
        h = forward(w[0], x)
        value, (dw, dh) = gradient(w[1], jax.device_put(h, last), y)
        return value, (update(w[0], backward(w[0], x, jax.device_put(dh, first))), update(w[1], dw))

    random = np.random.default_rng(1)
    x, y = (random.normal(size=(8, 4)).astype(np.float32) for _ in range(2))
    start = tuple(random.normal(size=(4, 4)).astype(np.float32) for _ in range(2))
    traced, w, v = pw.program(step), start, start
    for _ in range(3):
        value, w = traced(w, x, y)
        expected, v = step(v, x, y)
        np.testing.assert_allclose(value, expected, rtol=1e-6)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5), w, v)
    # What is put where a function wants it anyway is moved there, and nothing else.
    assert names(traced.graph) == ["Arg", "lower", "loss", "backward", "Result"]


def test_lower_shows_the_message_and_compile_runs_it(runner: LocalRunner) -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))
    f = pw.program(name="named", dispatch="sequential")(lambda v: a(v))
    one = np.array([1.0, 2.0], np.float32)
    text = f.lower(one).as_text()
    assert 'name: "named"' in text
    assert "DISPATCH_SEQUENTIAL" in text
    compiled = f.trace(one).lower().compile()
    same(compiled(one), one * 2)
    assert len(runner.defined) == 1
    with pytest.raises(pw.errors.InvalidArgumentError, match="compiled for other shapes"):
        compiled(np.ones((2, 2), np.float32))


def test_arguments_come_in_groups_by_their_number_of_shards(runner: LocalRunner) -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))
    b = jax.pmap(lambda x: x + 1.0, devices=slice_of(2, 3))

    @pw.program
    def f(v: Any, w: Any, u: Any) -> Any:
        return a(v), b(w), a(u)

    two, three = np.ones(2, np.float32), np.ones(3, np.float32)
    same(f(two, three, two), (two * 2, three + 1, two * 2))
    assert [(each.shard_count, list(each.arguments)) for each in runner.defined[0].groups] == [(2, [0, 2]), (3, [1])]


def test_eight_threads_get_their_own_results(runner: LocalRunner) -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))
    b = jax.pmap(lambda x: x + 1.0, devices=slice_of(2, 2))
    f = pw.program(lambda v: b(a(v)), name="f")
    found: dict[int, list[Any]] = {}

    def work(number: int) -> None:
        found[number] = [np.asarray(f(np.full(2, number * 10.0 + each, np.float32))) for each in range(5)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number in range(8):
        np.testing.assert_array_equal(found[number], [[(number * 10.0 + each) * 2 + 1] * 2 for each in range(5)])
    assert len(runner.defined) == 1


def test_program_under_a_transformation_is_the_function_itself(runner: LocalRunner) -> None:
    square = jax.jit(lambda x: x**2, out_shardings=NamedSharding(mesh_of(0, 2), P()))
    f = pw.program(lambda v: square(v), name="f")
    same(jax.grad(f)(3.0), 6.0)
    assert runner.runs == 0


def test_reshard_in_a_program_is_a_device_put() -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))
    there = NamedSharding(mesh_of(2, 2), P())
    f = pw.program(lambda v: pw.reshard({"a": a(v), "b": v}, there), name="f")
    v = np.array([1.0, 2.0], np.float32)
    found = f(v)
    same(found, {"a": v * 2, "b": v})
    assert all(each.sharding.is_equivalent_to(there, 1) for each in found.values())


def test_programs_are_methods() -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))

    class Model:
        scale = 3.0

        @functools.partial(pw.program, static_argnums=0)
        def step(self, v: Any) -> Any:
            return a(v) * self.scale

    model = Model()
    same(model.step(np.ones(2, np.float32)), np.full(2, 6.0, np.float32))
    assert names(model.step.graph) == ["Arg", "a", "Result"]
    assert Model.step is Model.__dict__["step"]


def test_compiled_program_under_a_transformation_is_the_function_itself(runner: LocalRunner) -> None:
    square = jax.jit(lambda x: x**2, out_shardings=NamedSharding(mesh_of(0, 2), P()))
    compiled = pw.program(lambda v: square(v), name="f").compile(np.float32(0))
    outer = pw.program(lambda v: compiled(compiled(v)), name="outer")
    same(outer(np.float32(3)), np.float32(81))
    assert len(outer.graph.nodes) == 4
    same(jax.grad(compiled)(np.float32(3)), np.float32(6))


def test_programs_keep_no_arguments_alive() -> None:
    plain = jax.jit(lambda x: x + 1)
    f = pw.program(lambda v: plain(v), name="f")
    v = jax.device_put(np.ones(2, np.float32), NamedSharding(mesh_of(0, 2), P("x")))
    alive = weakref.ref(v)
    same(f(v), np.full(2, 2.0, np.float32))
    del v
    gc.collect()
    assert alive() is None
