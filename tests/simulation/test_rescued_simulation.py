"""Executors that die again and again, and arrays that lie on few hosts: what survivors hold outlives epoch after epoch.

A tenth as many seeds as the other simulation has, at least 40, and none of its. Hosts refuse to keep what they are asked for,
take longer than they have, die while they put things away, and answer twice and late. Replayed by
`python -m tests.simulation.sim_run SEED --rescued`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.simulation.sim_played import Played, seeds_in_order
from tests.simulation.sim_rescues import RESCUE_KINDS
from tests.simulation.sim_run import Result, check_every_rule, run_seed
from tests.simulation.test_simulation import SEEDS

COUNT = max(SEEDS // 10, 40)
ORDER = seeds_in_order(COUNT)


@pytest.fixture(scope="module")
def results() -> Iterator[Played[Result]]:
    with Played(partial(run_seed, rescued=True), ORDER) as played:
        yield played


def test_every_rule_holds(results: Played[Result]) -> None:
    check_every_rule(results)


def test_seeds_are_not_hollow(results: Played[Result], capsys: pytest.CaptureFixture[str]) -> None:
    count = len(ORDER)
    parts = {kind: sum(result.rescues[kind] for result in results) for kind in RESCUE_KINDS}
    looks = sum(result.looks.get("survivors", 0) for result in results)
    values = sum(result.values for result in results) / count
    with capsys.disabled():
        print(f"\n  {count} seeds in which executors die often: {values:.0f} exact values a seed")
        print(f"  parts that outlive an epoch: {parts}; arrays on survivors that were looked at: {looks}")
    assert values >= 20
    if count >= 10:  # of few seeds it is a matter of luck
        assert parts["kept"] >= 2 * count, "hardly anything outlives an epoch"
        assert parts["restored"] * 2 >= count, "hardly anything comes back"
        assert parts["replicated"] * 5 >= count, "hardly anything has an equal shard on a survivor"
        assert min(parts["refused"], parts["late"]) * 10 >= count, "hosts hardly ever fail to keep anything"
        assert looks >= count, "hardly anything lies on survivors"
