"""Ends are noted as they come, and the dispatcher is woken when it has something to do, and only then."""

from __future__ import annotations

import select
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pathways_worker.executor.clock import now_ns
from pathways_worker.executor.watch import Watch
from pathways_worker.executor.window import LOOK_NS, Entry, Window

TIMEOUT_S = 20.0
FAR_NS = 10**12
# Nobody is taken to be late then, and ends are where they are seen.
NO_FIGURES = "/nowhere"


@dataclass
class Token:
    """Of a launch that ends when the test says so."""

    fails: bool = False
    awaited: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def block_until_ready(self) -> None:
        self.awaited.set()
        assert self.over.wait(TIMEOUT_S)
        if self.fails:
            raise RuntimeError("the launch failed")


class Result:
    """Its result, if nobody has consumed it."""

    def __init__(self, token: Token) -> None:
        self._token = token

    def is_deleted(self) -> bool:
        return False

    def is_ready(self) -> bool:
        return self._token.over.is_set()


def launch(
    window: Window, sequence: int, timed: bool = True, place: int = 0, fails: bool = False, patience_ns: int = FAR_NS
) -> tuple[Entry, Token]:
    token = Token(fails)
    entry = Entry(sequence, sequence, (), [Result(token)], token, timed=timed, patience_ns=patience_ns)
    entry.began_ns, entry.places = now_ns(), (place,)
    window.add(entry)
    return entry, token


