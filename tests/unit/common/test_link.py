"""The acknowledgement clock, urgent frames and the receiver's verdicts of one link, step by step."""

from __future__ import annotations

import pytest
from pathways_common.model.link import Link, Verdict


def test_an_idle_link_sends_at_once() -> None:
    link: Link[str] = Link()
    link.push("a")
    frame = link.take()
    assert frame is not None
    assert (frame.sequence, frame.items, frame.urgent) == (1, ("a",), False)
    assert link.take() is None


def test_items_accumulate_while_the_window_is_full_and_leave_in_one_frame() -> None:
    link: Link[int] = Link(window=2)
    frames = []
    for number in range(10):
        link.push(number)
        frame = link.take()
        if frame is not None:
            frames.append(frame)
    assert [frame.items for frame in frames] == [(0,), (1,)]
    assert link.pending == 8
    link.acknowledge(1)
    third = link.take()
    assert third is not None
    assert third.items == tuple(range(2, 10))
    assert link.take() is None


def test_an_acknowledgement_is_cumulative_and_old_news_is_ignored() -> None:
    link: Link[int] = Link(window=3)
    for number in range(3):
        link.push(number)
        link.take()
    link.acknowledge(2)
    assert link.unacknowledged == 1
    link.acknowledge(1)
    assert link.unacknowledged == 1


def test_an_acknowledgement_of_what_was_never_sent_is_an_error() -> None:
    link: Link[int] = Link()
    with pytest.raises(ValueError, match="frame 1 was acknowledged, but 0 were sent"):
        link.acknowledge(1)


def test_urgent_items_pass_a_full_window_in_the_same_sequence() -> None:
    link: Link[str] = Link(window=1)
    link.push("first")
    link.take()
    link.push("waits")
    link.push("now", urgent=True)
    frame = link.take()
    assert frame is not None
    assert (frame.sequence, frame.items, frame.urgent) == (2, ("now",), True)
    assert link.take() is None
    link.acknowledge(2)
    last = link.take()
    assert last is not None
    assert (last.sequence, last.items) == (3, ("waits",))


def test_a_frame_holds_at_most_items_max() -> None:
    link: Link[int] = Link(window=5, items_max=3)
    for number in range(7):
        link.push(number)
    taken = [frame.items for frame in iter(link.take, None)]
    assert taken == [(0, 1, 2), (3, 4, 5), (6,)]


def test_replay_holds_everything_unacknowledged_in_order() -> None:
    link: Link[str] = Link(window=2)
    link.push("a")
    link.take()
    link.push("u", urgent=True)
    link.take()
    link.push("b")
    link.take()
    link.acknowledge(1)
    assert [(frame.sequence, frame.items) for frame in link.replay()] == [(2, ("u",)), (3, ("b",))]


def test_the_receiver_names_new_duplicate_and_gap() -> None:
    link: Link[str] = Link()
    assert link.accept(2) is Verdict.GAP
    assert link.accept(1) is Verdict.NEW
    assert link.accept(1) is Verdict.DUPLICATE
    assert link.accept(0) is Verdict.DUPLICATE
    assert link.accept(2) is Verdict.NEW
    assert link.received == 2


def test_the_other_end_is_held_up_once_its_whole_window_is_unanswered() -> None:
    link: Link[str] = Link(window=2)
    link.accept(1)
    assert not link.holds_up(told=0)
    link.accept(2)
    assert link.holds_up(told=0)
    assert not link.holds_up(told=1)
