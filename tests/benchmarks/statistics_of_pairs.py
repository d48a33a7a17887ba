"""Statistics of interleaved pairs: the median ratio with its bootstrap interval, and percentiles. Arithmetic only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 4000
PAIRS_MIN = 15
WIDTH_MAX = 0.2


@dataclass(frozen=True)
class Ratio:
    """Ours over theirs; `low` and `high` bound the middle 95 % of the resampled medians."""

    median: float
    low: float
    high: float
    pairs: int

    @property
    def decided(self) -> bool:
        """Enough pairs and a narrow interval; otherwise the figure only hints."""
        return self.pairs >= PAIRS_MIN and self.high - self.low < WIDTH_MAX

    def __str__(self) -> str:
        text = f"{self.median:.2f} (95 % interval {self.low:.2f} to {self.high:.2f}, {self.pairs} pairs)"
        return text if self.decided else text + ", undecided"


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    ratios = np.array(ours) / np.array(theirs)
    picks = np.random.default_rng(0).integers(0, len(ratios), (RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[picks], axis=1), [2.5, 97.5])
    return Ratio(float(np.median(ratios)), float(low), float(high), len(ratios))


def percentile(values: Sequence[float], which: float) -> float:
    return float(np.percentile(np.array(values), which))
