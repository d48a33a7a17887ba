"""The pipes of the simulation: connections with the project's own `Link` at both ends.

Frames of one direction stay in order, different connections overtake each other, acknowledgements come back late. A
connection that breaks loses what is on its way and comes back after a while: both ends then send everything again that was
not acknowledged, so that frames come twice, and those that were lost come late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pathways_common.model.link import Frame, Link, Verdict

from tests.simulation.sim_world import MILLISECOND_NS, World

# How often an end that is busy is looked at again.
_LOOK_NS = 20 * MILLISECOND_NS


class End:
    """One end of a pipe: pushes items, hands over the items of incoming frames."""

    def __init__(self, world: World, receive: Callable[[tuple[Any, ...]], None], slow: Callable[[], float]) -> None:
        self.world = world
        self.link: Link[Any] = Link()
        self.receive = receive
        self.slow = slow
        self.peer: End
        self.open = True
        self.life = 0  # of the connection below; what belongs to an earlier one is lost
        self.broken = False
        self.away = False  # the other end knows that the connection is gone
        self.taken = 0  # the last frame handed over
        self.came = [0, 0]  # ordinary and urgent items
        self.busy: Callable[[], bool] = lambda: False  # whether what came is not handled yet, so that nothing is acknowledged
        self.way_ns: Callable[[], int] = lambda: 0  # how much longer what is sent now takes
        self._arrival_ns = 0  # of the last frame that was sent, but for what stands still meanwhile

    def push(self, item: Any, urgent: bool = False) -> None:
        self.link.push(item, urgent)

    def flush(self) -> None:
        if self.broken or self.away:
            return
        while self.open and (frame := self.link.take()) is not None:
            self._send(frame)

    def _send(self, frame: Frame[Any]) -> None:
        world, life, peer = self.world, self.life, self.peer
        now_ns = world.now_ns - world.still_ns
        delay_ns = int(world.delay(0.05, 1.5) * self.slow()) + self.way_ns()
        self._arrival_ns = max(self._arrival_ns + 1, now_ns + delay_ns)
        world.after(self._arrival_ns - now_ns, lambda: peer.arrive(frame, life))

    def arrive(self, frame: Frame[Any], life: int) -> None:
        if not self.open or life != self.life:
            return
        sequence, items = frame.sequence, frame.items
        self.world.look("links")
        match self.link.accept(sequence):
            case Verdict.NEW:
                if sequence != self.taken + 1:
                    self.world.violate("links", f"frame {sequence} was taken for new after {self.taken}")
                self.taken = sequence
                self.came[frame.urgent] += len(items)
                self.receive(items)
            case Verdict.GAP:
                self.world.violate("links", f"frame {sequence} arrived before an earlier one")
            case Verdict.DUPLICATE:
                if not self.life or sequence > self.taken:
                    self.world.violate("links", f"frame {sequence} was taken for a repetition after {self.taken}")
        self._acknowledge(sequence, life)

    def _acknowledge(self, sequence: int, life: int) -> None:
        if self.busy():
            self.world.after(_LOOK_NS, lambda: self._acknowledge(sequence, life))
        else:
            self.world.after(self.world.delay(0.02, 2.0) + self.way_ns(), lambda: self.peer.acknowledged(sequence, life))

    def acknowledged(self, sequence: int, life: int) -> None:
        if self.open and life == self.life:
            self.link.acknowledge(sequence)
            self.flush()

    def interrupt(self) -> None:
        """The connection breaks: what is on its way is lost. Both ends know each other when it is back."""
        if self.broken or self.peer.broken:  # or one end stands still
            return
        for end in (self, self.peer):
            end.life += 1
            end.broken = True
        self.world.soon(self._resume, 1, 300)

    def _resume(self) -> None:
        """Everything that is not acknowledged is sent again; for half of the time nobody says first what has come."""
        for end in (self, self.peer):
            if not end.open:
                return
            if self.world.random.random() < 0.5:
                end.link.acknowledge(end.peer.link.received)
        for end in (self, self.peer):
            end.broken = False
            end._again()

    def leave(self) -> None:
        """The connection is gone, with what is on its way, until `come_back`."""
        for end in (self, self.peer):
            end.life += 1
            end.away = True

    def come_back(self) -> None:
        """Both ends say first what has come."""
        for end in (self, self.peer):
            end.link.acknowledge(end.peer.link.received)
        for end in (self, self.peer):
            end.away = False
            end._again()

    def _again(self) -> None:
        """Everything that is not acknowledged is sent again, where there is a connection."""
        if self.broken or self.away or not self.open:
            return
        self._arrival_ns = self.world.now_ns - self.world.still_ns
        for frame in self.link.replay():
            self._send(frame)
        self.flush()

    def close(self) -> None:
        self.open = False
        self.peer.open = False


def connect(
    world: World, left: Callable[[tuple[Any, ...]], None], right: Callable[[tuple[Any, ...]], None], slow: Callable[[], float]
) -> tuple[End, End]:
    """Both ends of a new connection; `left` and `right` receive what the other end pushes."""
    first, second = End(world, left, slow), End(world, right, slow)
    first.peer, second.peer = second, first
    return first, second
