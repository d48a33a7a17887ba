"""Groups of neighbouring nodes without a cluster: which there are, and that they compute the bits of plain JAX."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
import pytest
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from pathways import _fusing, errors

from tests.unit.client.local_programs import LocalRunner

pytestmark = pytest.mark.usefixtures("eight_devices", "runner")


WHOLE = P()


def lies_on(start: int, count: int, spec: P) -> NamedSharding:
    return NamedSharding(Mesh(np.array(jax.devices()[start : start + count]), ("x",)), spec)


def on(start: int, count: int, function: Callable[..., Any], spec: P = WHOLE, **options: Any) -> Any:
    """The function, jitted on some devices."""
    lies = lies_on(start, count, spec) if count > 1 else SingleDeviceSharding(jax.devices()[start])
    return jax.jit(function, in_shardings=lies, out_shardings=lies, **options)


def ragged(x: Any) -> Any:
    """Sums over a scaled difference: computed together with the call before it, XLA gives other last bits."""
    return jnp.tanh(x * 1.01 + 0.3) @ np.eye(16, dtype=np.float32) / 3.1 - jnp.sum(x) * 1e-3


def square(seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.RandomState(seed).rand(16, 16).astype(np.float32)


def same(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))


def ran(runner: LocalRunner, function: Callable[..., Any], *arguments: Any, plain: Any = None) -> list[str]:
    """Runs a program until it is fused and once more; what it launched then. Its results are those of plain JAX, always."""
    program = pw.program(function)
    expected = plain if plain is not None else function(*arguments)
    for _ in range(_fusing.RUNS_BEFORE):
        same(program(*arguments), expected)
    assert _fusing.settle(120)
    runner.launched.clear()
    same(program(*arguments), expected)
    return list(runner.launched)


def test_a_chain_is_one_executable_with_the_bits_of_its_nodes(runner: LocalRunner) -> None:
    step = on(0, 1, ragged)

    def chain(x: Any) -> Any:
        for _ in range(40):
            x = step(x)
        return x

    assert ran(runner, chain, square()) == ["1-40"]
    together = jax.jit(chain)(square())
    assert np.abs(np.asarray(together) - np.asarray(chain(square()))).max() > 0, "else this test proves nothing"


@pytest.mark.parametrize("spec", [P("x"), P(), P(None, "x")])
def test_sharded_nodes_keep_their_shardings_and_their_bits(runner: LocalRunner, spec: P) -> None:
    step = on(0, 4, lambda x: jnp.tanh(x @ x.T) / 3.3 + jnp.sum(x, axis=0) * 0.01, spec)
    mapped = jax.jit(
        jax.shard_map(
            lambda x: x * 1.3 - jax.lax.psum(jnp.sum(x), "x") / 7.7,
            mesh=lies_on(0, 4, spec).mesh,
            in_specs=spec,
            out_specs=spec,
        )
    )

    def mixed(x: Any) -> Any:
        for _ in range(4):
            x = mapped(step(x))
        return x

    assert ran(runner, mixed, jax.device_put(square(), lies_on(0, 4, spec))) == ["1-8"]


def test_pmap_nodes_are_fused(runner: LocalRunner) -> None:
    step = jax.pmap(lambda x: x * 1.1 / 3.3 - jax.lax.psum(jnp.sum(x), "i"), axis_name="i", devices=jax.devices()[:2])
    assert ran(runner, lambda x: step(step(step(x))), square()[:2]) == ["1-3"]


def test_what_others_take_of_a_group_comes_out_of_it(runner: LocalRunner) -> None:
    step, join = on(0, 1, ragged), on(0, 1, lambda x, y: (x - y / 3.0, x * y))

    def diamond(x: Any, y: Any) -> Any:
        first = step(x)
        second = step(first)
        difference, product = join(first, y)
        third, _ = join(second, difference)
        return [second, third, product]

    assert ran(runner, diamond, square(), square(1)) == ["1-4"]


def test_a_move_ends_a_group_on_both_sides(runner: LocalRunner) -> None:
    here, there = on(0, 1, ragged), on(1, 1, ragged)

    def pipeline(x: Any) -> Any:
        first = here(here(x))  # nodes 1 and 2
        second = here(here(first))  # 3 and 4: what node 2 made leaves at once
        third = there(there(first))  # 5 and 6
        return here(here(second)), here(here(third))  # 7 and 8; 9 waits for a move; 10

    def plain(x: Any) -> Any:
        step = jax.jit(ragged)
        first = step(step(x))
        second, third = step(step(first)), step(step(first))
        return step(step(second)), step(step(third))

    found = ran(runner, pipeline, square(), plain=plain(square()))
    assert found == ["1-2", "3-4", "5-6", "7-8", "9-10"]


def test_another_layout_on_the_same_devices_is_a_move(runner: LocalRunner) -> None:
    rows, columns = on(0, 2, lambda x: x * 1.5, P("x")), on(0, 2, lambda x: x - 2.5, P(None, "x"))
    x = square()
    found = ran(
        runner, lambda x: columns(columns(rows(rows(x)))), jax.device_put(x, lies_on(0, 2, P("x"))),
        plain=np.asarray(x * np.float32(1.5) * np.float32(1.5) - np.float32(2.5) - np.float32(2.5)),
    )  # fmt: skip
    assert found == ["1-2", "3-4"]


def test_groups_are_bounded(runner: LocalRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fusing, "NODES_MAX", 3)
    step = on(0, 1, lambda x: x + 1)

    def chain(x: Any) -> Any:
        for _ in range(7):
            x = step(x)
        return x

    assert ran(runner, chain, np.float32(1)) == ["1-3", "4-6", "step"]


def test_large_nodes_are_left_alone(runner: LocalRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fusing, "NODE_TEXT_BYTES_MAX", 2000)

    def large(x: Any) -> Any:
        for _ in range(50):
            x = jnp.tanh(x) + 1
        return x

    small, big = on(0, 1, lambda x: x * 2), on(0, 1, large)
    assert ran(runner, lambda x: big(small(small(x))), np.float32(1)) == ["1-2", "large"]


def test_nodes_with_callbacks_are_left_alone(runner: LocalRunner) -> None:
    shape = jax.ShapeDtypeStruct((), np.float32)
    calling = on(0, 1, lambda x: jax.pure_callback(lambda value: np.float32(value * 2), shape, x))
    step = on(0, 1, lambda x: x + 1)
    launched = ran(runner, lambda x: step(step(calling(step(step(x))))), np.float32(1))
    assert launched == ["1-2", "calling", "4-5"]


def test_constants_eager_operations_and_random_keys_pass_through(runner: LocalRunner) -> None:
    table = np.arange(4, dtype=np.float32)
    draw = on(0, 1, lambda key: jax.random.split(key)[0])
    noise = on(0, 1, lambda key, x: x + jax.random.normal(key, (4,)) + table)

    def noisy(key: Any, x: Any) -> Any:
        key = draw(draw(key))
        return noise(key, noise(key, x) * 2.0)

    key = jax.device_put(jax.random.key(7), jax.devices()[0])
    assert ran(runner, noisy, key, np.ones(4, np.float32)) == ["1-4"]


def test_donated_values_are_donated_by_the_last_that_takes_them(runner: LocalRunner) -> None:
    step = on(0, 1, lambda x: x * 2 - 1, donate_argnums=(0,))
    look = on(0, 1, lambda x: x + 7)

    def chain(x: Any) -> Any:
        y = look(x)
        return step(step(x)), y

    program = pw.program(chain)
    for turn in range(4):
        x = jax.device_put(np.full(4, turn, np.float32), jax.devices()[0])
        same(program(x), (np.full(4, 4 * turn - 3, np.float32), np.full(4, turn + 7, np.float32)))
        assert _fusing.settle(60)
    ((group,),) = runner.offered.values()
    compiled = runner._compiled[group.computation.executable_id]
    assert "jax.buffer_donor" in compiled.as_text() or "input_output_alias" in compiled.as_text()


def test_bodies_of_loops_have_groups(runner: LocalRunner) -> None:
    step = on(0, 1, ragged)
    less = on(0, 1, lambda x, count: count < 3)
    more = on(0, 1, lambda count: count + 1)

    def turn(carried: Any) -> Any:
        x, count = carried
        return step(step(x)), more(count)

    def loop(x: Any) -> Any:
        return pw.while_loop(lambda carried: less(*carried), turn, (x, np.int32(0)), max_iterations=5)

    plain = jax.jit(ragged)
    x = square()
    for _ in range(6):
        x = plain(x)
    found = ran(runner, loop, square(), plain=(x, np.asarray(3, np.int32)))
    assert found.count("1-3") == 3


def test_what_runs_once_is_not_fused_and_what_may_not_never(runner: LocalRunner) -> None:
    step = on(0, 1, lambda x: x + 1)
    once = pw.program(lambda x: step(step(x)))
    once(np.float32(1))
    never = pw.program(fuse=False)(lambda x: step(step(step(x))))
    sequential = pw.program(dispatch="sequential")(lambda x: step(step(step(step(x)))))
    for _ in range(4):
        never(np.float32(1))
        sequential(np.float32(1))
    assert _fusing.settle(60)
    assert runner.offered == {}


def test_a_program_of_another_configuration_is_not_traced_anew(runner: LocalRunner) -> None:
    step = on(0, 1, lambda x: x @ x)
    program = pw.program(lambda x: step(step(x)))
    with jax.default_matmul_precision("float32"):
        for _ in range(4):
            program(square())
    assert _fusing.settle(60)
    assert runner.offered == {}


def test_a_program_that_cannot_be_fused_goes_on_as_it_was(runner: LocalRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(run: Any, message: Any) -> int:
        raise errors.UnavailableError("no")

    monkeypatch.setattr(runner, "fuse", refuse)
    step = on(0, 1, lambda x: x + 1)
    program = pw.program(lambda x: step(step(x)))
    for _ in range(4):
        assert program(np.float32(1)) == 3
        assert _fusing.settle(60)


def test_fuse_is_true_or_false() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="fuse is 'yes'; it must be True or False"):
        pw.program(fuse="yes")(lambda x: x)  # type: ignore[call-overload]


def test_a_connection_that_closes_lets_one_compilation_end_and_begins_no_other(
    runner: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling, go_on = threading.Event(), threading.Event()
    compile_node = _fusing.jn.compile_node

    def slow(lowered: Any, options: dict[str, Any]) -> Any:
        compiling.set()
        assert go_on.wait(60)
        return compile_node(lowered, options)

    step = on(0, 1, lambda x: x + 1)
    one, two = pw.program(lambda x: step(step(x))), pw.program(lambda x: step(step(step(x))))
    for program in (one, two):
        program(np.float32(1))
    monkeypatch.setattr(_fusing.jn, "compile_node", slow)
    for program in (one, two):
        program(np.float32(1))
    assert compiling.wait(60)
    dropped = threading.Event()
    drop = _fusing._worker.drop
    monkeypatch.setattr(_fusing._worker, "drop", lambda: (drop(), dropped.set()))
    closing = threading.Thread(target=_fusing.finish)
    closing.start()
    assert dropped.wait(60)
    assert closing.is_alive()
    go_on.set()
    closing.join(60)
    assert len(runner.offered) == 1
    assert _fusing.settle(0)


def test_a_program_runs_on_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    step = on(0, 1, ragged)

    def twice(x: Any) -> Any:
        return step(step(x))

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    program = pw.program(twice)
    expected = twice(square())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        for _ in range(_fusing.RUNS_BEFORE + 1):
            same(program(square()), expected)
        assert _fusing.settle(1), "a connection that closes would wait for it"
