"""An end of a link that was made again knows what it pushed; the other end tells what came, and everything arrives once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathways_common.model.link import Link


@given(st.lists(st.tuples(st.integers(0, 99), st.booleans()), max_size=30), st.data(), st.integers(1, 4), st.integers(1, 5))
def test_every_item_arrives_once_and_in_order_whatever_frames_it_was_in(
    items: list[tuple[int, bool]], data: st.DataObject, window: int, items_max: int
) -> None:
    first, came, frames = Link[int](window, items_max), ([], []), 0  # type: ignore[var-annotated]
    acknowledged = 0
    for item, urgent in items:
        first.push(item, urgent)
        if data.draw(st.booleans()) and (frame := first.take()) is not None:
            frames = frame.sequence
            came[frame.urgent].extend(frame.items)
        if data.draw(st.booleans()):
            acknowledged = data.draw(st.integers(acknowledged, frames))
            first.acknowledge(acknowledged)
    second = Link[int](window, items_max)
    second.restore(first.pushed(), first.received)
    second.rebase(frames, len(came[False]), len(came[True]))
    while (frame := second.take()) is not None:
        assert frame.sequence == frames + 1
        frames = frame.sequence
        came[frame.urgent].extend(frame.items)
        second.acknowledge(frames)
    assert came == ([item for item, urgent in items if not urgent], [item for item, urgent in items if urgent])


@pytest.mark.parametrize(("ordinary", "urgent"), [(0, 0), (4, 0), (1, 2), (-1, 0)])
def test_what_was_never_pushed_or_is_kept_no_more_is_a_contradiction(ordinary: int, urgent: int) -> None:
    link = Link[str]()
    for item in "abc":
        link.push(item)
    link.push("urgent", urgent=True)
    first = Link[str]()
    first.push("a")
    first.take()
    first.acknowledge(1)
    for item in "bc":
        first.push(item)
    first.push("urgent", urgent=True)
    second = Link[str]()
    second.restore(first.pushed(), 7)
    assert second.received == 7
    with pytest.raises(ValueError, match="are said to have come"):
        second.rebase(1, ordinary, urgent)
