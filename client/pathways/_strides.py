"""NumPy views that the proxy client refuses are copied first: reversed ones and broadcast ones, whose strides are not positive.

Only views of these kinds are copied, each view once, however many devices it goes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pathways import _jax


def put_with_copies(original: _jax.Put) -> _jax.Put:
    """JAX's put step, for arrays of any strides."""

    def batched_device_put(aval: Any, sharding: Any, values: Sequence[Any], *others: Any, **options: Any) -> Any:
        if any(_is_refused(value) for value in values):
            values = _copied(values)
        return original(aval, sharding, values, *others, **options)

    return batched_device_put


def _is_refused(value: Any) -> bool:
    # JAX wraps host arrays in a class of its own, which in 0.8 is none of NumPy's; arrays on devices have no strides.
    return any(stride <= 0 for stride in getattr(value, "strides", ()))


def _copied(values: Sequence[Any]) -> list[Any]:
    copies = {id(value): np.array(np.asarray(value), order="C") for value in values if _is_refused(value)}
    return [copies.get(id(value), value) for value in values]
