"""Grants that cover several launches behave as single ones do: in order, held, asked for, repeated, contradicted. Or none."""

from __future__ import annotations

from pathways_worker.core.gang_queue import (
    AskAgain,
    EpochReset,
    Following,
    GangQueue,
    Granted,
    Ignored,
    Launch,
    Prepared,
    RunRange,
    Stop,
)


def started() -> GangQueue:
    queue = GangQueue()
    queue.step(EpochReset(1))
    return queue


def steps(first: int, end: int, run: int = 100) -> RunRange:
    return RunRange(run, first, end)


def test_ranges_of_a_run_and_single_executions_follow_one_another() -> None:
    queue = started()
    assert queue.step(Prepared(steps(0, 4), 1, 0, 1, 3)) == [Launch(steps(0, 4), 1)]
    assert queue.last == 3
    assert queue.step(Prepared(7, 4, 3, 1)) == [Launch(7, 4)]
    assert queue.launch_next(steps(4, 9), 6, 4, 1, 9)
    assert queue.last == 9
    assert queue.waiting == 0


def test_a_range_whose_predecessor_is_missing_is_held_and_its_last_launch_asked_for_once() -> None:
    queue = started()
    assert queue.step(Prepared(steps(4, 9), 4, 3, 1, 6)) == [AskAgain(3, 1)]
    assert queue.step(Prepared(steps(4, 9), 4, 3, 1, 6)) == [Ignored("granted already")]
    assert queue.step(Prepared(steps(0, 4), 1, 0, 1, 3)) == [Launch(steps(0, 4), 1), Launch(steps(4, 9), 4)]
    assert queue.last == 6


def test_a_held_range_before_another_is_not_asked_for() -> None:
    queue = started()
    assert queue.step(Prepared(steps(4, 9), 4, 3, 1, 6)) == [AskAgain(3, 1)]
    assert queue.step(Prepared(8, 7, 6, 1)) == []
    assert queue.step(Prepared(steps(0, 4), 1, 0, 1, 3))[-1] == Launch(8, 7)


def test_a_granted_range_waits_until_its_run_is_ready_for_it() -> None:
    queue = started()
    assert queue.step(Granted(steps(0, 4), 1, 0, 1, 3)) == []
    assert queue.step(Prepared(steps(0, 4), 1, 0, 1, 3)) == [Launch(steps(0, 4), 1)]


def test_a_late_repetition_of_a_launched_range_is_ignored() -> None:
    queue = started()
    queue.step(Prepared(steps(0, 4), 1, 0, 1, 3))
    queue.step(Prepared(steps(4, 9), 4, 3, 1, 6))
    assert queue.step(Prepared(steps(0, 4), 1, 0, 1, 3)) == [Ignored("granted already")]
    assert queue.step(Granted(steps(4, 9), 4, 3, 1, 6)) == [Ignored("granted already")]


def stops(queue: GangQueue, event: Prepared | Granted) -> bool:
    effects = queue.step(event)
    return [type(effect) for effect in effects] == [Stop] and not queue.launch_next(9, 100, queue.last, 1)


def test_a_range_that_contradicts_what_was_launched_stops_the_host() -> None:
    for event in (
        Prepared(steps(0, 4), 1, 0, 1, 2),  # another end
        Prepared(steps(0, 3), 1, 0, 1, 3),  # other steps
        Prepared(steps(4, 9), 2, 1, 1, 5),  # begins inside what was launched
        Prepared(steps(4, 9), 5, 2, 1, 6),  # follows a launch that was not the last
        Prepared(steps(0, 4), 4, 3, 1, 6),  # the same steps again
        Prepared(8, 2, 1, 1),  # a single execution inside the range
        Prepared(steps(4, 9), 5, 3, 1, 4),  # ends before it begins
    ):
        queue = started()
        queue.step(Prepared(steps(0, 4), 1, 0, 1, 3))
        assert stops(queue, event), event


def test_a_range_that_overlaps_one_that_is_held_stops_the_host() -> None:
    for event in (
        Granted(8, 5, 4, 1),  # a single execution inside the held range
        Granted(steps(20, 30), 6, 5, 1, 8),
        Granted(steps(2, 4), 3, 2, 1, 4),  # reaches into the held range
        Granted(steps(2, 30), 3, 2, 1, 20),  # covers it
    ):
        queue = started()
        queue.step(Prepared(steps(4, 9), 4, 3, 1, 6))
        assert stops(queue, event), event


