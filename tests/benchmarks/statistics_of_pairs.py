"""Statistics of interleaved pairs: the median ratio with its bootstrap interval, and percentiles. Arithmetic only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 4000
PAIRS_MIN = 15
WIDTH_MAX = 0.2


@dataclass(frozen=True)
class Interval:
    """A median; `low` and `high` bound the middle 95 % of the resampled medians of `samples` values."""

    median: float
    low: float
    high: float
    samples: int


def interval_of(values: Sequence[float]) -> Interval:
    """The median of values that were taken independently of one another."""
    array = np.array(values, np.float64)
    picks = np.random.default_rng(0).integers(0, len(array), (RESAMPLES, len(array)))
    low, high = np.percentile(np.median(array[picks], axis=1), [2.5, 97.5])
    return Interval(float(np.median(array)), float(low), float(high), len(array))


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Ours over theirs, value by value: what drifts slower than one pair takes cancels."""
    assert len(ours) == len(theirs), f"{len(ours)} values of ours and {len(theirs)} of theirs are no pairs"
    return interval_of((np.array(ours) / np.array(theirs)).tolist())


def percentile(values: Sequence[float], which: float) -> float:
    return float(np.percentile(np.array(values), which))
