"""What sides answer becomes sections with the right figures; the sides are made up here."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.benchmarks import calls, gangs, pipeline, smallest
from tests.benchmarks.quiet import Quiet
from tests.benchmarks.sides import Side


class MadeUp:
    """Answers at once: `rate` steps a second, and as much CPU of each role as is said."""

    def __init__(self, rate: float, foreign: float = 0.0, **cpu_us: float) -> None:
        self.answer: dict[str, Any] = {"rate": rate, "foreign": foreign, "cpu_us": cpu_us, "call_us": 50.0, "busy_us": 0.0}
        self.asked: list[tuple[str, int]] = []

    def measure(self, what: str, count: int, awaited: bool = False, lasts_ns: int = 0) -> dict[str, Any]:
        self.asked.append((what, count))
        return self.answer | {"latencies_us": [2000.0] * 3 if awaited else [], "busy_us": lasts_ns / 1000}

    def watched(self, stages: int, dispatch: str, count: int) -> Any:
        seconds = count * stages / self.answer["rate"] * (2 if dispatch == "sequential" else 1)
        return {}, [{"seconds": seconds, "latency_us": 1e6 * seconds, "values": [float(stages)]}], {}, self.answer["foreign"]


def quiet() -> Quiet:
    return Quiet(0, wait=lambda timeout_s: None)


def as_side(made_up: MadeUp) -> Side:
    return cast(Side, made_up)


@pytest.mark.parametrize(("foreign", "verdict"), [(0.0, "met, and the aim"), (0.9, "undecided")])
def test_ratios_of_gang_steps_are_of_the_two_sides(foreign: float, verdict: str) -> None:
    ours, theirs, rows, pairs = MadeUp(5000, foreign, controller=7.0), MadeUp(4000, controllers=200.0), list(gangs.ROWS), quiet()
    measured = gangs.measure(as_side(ours), as_side(theirs), rows, 15, 1, pairs)
    section = gangs.section(2, rows, measured, pairs)
    assert [claim.figure.median for claim in section.claims[:4]] == [1.25] * 4
    assert section.claims[0].verdict == verdict
    assert section.claims[-1].figure.median == pytest.approx(7.0 * 128 / 1000)  # milliseconds per program
    assert min(count for what, count in theirs.asked[4:]) >= 2048


def test_lines_with_placed_threads_stand_for_themselves() -> None:
    ours, theirs, rows, pairs = MadeUp(5000, controller=7.0), MadeUp(4000, controllers=200.0), list(gangs.ROWS), quiet()
    plain = gangs.section(2, rows, gangs.measure(as_side(ours), as_side(theirs), rows, 15, 1, pairs), pairs)
    placed = gangs.measure(as_side(MadeUp(6000)), as_side(MadeUp(8000)), gangs.PLACED_ROWS, 15, 1, quiet())
    section = gangs.with_placed(plain, placed, quiet())
    added = section.claims[len(plain.claims) :]
    assert section.claims[: len(plain.claims)] == plain.claims
    assert [(claim.figure.median, claim.verdict) for claim in added] == [(0.75, "measured")] * 2
    names = ["threads placed: OpByOp", "threads placed: Chained"]
    assert [claim.what.partition(",")[0] for claim in added] == names
    assert section.tables[:-1] == plain.tables
    assert [row[:3] for row in section.tables[-1].rows] == [(name, "6,000", "8,000") for name in names]
    assert section.plots == plain.plots
    assert section.data["rows"] == plain.data["rows"]


def test_calls_are_counted_through_the_door() -> None:
    pairs = quiet()
    answers = calls.measure({"door": as_side(MadeUp(4500, door=100.0)), "bare": as_side(MadeUp(9000))}, 15, 1, pairs)
    section = calls.section(answers, pairs)
    assert [claim.verdict for claim in section.claims] == ["met", "NOT met", "measured"]
    assert section.claims[1].figure.median == 2.0  # milliseconds


def test_sides_that_are_equally_fast_need_no_larger_computation() -> None:
    pairs = quiet()
    points = smallest.measure(as_side(MadeUp(1000)), as_side(MadeUp(1000)), 15, (100, 400), 0.1, pairs)
    section = smallest.section(2, points, pairs)
    assert [(claim.figure.median, claim.verdict) for claim in section.claims] == [(0.1, "met")] * 2


def test_pipelines_compare_the_two_ways_of_dispatch() -> None:
    pairs, samples = quiet(), pipeline.no_samples()
    for link in pipeline.LINKS:
        pipeline.measure(as_side(MadeUp(1000)), link, samples, 15, 2, 10, pairs)
    section = pipeline.section(samples, 2, 10, pairs)
    assert [claim.figure.median for claim in section.claims] == [pytest.approx(2.0)] * 4
