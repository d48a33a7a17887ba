"""Boxes: parts of shards, in elements. A fetch cuts one out of a shard; an assembly puts several into a new one.

What no box covers is zero: past the end of an array that does not divide evenly. Boxes of an assembly come in any order
and from several threads; they do not overlap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

Values: TypeAlias = np.ndarray[Any, Any]


def cut(values: Values, start: Sequence[int], limit: Sequence[int]) -> Values:
    """The box of a shard, row-major; all of it without a start. Raises ValueError for a box that reaches beyond the shard."""
    if not start and not limit:
        return values
    _check(values.shape, start, limit)
    return np.ascontiguousarray(values[tuple(slice(first, last) for first, last in zip(start, limit, strict=True))])


def cut_at(values: Values, start: Sequence[int], shape: Sequence[int]) -> Values:
    """The part of a shard of this shape that begins at `start`; shares its memory."""
    _check(values.shape, start, [first + size for first, size in zip(start, shape, strict=True)])
    return values[tuple(slice(first, first + size) for first, size in zip(start, shape, strict=True))]


def _check(shape: tuple[int, ...], start: Sequence[int], limit: Sequence[int]) -> None:
    fits = len(start) == len(limit) == len(shape) and all(
        0 <= first <= last <= size for first, last, size in zip(start, limit, shape, strict=True)
    )
    if not fits:
        raise ValueError(f"a box from {list(start)} to {list(limit)} is not a part of a shard of shape {list(shape)}")


class Assembly:
    """One shard in the making. `done(values)` is called once, by whoever brings the last box."""

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...], count: int, done: Callable[[Values], None]) -> None:
        self._values = np.zeros(shape, dtype)
        self._missing = count
        self._done = done
        self._lock = threading.Lock()
        if count == 0:
            done(self._values)

    def put(self, start: Sequence[int], values: Values) -> None:
        """Brings one box. Raises ValueError if it reaches beyond the shard."""
        cut_at(self._values, start, values.shape)[...] = values
        with self._lock:
            self._missing -= 1
            last = self._missing == 0
        if last:
            self._done(self._values)
