"""A client's round trip stays bounded while another keeps 10,000 gangs queued, or uploads without pause.

Times are compared with one another, idle and loaded samples in turns, so these want the machine for themselves.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import pytest

from tests.benchmarks import shared
from tests.benchmarks.sides import Side
from tests.cluster import running_cluster

pytestmark = pytest.mark.long
PAIRS = 5


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    with running_cluster(islands=1, hosts=2, devices=1) as cluster, shared.company(cluster) as company:
        yield company


@pytest.mark.parametrize(("load", "ratio_max"), [(name, ratio_max) for name, *_, ratio_max in shared.LOADS])
def test_a_round_trip_is_bounded_by_some_times_the_idle_one(sides: tuple[Side, Side], load: str, ratio_max: float) -> None:
    samples = shared.measure(*sides, PAIRS, loads=(load,))
    for kind, words, _ in shared.KINDS:
        loaded, idle = shared.ratios(samples, load, kind)
        ratio = statistics.median(busy / quiet for busy, quiet in zip(loaded, idle, strict=True))
        print(f"{words}, {load}: p99 {loaded} ms, idle {idle} ms, ratio {ratio:.2f}")
        assert ratio <= ratio_max, f"{words}: p99 {loaded} ms beside {load}, idle {idle} ms"
