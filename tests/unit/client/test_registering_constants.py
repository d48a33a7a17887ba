"""What a program closes over when it is registered: constants go with it, arrays of the session are refused."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
import pytest
from pathways._tracing import BAKED_BYTES_MAX

from tests.unit.client.local_programs import LocalRunner
from tests.unit.client.test_irregular_tracing import lies_on, on

pytestmark = pytest.mark.usefixtures("eight_devices", "runner")


X = np.array([6.0, 6.0], np.float32)


def test_a_loop_that_counts_from_a_number_is_kept_with_that_number(runner: LocalRunner) -> None:
    half = on(0, 2, lambda x: x / 2)

    @pw.program
    def f(x: Any) -> Any:
        counted = pw.while_loop(lambda c: c[1][0] > 1, lambda c: (c[0] + 1, half(c[1])), (5, x), max_iterations=9)
        return counted, pw.cond(x[0] > 1, lambda v, k: half(v) * k, lambda v, k: v, x, 10)

    compiled = f.compile(X)
    assert compiled.register("halvings") == 1
    whole = runner.defined[-1].program
    assert len(whole.graphs[0].nodes[0].argument.specs) == 1, "x alone"
    # 6, 3, 1.5, 0.75: three halvings from 5 on; and half of 6, ten times.
    count, value, chosen = runner.registered["halvings"]([jax.device_put(X, lies_on(0, 2))])
    assert (int(count), np.asarray(value).tolist(), np.asarray(chosen).tolist()) == (8, [0.75] * 2, [30.0] * 2)
    # In the session these numbers are arguments, which need no launch.
    assert len(runner.defined[0].program.graphs[0].nodes[0].argument.specs) > 1
    assert int(compiled(X)[0][0]) == 8


def test_a_large_table_is_kept_with_the_program(runner: LocalRunner) -> None:
    table = np.arange(BAKED_BYTES_MAX // 4 + 1, dtype=np.float32)
    add = on(0, 2, lambda x, y: x + y.sum())
    f = pw.program(lambda x: add(x, jnp.asarray(table)))
    f.compile(X).register("table")
    (found,) = runner.registered["table"]([jax.device_put(X, lies_on(0, 2))])
    np.testing.assert_array_equal(np.asarray(found), np.asarray(X + jnp.asarray(table).sum()))


def test_a_program_that_uses_arrays_of_the_session_is_refused(runner: LocalRunner) -> None:
    there = [jax.device_put(X * factor, lies_on(0, 2)) for factor in (2, 3)]
    add = on(0, 2, lambda x, y, z: x + y + z)
    compiled = pw.program(lambda x: add(x, *there)).compile(X)
    with pytest.raises(pw.errors.UnsupportedError, match="uses 2 arrays from outside"):
        compiled.register("f")
    assert runner.registered == {}
