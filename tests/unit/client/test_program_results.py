"""Results of `@pw.program` that no function on a slice computes, such as a counter: the last node does, with the same numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
import pytest
from jax.sharding import SingleDeviceSharding

from tests.unit.client.local_programs import LocalRunner
from tests.unit.client.test_program_tracing import names, same, slice_of

pytestmark = pytest.mark.usefixtures("eight_devices", "runner")


def test_results_that_no_node_is_near_are_computed_in_the_last(runner: LocalRunner) -> None:
    a = jax.pmap(lambda x: x * 2.0, devices=slice_of(0, 2))
    b = jax.pmap(lambda x: x + 1.0, devices=slice_of(2, 2))

    def beside(step: Any) -> Any:
        odd = jnp.where(step % 2 == 1, jnp.clip(step, 0, 5), -step)
        noise = jax.random.normal(jax.random.key(4), (3,))
        return step + 1, odd, {"zeros": jnp.zeros(3, jnp.int8) + 1, "noise": noise}, 7

    v = np.array([1.0, 2.0], np.float32)
    traced = pw.program(lambda v, step: (b(a(v)), beside(step)))
    for step in (3, np.int32(9), jnp.float32(4)):
        same(traced(v, step), (v * 2 + 1, beside(step)))
        assert names(traced.graph) == ["Arg", "a", "b", "Result"]
        # The number 7 is no work; everything else comes from the last node.
        assert {edge.node for edge in traced.graph.nodes[-1].inputs} == {2}
    assert runner.launched == ["a", "b"] * 3


def test_counter_that_a_program_returns_goes_in_again(runner: LocalRunner) -> None:
    a = jax.jit(lambda x, k: (x * k).sum(), out_shardings=SingleDeviceSharding(slice_of(1, 1)[0]))
    f = pw.program(lambda x, step: (a(x, step), step + 1))
    x, step = np.array([1.0, 2.0], np.float32), 0
    for turn in range(5):
        total, step = f(x, step)
        assert (float(total), int(step)) == (3.0 * turn, turn + 1)
    # Traced once: what comes back lies where the program takes it.
    assert len(runner.defined) == 1
