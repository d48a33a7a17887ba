"""What the nodes of the test programs compute, on whole NumPy arrays of int32."""

from __future__ import annotations

from typing import Any


def mix(a: Any, b: Any, c: Any, d: Any) -> list[Any]:
    return [(a + 3 * b + 5 * c + 7 * d) % 1009]


def total(x: Any) -> list[Any]:
    return [x.sum(keepdims=True).astype(x.dtype)]


def step(x: Any) -> list[Any]:
    return [x * 2 + 1]


def one() -> list[Any]:
    import numpy as np

    return [np.ones((8,), np.int32)]
