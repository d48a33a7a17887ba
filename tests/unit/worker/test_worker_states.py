"""The daemon's small state machines: executors, frames and their acknowledgements, transfers."""

from __future__ import annotations

import random

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_worker.core import executors, transfers
from pathways_worker.core.executors import (
    Announced,
    Closed,
    EpochAnswered,
    EpochBegun,
    EpochEnded,
    Executors,
    Exited,
    GiveUp,
    Kill,
    Opened,
    ReportDeath,
    ReportLeft,
    Rescue,
    Rescued,
    Start,
    State,
    Use,
)
from pathways_worker.core.frame_clock import FrameClock

GONE = Failure(Reason.BUFFER_LOST, "gone")


def active(keep_spare: bool = True) -> Executors:
    pool = Executors(keep_spare)
    assert pool.step(Opened()) == [Start(1, 0)]
    assert pool.step(Announced(1)) == []
    assert pool.state(1) is State.SPARE
    assert pool.step(EpochBegun(5)) == [Use(1)]
    spare = [Start(2, executors.SPARE_WAIT_NS)] if keep_spare else []
    assert pool.step(EpochAnswered(1, True)) == spare
    return pool


def test_an_epoch_takes_the_spare_and_kills_the_one_before() -> None:
    pool = active()
    pool.step(Announced(2))
    assert pool.step(EpochBegun(6)) == [Kill(1), Use(0), Use(2)]
    assert pool.step(Exited(1)) == []
    assert (pool.current, pool.epoch, pool.state(2)) == (2, 6, State.ENTERING)


def test_an_epoch_does_not_wait_for_a_spare_that_is_still_starting_or_missing() -> None:
    pool = active()
    assert pool.step(EpochBegun(6)) == [Kill(1), Use(0), Use(2)]
    pool = active(keep_spare=False)
    assert pool.step(EpochBegun(6)) == [Kill(1), Use(0), Start(2, 0), Use(2)]


def test_a_late_or_repeated_epoch_changes_nothing() -> None:
    pool = active()
    assert pool.step(EpochBegun(5)) == []
    assert pool.step(EpochBegun(4)) == []
    assert pool.step(EpochEnded(4)) == [ReportLeft(4)]
    assert pool.step(EpochAnswered(7, True)) == []
    assert pool.current == 1


def test_a_dead_executor_is_reported_and_replaced_at_once() -> None:
    pool = active(keep_spare=False)
    assert pool.step(Exited(1)) == [Use(0), ReportDeath(1, 5), Start(2, 0)]
    assert pool.step(Exited(1)) == []


def test_an_executor_that_dies_while_it_enters_is_reported() -> None:
    pool = Executors()
    pool.step(Opened())
    pool.step(EpochBegun(1))
    assert pool.step(Exited(1)) == [Use(0), ReportDeath(1, 1), Start(2, 0)]


def test_a_spare_that_dies_is_replaced_and_executors_that_cannot_start_are_tried_ever_more_rarely() -> None:
    pool = active()
    pool.step(Announced(2))
    assert pool.step(Exited(2)) == [Start(3, 0)]
    waits = []
    for number in range(3, 20):
        (start,) = pool.step(Exited(number))
        waits.append(start.wait_ns)
    assert waits[0] == 0
    assert waits[1] > 0
    assert waits == sorted(waits)
    assert waits[-1] == executors.RESTART_WAIT_MAX_NS


def test_an_epoch_that_ends_alone_leaves_a_spare() -> None:
    pool = active()
    assert pool.step(EpochEnded(5)) == [Kill(1), Use(0)]
    pool = active(keep_spare=False)
    assert pool.step(EpochEnded(5)) == [Kill(1), Use(0), Start(2, 0)]
    assert pool.step(Exited(1)) == [ReportLeft(5)]
    assert pool.step(EpochEnded(5)) == [ReportLeft(5)]


def test_an_epoch_with_arrays_to_keep_is_nobodys_at_once_and_ends_when_they_are_answered() -> None:
    pool = active(keep_spare=False)
    assert pool.step(EpochEnded(5, keeps=True)) == [Use(0), Rescue(1), Start(2, 0)]
    assert (pool.current, pool.leaving, pool.state(1)) == (0, 1, State.LEAVING)
    assert pool.step(EpochEnded(5, keeps=True)) == []
    assert pool.step(Rescued(7)) == []
    assert pool.step(Rescued(1)) == [GiveUp(1), Kill(1)]
    assert pool.step(Rescued(1)) == []
    assert pool.step(Exited(1)) == [ReportLeft(5), ReportLeft(5)], "one for each time"