def woken(watch: Watch, timeout_s: float = TIMEOUT_S) -> bool:
    poll = select.poll()
    poll.register(watch.descriptor, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def asleep(window: Window) -> None:
    window.watch.reported_ns = now_ns()
    window.watch.asleep = True
    window.follow_timed()


def test_of_the_launches_in_flight_no_more_than_eight_are_unawaited() -> None:
    """Dozens of them end XLA's thread pool on CPU; the one beyond waits until the oldest has ended, and no longer."""
    window = Window(lambda _entry: None)
    tokens = [launch(window, number)[1] for number in range(1, 9)]
    assert len(window) == 8
    assert not any(token.awaited.is_set() for token in tokens)
    ninth = threading.Thread(target=launch, args=(window, 9))
    ninth.start()
    while ninth.is_alive() and not tokens[0].awaited.wait(0.01):
        pass
    assert ninth.is_alive()
    tokens[0].over.set()
    ninth.join(TIMEOUT_S)
    assert not ninth.is_alive()
    assert (len(window), window.finished_through) == (8, 1)
    assert not any(token.awaited.is_set() for token in tokens[1:])


def test_an_end_without_patience_wakes_and_one_with_it_waits_until_nothing_is_left() -> None:
    window = Window(lambda _entry: None)
    watch = window.watch
    (_, first), (_, second), (_, third), (_, fourth) = (
        launch(window, number, patience_ns=patience_ns) for number, patience_ns in ((1, FAR_NS), (2, 0), (3, FAR_NS), (4, FAR_NS))
    )
    asleep(window)
    first.over.set()
    # The thread has done with the first when it sleeps on the second.
    assert second.awaited.wait(TIMEOUT_S)
    assert not woken(watch, 0)
    second.over.set()
    assert woken(watch)
    watch.woken()
    assert not woken(watch, 0)
    asleep(window)
    third.over.set()
    assert fourth.awaited.wait(TIMEOUT_S)
    assert not woken(watch, 0)
    fourth.over.set()
    assert woken(watch)
    watch.woken()
    assert window.sweep() == 4
    assert [row[0] for row in window.times] == [1, 2, 3, 4]
    assert window.timed == 0


def test_a_dispatcher_that_is_awake_is_not_woken() -> None:
    window = Window(lambda _entry: None)
    (entry, first), (_, second) = launch(window, 1, patience_ns=0), launch(window, 2, patience_ns=0)
    window.follow_timed()
    first.over.set()
    assert second.awaited.wait(TIMEOUT_S)
    assert not woken(window.watch, 0)
    assert window.quiet_ns(entry.began_ns) == 0
    second.over.set()
    window.drain()
    assert window.finished_through == 2


def test_rows_have_the_end_that_was_noted_and_not_the_one_that_was_swept() -> None:
    window = Window(lambda _entry: None, watch=Watch(NO_FIGURES))
    (first_entry, first), (second_entry, second) = launch(window, 1), launch(window, 2)
    window.follow_timed()
    first.over.set()
    assert second.awaited.wait(TIMEOUT_S)
    noted_ns = first_entry.ended_ns
    second.over.set()
    window.drain()
    assert first_entry.began_ns < noted_ns <= second_entry.ended_ns
    assert window.times == [(1, first_entry.began_ns, noted_ns), (2, max(noted_ns, second_entry.began_ns), second_entry.ended_ns)]
    assert window.busy_ns == sum(ended - started for _, started, ended in window.times)


def test_a_launch_that_fails_is_noted_by_the_watch_and_told_by_the_window() -> None:
    failed: list[Entry] = []
    window = Window(failed.append)
    entry, token = launch(window, 1, fails=True)
    asleep(window)
    token.over.set()
    assert woken(window.watch)
    assert failed == []
    window.sweep()
    assert failed == [entry]
    assert [row[0] for row in window.times] == [1]


def test_devices_have_each_their_own_watch() -> None:
    window = Window(lambda _entry: None)
    (slow, one), (quick, other) = launch(window, 1), launch(window, 2, place=1, patience_ns=0)
    asleep(window)
    other.over.set()
    assert woken(window.watch)
    window.watch.woken()
    assert slow.ended_ns == 0 < quick.ended_ns
    # What was granted first is told first.
    assert window.sweep() == 0
    one.over.set()
    window.drain()
    assert [(number, started_ns) for number, started_ns, _ in window.times] == [(1, slow.began_ns), (2, quick.began_ns)]


def test_what_is_not_timed_is_followed_only_when_it_takes_long() -> None:
    window = Window(lambda _entry: None, watch=Watch(NO_FIGURES))
    (_, first), (entry, last) = launch(window, 1, timed=False), launch(window, 2, timed=False)
    assert not first.awaited.is_set()
    assert not last.awaited.is_set()
    window.follow_last()
    window.follow_last()
    assert last.awaited.wait(TIMEOUT_S)
    assert not first.awaited.is_set()
    asleep(window)
    first.over.set()
    last.over.set()
    assert woken(window.watch)
    noted_ns = entry.ended_ns
    assert window.sweep() == 2
    assert window.times == []
    assert window.busy_ns >= noted_ns - entry.began_ns


def test_a_launch_awaited_out_of_turn_ends_those_before_it_on_its_device() -> None:
    window = Window(lambda _entry: None)
    (older, first), (entry, second) = launch(window, 1, timed=False), launch(window, 2, timed=False)
    (elsewhere, third) = launch(window, 3, timed=False, place=1)
    first.over.set()
    second.over.set()
    window.settle(entry)
    assert older.ended_ns == entry.ended_ns > 0 == elsewhere.ended_ns
    third.over.set()
    window.drain()
    # The device computed in order: the first is booked up to there, and nothing twice.
    assert window.busy_ns <= (entry.ended_ns - older.began_ns) + (elsewhere.ended_ns - elsewhere.began_ns)


def test_timed_launches_are_followed_only_when_nobody_else_looks() -> None:
    window = Window(lambda _entry: None)
    (_, first), (_, second) = launch(window, 1), launch(window, 2)
    window.watch.reported_ns = now_ns()
    assert not first.awaited.is_set()
    window.follow_timed()
    window.follow_timed()
    assert first.awaited.wait(TIMEOUT_S)
    first.over.set()
    second.over.set()
    window.drain()
    assert [row[0] for row in window.times] == [1, 2]


def test_what_has_left_waits_for_its_report_as_long_as_the_most_urgent_of_it() -> None:
    window = Window(lambda _entry: None)
    for number, patience_ns in ((1, 5000), (2, 3000), (3, 4000)):
        _, token = launch(window, number, patience_ns=patience_ns)
        token.over.set()
    window.drain()
    assert window.patience_ns == 3000
    window.told()
    assert window.patience_ns > FAR_NS
    assert window.times == []


def test_the_dispatcher_sleeps_until_the_oldest_end_is_due_to_be_told() -> None:
    window = Window(lambda _entry: None)
    entry, token = launch(window, 1, patience_ns=10**9)
    reported_ns = now_ns()
    assert 0 < window.quiet_ns(reported_ns) <= 10**9
    # Of a launch that is in flight still, the watch will tell.
    assert window.quiet_ns(reported_ns - 2 * 10**9) == LOOK_NS
    entry.note_end(now_ns())
    assert window.quiet_ns(reported_ns - 2 * 10**9) == 0
    token.over.set()
    window.drain()


def test_an_end_that_nobody_saw_is_put_between_the_looks_before_and_after_it() -> None:
    window = Window(lambda _entry: None)
    (entry, first), (_, second), (_, third) = (launch(window, number) for number in (1, 2, 3))
    assert window.sweep() == 0
    before_ns = now_ns()
    first.over.set()
    second.over.set()
    assert window.sweep() == 2
    after_ns = now_ns()
    third.over.set()
    window.drain()
    (_, began_ns, ended_ns), (_, _, next_ns), _ = window.times
    # Both were in flight at the look before, which was before `before_ns`.
    assert entry.began_ns <= began_ns < ended_ns < next_ns < after_ns
    assert ended_ns <= (before_ns + after_ns) // 2


def test_a_launch_that_ran_as_it_was_handed_over_is_booked_from_then_on() -> None:
    window = Window(lambda _entry: None, watch=Watch(NO_FIGURES))
    token = Token()
    token.over.set()
    entry = Entry(1, 1, (), [Result(token)], token, timed=True)
    entry.began_ns, entry.places = now_ns(), (0,)
    entry.handed_ns = now_ns()
    window.add(entry)
    assert window.times == [(1, entry.began_ns, entry.ended_ns)]
    later = Token()
    entry = Entry(2, 2, (), [Result(later)], later, timed=True)
    entry.began_ns, entry.places = now_ns(), (0,)
    entry.handed_ns = now_ns()
    window.add(entry)
    later.over.set()
    window.drain()
    assert window.times[1] == (2, entry.handed_ns, entry.ended_ns)


@pytest.mark.parametrize(("turns", "taken_off_ms"), [(1, 5), (2, 1)])
def test_waiting_that_may_have_been_before_an_end_is_taken_off_up_to_a_millisecond(
    tmp_path: Path, turns: int, taken_off_ms: int
) -> None:
    figures = tmp_path / "schedstat"
    figures.write_text("0 0 10\n")
    window = Window(lambda _entry: None, watch=Watch(str(figures)))
    entry, token = launch(window, 1)
    asleep(window)
    assert token.awaited.wait(TIMEOUT_S)
    figures.write_text(f"0 5000000 {10 + turns}\n")
    token.over.set()
    assert woken(window.watch)
    assert entry.late_ns == taken_off_ms * 1_000_000


def test_an_end_that_is_found_behind_one_that_was_awaited_is_later_than_that() -> None:
    window = Window(lambda _entry: None, size=2, watch=Watch(NO_FIGURES))
    (_, first), (_, second) = launch(window, 1), launch(window, 2)
    first.over.set()
    second.over.set()
    window.settle_oldest()
    # Nobody has looked since before the first one ended.
    window.sweep()
    (_, _, first_ended_ns), (_, second_began_ns, second_ended_ns) = window.times
    assert first_ended_ns <= second_began_ns < second_ended_ns
