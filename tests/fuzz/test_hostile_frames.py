"""Strangers on a controller's link port: the same cases every time, beside a session. `make fuzz` looks for others."""

from __future__ import annotations

import pytest

from tests.fuzz.frames import Stranger, run_cases

CASES = 40


@pytest.mark.parametrize("block", range(4))
def test_whatever_comes_to_a_link_port_is_refused_and_harms_nobody(block: int) -> None:
    run_cases(list(range(block * CASES, (block + 1) * CASES)))


def test_the_cases_are_of_all_kinds() -> None:
    strangers = [Stranger(seed, "token", "secret") for seed in range(4 * CASES)]
    sizes = [len(stranger.sent()) for stranger in strangers]
    assert {(stranger.worker, stranger.reads) for stranger in strangers} == {
        (True, True),
        (True, False),
        (False, True),
        (False, False),
    }
    assert 0.5 < sum(stranger.known for stranger in strangers) / len(strangers) < 0.9
    assert min(sizes) < 30
    assert max(sizes) > 100_000
