"""The figures that benchmarks quote are right, and a claim is only made where the pairs support it."""

from __future__ import annotations

import pytest

from tests.benchmarks.soak import slope_mib
from tests.benchmarks.statistics_of_pairs import percentile, ratio_of


def test_ratio_of_steady_pairs_is_decided() -> None:
    ratio = ratio_of([50.0] * 15, [100.0] * 15)
    assert (ratio.median, ratio.low, ratio.high, ratio.decided) == (0.5, 0.5, 0.5, True)


def test_ratio_of_few_pairs_is_undecided() -> None:
    assert not ratio_of([50.0] * 14, [100.0] * 14).decided


def test_ratio_of_scattered_pairs_is_undecided() -> None:
    scattered = ratio_of([10.0 * (index + 1) for index in range(15)], [100.0] * 15)
    assert scattered.low < scattered.median < scattered.high
    assert str(scattered).endswith("undecided")


def test_percentile_interpolates_between_values() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0, 5.0], 50) == 3.0
    assert percentile([0.0, 10.0], 99) == pytest.approx(9.9)


def test_slope_ignores_the_warm_up() -> None:
    points = [(float(second), 100.0 if second < 60 else 50.0 + 2.0 * second / 600) for second in range(0, 600, 5)]
    assert slope_mib(points, warm_up_s=60) == pytest.approx(2.0)
    assert slope_mib(points[:3], warm_up_s=0) is None
