"""The figures that benchmarks quote are right, and a claim is only made where the pairs support it."""

from __future__ import annotations

import pytest

from tests.benchmarks.soak import slope_mib
from tests.benchmarks.statistics_of_pairs import interval_of, percentile, ratio_of


def test_ratio_of_steady_pairs_is_their_ratio() -> None:
    ratio = ratio_of([50.0] * 15, [100.0] * 15)
    assert (ratio.median, ratio.low, ratio.high, ratio.samples) == (0.5, 0.5, 0.5, 15)


def test_ratio_is_taken_pair_by_pair() -> None:
    drifting = [1.0, 10.0, 100.0]
    assert ratio_of(drifting, [2 * value for value in drifting]).low == 0.5


def test_ratio_needs_pairs() -> None:
    with pytest.raises(AssertionError, match="no pairs"):
        ratio_of([1.0, 2.0], [1.0])


def test_interval_of_scattered_values_holds_their_median() -> None:
    scattered = interval_of([float(index) for index in range(1, 16)])
    assert scattered.median == 8.0
    assert 1.0 < scattered.low < 8.0 < scattered.high < 15.0


def test_percentile_interpolates_between_values() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0, 5.0], 50) == 3.0
    assert percentile([0.0, 10.0], 99) == pytest.approx(9.9)


def test_slope_ignores_the_warm_up() -> None:
    points = [(float(second), 100.0 if second < 60 else 50.0 + 2.0 * second / 600) for second in range(0, 600, 5)]
    assert slope_mib(points, warm_up_s=60) == pytest.approx(2.0)
    assert slope_mib(points[:3], warm_up_s=0) is None
