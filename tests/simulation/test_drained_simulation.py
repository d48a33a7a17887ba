"""Hosts that are drained within their island, beside everything else that goes wrong: to clients it is a pause, nothing is lost.

A tenth as many seeds as the other simulation has, and none of its: an island of two to four hosts has hardly anywhere to go. In
every other seed nobody loses a host or an executor, and nothing may be lost. In about half of them two or three hosts are drained
at the same time. It is replayed by `python -m tests.simulation.sim_run SEED --drained`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from tests.simulation.sim_migrations import IN_PLACE
from tests.simulation.sim_overlapping_drains import AT_ONCE, BESIDE, MEANWHILE
from tests.simulation.sim_played import Played, seeds_in_order
from tests.simulation.sim_run import Result, check_every_rule, run_seed
from tests.simulation.test_simulation import SEEDS

COUNT = max(SEEDS // 10, 1)
ORDER = seeds_in_order(COUNT)


@pytest.fixture(scope="module")
def results() -> Iterator[Played[Result]]:
    with Played(partial(run_seed, drained=True), ORDER) as played:
        yield played


def test_every_rule_holds(results: Played[Result]) -> None:
    check_every_rule(results)


def test_seeds_are_not_hollow(results: Played[Result], capsys: pytest.CaptureFixture[str]) -> None:
    kinds: Counter[str] = Counter()
    for result in results:
        kinds.update(kind for kind, times in result.faults.items() if times)
    count = len(ORDER)
    events, values = (sum(getattr(result, name) for result in results) / count for name in ("events", "values"))
    with capsys.disabled():
        print(f"\n  {count} seeds with hosts drained in place: {events:.0f} events, {values:.0f} exact values a seed")
        print(
            "  seeds with "
            + ", ".join(
                f"{kind} {kinds[kind]}" for kind in (IN_PLACE, "drain asked", "drained host stopped", BESIDE, AT_ONCE, MEANWHILE)
            )
        )
    assert events >= 500
    if count >= 30:  # of few seeds a twelfth is a matter of luck
        assert kinds[IN_PLACE] * 12 >= count, "hardly an island forms again under its sessions"
        assert kinds["drained host stopped"] * 5 >= count, "hardly a host that was drained is stopped"
        assert kinds[BESIDE] * 6 >= count, "hardly two hosts are drained at the same time"
        assert kinds[AT_ONCE] * 20 >= count, "hardly two hosts are DRAINED at the same time"
