"""Views that the proxy client refuses are copied before JAX puts them; all others go through untouched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pathways._strides import put_with_copies

_VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)


def _put(values: list[Any]) -> list[Any]:
    seen: list[Any] = []
    put_with_copies(lambda aval, sharding, values, *others, **options: seen.extend(values))(None, None, values, [], True)
    return seen


@pytest.mark.parametrize("view", [_VALUES[::-1], _VALUES[:, ::-2], np.broadcast_to(_VALUES[0], (3, 4))])
def test_reversed_and_broadcast_views_are_copied_once(view: np.ndarray) -> None:
    first, second = _put([view, view])
    assert first is second
    assert first.flags["C_CONTIGUOUS"]
    assert np.array_equal(first, view)


def test_other_values_go_through_untouched() -> None:
    values = [_VALUES, _VALUES.T, _VALUES[::2], np.zeros(()), object()]
    assert all(put is value for put, value in zip(_put(values), values, strict=True))


def test_views_that_an_older_jax_wraps_in_a_class_of_its_own_are_copied_too() -> None:
    class Wrapped:
        strides = _VALUES[::-1].strides

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return _VALUES[::-1]

    (put,) = _put([Wrapped()])
    assert type(put) is np.ndarray
    assert put.flags["C_CONTIGUOUS"]
    assert np.array_equal(put, _VALUES[::-1])
