"""A verdict is only given where the interval supports it."""

from __future__ import annotations

import pytest

from tests.benchmarks.claims import Claim, figure_claim, judged, number, ratio_claim
from tests.benchmarks.statistics_of_pairs import Interval


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.26, 0.30, "met"),
        (0.41, 0.45, "met, and the aim"),
        (0.39, 0.45, "met"),
        (0.20, 0.24, "NOT met"),
        (0.24, 0.30, "undecided"),
        (0.50, 0.71, "undecided"),
        (0.01, 0.24, "NOT met"),
    ],
)
def test_ratio_is_judged_by_its_whole_interval(low: float, high: float, verdict: str) -> None:
    assert Claim("c", Interval((low + high) / 2, low, high, 15), bar=0.25, aim=0.4).verdict == verdict


def test_disturbed_pairs_decide_nothing() -> None:
    claims = [Claim("c", Interval(0.5, 0.5, 0.5, 15), bar=bar) for bar in (0.4, 0.6)]
    assert [claim.verdict for claim in judged(claims, disturbed=False)] == ["met", "NOT met"]
    assert [claim.verdict for claim in judged(claims, disturbed=True)] == ["undecided"] * 2


def test_few_pairs_decide_nothing() -> None:
    assert Claim("c", Interval(0.5, 0.5, 0.5, 14), bar=0.25).verdict == "undecided"


def test_lower_figures_are_better_where_the_claim_says_so() -> None:
    latency = figure_claim("p50", [0.8] * 15, "ms", bar=1.0, aim=0.5, at_least=False)
    assert (latency.verdict, latency.wanted) == ("met", "at most 1.00 ms; aim 0.50 ms")
    assert figure_claim("p50", [1.2] * 15, "ms", bar=1.0, at_least=False).verdict == "NOT met"


def test_figure_wider_than_a_fifth_is_undecided() -> None:
    values = [4100.0, 7000.0] * 8
    assert figure_claim("calls", values, "calls/s", bar=4000.0).verdict == "undecided"


def test_claim_without_a_bar_only_states_its_figure() -> None:
    assert ratio_claim("r", [1.0], [2.0]).verdict == "measured"


def test_numbers_are_written_for_people() -> None:
    assert [number(value) for value in (12345.6, 123.4, 12.34, 1.234)] == ["12,346", "123", "12.3", "1.23"]
