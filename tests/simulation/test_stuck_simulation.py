"""Hosts that get stuck, beside everything else that goes wrong: the guilty one is named in time, nobody else is, work goes on.

A sixth as many seeds as the other simulation has, and none of its: stuck hosts change a seed. It is replayed by `python -m
tests.simulation.sim_run SEED --stuck`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from tests.simulation.sim_played import Played, seeds_in_order
from tests.simulation.sim_run import Result, check_every_rule, run_seed
from tests.simulation.sim_stuck import LONG_LOAD, STUCK_KINDS
from tests.simulation.test_simulation import SEEDS

COUNT = max(SEEDS // 6, 1)
ORDER = seeds_in_order(COUNT)


@pytest.fixture(scope="module")
def results() -> Iterator[Played[Result]]:
    with Played(partial(run_seed, stuck=True), ORDER) as played:
        yield played


def test_the_stuck_host_is_named_in_time_and_nobody_else_is(results: Played[Result]) -> None:
    for result in results:
        assert "stuck" not in [name for name, _ in result.violations], result.report()


def test_every_other_rule_holds(results: Played[Result]) -> None:
    check_every_rule(results, "stuck")


def test_seeds_are_not_hollow(results: Played[Result], capsys: pytest.CaptureFixture[str]) -> None:
    kinds: Counter[str] = Counter()
    for result in results:
        kinds.update(kind for kind, times in result.stuck.items() if times)
    named, count = sum(result.stuck["named"] for result in results), len(ORDER)
    events = sum(result.events for result in results) / count
    with capsys.disabled():
        print(f"\n  {count} seeds with stuck hosts: {events:.0f} events a seed, {named} hosts named in {kinds['named']} seeds")
        print("  seeds per kind: " + ", ".join(f"{kind} {kinds[kind]}" for kind in (*STUCK_KINDS, LONG_LOAD, "slow link")))
    assert kinds["named"] * 3 >= count, "hardly anybody is named"
    if count >= 60:  # of few seeds a tenth is a matter of luck
        rare = [kind for kind in (*STUCK_KINDS, LONG_LOAD, "slow link") if kinds[kind] * 10 < count]
        assert not rare, f"fewer than a tenth of the seeds have {rare}"
