"""What a device is booked for is what it did, however late ends are seen. Expected are the durations that the tests make up."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pathways_worker.executor.core_wait import CoreWait
from pathways_worker.executor.device_times import DeviceTimes

US, MS = 1_000, 1_000_000


def rows_of(
    draw: random.Random, durations: Sequence[int], late_ns: int, handed_ns: Sequence[int] | None = None, known: bool = True
) -> tuple[DeviceTimes, list[tuple[int, int]]]:
    """Books launches, queued unless `handed_ns` says when each came, on a device where everybody waits for a core for
    `late_ns` on average: each launch to begin, and who sees its end."""
    books, rows, now_ns = DeviceTimes(), [], 0
    for number, duration in enumerate(durations):
        began_ns = handed_ns[number] if handed_ns is not None else 0
        started_ns = max(now_ns, began_ns) + round(draw.expovariate(1 / late_ns)) if late_ns else max(now_ns, began_ns)
        now_ns = started_ns + duration
        seen_late_ns = round(draw.expovariate(1 / late_ns)) if late_ns else 0
        rows.append(books.book((0,), began_ns, now_ns + seen_late_ns, seen_late_ns if known else None))
    return books, rows


def lasted(rows: Sequence[tuple[int, int]]) -> list[int]:
    return [ended - started for started, ended in rows]


def test_where_nobody_waits_for_a_core_launches_are_booked_to_the_nanosecond() -> None:
    durations = [3 * MS, 1 * MS, 100 * MS, 40 * US]
    books, rows = rows_of(random.Random(1), durations, 0)
    assert lasted(rows) == durations
    assert books.busy_ns == sum(durations)


def test_a_launch_that_comes_to_an_idle_device_begins_when_it_is_handed_over() -> None:
    _, rows = rows_of(random.Random(1), [MS, 2 * MS], 0, handed_ns=[5 * MS, 50 * MS])
    assert rows == [(5 * MS, 6 * MS), (50 * MS, 52 * MS)]


@pytest.mark.parametrize("late_ns", [20 * US, 100 * US, 200 * US])
def test_launches_of_any_length_are_booked_for_what_they_take_on_busy_cores(late_ns: int) -> None:
    durations = [duration for duration in (1 * MS, 3 * MS, 10 * MS, 100 * MS) for _ in range(3000)]
    draw = random.Random(late_ns)
    draw.shuffle(durations)
    _, rows = rows_of(draw, durations, late_ns)
    for duration in (1 * MS, 3 * MS, 10 * MS, 100 * MS):
        own = [got for got, due in zip(lasted(rows), durations, strict=True) if due == duration]
        # Waiting alone would be 20 % of the shortest ones.
        assert sum(own) / len(own) == pytest.approx(duration, rel=0.03)


def test_without_the_kernels_word_the_time_between_launches_is_theirs() -> None:
    durations = [MS] * 1000
    books, rows = rows_of(random.Random(3), durations, 100 * US, known=False)
    assert books.lateness_ns == 0
    for (_, ended_ns), (started_ns, _) in itertools.pairwise(rows):
        assert started_ns == ended_ns


def test_one_that_was_seen_very_late_takes_nothing_from_those_behind_it() -> None:
    books = DeviceTimes()
    # Its end was at 1 ms; meanwhile the next one ended, which is seen at once.
    assert books.book((0,), 0, 4 * MS, 3 * MS) == (3 * MS // 32, MS)
    started_ns, ended_ns = books.book((0,), 0, 4 * MS + 10, 0)
    assert started_ns < MS + 3 * MS // 32
    assert ended_ns == 4 * MS + 10


@pytest.mark.parametrize("seed", range(20))
def test_launches_never_overlap_nor_last_less_than_nothing_whatever_is_said(seed: int) -> None:
    draw = random.Random(seed)
    books, at_ns = DeviceTimes(), {0: 0, 1: 0}
    ended: dict[int, int] = {0: 0, 1: 0}
    busy_ns, last_ns = 0, 0
    for _ in range(300):
        places = draw.choice([(0,), (1,), (0, 1)])
        began_ns = draw.randrange(10 * MS) + max(at_ns.values()) * draw.randrange(2)
        seen_ns = began_ns + draw.randrange(5 * MS) - MS
        late_ns = draw.choice([None, 0, draw.randrange(10 * MS)])
        started_ns, ended_ns = books.book(places, began_ns, seen_ns, late_ns)
        assert began_ns <= started_ns <= ended_ns
        assert all(ended[place] <= started_ns for place in places)
        for place in places:
            ended[place] = at_ns[place] = ended_ns
        busy_ns += ended_ns - started_ns
        last_ns = max(last_ns, ended_ns)
    assert books.busy_ns == busy_ns <= 2 * last_ns


def test_a_short_launch_on_busy_cores_is_not_taken_for_nothing() -> None:
    books = DeviceTimes()
    at_ns = 0
    for _ in range(200):
        at_ns += MS
        books.book((0,), at_ns - MS, at_ns, 200 * US)
    assert books.lateness_ns == pytest.approx(200 * US, rel=0.05)
    # All of the time until its end was seen may have been waiting, and half of what is left.
    assert books.book((0,), at_ns, at_ns + 80 * US, 80 * US) == (at_ns + 5 * US, at_ns + 10 * US)


def test_what_runs_as_it_is_handed_over_waits_for_no_core() -> None:
    books = DeviceTimes()
    books.book((0,), 0, 10 * MS, 9 * MS)
    assert books.lateness_ns > 200 * US
    assert books.book((0,), 20 * MS, 20 * MS + 50 * US, None, at_once=True) == (20 * MS, 20 * MS + 50 * US)


def test_the_kernels_figures_are_read_and_nothing_is_said_where_it_does_not_count(tmp_path: Path) -> None:
    figures = tmp_path / "schedstat"
    figures.write_text("81000 5200 17\n")
    core_wait = CoreWait(str(figures))
    assert core_wait.so_far() == (5200, 17)
    figures.write_text("81000 900000005200 18\n")
    assert core_wait.so_far() == (900_000_005_200, 18)
    figures.write_text("")
    assert core_wait.so_far() == (0, 0)
    core_wait.close()
    assert core_wait.so_far() == (0, 0)
    assert CoreWait(str(tmp_path / "missing")).so_far() == (0, 0)
