"""One direction of a stream out, one in: frames are gap-free from 1 and acknowledged cumulatively.

The acknowledgement clock batches without timers: at most `window` ordinary frames are un-acknowledged, everything
pushed meanwhile accumulates into the next one; an idle link sends at once. Urgent items travel in frames of their own that
ignore the window but share the numbering. A frame with sequence 0 carries nothing but an acknowledgement (or the
handshake) and is never acknowledged itself. It is sent at once only if the other end may have nothing left to send with;
otherwise the acknowledgement waits a moment for something to ride with. Un-acknowledged frames are kept for a replay after a
reconnect.

An end that is made again after its process was killed knows what it pushed, but not in which frames it went. The other end counts
frames and items that came, and the new one goes on behind those (`rebase`).
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from pathways_common.model.bounds import FRAME_ITEMS_MAX, WINDOW_FRAMES

Item = TypeVar("Item")


class Verdict(Enum):
    """What an incoming frame is: to be handled, to be dropped, or proof that one was lost."""

    NEW = "new"
    DUPLICATE = "duplicate"
    GAP = "gap"


class Frame(NamedTuple, Generic[Item]):
    """What goes out at once. `sequence` counts from 1 over ordinary and urgent frames together."""

    sequence: int
    items: tuple[Item, ...]
    urgent: bool


class Pushed(NamedTuple, Generic[Item]):
    """What an end has pushed: how many ordinary and urgent items are acknowledged, and those behind them."""

    ordinary_count: int
    urgent_count: int
    ordinary: tuple[Item, ...]
    urgent: tuple[Item, ...]


class Link(Generic[Item]):
    """Sender half (`push`, `take`, `acknowledge`, `replay`) and receiver half (`accept`, `received`) of one stream's end."""

    __slots__ = (
        "_items_max", "_ordinary_count", "_ordinary_in_flight", "_pending", "_received", "_sent", "_unacknowledged", "_urgent",
        "_urgent_count", "_window",
    )  # fmt: skip

    def __init__(self, window: int = WINDOW_FRAMES, items_max: int = FRAME_ITEMS_MAX) -> None:
        if window < 1 or items_max < 1:
            raise ValueError(f"window {window} and items_max {items_max} must be at least 1")
        self._window = window
        self._items_max = items_max
        self._pending: deque[Item] = deque()
        self._urgent: deque[Item] = deque()
        self._unacknowledged: deque[Frame[Item]] = deque()
        self._ordinary_in_flight = 0
        self._sent = 0
        self._received = 0
        # Items that are acknowledged.
        self._ordinary_count = self._urgent_count = 0

    def push(self, item: Item, urgent: bool = False) -> None:
        """Queues an item behind those of its own kind."""
        (self._urgent if urgent else self._pending).append(item)

    def take(self) -> Frame[Item] | None:
        """The next frame to send; None if there is nothing to send or the window is full. Call until it returns None."""
        if self._urgent:
            return self._frame(self._urgent, urgent=True)
        if self._pending and self._ordinary_in_flight < self._window:
            self._ordinary_in_flight += 1
            return self._frame(self._pending, urgent=False)
        return None

    def _frame(self, queue: deque[Item], urgent: bool) -> Frame[Item]:
        if len(queue) <= self._items_max:
            items = tuple(queue)
            queue.clear()
        else:
            items = tuple(queue.popleft() for _ in range(self._items_max))
        self._sent += 1
        frame = Frame(self._sent, items, urgent)
        self._unacknowledged.append(frame)
        return frame

    def acknowledge(self, sequence: int) -> None:
        """The other end handled every frame up to `sequence`; older news is ignored. ValueError if it was never sent."""
        if not 0 <= sequence <= self._sent:
            raise ValueError(f"frame {sequence} was acknowledged, but {self._sent} were sent")
        while self._unacknowledged and self._unacknowledged[0].sequence <= sequence:
            frame = self._unacknowledged.popleft()
            if frame.urgent:
                self._urgent_count += len(frame.items)
            else:
                self._ordinary_in_flight -= 1
                self._ordinary_count += len(frame.items)

    def replay(self) -> list[Frame[Item]]:
        """Every frame that is not acknowledged, in order, to be sent again after a reconnect. Changes nothing."""
        return list(self._unacknowledged)

    def accept(self, sequence: int) -> Verdict:
        """Judges an incoming frame; NEW counts it as received. Sequence 0 is a DUPLICATE: it has no items."""
        if sequence == self._received + 1:
            self._received = sequence
            return Verdict.NEW
        return Verdict.DUPLICATE if sequence <= self._received else Verdict.GAP

    # ---- made again after a kill -------------------------------------------------------------------------------------

    def pushed(self) -> Pushed[Item]:
        """What has to be kept of the sender half."""
        items: tuple[list[Item], list[Item]] = ([], [])
        for frame in self._unacknowledged:
            items[frame.urgent].extend(frame.items)
        ordinary, urgent = (*items[False], *self._pending), (*items[True], *self._urgent)
        return Pushed(self._ordinary_count, self._urgent_count, ordinary, urgent)

    def restore(self, kept: Pushed[Item], received: int) -> None:
        """Of a new link: it has pushed and received this. Nothing may be taken before `rebase`."""
        self._ordinary_count, self._urgent_count = kept.ordinary_count, kept.urgent_count
        self._pending.extend(kept.ordinary)
        self._urgent.extend(kept.urgent)
        self._received = received

    def rebase(self, frames: int, ordinary: int, urgent: int) -> None:
        """The other end has received so many frames with so many items. ValueError if so much was never pushed, or dropped."""
        drops = ordinary - self._ordinary_count, urgent - self._urgent_count
        if not 0 <= drops[0] <= len(self._pending) or not 0 <= drops[1] <= len(self._urgent) or frames < 0:
            sentence = f"{ordinary} and {urgent} items are said to have come, but {self._ordinary_count} and {self._urgent_count}"
            raise ValueError(f"{sentence} were acknowledged, and {len(self._pending)} and {len(self._urgent)} pushed behind them")
        for queue, count in zip((self._pending, self._urgent), drops, strict=True):
            for _ in range(count):
                queue.popleft()
        self._ordinary_count, self._urgent_count, self._sent = ordinary, urgent, frames

    def holds_up(self, told: int) -> bool:
        """Whether the other end, which was told that frames up to `told` came, may be waiting for an acknowledgement."""
        return self._received - told >= self._window

    @property
    def received(self) -> int:
        """The highest frame accepted, to be sent along as the acknowledgement."""
        return self._received

    @property
    def sent(self) -> int:
        """The highest frame taken."""
        return self._sent

    @property
    def unacknowledged(self) -> int:
        """Frames sent, ordinary and urgent, that the other end has not acknowledged."""
        return len(self._unacknowledged)

    @property
    def pending(self) -> int:
        """Items pushed and not yet in a frame."""
        return len(self._pending) + len(self._urgent)
