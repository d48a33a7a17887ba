"""`pw.while_loop`, `pw.cond`, `pw.counted` without a cluster: messages carried out on eight CPU devices, and plain JAX."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.unit.client.local_programs import LocalRunner

pytestmark = pytest.mark.usefixtures("eight_devices", "runner")


WHOLE = P()


def lies_on(start: int, count: int, spec: P = WHOLE) -> NamedSharding:
    return NamedSharding(Mesh(np.array(jax.devices()[start : start + count]), ("x",)), spec)


def on(start: int, count: int, function: Any, spec: P = WHOLE) -> Any:
    """The function, jitted on some devices."""
    lies = lies_on(start, count, spec)
    return jax.jit(function, in_shardings=lies, out_shardings=lies)


def line_of(function: Any, text: str) -> int:
    """The line of this file where `text` stands within a function."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def same(found: Any, expected: Any) -> None:
    """Equal structure, types and bits."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        plain = np.asarray(jnp.asarray(theirs))
        assert isinstance(mine, jax.Array)
        assert (mine.dtype, mine.shape) == (plain.dtype, plain.shape)
        np.testing.assert_array_equal(np.asarray(mine), plain)


def halving(x: Any) -> Any:
    return x / 2


ROWS = np.array([16.0, 8.0, 4.0, 2.0], np.float32)


def test_loop_turns_as_often_as_its_values_say(runner: LocalRunner) -> None:
    half = on(0, 2, halving)

    def f(x: Any) -> Any:
        return pw.while_loop(lambda c: jnp.max(c[1]) > 1, lambda c: (c[0] + 1, half(c[1])), (0, half(x)), max_iterations=100)

    traced = pw.program(f)
    # 16 is halved once before the loop, and three times in it.
    same(traced(ROWS), (np.int32(3), ROWS / 16))
    same(traced(ROWS * 64), (np.int32(9), ROWS / 16))
    same(traced(ROWS / 16), (np.int32(0), ROWS / 32))
    same(f(ROWS), (np.int32(3), ROWS / 16))
    assert len(runner.defined) == 1
    # Counting needs no node of its own: it is done where the value is halved.
    assert [len(graph.nodes) for graph in runner.defined[0].program.graphs] == [4, 3, 3]
    loop = runner.defined[0].program.graphs[0].nodes[2]
    assert (loop.name, loop.source) == ("while_loop", f"{__file__}:{line_of(f, 'pw.while_loop')}")
    assert loop.loop.max_iterations == 100


def test_graph_shows_bodies_indented() -> None:
    half = on(0, 2, halving)

    @pw.program
    def f(x: Any) -> Any:
        def body(c: Any) -> Any:
            return half(c)

        return pw.while_loop(lambda c: jnp.max(c) > 1, body, x, max_iterations=100)

    graph = f.trace(ROWS).graph
    lines = str(graph).splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["0", "Arg"],
        ["1", "while_loop"],
        ["while:"],
        ["0", "Arg"],
        ["1", "gt"],
        ["2", "Result"],
        ["do:"],
        ["0", "Arg"],
        ["1", "halving"],
        ["2", "Result"],
        ["2", "Result"],
    ]
    assert lines[8].startswith("      0  ")
    assert f"{__file__}:{line_of(f._function, 'return half(c)')}" in lines[9]
    assert graph.nodes[1].kind == "loop"
    assert [body.name for body in graph.nodes[1].bodies] == ["while", "do"]
    assert 'label="1 while_loop: do";' in graph.to_dot()


def test_branch_runs_one_side_only(runner: LocalRunner) -> None:
    double, negate = on(0, 2, lambda x: x * 2), on(2, 2, jnp.negative)
    start = on(4, 2, lambda x: x + 1)

    def f(x: Any) -> Any:
        y = start(x)
        return pw.cond(jnp.sum(y) > 0, lambda a: double(a), lambda a: negate(a), y) + 1

    traced = pw.program(f)
    same(traced(ROWS), (ROWS + 1) * 2 + 1)
    # What is not chosen does not run; both return what lies on the same devices.
    assert runner.launched == ["start", "double", "put", "add"]
    same(traced(-ROWS), ROWS - 1 + 1)
    for value in (ROWS, -ROWS):
        same(jax.device_put(traced(value), jax.devices()[7]), np.where(value > 0, (value + 1) * 2, -(value + 1)) + 1)
    assert [node.name for node in traced.graph.nodes][1:3] == ["start", "cond"]
    assert [body.name for body in traced.graph.nodes[2].bodies] == ["if false", "if true"]


def test_predicates_may_be_numbers_arguments_and_known_beforehand(runner: LocalRunner) -> None:
    double = on(0, 2, lambda x: x * 2)

    def f(x: Any, flag: Any) -> Any:
        return pw.cond(flag, double, lambda a: a, x), pw.cond(True, double, lambda a: a, x)

    traced = pw.program(f)
    for flag in (True, False, np.bool_(True), 3, -3, 0, 0.5):
        same(traced(ROWS, flag), (ROWS * 2 if flag else ROWS, ROWS * 2))
        same(f(ROWS, flag), (ROWS * 2 if flag else ROWS, ROWS * 2))


def test_branch_in_a_loop_with_closed_over_values(runner: LocalRunner) -> None:
    weights = jax.device_put(np.arange(4, dtype=np.float32), lies_on(0, 2, P("x")))
    table = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    add = on(0, 2, lambda x, w: x + w, P("x"))
    shrink = on(2, 2, lambda x: x - 10)

    def f(x: Any, step: Any, times: Any) -> Any:
        moved = add(x, step)

        def body(c: Any) -> Any:
            count, value = c
            value = pw.cond(value[0] > 20, lambda v: shrink(v), lambda v: add(v, weights) + table + moved, value)
            return count + 1, value

        return pw.while_loop(lambda c: c[0] < times, body, (0, moved), max_iterations=50), moved

    def plain(x: Any, step: Any, times: int) -> Any:
        moved = value = x + step
        for _ in range(times):
            value = value - 10 if value[0] > 20 else value + np.arange(4, dtype=np.float32) + table + moved
        return (np.int32(times), value), moved

    traced = pw.program(f)
    for times in (0, 1, 5):
        step = np.full(4, 2.0, np.float32)
        expected = plain(ROWS / 4, step, times)
        same(traced(ROWS / 4, step, times), expected)
    assert len(runner.defined) == 1
    carried = next(node for node in runner.defined[0].program.graphs[0].nodes if node.HasField("loop")).loop.carried
    # The counter, the value, the closed-over bound, moved, and weights; the small table is a part of its node.
    assert sorted(tuple(spec.shape) for spec in carried) == [(), (), (4,), (4,), (4,)]


def test_loops_nest_and_start_from_numbers() -> None:
    add = on(0, 2, lambda x: x + 1)

    def f(x: Any) -> Any:
        def outer(c: Any) -> Any:
            count, value = c
            _, value = pw.while_loop(lambda d: d[0] < count, lambda d: (d[0] + 1, add(d[1])), (0, value), max_iterations=9)
            return count + 1, value

        return pw.while_loop(lambda c: c[0] < 4, outer, (1, x), max_iterations=9)

    # 1 + 2 + 3 additions.
    same(pw.program(f)(ROWS), (np.int32(4), ROWS + 6))
    same(f(ROWS), (np.int32(4), ROWS + 6))


def test_values_that_change_places_in_a_loop_keep_theirs() -> None:
    here, there = on(0, 2, lambda x: x * 2), on(2, 2, lambda x: x + 1)

    def f(a: Any, b: Any) -> Any:
        def body(c: Any) -> Any:
            count, left, right, _ = c
            return count - 1, there(right), here(left), left

        return pw.while_loop(lambda c: c[0] > 0, body, (3, a, b, 7 * b), max_iterations=9)

    # (a, b) -> (b + 1, 2a) -> (2a + 1, 2b + 2) -> (2b + 3, 4a + 2)
    expected = np.int32(0), 2 * ROWS + 3, 4 * ROWS + 2, 2 * ROWS + 1
    same(pw.program(f)(ROWS, ROWS), expected)


def test_counted_chooses_the_smallest_bucket_that_holds_the_count(runner: LocalRunner) -> None:
    total = on(0, 2, lambda x, n: jnp.sum(jnp.where(jnp.arange(len(x)) < n, x, 0)))
    sizes = []

    def work(rows: Any, count: Any, factor: Any) -> Any:
        sizes.append(len(rows))
        return total(rows, count) * factor

    def f(x: Any) -> Any:
        kept = on(2, 2, lambda x: (jnp.sort(jnp.where(x > 0, x, jnp.inf)), jnp.sum(x > 0)))(x)
        return pw.counted(work, *kept, 10)

    traced = pw.program(f)
    for count in range(7):
        values = np.where(np.arange(6) < count, np.arange(6) + 1, -1).astype(np.float32)
        same(traced(values), np.float32(10 * count * (count + 1) / 2))
    assert sizes == [1, 2, 4, 6]
    branch = runner.defined[0].program.graphs[0].nodes[2]
    assert (branch.name, list(branch.branch.limits)) == ("counted", [1, 2, 4, 6])
    sizes.clear()
    same(f(np.array([5, -1, 5, 5, -1, -1], np.float32)), np.float32(150))
    assert sizes == [4]


def test_smallest_bucket_may_be_larger(runner: LocalRunner) -> None:
    total = on(0, 2, lambda x: jnp.sum(x, keepdims=True) + x[:2], P("x"))

    @pw.program
    def f(x: Any, count: Any) -> Any:
        return pw.counted(lambda rows, _: total(rows), x, count, smallest=2)

    same(f(np.ones(8, np.float32), 3), np.full(2, 5, np.float32))
    assert list(runner.defined[0].program.graphs[0].nodes[1].branch.limits) == [2, 4, 8]


def test_loop_that_does_not_end_is_told_with_its_line() -> None:
    half = on(0, 2, halving)

    def f(x: Any) -> Any:
        return pw.while_loop(lambda c: jnp.max(c) > 0, half, x, max_iterations=3)

    where = f"{__file__}:{line_of(f, 'pw.while_loop')}"
    with pytest.raises(pw.errors.ExecutionError, match=f"{where}.* did not end within max_iterations=3"):
        f(ROWS)
    with pytest.raises(RuntimeError, match=f"while_loop at {where}: still true after 3 iterations"):
        pw.program(f)(ROWS)
    # Three times is enough here.
    same(pw.program(lambda x: pw.while_loop(lambda c: jnp.max(c) > 2, half, x, max_iterations=3))(ROWS), ROWS / 8)


def test_bodies_see_random_keys_and_trees() -> None:
    draw = on(0, 2, lambda k: jax.random.uniform(k, (4,)))

    def f(seed: Any) -> Any:
        def body(c: Any) -> Any:
            key, more = jax.random.split(c["key"])
            return {"key": key, "sum": c["sum"] + draw(more), "left": [c["left"][0] - 1]}

        start = {"key": jax.random.key(3), "sum": np.zeros(4, np.float32), "left": [seed]}
        return pw.while_loop(lambda c: c["left"][0] > 0, body, start, max_iterations=9)["sum"]

    key, expected = jax.random.key(3), np.zeros(4, np.float32)
    for _ in range(3):
        key, more = jax.random.split(key)
        expected = expected + np.asarray(jax.random.uniform(more, (4,)))
    same(pw.program(f)(3), expected)
    same(f(3), expected)


def test_refusals_name_the_line_with_and_without_the_decorator() -> None:
    half = on(0, 2, halving)

    def refused(error: type[Exception], text: str, function: Any) -> None:
        for called in (pw.program(function), function):
            with pytest.raises(error, match=text) as caught:
                called(ROWS)
            assert f"{__file__}:{line_of(function, 'pw.')}" in str(caught.value)

    wrong = pw.errors.InvalidArgumentError
    refused(
        wrong,
        "returns .*float16",
        lambda x: pw.while_loop(lambda c: c[0] > 1, lambda c: half(c).astype("float16"), x, max_iterations=3),
    )
    refused(wrong, "max_iterations=0", lambda x: pw.while_loop(lambda c: c[0] > 1, half, x, max_iterations=0))
    refused(wrong, r"float32\[4\].* as a predicate", lambda x: pw.cond(half(x), half, half, x))
    refused(wrong, "no arrays as init", lambda x: pw.while_loop(lambda c: x[0] > 1, lambda c: (), (), max_iterations=3))
    refused(wrong, "str as init", lambda x: pw.while_loop(lambda c: c[0] > 1, half, "text", max_iterations=1))
    refused(wrong, "float32.* as a count", lambda x: pw.counted(half, x, half(x)[0]))
    refused(wrong, "power of two", lambda x: pw.counted(half, x, 1, smallest=3))
    refused(
        pw.errors.UnsupportedError,
        "a function that JAX transforms",
        lambda x: jax.jit(lambda y: pw.cond(y[0] > 1, half, half, y))(x),
    )


def test_results_that_no_node_is_near_are_computed_where_the_loop_ends() -> None:
    half = on(0, 2, halving)

    def f(x: Any, step: Any) -> Any:
        return pw.while_loop(lambda c: c[0] > 1, half, x, max_iterations=9), step + 1

    traced = pw.program(f)
    for step in (1, 5):
        same(traced(ROWS, step), f(ROWS, step))
    assert [node.name for node in traced.graph.nodes] == ["Arg", "while_loop", "add", "Result"]
    assert traced.graph.nodes[2].devices == (0, 1)


def test_bodies_that_differ_or_read_values_or_are_on_no_slice_are_refused() -> None:
    half = on(0, 2, halving)
    wrong = pw.errors.InvalidArgumentError
    with pytest.raises(wrong, match=r"float32\[\].*if false.*float32\[4\].*if true"):
        pw.program(lambda x: pw.cond(x[0] > 1, half, jnp.sum, x))(ROWS)
    with pytest.raises(wrong, match="asks for the value of a traced array"):
        pw.program(lambda x: pw.while_loop(lambda c: bool(c[0] > 1), half, x, max_iterations=3))(ROWS)
    with pytest.raises(wrong, match="is on no slice"):
        pw.program(lambda x: pw.while_loop(lambda c: c[0] > 1, halving, x, max_iterations=3))(ROWS)
    with pytest.raises(wrong, match=r"condition .* returns \(float32\[4\]\)"):
        pw.program(lambda x: pw.while_loop(lambda c: c, half, x, max_iterations=3))(ROWS)