def test_an_executor_that_leaves_and_dies_is_given_up_before_its_end_is_told() -> None:
    pool = active(keep_spare=False)
    pool.step(EpochEnded(5, keeps=True))
    assert pool.step(Exited(1)) == [GiveUp(1), ReportLeft(5)]
    assert pool.leaving == 0


def test_a_new_epoch_does_not_wait_for_one_that_leaves() -> None:
    pool = active(keep_spare=False)
    pool.step(EpochEnded(5, keeps=True))
    assert pool.step(EpochBegun(6)) == [GiveUp(1), Kill(1), Use(2)]
    assert pool.step(Exited(1)) == [ReportLeft(5)]


def test_an_epoch_that_is_ended_again_with_nothing_to_keep_ends_at_once() -> None:
    pool = active(keep_spare=False)
    pool.step(EpochEnded(5, keeps=True))
    assert pool.step(EpochEnded(5)) == [GiveUp(1), Kill(1)]


def test_an_epoch_that_has_not_begun_yet_has_nothing_to_keep_and_a_closed_link_hears_nothing() -> None:
    pool = Executors(keep_spare=False)
    pool.step(Opened())
    pool.step(EpochBegun(1))
    assert pool.step(EpochEnded(1, keeps=True)) == [Kill(1), Use(0), Start(2, 0)]
    pool = active(keep_spare=False)
    pool.step(EpochEnded(5, keeps=True))
    assert pool.step(Closed()) == [GiveUp(1), Kill(1), Kill(2)]
    assert pool.step(Exited(1)) == []


def test_closing_ends_everything_and_opening_starts_over() -> None:
    pool = active()
    assert pool.step(Closed()) == [Kill(1), Use(0), Kill(2)]
    assert pool.step(Closed()) == []
    assert pool.step(Exited(1)) == []
    assert pool.step(EpochBegun(9)) == []
    assert pool.step(Opened()) == [Start(3, 0)]
    assert pool.step(EpochBegun(1)) == [Use(3)]


def test_at_most_two_executors_live_whatever_happens() -> None:
    for seed in range(200):
        draw = random.Random(seed)
        pool = Executors(draw.random() < 0.7)
        living: list[int] = []
        for _ in range(100):
            last = max(living, default=1)
            event = draw.choice(
                [
                    Opened(),
                    Announced(last),
                    EpochBegun(draw.randint(1, 9)),
                    EpochAnswered(last, draw.random() < 0.8),
                    EpochEnded(draw.randint(1, 9), draw.random() < 0.5),
                    Rescued(draw.choice(living or [1])),
                    Exited(draw.choice(living or [1])),
                    Closed(),
                ]
            )
            if isinstance(event, Exited) and event.number in living:
                living.remove(event.number)
            for effect in pool.step(event):
                if isinstance(effect, Start):
                    living.append(effect.number)
                elif isinstance(effect, Kill):
                    living.remove(effect.number)
            assert len(living) <= 2
            assert pool.current in (0, *living)


def test_frames_are_acknowledged_in_order() -> None:
    clock = FrameClock()
    clock.handled(1)
    assert clock.acknowledged == 1
    clock.forwarded(2)
    clock.handled(3)
    clock.forwarded(4)
    assert clock.acknowledged == 1
    clock.reported(2)
    assert clock.acknowledged == 3
    clock.reported(2)
    clock.abandoned()
    assert clock.acknowledged == 4


def ids(count: int) -> list[str]:
    return [f"ticket-{number}" for number in range(count)]


def test_an_upload_passes_through() -> None:
    core = transfers.Transfers("a0")
    assert core.step(0, transfers.UploadExpected(1, "t", 10, 100)) == []
    assert core.step(0, transfers.PushBegan(1, "t")) == [transfers.Accept(1, 10)]
    assert core.step(0, transfers.PushEnded(1, 10)) == [transfers.Deliver(1, 1)]
    assert core.step(0, transfers.PushBegan(2, "t")) == [transfers.Drop(2)]
    assert core.open_count == 0


def test_two_pushes_of_one_ticket_are_one_upload() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.UploadExpected(1, "t", 10, 100))
    core.step(0, transfers.PushBegan(1, "t"))
    assert core.step(0, transfers.PushBegan(2, "t")) == [transfers.Drop(2)]
    assert core.step(0, transfers.PushEnded(2, 10)) == []
    assert core.step(0, transfers.PushEnded(1, 10)) == [transfers.Deliver(1, 1)]