def test_ranges_of_an_epoch_that_is_over_are_ignored() -> None:
    queue = started()
    queue.step(EpochReset(2))
    assert [type(effect) for effect in queue.step(Prepared(steps(0, 4), 1, 0, 1, 3))] == [Ignored]
    assert queue.step(Prepared(steps(0, 4), 1, 0, 2, 3)) == [Launch(steps(0, 4), 1)]


def test_a_range_without_launches_goes_at_once_when_its_previous_is_launched() -> None:
    queue = started()
    assert queue.step(Following(steps(0, 1), 0, 1)) == [Launch(steps(0, 1), 0)]
    assert queue.launch_next(7, 2, 0, 1)
    assert queue.step(Following(steps(1, 2), 2, 1)) == [Launch(steps(1, 2), 0)]
    assert queue.launch_next(8, 3, 2, 1)
    # It comes late: what it follows was launched long ago.
    assert queue.step(Following(steps(2, 3), 2, 1)) == [Launch(steps(2, 3), 0)]
    assert (queue.last, queue.waiting) == (3, 0)


def test_a_range_without_launches_never_overtakes_what_it_follows() -> None:
    queue = started()
    assert queue.step(Following(steps(4, 5), 3, 1)) == [AskAgain(3, 1)]
    assert queue.step(Following(steps(0, 9, 200), 3, 1)) == []
    assert queue.step(Prepared(8, 4, 3, 1)) == []
    assert queue.waiting == 4  # 8 is prepared and granted
    # Behind what they follow, before what comes after it, in the order in which they came.
    assert queue.step(Prepared(steps(0, 4), 1, 0, 1, 3)) == [
        Launch(steps(0, 4), 1), Launch(steps(4, 5), 0), Launch(steps(0, 9, 200), 0), Launch(8, 4),
    ]  # fmt: skip
    assert (queue.last, queue.waiting) == (4, 0)


def test_a_launch_takes_the_ranges_that_follow_it_with_it_also_on_the_short_way() -> None:
    queue = started()
    queue.step(Following(steps(4, 5), 3, 1))
    # Nothing is held besides, but what follows has to be told of.
    assert not queue.launch_next(steps(0, 4), 1, 0, 1, 3)
    assert queue.step(Prepared(steps(0, 4), 1, 0, 1, 3)) == [Launch(steps(0, 4), 1), Launch(steps(4, 5), 0)]
    assert queue.launch_next(8, 4, 3, 1)


def test_a_range_that_follows_a_held_launch_asks_for_nothing_more() -> None:
    queue = started()
    assert queue.step(Prepared(8, 4, 3, 1)) == [AskAgain(3, 1)]
    assert queue.step(Following(steps(0, 2), 4, 1)) == []
    # What is granted and not prepared has to be sent whole.
    assert queue.step(Granted(9, 5, 4, 1)) == []
    assert queue.step(Following(steps(2, 4), 5, 1)) == [AskAgain(5, 1)]


def test_ranges_that_follow_end_with_their_epoch() -> None:
    queue = started()
    queue.step(Following(steps(4, 5), 3, 1))
    queue.step(EpochReset(2))
    assert queue.waiting == 0
    assert queue.step(Prepared(7, 3, 0, 2)) == [Launch(7, 3)]
    assert [type(effect) for effect in queue.step(Following(steps(5, 6), 3, 1))] == [Ignored]


def test_a_range_that_follows_a_sequence_of_others_stops_the_host() -> None:
    queue = started()
    queue.step(Prepared(steps(4, 9), 4, 3, 1, 6))
    # This host launches 4 to 6 in one grant.
    assert [type(effect) for effect in queue.step(Following(steps(9, 10), 5, 1))] == [Stop]
    assert [type(effect) for effect in queue.step(Following(steps(0, 1), 0, 1))] == [Ignored]
    queue = started()
    queue.step(Following(steps(9, 10), 5, 1))
    assert stops(queue, Prepared(steps(4, 9), 4, 3, 1, 6))
