"""The outgoing side of one stream: encoded items wait in a link, and one writer sends what the link lets go.

Whoever has news wakes the writer; it sends one frame after another until the acknowledgement clock stops it. An
acknowledgement rides with a frame; alone (sequence 0) it goes at once if the other end may wait for it, else after a moment in
which nothing else went. The last words of a stream ignore the window.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from pathways_common.model.bounds import BACKLOG_ITEMS_MAX, RIDE_DELAY_NS
from pathways_common.model.ids import HostName, IslandName, SessionNumber
from pathways_common.model.link import Link

from pathways_server.shell.counters import Counters


class RunItem(bytes):
    """An item that starts a run of a program or goes on with one: frames that hold any are counted."""

    __slots__ = ()


MakeFrame = Callable[[int, int, int, tuple[bytes, ...], bool], bytes]


class Peer:
    """One connected stream. `fixed_third` is the term towards a worker; None: the frame's third number is `received`."""

    def __init__(self, make_frame: MakeFrame, counters: Counters, fixed_third: int | None = None) -> None:
        self.link: Link[bytes] = Link()
        self._make_frame = make_frame
        self._counters = counters
        self._fixed_third = fixed_third
        self._news = asyncio.Event()
        self._opening: bytes | None = None
        self._opened = False
        self._ending = False
        self._told = 0
        self._owing: asyncio.TimerHandle | None = None
        self._overdue = False

    @property
    def opened(self) -> bool:
        """Whether the welcome is on its way."""
        return self._opened

    @property
    def ending(self) -> bool:
        """Whether nothing more may be sent."""
        return self._ending

    @property
    def overloaded(self) -> bool:
        """Whether the other end leaves more unread than the bound."""
        return self.link.pending > BACKLOG_ITEMS_MAX

    def open(self, frame: bytes) -> None:
        """Sends the welcome; items follow it."""
        self._opening = frame
        self._opened = True
        self._news.set()

    def refuse(self, frame: bytes) -> None:
        """Sends this frame alone and ends."""
        self._opening = frame
        self._ending = True
        self._news.set()

    def push(self, item: bytes, urgent: bool = False) -> None:
        """Queues an item and wakes the writer."""
        if not self._ending:
            self.link.push(item, urgent)
            self._news.set()

    def finish(self, item: bytes | None) -> None:
        """Sends `item` past the window and ends the stream; later items are dropped."""
        if item is not None:
            self.push(item, urgent=True)
        self._ending = True
        self._news.set()

    def wake(self) -> None:
        """There may be something to send: an acknowledgement, or the window has opened."""
        self._news.set()

    async def send_to(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """The writer: returns once the stream has ended by `refuse` or `finish`; raises what `write` raises."""
        try:
            await self._write_on(write)
        finally:
            if self._owing is not None:
                self._owing.cancel()

    async def _write_on(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if self._opening is not None:
                opening, self._opening = self._opening, None
                await write(opening)
            if self._opened:
                await self._send_frames(write)
            if self._ending and not self._news.is_set():
                return

    async def _send_frames(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        link = self.link
        while (frame := link.take()) is not None:
            await self._send(write, frame.sequence, frame.items, frame.urgent)
        if link.received > self._told:
            if self._overdue or link.holds_up(self._told):
                await self._send(write, 0, (), False)
            elif self._owing is None:
                delay_s = RIDE_DELAY_NS / 1e9
                self._owing = asyncio.get_running_loop().call_later(delay_s, self._acknowledgement_is_due)
        self._overdue = False

    def _acknowledgement_is_due(self) -> None:
        self._owing = None
        if self.link.received > self._told:
            self._overdue = True
            self._news.set()

    async def _send(
        self, write: Callable[[bytes], Awaitable[None]], sequence: int, items: tuple[bytes, ...], urgent: bool
    ) -> None:
        received = self._told = self.link.received
        third = received if self._fixed_third is None else self._fixed_third
        self._counters.frames_sent += 1
        await write(self._make_frame(sequence, received, third, items, urgent))


class SessionPeer(Peer):
    """The stream of one session. `plain`: the client neither numbers nor acknowledges frames."""

    def __init__(
        self, number: SessionNumber, session_id: str, make_frame: MakeFrame, counters: Counters, plain: bool = False
    ) -> None:
        super().__init__(make_frame, counters)
        self.number = number
        self.session_id = session_id
        self.said_goodbye = False
        self._plain = plain

    async def _send(
        self, write: Callable[[bytes], Awaitable[None]], sequence: int, items: tuple[bytes, ...], urgent: bool
    ) -> None:
        if self._plain and not sequence:
            self._told = self.link.received
            return
        await super()._send(write, sequence, items, urgent)
        if self._plain:
            # The stream's own flow control is the window: `write` returned.
            self.link.acknowledge(sequence)


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
    ) -> None:
        super().__init__(make_frame, counters, fixed_third=term)
        self.name = name
        self.island = island
        self.incarnation = incarnation
        self.data_address = data_address
        self.acknowledged_frames = 0
        self.reported_bytes = 0
        self.log_tail: deque[str] = deque(maxlen=20)
        counters.run_frames.setdefault(name, 0)

    async def _send(
        self, write: Callable[[bytes], Awaitable[None]], sequence: int, items: tuple[bytes, ...], urgent: bool
    ) -> None:
        if RunItem in map(type, items):
            self._counters.run_frames[self.name] += 1
        await super()._send(write, sequence, items, urgent)
