"""A disturbed pair is taken again while there is time for that, and counted where it stays disturbed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks.quiet import TRIES, Quiet, machine_cpu_seconds


def samples(*foreign: float) -> Callable[[], dict[str, Any]]:
    each = iter(enumerate(foreign))

    def sample() -> dict[str, Any]:
        number, share = next(each)
        return {"number": number, "foreign": share}

    return sample


def test_pair_is_taken_again_when_one_of_its_samples_was_disturbed() -> None:
    quiet = Quiet(budget_s=5, wait=lambda timeout_s: None)
    answers = quiet.take([samples(0.0, 0.1, 0.1), samples(0.9, 0.5, 0.0)])
    assert [answer["number"] for answer in answers] == [2, 2]
    assert (quiet.repeated, quiet.disturbed, quiet.loud) == (2, 0, False)
    assert "such pairs were taken again 2 times" in str(quiet)


def test_pair_that_stays_disturbed_is_kept_and_counted() -> None:
    quiet = Quiet(budget_s=5, wait=lambda timeout_s: None)
    assert quiet.take([samples(0.9, 0.5, *([0.9] * (TRIES - 2)))])[0]["number"] == 1  # the least disturbed
    assert (quiet.repeated, quiet.disturbed, quiet.loud) == (TRIES - 1, 1, True)


def test_nothing_is_taken_again_without_a_budget() -> None:
    quiet = Quiet(budget_s=0, wait=lambda timeout_s: None)
    assert quiet.take([samples(0.9)])[0]["number"] == 0
    assert quiet.disturbed == 1


def test_machine_counts_what_this_process_spends() -> None:
    before_s, own_s = machine_cpu_seconds(), time.process_time()
    while time.process_time() - own_s < 0.2:
        pass
    assert machine_cpu_seconds() - before_s > 0.1
