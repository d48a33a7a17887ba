"""The launch rule of one host, case by case. Execution n has id 100 + n unless a test says otherwise."""

from __future__ import annotations

import pytest
from pathways_worker.core import gang_queue
from pathways_worker.core.gang_queue import (
    AskAgain,
    Cancelled,
    Effect,
    EpochReset,
    GangQueue,
    Granted,
    Ignored,
    Launch,
    Prepared,
    Stop,
)


def started(check: bool = True) -> GangQueue:
    queue = GangQueue(check)
    assert queue.step(EpochReset(1)) == []
    return queue


def prepared(sequence: int, previous: int, execution: int | None = None, epoch: int = 1) -> Prepared:
    return Prepared(100 + sequence if execution is None else execution, sequence, previous, epoch)


def granted(sequence: int, previous: int, execution: int | None = None, epoch: int = 1) -> Granted:
    return Granted(100 + sequence if execution is None else execution, sequence, previous, epoch)


def launches(*sequences: int) -> list[Effect]:
    return [Launch(100 + sequence, sequence) for sequence in sequences]


def only_ignored(effects: list[Effect]) -> bool:
    return len(effects) == 1 and isinstance(effects[0], Ignored)


def only_stop(effects: list[Effect]) -> bool:
    return len(effects) == 1 and isinstance(effects[0], Stop)


def test_gangs_in_order_are_launched_at_once() -> None:
    queue = started()
    assert queue.step(prepared(1, 0)) == launches(1)
    assert queue.step(prepared(4, 1)) == launches(4)
    assert queue.step(prepared(5, 4)) == launches(5)
    assert queue.last == 5
    assert queue.waiting == 0


def test_a_later_gang_is_held_and_the_missing_one_is_asked_for_once() -> None:
    queue = started()
    assert queue.step(prepared(3, 2)) == [AskAgain(2, 1)]
    assert queue.step(prepared(3, 2)) == [Ignored("granted already")]
    assert queue.step(prepared(2, 1)) == [AskAgain(1, 1)]
    assert queue.step(prepared(4, 3)) == []
    assert queue.step(prepared(1, 0)) == launches(1, 2, 3, 4)


def test_a_grant_waits_for_its_prepare() -> None:
    queue = started()
    assert queue.step(granted(1, 0)) == []
    assert queue.step(Prepared(101, 0, 0, 1)) == launches(1)


def test_a_prepare_waits_for_its_grant() -> None:
    queue = started()
    assert queue.step(Prepared(102, 0, 0, 1)) == []
    assert queue.step(Prepared(101, 0, 0, 1)) == []
    assert queue.step(granted(1, 0)) == launches(1)
    assert queue.step(granted(2, 1)) == launches(2)


def test_a_lost_prepare_is_asked_for_and_comes_with_the_grant_that_is_held_already() -> None:
    queue = started()
    assert queue.step(granted(1, 0)) == []
    assert queue.step(prepared(2, 1)) == [AskAgain(1, 1)]
    assert queue.step(granted(3, 2)) == []
    assert queue.step(granted(4, 3)) == [AskAgain(3, 1)]
    assert queue.step(prepared(1, 0)) == launches(1, 2)
    assert queue.step(prepared(3, 2)) == launches(3)


def test_repetitions_are_ignored() -> None:
    queue = started()
    queue.step(prepared(1, 0))
    assert only_ignored(queue.step(prepared(1, 0)))
    assert only_ignored(queue.step(granted(1, 0)))
    assert only_ignored(queue.step(Prepared(101, 0, 0, 1)))
    queue.step(Prepared(102, 0, 0, 1))
    assert only_ignored(queue.step(Prepared(102, 0, 0, 1)))
    assert queue.waiting == 1


@pytest.mark.parametrize(
    "event",
    [
        prepared(3, 2, execution=7),
        prepared(3, 1),
        granted(2, 1, execution=103),
        granted(4, 2),
        granted(5, 3, execution=102),
        granted(1, 0, execution=9),
        granted(6, 6),
        granted(0, 0),
    ],
    ids=["other execution", "other previous", "smaller", "older previous", "launched twice", "first", "own previous", "zero"],
)
def test_a_contradiction_stops_the_queue_before_anything_is_launched(event: Prepared | Granted) -> None:
    queue = started()
    for sequence in (1, 2, 3):
        queue.step(prepared(sequence, sequence - 1))
    assert only_stop(queue.step(event))
    assert only_ignored(queue.step(prepared(4, 3)))
    assert queue.last == 3


