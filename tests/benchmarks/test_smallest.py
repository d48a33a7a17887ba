"""Where throughput gets to that of JAX is found between the durations that were tried."""

from __future__ import annotations

import pytest

from tests.benchmarks.smallest import EQUAL, Point, crossing_us, smallest


def test_crossing_lies_between_the_durations_around_it() -> None:
    found = crossing_us([100, 400], [EQUAL - 0.1, EQUAL + 0.1])
    assert found == pytest.approx(200)  # halfway on a logarithmic scale


def test_crossing_is_the_last_one() -> None:
    assert crossing_us([100, 200, 400], [EQUAL, EQUAL - 0.3, EQUAL]) == pytest.approx(400)


def test_crossing_outside_of_what_was_tried_is_a_bound() -> None:
    assert crossing_us([100, 200], [1.0, 1.0]) == 100
    assert crossing_us([100, 200], [0.5, 0.6]) == 200


def test_smallest_computation_uses_the_durations_that_were_measured() -> None:
    points = [
        Point(ours=[80.0] * 15, theirs=[100.0] * 15, busy_us=[220.0] * 15),
        Point(ours=[97.0] * 15, theirs=[100.0] * 15, busy_us=[550.0] * 15),
    ]
    figure = smallest(points)
    assert (figure.median, figure.low, figure.high, figure.samples) == (pytest.approx(0.55), *(2 * (pytest.approx(0.55),)), 15)
