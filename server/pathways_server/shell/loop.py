"""One writer: streams post batches of events, a turn of the loop steps the core for each and carries out the effects.

The loop decides nothing. What hosts say goes first; sessions are read in turns (reading.py). Peers are entered and removed in the
order of the events, so that no effect meant for an earlier life of a host reaches a later one. A defect of the core is written
down with the recent events and stops the process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pathways_common.model.bounds import EVENTS_PER_TURN, TURN_NS
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, SessionNumber
from pathways_common.process.logs import fields
from prometheus_client import Histogram

from pathways_server.core import effects, events
from pathways_server.core.audience import Audience
from pathways_server.shell.core_calls import leak_calls, trace_calls
from pathways_server.shell.counters import Counters, IslandGangs
from pathways_server.shell.diagnoses import DiagnosisCalls
from pathways_server.shell.event_log import EventLog, Kind
from pathways_server.shell.object_graph import dumps
from pathways_server.shell.peer import HostPeer, Peer, SessionPeer
from pathways_server.shell.programs import Programs
from pathways_server.shell.reading import Reading, ReadingTurns
from pathways_server.shell.ring import Ring
from pathways_server.shell.run_counts import RunCounts

if TYPE_CHECKING:
    from pathways_server.core.snapshot import Snapshot
    from pathways_server.core.state import State

_LOG = logging.getLogger(__name__)


class CoreLike(Protocol):
    """What the loop and the services need of the core."""

    @property
    def state(self) -> State:
        """Its tables, to be read only."""
        ...

    def step(self, now_ns: int, event: events.Event) -> list[effects.Effect]:
        """Takes one event."""
        ...

    def snapshot(self, now_ns: int, audience: Audience = None) -> Snapshot:
        """What a status view shows, in words for this audience."""
        ...

    def restore(self, state: State) -> None:
        """Goes on with these tables."""
        ...


class Encoding(Protocol):
    """How effects become wire items; see rpc."""

    def command(self, command: effects.HostCommand) -> bytes: ...
    def reply(self, reply: effects.SessionReply) -> bytes: ...
    def welcome(self, reply: effects.WelcomeSession, peer: SessionPeer) -> bytes: ...
    def refused(self, failure: Failure) -> bytes: ...
    def session_lost(self, failure: Failure) -> bytes: ...
    def forget_last(self) -> None: ...


# What a life that goes on where another was killed does again.
_REPLAYED = (effects.SendToHost, effects.DropHost, effects.SendToSession, effects.DropProgram)
_COUNTED = frozenset((effects.Prepare, effects.Grant, effects.RunPlan, effects.GrantRun, effects.LoadPlan, effects.UnloadPlan))
# Events, who is woken, what runs before, and the frame that the events are in.
Batch = tuple[Sequence[events.Event], Peer | None, Callable[[], object] | None, bytes]
_TICK = (events.TimePassed(),)


class Loop:
    """The inbox, the core and the connected peers. Everything here runs in the event loop's thread."""

    def __init__(
        self,
        core: CoreLike,
        encoding: Encoding,
        programs: Programs,
        counters: Counters,
        histogram: Histogram,
        state_path: Path,
        on_defect: Callable[[BaseException], None],
        log: EventLog | None = None,
        calls_from: int = 0,
    ) -> None:
        """`calls_from`: calls of tools are numbered behind it, so that none gets the answer of one in an earlier life."""
        self.core = core
        self.log = log or EventLog(None, "")
        self.snapshot: Callable[[], bytes] = bytes
        self.sessions: dict[SessionNumber, SessionPeer] = {}
        self.hosts: dict[HostName, HostPeer] = {}
        self._addresses: dict[HostName, str] = {}
        self.encoding = encoding
        self._programs = programs
        self._counters = counters
        self._observe_turn = histogram.observe
        self._state_path = state_path
        self._on_defect = on_defect
        self.traces = trace_calls(self.post, calls_from)
        self.leaks = leak_calls(self.post, calls_from)
        self.diagnoses = DiagnosisCalls(self._push_aside, calls_from)
        self._run_counts = RunCounts()
        # The members of a gang get one object, which is encoded and counted once.
        self._command: effects.HostCommand | None = None
        self._item = b""
        self._ring = Ring()
        self._inbox: deque[Batch] = deque()
        self.reading = ReadingTurns(core.state, self._step_slice, self._turn_soon)
        self._scheduled = False
        self._broken = False
        self._apply: dict[type, Callable[[Any], None]] = {
            effects.SendToHost: self._send_to_host,
            effects.DropHost: self._drop_host,
            effects.SendToSession: self._send_to_session,
            effects.DropProgram: self._drop_program,
            effects.TraceReady: self.traces.answer,
            effects.LeaksFound: self.leaks.answer,
            effects.WakeAt: self._wake_at,
            effects.Log: self._log,
        }

    def carry_out(self, effect: type, how: Callable[[Any], None]) -> None:
        """Another part of the shell serves this kind of effect."""
        self._apply[effect] = how

    def address_of(self, host: HostName) -> str:
        """Where the host serves Data, also just after it was lost."""
        return self._addresses.get(host, "")

    def post(
        self,
        batch: Sequence[events.Event],
        peer: Peer | None = None,
        before: Callable[[], object] | None = None,
        frame: bytes = b"",
    ) -> None:
        """Queues events; `peer` is woken (to acknowledge) after their step, `before` runs right before it.

        `frame`: of a host, what the events are in; it is written down in their place.
        """
        self._inbox.append((batch, peer, before, frame))
        self._turn_soon()

    def _turn_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    # ---- entering and leaving ---------------------------------------------------------------------------------------

    def enter_host(self, peer: HostPeer) -> None:
        """For `before` of a HostJoined."""
        self.hosts[peer.name] = peer
        self._addresses[peer.name] = peer.data_address
        self._counters.gangs.setdefault(peer.island, IslandGangs())
        self.log.add(Kind.HOST_ENTERED, time.monotonic_ns(), peer.incarnation, payload=peer.identity())

    def leave_host(self, peer: HostPeer) -> None:
        """For `before` of a HostLost."""
        if self.hosts.get(peer.name) is peer:
            del self.hosts[peer.name]
        self.log.add(Kind.HOST_LEFT, time.monotonic_ns(), peer.incarnation)

    def enter_session(self, peer: SessionPeer) -> None:
        """Before its SessionOpened."""
        self.sessions[peer.number] = peer
        self.log.add(Kind.SESSION_ENTERED, time.monotonic_ns(), peer.number, payload=peer.identity())

    def leave_session(self, peer: SessionPeer) -> None:
        """For `before` of a SessionClosed."""
        self.sessions.pop(peer.number, None)
        self.log.add(Kind.SESSION_LEFT, time.monotonic_ns(), peer.number)

    # ---- turns ------------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._scheduled = False
        if self._broken:
            self._inbox.clear()
            return
        began_ns = time.monotonic_ns()
        left = EVENTS_PER_TURN
        try:
            while self._inbox and left > 0:
                batch, peer, before, frame = self._inbox.popleft()
                left -= len(batch)
                if before is not None:
                    before()
                now_ns = time.monotonic_ns()
                self._write_down(batch, peer, frame, now_ns)
                self._step(batch, now_ns)
                if peer is not None:
                    peer.wake()
            left -= self.reading.serve(began_ns + TURN_NS)
            # Before anything that was decided here leaves.
            self.log.flush()
            if self.log.full and not self._inbox:
                self.keep()
        except Exception as error:
            self._defect(error)
            return
        self.encoding.forget_last()
        self._command, self._item = None, b""
        self._counters.events += EVENTS_PER_TURN - left
        self._observe_turn((time.monotonic_ns() - began_ns) / 1e9)
        if self._inbox or self.reading.again():
            self._turn_soon()

    def _write_down(self, batch: Sequence[events.Event], peer: Peer | None, frame: bytes, now_ns: int) -> None:
        log = self.log
        if not log.kept:
            return
        if frame:
            assert isinstance(peer, HostPeer)
            log.add(Kind.HOST_FRAME, now_ns, peer.incarnation, payload=frame)
        elif batch == _TICK:
            log.add(Kind.TICK, now_ns)
        elif batch:
            log.add(Kind.EVENTS, now_ns, payload=dumps(tuple(batch)))

    def _step_slice(self, batch: Sequence[events.Event], reading: Reading, peer: SessionPeer) -> None:
        """A part of what a session has sent; written down as the frame and how far it was stepped."""
        now_ns, log = time.monotonic_ns(), self.log
        if not log.kept or not reading.frame:
            if reading.sequence:
                log.add(Kind.ACCEPTED, now_ns, peer.number, reading.sequence)
            else:
                self._write_down(batch, None, b"", now_ns)
        else:
            if reading.segment != log.segment:
                log.add(Kind.SESSION_FRAME, now_ns, peer.number, reading.at, reading.frame)
                reading.segment = log.segment
            log.add(Kind.SLICE, now_ns, peer.number, len(batch))
        self._step(batch, now_ns)

    def keep(self) -> None:
        """Begins the log anew, behind a snapshot of everything. Nothing may be in the inbox."""
        try:
            snapshot = self.snapshot()
        except TypeError as error:  # a defect of ours, and none of what runs
            _LOG.error("no snapshot can be taken; a restart will lose all sessions", extra=fields(cause=error))
            self.log.discard()
        else:
            self.log.begin(time.monotonic_ns(), snapshot)

    def settle(self) -> None:
        """Takes turns until there is nothing to be handled."""
        while (self._inbox or self.reading.again()) and not self._broken:
            self._turn()

    def abandon(self) -> None:
        """Nothing of it is handled any more: another loop takes its place."""
        self._broken = True

    def _push_aside(self, peer: HostPeer, item: bytes) -> None:
        """What the core has no part in; it may leave at once."""
        peer.push(item, urgent=True)
        self.log.add(Kind.ASIDE, time.monotonic_ns(), peer.incarnation, payload=item)
        self.log.flush()

    def replay(self, batch: Sequence[events.Event], now_ns: int) -> None:
        """Steps what an earlier life was told; what the shell did then besides queueing for hosts and sessions is done."""
        every, self._apply = self._apply, dict.fromkeys(self._apply, _done_before)
        try:
            for kind in _REPLAYED:
                self._apply[kind] = every[kind]
            self._step(batch, now_ns)
        finally:
            self._apply = every
        self.encoding.forget_last()
        self._command, self._item = None, b""

    def _step(self, batch: Sequence[events.Event], now_ns: int) -> None:
        step, apply, remember = self.core.step, self._apply, self._ring.add
        for event in batch:
            remember(now_ns, event)
            produced = step(now_ns, event)
            if type(event) is events.CompileRequested:
                self._programs.hand_over(event.program)
            for effect in produced:
                apply[type(effect)](effect)

    def _defect(self, error: BaseException) -> None:
        self._broken = True
        # It would break the next life as well.
        self.log.discard()
        path = self._ring.write(self._state_path, error)
        _LOG.critical("the core is broken", extra=fields(written_to=path), exc_info=error)
        self._on_defect(error)

    # ---- effects ----------------------------------------------------------------------------------------------------

    def _send_to_host(self, effect: effects.SendToHost) -> None:
        peer = self.hosts.get(effect.host)
        if peer is None:
            return  # lost; the core hears of it in the event that is on its way
        command = effect.command
        if command is not self._command:
            self._item = self.encoding.command(command)
            self._command = command
            if type(command) in _COUNTED:
                self._count_gangs(peer, command)
            elif type(command) is effects.Probe:
                peer.asked_ns = time.monotonic_ns()
        peer.push(self._item, effect.urgent)
        if peer.overloaded:
            _LOG.error("host does not read", extra=fields(host=peer.name, pending=peer.link.pending))
            peer.finish(None)

    def _drop_host(self, effect: effects.DropHost) -> None:
        """What it may say from here on is of an incarnation that is lost."""
        peer = self.hosts.pop(effect.host, None)
        if peer is not None:
            peer.finish(None)

    def _count_gangs(self, peer: HostPeer, command: effects.HostCommand) -> None:
        match command:
            case effects.Prepare() | effects.Grant():
                last: int = command.sequence
            case effects.RunPlan():
                last = self._run_counts.run(command, peer.island)
            case effects.GrantRun():
                last = self._run_counts.grant(command, peer.island)
            case effects.LoadPlan():
                self._run_counts.load(command)
                return
            case effects.UnloadPlan():
                self._run_counts.unload(command)
                return
            case _:
                raise AssertionError(f"{type(command).__name__} is not counted")
        # The epoch is that of the host's island.
        if last:
            self._counters.gangs[peer.island].reach(command.epoch, last)

    def _send_to_session(self, effect: effects.SendToSession) -> None:
        peer = self.sessions.get(effect.session)
        if peer is None:
            return  # gone; its SessionClosed is on its way or was stepped
        reply = effect.reply
        if isinstance(reply, effects.WelcomeSession):
            peer.open(self.encoding.welcome(reply, peer))
        elif isinstance(reply, effects.RefuseSession):
            self.end_session(peer, reply.failure)
        else:
            peer.push(self.encoding.reply(reply))
            if peer.overloaded:
                sentence = f"the session left {peer.link.pending} replies unread; it was ended"
                self.end_session(peer, Failure(Reason.RESOURCE_EXHAUSTED, sentence))

    def end_session(self, peer: SessionPeer, failure: Failure) -> None:
        """Tells a session that it is refused or lost, and ends its stream."""
        if peer.opened:
            peer.finish(self.encoding.session_lost(failure))
        else:
            peer.refuse(self.encoding.refused(failure))
        if not peer.attached:
            peer.on_ended(failure.message)

    def _drop_program(self, effect: effects.DropProgram) -> None:
        self._programs.drop(effect.program)

    def _wake_at(self, effect: effects.WakeAt) -> None:
        """Not before its time: the core would find no room yet, and it has asked already. The loop counts in milliseconds."""
        left_ns = effect.at_ns - time.monotonic_ns()
        if left_ns > 0:
            asyncio.get_running_loop().call_later(-(-left_ns // 1_000_000) / 1e3, self._wake_at, effect)
        else:
            self.post((events.WindowDue(effect.island),))

    def _log(self, effect: effects.Log) -> None:
        _LOG.info(effect.phrase, extra=fields(**dict(effect.fields)))


def _done_before(_effect: object) -> None:
    """An earlier life did it."""
