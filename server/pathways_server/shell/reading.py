"""Who is read next: what sessions have sent is taken in slices, and tenants with something to read share the time by weight.

The session that has had the least goes first, its time divided by its tenant's weight and multiplied by how many of the tenant's
sessions wait to be read; who comes back after a pause starts level with the others. A session with much in line already is read
on slowly, so that its backlog stays on its own side and releases and cancels behind it still come through; one whose head waits
for something is read at full pace, since what it waits for may be behind (decision 29).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pathways_common.model.bounds import AHEAD_OPERATIONS_MAX, AHEAD_PACE_NS, SLICE_EVENTS
from pathways_common.model.failure import Failure, PathwaysError

from pathways_server.core import events
from pathways_server.shell.peer import SessionPeer

if TYPE_CHECKING:
    from pathways_server.core.records import Session
    from pathways_server.core.state import State


class Reading:
    """One frame of a session, or its end. `more` decodes the rest of it, all of which must be sound before any is stepped.

    `done` is called when it was stepped, `failed` when it is malformed. `before` runs right before the first step.
    `frame` is its bytes, where they hold what is stepped, `sequence` its number. `at`: so many events were stepped already.
    """

    __slots__ = ("at", "before", "done", "events", "failed", "frame", "more", "segment", "sequence")

    def __init__(
        self,
        decoded: list[events.Event],
        more: Iterator[Sequence[events.Event]] | None = None,
        done: Callable[[], None] | None = None,
        failed: Callable[[Failure], None] | None = None,
        before: Callable[[], None] | None = None,
        frame: bytes = b"",
        sequence: int = 0,
        at: int = 0,
    ) -> None:
        self.events, self.more, self.done, self.failed, self.before = decoded, more, done, failed, before
        self.frame, self.sequence, self.at = frame, sequence, at
        self.segment = 0  # of the log in which the frame stands


Step = Callable[[Sequence[events.Event], Reading, SessionPeer], None]


class _Line:
    """What one session has sent and is not read yet. `due_ns`: not before then."""

    __slots__ = ("due_ns", "ending", "peer", "readings")

    def __init__(self, peer: SessionPeer) -> None:
        self.peer = peer
        self.readings: deque[Reading] = deque()  # never empty between two slices
        self.due_ns = 0
        self.ending = False


class ReadingTurns:
    """The lines of all sessions. `wake`: something can be read now. `state`: the core's tables, to be read only."""

    def __init__(self, state: State, step: Step, wake: Callable[[], None]) -> None:
        self._state = state
        self._step = step
        self._wake = wake
        self._lines: dict[SessionPeer, _Line] = {}
        self._floor = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, peer: SessionPeer, reading: Reading, ending: bool = False) -> None:
        """Puts a frame behind those of its session. `ending`: the last; nothing is gained by slowing the session down."""
        line = self._lines.get(peer)
        if line is None:
            line = self._lines[peer] = _Line(peer)
            peer.read_ns = max(peer.read_ns, self._floor)
        line.readings.append(reading)
        if ending:
            line.ending, line.due_ns = True, 0
        self._wake()

    def waiting(self, peer: SessionPeer) -> int:
        """How many frames that the session has sent are not read yet."""
        line = self._lines.get(peer)
        return len(line.readings) if line is not None else 0

    def stepped_of_next(self, peer: SessionPeer) -> int:
        """How many events were stepped of the frame that is read next."""
        line = self._lines.get(peer)
        return line.readings[0].at if line is not None else 0

    def serve(self, until_ns: int) -> int:
        """Takes slices until that time, one at least if there are any; how many events were stepped. Then call `again`."""
        stepped = 0
        while self._lines:
            now_ns = time.monotonic_ns()
            line = self._next(now_ns)
            if line is None:
                break
            stepped += self._slice(line, now_ns)
            if time.monotonic_ns() >= until_ns:
                break
        return stepped

    def again(self) -> bool:
        """Whether more can be read at once; if all who wait are slowed down, `wake` comes when the first of them is due."""
        if not self._lines:
            return False
        first_ns = min(line.due_ns for line in self._lines.values())
        left_ns = first_ns - time.monotonic_ns()
        if left_ns <= 0:
            return True
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left_ns / 1e9, self._on_due)
        return False

    def _on_due(self) -> None:
        self._timer = None
        self._wake()

    def _next(self, now_ns: int) -> _Line | None:
        best: _Line | None = None
        for line in self._lines.values():
            if line.due_ns <= now_ns and (best is None or line.peer.read_ns < best.peer.read_ns):
                best = line
        if best is not None:
            self._floor = max(self._floor, best.peer.read_ns)
        return best

    def _slice(self, line: _Line, began_ns: int) -> int:
        peer = line.peer
        reading = line.readings[0]
        count = 0
        try:
            if reading.more is None or not self._decode(reading):
                count = self._advance(line, reading)
        except PathwaysError as error:
            # Nothing of this frame has reached the core, and nothing behind it will but the end.
            line.readings = deque(list(line.readings)[-1:] if line.ending else ())
            if not line.readings:
                del self._lines[peer]
            if reading.failed is not None:
                reading.failed(error.failure)
            return 0
        session = self._state.sessions.get(peer.number)
        now_ns = time.monotonic_ns()
        peer.read_ns += (now_ns - began_ns) * self._cost(session)
        if not line.readings:
            del self._lines[peer]
        elif count and not line.ending and session is not None and is_ahead(session):
            line.due_ns = now_ns + AHEAD_PACE_NS
        return count

    def _decode(self, reading: Reading) -> bool:
        """One slice of it; False if there is no more to decode."""
        assert reading.more is not None
        decoded = next(reading.more, None)
        if decoded is None:
            reading.more = None
            return False
        reading.events += decoded
        return True

    def _advance(self, line: _Line, reading: Reading) -> int:
        if reading.at == 0 and reading.before is not None:
            reading.before()
        batch = reading.events
        if len(batch) > SLICE_EVENTS:
            batch = batch[reading.at : reading.at + SLICE_EVENTS]
        self._step(batch, reading, line.peer)
        reading.at += len(batch)
        if reading.at >= len(reading.events):
            line.readings.popleft()
            if reading.done is not None:
                reading.done()
        return len(batch)

    def _cost(self, session: Session | None) -> float:
        """What a nanosecond counts: less by weight, more the more sessions of the tenant wait."""
        if session is None:
            return 1.0
        sessions, tenant = self._state.sessions, session.tenant
        waiting = 0
        for peer in self._lines:
            other = sessions.get(peer.number)
            waiting += other is not None and other.tenant is tenant
        return max(waiting, 1) / max(tenant.declared.weight, 1)


def is_ahead(session: Session) -> bool:
    """Whether so much of it is in line, waiting for nothing but its turn, that reading on only fills the memory."""
    if len(session.ungranted) < AHEAD_OPERATIONS_MAX:
        return False
    return not any(lane.blocked for lane in session.lanes.values() if lane.queue)
