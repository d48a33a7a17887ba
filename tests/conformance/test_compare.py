"""The comparison sees a single bit, a dtype, a shape, a missing key; units in the last place count only where allowed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.compare import differences
from tests.conformance.side import encode

RIGHT = {"loss": np.array([0.25, 1.5], np.float32), "names": ["a", True, None, 3], "number": 0.1}


@pytest.mark.parametrize(
    "wrong",
    [
        RIGHT | {"loss": np.array([0.25, np.nextafter(np.float32(1.5), np.float32(2))], np.float32)},
        RIGHT | {"loss": np.array([0.25, 1.5], np.float64)},
        RIGHT | {"loss": np.array([[0.25, 1.5]], np.float32)},
        RIGHT | {"names": ["a", True, None]},
        RIGHT | {"number": 0.1 + 2**-56},
        {"loss": RIGHT["loss"]},
    ],
)
def test_any_difference_is_seen(wrong: dict[str, object]) -> None:
    assert len(differences(encode(RIGHT), encode(wrong), ulps_max=0)) == 1


def test_equal_results_are_equal() -> None:
    assert differences(encode(RIGHT), encode(dict(RIGHT)), ulps_max=0) == []


def test_not_a_number_equals_itself_bit_by_bit() -> None:
    result = {"x": np.array([np.nan, -0.0, np.inf])}
    assert differences(encode(result), encode(result), ulps_max=0) == []


@pytest.mark.parametrize(("ulps", "allowed", "count"), [(1, 1, 0), (2, 1, 1), (1, 0, 1)])
def test_units_in_the_last_place_are_counted(ulps: int, allowed: int, count: int) -> None:
    value = np.float32(1.5)
    near = value + ulps * np.spacing(value)
    assert len(differences(encode([np.array(value)]), encode([np.array(near, np.float32)]), allowed)) == count
