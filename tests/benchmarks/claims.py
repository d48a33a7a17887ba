"""A claim is a figure with its interval, held against a bar that must hold and, where there is one, an aim.

It is met when the interval lies wholly on the good side of the bar, is narrow and comes from enough samples; not met when it lies
wholly on the other side, however wide. Otherwise it is undecided. Arithmetic only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.benchmarks.statistics_of_pairs import PAIRS_MIN, WIDTH_MAX, Interval, interval_of, ratio_of


@dataclass(frozen=True)
class Claim:
    """One figure. `bar` must hold, `aim` is hoped for; `at_least` says which side of them is good.

    `width_max` is the widest interval that still decides: 0.2 for a ratio, a fifth for a figure with a unit. A claim with `bar`
    None only states its figure. `disturbed`: something else ran in many of the samples, so they decide nothing.
    """

    what: str
    figure: Interval
    bar: float | None = None
    aim: float | None = None
    at_least: bool = True
    unit: str = ""
    width_max: float = WIDTH_MAX
    disturbed: bool = False

    @property
    def verdict(self) -> str:
        """ "met", "met, and the aim", "NOT met", "undecided" or, without a bar, "measured"."""
        if self.bar is None:
            return "measured"
        side = self._side(self.bar)
        if side is None:
            return "undecided"
        if not side:
            return "NOT met"
        return "met, and the aim" if self.aim is not None and self._side(self.aim) else "met"

    def _side(self, bar: float) -> bool | None:
        """Whether the figure is on the good side; None when the samples do not say."""
        low, high = self.figure.low, self.figure.high
        if self.figure.samples < PAIRS_MIN or self.disturbed:
            return None
        narrow = high - low < self.width_max
        if not self.at_least:
            low, high, bar = -high, -low, -bar
        return True if low >= bar and narrow else False if high < bar else None

    @property
    def wanted(self) -> str:
        """The bar and the aim in words."""
        if self.bar is None:
            return ""
        words = f"{'at least' if self.at_least else 'at most'} {number(self.bar)}{self.unit}"
        return words if self.aim is None else f"{words}; aim {number(self.aim)}{self.unit}"

    @property
    def measured(self) -> str:
        """The figure, its interval and how many samples it has."""
        figure = self.figure
        return f"{number(figure.median)}{self.unit} ({number(figure.low)} to {number(figure.high)}, {figure.samples} samples)"


def judged(claims: Sequence[Claim], disturbed: bool) -> list[Claim]:
    """The claims, undecided where the samples were disturbed."""
    return [replace(claim, disturbed=disturbed) for claim in claims]


def ratio_claim(
    what: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    bar: float | None = None,
    aim: float | None = None,
    width_max: float = WIDTH_MAX,
) -> Claim:
    """Ours over theirs, pair by pair, at least the bar."""
    return Claim(what, ratio_of(ours, theirs), bar, aim, width_max=width_max)


def figure_claim(
    what: str,
    samples: Sequence[float],
    unit: str,
    bar: float | None = None,
    aim: float | None = None,
    *,
    at_least: bool = True,
) -> Claim:
    """A figure with a unit: the median of its samples."""
    interval = interval_of(samples)
    return Claim(what, interval, bar, aim, at_least, f" {unit}", max(abs(bar or 0.0), abs(interval.median)) / 5)


def number(value: float) -> str:
    """Three digits are enough for a person, and thousands are separated."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
