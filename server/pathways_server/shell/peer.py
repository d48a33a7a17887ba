"""The outgoing side of one stream: encoded items wait in a link, and one writer sends what the link lets go.

Whoever has news wakes the writer; it takes one frame after another until the acknowledgement clock stops it. An acknowledgement
rides with a frame; alone (sequence 0) it goes at once if the other end may wait for it, else after a moment in which nothing else
went. The writer is `send_to`, or a transport that was attached and takes the frames by itself. The last words of a stream ignore
the window.

A peer may outlive its connection: items gather until it has another, which gets everything again that was not acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from pathways_common.model.bounds import BACKLOG_ITEMS_MAX
from pathways_common.model.ids import HostName, IslandName, SessionNumber
from pathways_common.model.link import Frame, Link
from pathways_common.rpc.moment import Moment

from pathways_server.core.tenant_records import DEFAULT_TENANT, TenantName
from pathways_server.shell.counters import Counters
from pathways_server.shell.object_graph import dumps


class RunItem(bytes):
    """An item that starts a run of a program or goes on with one: frames that hold any are counted."""

    __slots__ = ()


_EMPTY: Frame[bytes] = Frame(0, (), urgent=False)
MakeFrame = Callable[[int, int, int, tuple[bytes, ...], bool], bytes]


class Peer:
    """One connected stream. `fixed_third` is the term towards a worker; None: the frame's third number is `received`."""

    def __init__(self, make_frame: MakeFrame, counters: Counters, fixed_third: int | None = None) -> None:
        self.link: Link[bytes] = Link()
        self._make_frame = make_frame
        self._counters = counters
        self._fixed_third = fixed_third
        self._news = asyncio.Event()
        self._wake = self._news.set
        self._opening: bytes | None = None
        self._opened = False
        self._ending = False
        self._told = 0
        self._replay: deque[Frame[bytes]] = deque()
        self._connections = 0
        self._attached = True
        self._moment = Moment(self._on_moment_over)
        self._overdue = False
        # Made again after a kill, and not heard of since: what it had pushed before counts against no bound.
        self.restored = False
        self._before = 0

    @property
    def opened(self) -> bool:
        """Whether the welcome is on its way."""
        return self._opened

    @property
    def ending(self) -> bool:
        """Whether nothing more may be sent."""
        return self._ending

    @property
    def attached(self) -> bool:
        """Whether it has a connection."""
        return self._attached

    @property
    def overloaded(self) -> bool:
        """Whether the other end leaves more unread than the bound."""
        return self.link.pending - self._before > BACKLOG_ITEMS_MAX

    def open(self, frame: bytes) -> None:
        """Sends the welcome; items follow it."""
        self._opening = frame
        self._opened = True
        self._wake()

    def refuse(self, frame: bytes) -> None:
        """Sends this frame alone and ends."""
        self._opening = frame
        self._ending = True
        self._wake()

    def push(self, item: bytes, urgent: bool = False) -> None:
        """Queues an item and wakes the writer."""
        if not self._ending:
            self.link.push(item, urgent)
            self._wake()

    def finish(self, item: bytes | None) -> None:
        """Sends `item` past the window and ends the stream; later items are dropped."""
        if item is not None:
            self.push(item, urgent=True)
        self._ending = True
        self._wake()

    def finish_acknowledged(self) -> None:
        """Says what has come, and ends the stream."""
        self._overdue = True
        self.finish(None)

    def wake(self) -> None:
        """The window may have opened, or an acknowledgement may be due."""
        if self.link.pending or self.link.received > self._told:
            self._wake()

    def attach(self, wake: Callable[[], None]) -> None:
        """Another writer than `send_to`: it is called at news and takes frames until there is none."""
        self._connections += 1
        self._wake = wake

    def attach_writer(self) -> None:
        """`send_to` is the writer from now on."""
        self.attach(self._news.set)

    def detach(self) -> None:
        """The connection is gone: what is pushed waits for another."""
        self._connections += 1
        self._attached = False
        self._wake = _nobody

    def begin_again(self) -> None:
        """It is made as an earlier life left it: what is pushed for that is not acknowledged, and counts against no bound."""
        self._before = sys.maxsize

    def wait_restored(self) -> None:
        """It is as an earlier life of the controller left it, and its other end is expected."""
        self._opening = None
        self._opened = self.restored = True
        self._attached = self._ending = False
        self._before = self.link.pending

    def rebase(self, frames: int, ordinary: int, urgent: int = 0) -> None:
        """The other end of a restored link says what came of it. ValueError if that cannot be."""
        self.link.rebase(frames, ordinary, urgent)
        self.restored, self._before = False, 0

    def resume(self, opening: bytes, received: int) -> None:
        """Another connection is there: it gets `opening`, then again what the other end has not received."""
        self.link.acknowledge(received)
        self._replay = deque(self.link.replay())
        self._opening = opening
        self._told = self.link.received
        self._attached = True
        self._wake()

    async def send_to(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """The writer: returns once the stream has ended by `refuse` or `finish`; raises what `write` raises."""
        connection = self._connections
        while True:
            await self._news.wait()
            if connection != self._connections:
                return  # the news is for its successor
            self._news.clear()
            while (frame := self.next_frame()) is not None:
                await write(frame)
            if self._ending and not self._news.is_set():
                return

    def next_frame(self) -> bytes | None:
        """What to write next, when all before it is written; None if there is nothing or the window is full."""
        if self._opening is not None:
            opening, self._opening = self._opening, None
            return opening
        if not self._opened:
            return None
        frame = self._replay.popleft() if self._replay else self.link.take()
        if frame is not None:
            return self._encoded(frame)
        return self._encoded(_EMPTY) if self._acknowledges_alone() else None

    def _acknowledges_alone(self) -> bool:
        overdue, self._overdue = self._overdue, False
        if self.link.received == self._told:
            return False
        if overdue or self.link.holds_up(self._told):
            return True
        self._moment.begin()
        return False

    def _on_moment_over(self) -> None:
        if self.link.received > self._told:
            self._overdue = True
            self._wake()

    def _encoded(self, frame: Frame[bytes]) -> bytes:
        received = self._told = self.link.received
        third = received if self._fixed_third is None else self._fixed_third
        self._counters.frames_sent += 1
        return self._make_frame(frame.sequence, received, third, frame.items, frame.urgent)


class SessionPeer(Peer):
    """The stream of one session. `plain`: the client neither numbers nor acknowledges frames."""

    def __init__(
        self,
        number: SessionNumber,
        session_id: str,
        make_frame: MakeFrame,
        counters: Counters,
        plain: bool = False,
        tenant: TenantName = DEFAULT_TENANT,
    ) -> None:
        super().__init__(make_frame, counters)
        self.number = number
        self.session_id = session_id
        self.said_goodbye = False
        # What its client is promised in the welcome; 0: it ends with its connection.
        self.lease_ns = self.term = self.orphan_ns = 0
        # Called with the reason when it is ended while it has no connection that could say so.
        self.on_ended: Callable[[str], None] = _ignored
        # The time that it was read for, by its share; see reading.py.
        self.read_ns = 0.0
        self.plain = plain
        self.tenant = tenant

    def identity(self) -> bytes:
        """What makes it again in another life."""
        return dumps((self.number, self.session_id, self.plain, self.lease_ns, self.tenant))

    def next_frame(self) -> bytes | None:
        """As for any peer; the flow control of a plain stream is its window."""
        if not self.plain:
            return super().next_frame()
        self._told = self.link.received  # nothing is acknowledged
        frame = super().next_frame()
        # It was taken because all before it is written.
        self.link.acknowledge(self.link.sent)
        return frame


def _nobody() -> None:
    """There is no connection to wake."""


def _ignored(_reason: str) -> None:
    """Its connection tells."""


class HostPeer(Peer):
    """The stream of one worker, and what only people want to know of it."""

    def __init__(
        self,
        name: HostName,
        island: IslandName,
        incarnation: int,
        data_address: str,
        make_frame: MakeFrame,
        counters: Counters,
        term: int,
        grace_ns: int = 0,
    ) -> None:
        """`grace_ns`: what the worker is promised; 0: it ends with its connection."""
        super().__init__(make_frame, counters, fixed_third=term)
        self.name = name
        self.island = island
        self.incarnation = incarnation
        self.data_address = data_address
        self.grace_ns = grace_ns
        self.acknowledged_frames = 0
        # When it was asked how far its executor is, and has not answered; 0 = nothing is due.
        self.asked_ns = 0
        self.reported_bytes = 0
        self.log_tail: deque[str] = deque(maxlen=20)
        # What it said that it is made of, a types.proto Versions.
        self.versions: Any = None
        counters.run_frames.setdefault(name, 0)

    def identity(self) -> bytes:
        """What makes it again in another life."""
        versions = b"" if self.versions is None else self.versions.SerializeToString()
        return dumps((self.name, self.island, self.incarnation, self.data_address, self.grace_ns, versions))

    def _encoded(self, frame: Frame[bytes]) -> bytes:
        if RunItem in map(type, frame.items):
            self._counters.run_frames[self.name] += 1
        return super()._encoded(frame)