def test_a_ticket_of_a_fetch_cannot_be_pushed_to_nor_one_of_an_upload_pulled() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.UploadExpected(1, "up", 10, 100))
    core.step(0, transfers.FetchExpected(1, "down", 100))
    assert core.step(0, transfers.PushBegan(1, "down")) == [transfers.Drop(1)]
    (refused,) = core.step(0, transfers.PullBegan(2, "up"))
    assert isinstance(refused, transfers.Refuse)
    assert core.step(0, transfers.PushBegan(3, "up")) == [transfers.Accept(3, 10)]


def test_a_fetch_is_served_in_either_order() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.FetchExpected(1, "t", 100))
    assert core.step(0, transfers.FetchAnswered(1, None)) == []
    assert core.step(0, transfers.PullBegan(4, "t")) == [transfers.Serve(4, 1)]
    assert core.step(0, transfers.PullBegan(5, "u")) == []
    assert core.step(0, transfers.FetchExpected(2, "u", 100)) == []
    assert core.step(0, transfers.FetchAnswered(2, GONE)) == [transfers.Refuse(5, GONE)]
    assert core.step(0, transfers.FetchAnswered(3, None)) == [transfers.Forget(3)]


def test_the_bytes_of_a_fetch_whose_reader_left_are_forgotten() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.FetchExpected(1, "t", 100))
    core.step(0, transfers.PullBegan(4, "t"))
    core.step(0, transfers.CallEnded(4))
    assert core.step(0, transfers.FetchAnswered(1, None)) == [transfers.Forget(1)]


def test_early_calls_are_bounded_in_number_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "EARLY_MAX", 50)
    core = transfers.Transfers("a0")
    for call, ticket in enumerate(ids(transfers.EARLY_MAX)):
        assert core.step(0, transfers.PullBegan(call + 1, ticket)) == []
    (refused,) = core.step(0, transfers.PullBegan(9999, "one more"))
    assert isinstance(refused, transfers.Refuse)
    assert len(core.step(transfers.EARLY_WAIT_NS, transfers.TimePassed())) == transfers.EARLY_MAX
    assert core.open_count == 0


def test_everything_ends_by_its_deadline_or_with_the_executor() -> None:
    for end in (transfers.TimePassed(), transfers.ExecutorChanged(GONE)):
        core = transfers.Transfers("a0")
        core.step(0, transfers.UploadExpected(1, "a", 10, 100))
        core.step(0, transfers.UploadExpected(2, "b", 10, 100))
        core.step(0, transfers.PushBegan(1, "b"))
        core.step(0, transfers.FetchExpected(3, "c", 100))
        core.step(0, transfers.FetchAnswered(3, None))
        assert core.step(0, transfers.ShardPullWanted(4, 100)) == [transfers.StartPull(4)]
        effects = core.step(100, end)
        assert transfers.Drop(1) in effects
        assert transfers.Forget(3) in effects
        assert transfers.StopPull(4) in effects
        failed = sorted(effect.transfer_id for effect in effects if isinstance(effect, transfers.ReportFailed))
        # The death of an executor is told by itself; the controller knows what was on it.
        assert failed == ([1, 2, 4] if isinstance(end, transfers.TimePassed) else [])
        assert core.open_count == 0
        assert core.step(100, transfers.ShardPulled(4, None)) == []
        assert core.step(100, transfers.PushEnded(1, 10)) == []


def test_used_tickets_are_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "SPENT_MAX", 16)
    core = transfers.Transfers("a0")
    for number in range(100):
        core.step(0, transfers.UploadExpected(number, f"t{number}", 0, 100))
        core.step(0, transfers.TransfersCancelled((number,)))
    assert len(core._spent) <= 16
    assert core.step(0, transfers.PushBegan(1, "t99")) == [transfers.Drop(1)]


def test_what_was_fetched_for_a_session_ends_with_it_and_nothing_else_does() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.FetchExpected(1, "a", 100, session=7))
    core.step(0, transfers.FetchExpected(2, "b", 100, session=7))
    core.step(0, transfers.FetchExpected(3, "c", 100, session=8))
    core.step(0, transfers.FetchExpected(4, "d", 100))
    core.step(0, transfers.FetchAnswered(1, None))
    core.step(0, transfers.PullBegan(9, "b"))
    forgotten, refused = core.step(5, transfers.SessionEnded(7))
    assert forgotten == transfers.Forget(1)
    assert isinstance(refused, transfers.Refuse)
    assert refused.call == 9
    assert core.tickets() == [(3, 8), (4, 0)]
    assert core.step(5, transfers.FetchAnswered(2, None)) == [transfers.Forget(2)]