def test_a_contradiction_with_a_held_grant_stops_the_queue() -> None:
    for event in (prepared(5, 4, execution=7), prepared(6, 4), prepared(5, 3), prepared(4, 3, execution=105), prepared(9, 2)):
        queue = started()
        queue.step(prepared(5, 4))
        assert only_stop(queue.step(event)), event


def test_a_cancelled_execution_is_not_launched() -> None:
    queue = started()
    queue.step(Prepared(101, 0, 0, 1))
    assert queue.step(Cancelled(101)) == []
    assert queue.waiting == 0
    assert only_ignored(queue.step(Cancelled(101)))
    assert only_ignored(queue.step(Prepared(101, 0, 0, 1)))
    assert queue.step(prepared(1, 0, execution=200)) == [Launch(200, 1)]
    assert only_stop(queue.step(granted(2, 1, execution=101)))


def test_what_is_granted_cannot_be_cancelled() -> None:
    queue = started()
    queue.step(granted(1, 0))
    assert only_ignored(queue.step(Cancelled(101)))
    assert queue.step(Prepared(101, 0, 0, 1)) == launches(1)
    assert only_ignored(queue.step(Cancelled(101)))


def test_an_epoch_starts_at_sequence_one_and_forgets_the_one_before() -> None:
    queue = started()
    queue.step(prepared(1, 0))
    queue.step(prepared(3, 2))
    queue.step(Prepared(200, 0, 0, 1))
    assert queue.step(EpochReset(2)) == []
    assert queue.waiting == 0
    assert only_ignored(queue.step(prepared(2, 1)))
    assert only_ignored(queue.step(prepared(1, 0, epoch=3)))
    assert queue.step(prepared(1, 0, epoch=2)) == launches(1)
    assert only_ignored(queue.step(EpochReset(2)))
    assert only_ignored(queue.step(EpochReset(1)))


def test_a_new_epoch_heals_a_contradiction() -> None:
    queue = started()
    queue.step(prepared(1, 0))
    queue.step(prepared(1, 0, execution=7))
    queue.step(EpochReset(2))
    assert queue.step(prepared(1, 0, epoch=2)) == launches(1)


def test_without_the_check_gangs_are_launched_as_they_come() -> None:
    queue = started(check=False)
    assert queue.step(prepared(2, 1)) == launches(2)
    assert queue.step(prepared(1, 0)) == launches(1)
    assert only_ignored(queue.step(prepared(2, 1)))
    assert queue.step(granted(4, 3)) == []
    assert queue.step(granted(3, 2)) == []
    assert queue.step(Prepared(103, 0, 0, 1)) == launches(3)
    assert queue.step(Prepared(104, 0, 0, 1)) == launches(4)


def test_waiting_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_queue, "WAITING_MAX", 3)
    queue = started()
    for number in range(3):
        assert queue.step(Prepared(200 + number, 0, 0, 1)) == []
    assert only_stop(queue.step(Prepared(300, 0, 0, 1)))
    queue = started()
    for sequence in (3, 5, 7):
        queue.step(granted(sequence, sequence - 1))
    assert only_stop(queue.step(granted(9, 8)))


def test_the_history_is_bounded_and_what_it_forgot_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_queue, "HISTORY_MAX", 8)
    queue = started()
    for sequence in range(1, 101):
        assert queue.step(prepared(sequence, sequence - 1)) == launches(sequence)
    assert only_ignored(queue.step(prepared(1, 0)))
    assert only_ignored(queue.step(prepared(1, 0, execution=7)))
    assert only_ignored(queue.step(prepared(96, 95)))
    assert only_stop(queue.step(prepared(96, 95, execution=7)))


def test_the_hot_path_says_no_to_everything_that_is_not_plainly_next() -> None:
    queue = started()
    assert queue.launch_next(101, 1, 0, 1)
    for arguments in ((103, 3, 2, 1), (102, 1, 0, 1), (102, 2, 1, 2), (101, 2, 1, 1), (102, 0, 0, 1)):
        assert not queue.launch_next(*arguments), arguments
    queue.step(Prepared(102, 0, 0, 1))
    assert not queue.launch_next(102, 2, 1, 1)
    assert queue.step(prepared(2, 1)) == launches(2)
    queue.step(granted(4, 3))
    assert not queue.launch_next(103, 3, 2, 1)
    assert queue.step(prepared(3, 2)) == launches(3)
    assert queue.step(Prepared(104, 0, 0, 1)) == launches(4)
    queue.step(prepared(4, 3, execution=7))
    assert not queue.launch_next(105, 5, 4, 1)
