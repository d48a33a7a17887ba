"""Tenants compete for islands under virtual time, many seeds: shares, starvation, accounting and preemption, by name.

`PATHWAYS_SIMULATION_SEEDS` sets how many seeds the large simulation runs; here it is a tenth of that, and at least 40.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.simulation.checkers.share_rules import RULES
from tests.simulation.sim_played import Played, seeds_in_order
from tests.simulation.sim_shares import Outcome, run_seed

SEEDS = max(int(os.environ.get("PATHWAYS_SIMULATION_SEEDS") or os.environ.get("SIM_SEEDS") or 0) // 10, 40)
ORDER = seeds_in_order(SEEDS)
SENTENCES = {
    "shares": "backlogged_tenants_have_device_time_by_weight",
    "starvation": "nobody_waits_longer_than_follows_from_the_policy",
    "accounting": "what_was_spent_is_booked_and_skew_is_nobodys",
    "preemption": "a_higher_class_goes_first_within_a_quantum_and_a_gang",
}


@pytest.fixture(scope="module")
def outcomes() -> Iterator[Played[Outcome]]:
    with Played(run_seed, ORDER) as played:
        yield played


def test_every_rule_has_a_sentence() -> None:
    assert {*SENTENCES} == {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", [pytest.param(name, id=sentence) for name, sentence in SENTENCES.items()])
def test_the_policies_hold(outcomes: Played[Outcome], rule: str) -> None:
    for outcome in outcomes:
        assert rule not in [name for name, _ in outcome.violations], outcome.report()


def test_the_contests_are_not_hollow(outcomes: Played[Outcome], capsys: pytest.CaptureFixture[str]) -> None:
    figures: Counter[str] = Counter()
    looks: Counter[str] = Counter()
    for outcome in outcomes:
        figures.update(outcome.figures)
        looks.update(outcome.looks)
    count = len(ORDER)
    with capsys.disabled():
        print(f"\n  {count} seeds of tenants that compete: " + ", ".join(f"{name} {figures[name]}" for name in sorted(figures)))
        print("  rules, times applied: " + ", ".join(f"{name} {looks[name]}" for name in SENTENCES))
    assert figures["phases judged by shares"] >= count
    assert count < 100 or figures["shares compared to three percent"] * 3 >= count  # of few seeds a matter of luck
    assert figures["waits that ageing ended"] >= count
    assert figures["arrivals of the highest class that were timed"] * 10 >= count
    assert all(figures[change] * 10 >= count for change in ("idle", "return", "weight", "class", "policy", "loss"))
    assert all(looks[name] >= count for name in SENTENCES)


def test_a_contest_plays_the_same_again() -> None:
    assert run_seed(5) == run_seed(5)
