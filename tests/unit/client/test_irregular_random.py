"""Random programs with loops and branches within each other give the numbers of the same functions in plain JAX."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from pathways import _program_calls

from tests.unit.client.local_programs import LocalRunner

pytestmark = pytest.mark.usefixtures("eight_devices")

Function = Callable[..., Any]
FUNCTIONS: tuple[Function, ...] = (lambda x: x + 1, lambda x: x * 3 - 2, lambda x: 5 - x)
SMALL = np.array([3, 1, 4, 1], np.int32)


class Words:
    """What programs are made of: functions on slices and arrays that lie there, or the same in plain NumPy."""

    def __init__(self, on_slices: bool) -> None:
        self.functions: list[Function] = list(FUNCTIONS)
        self.two: list[Function] = [lambda x, y: x + y * 2]
        self.weights: list[Any] = [np.arange(4, dtype=np.int32)]
        if on_slices:
            places = [(0, 2, P("x")), (0, 2, P()), (2, 2, P("x")), (4, 1, P())]
            layouts = [NamedSharding(Mesh(np.array(jax.devices()[at : at + n]), ("x",)), spec) for at, n, spec in places]
            self.functions = [jax.jit(each, in_shardings=lies, out_shardings=lies) for lies in layouts for each in FUNCTIONS]
            self.two = [
                jax.jit(self.two[0], in_shardings=(lies, layouts[at and at - 1] if at < 2 else lies), out_shardings=lies)
                for at, lies in enumerate(layouts)
            ]
            self.weights = [jax.device_put(self.weights[0], lies) for lies in layouts]


def program(seed: int, words: Words) -> Function:
    """The program of a number. Every function of `words` that has the same meaning may stand in the same place."""

    def any_of(chance: random.Random, some: Sequence[Any], kinds: int) -> Any:
        kind, which = chance.randrange(kinds), chance.random()
        return some[kind + kinds * int(which * (len(some) // kinds))]

    def statement(chance: random.Random, depth: int, values: list[Any]) -> Any:
        kind = chance.randrange(8 if depth else 5)
        first, second, extra = (chance.choice(values) for _ in range(3))
        if kind < 2:
            return any_of(chance, words.functions, len(FUNCTIONS))(first)
        if kind == 2:
            return any_of(chance, words.two, 1)(first, second)
        if kind == 3:
            return values[0] - second + SMALL
        if kind == 4:
            return first + any_of(chance, words.weights, 1)
        inner, times = chance.randrange(1 << 30), chance.randrange(4)

        def block(number: int, operands: Sequence[Any]) -> list[Any]:
            return statements(random.Random(inner + number), depth - 1, [*values, *operands])

        if kind == 5:
            return pw.cond(extra[0] > 2, lambda *given: block(0, given), lambda *given: block(1, given), first, second)[1]

        def goes_on(carried: Any) -> Any:
            below = carried[0] < times
            return below if kind == 6 else jnp.logical_and(below, extra[1] + carried[1][0][0] < 50)

        start = 0, [first, second]
        count, (left, right) = pw.while_loop(
            goes_on, lambda c: (c[0] + 1, block(2, [*c[1], SMALL + c[0]])), start, max_iterations=9
        )
        return left + right * count

    def statements(chance: random.Random, depth: int, values: list[Any]) -> list[Any]:
        values = list(values)
        for _ in range(chance.randint(1, 4)):
            values.append(statement(chance, depth, values))
        return [chance.choice(values), values[-1]]

    return lambda *given: statements(random.Random(seed), 2, [words.functions[0](given[0]), *given])


@pytest.mark.parametrize("seed", range(8))
def test_random_program_gives_the_numbers_of_plain_jax(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    local = LocalRunner(range(7))
    monkeypatch.setattr(_program_calls, "runner", lambda: local)
    given = np.array([7, 0, 3, 5], np.int32), np.array([1, 2, 3, 4], np.int32)
    found = pw.program(program(seed, Words(on_slices=True)))(*given)
    for mine, theirs in zip(found, program(seed, Words(on_slices=False))(*given), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))
