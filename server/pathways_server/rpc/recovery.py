"""A controller that was killed is made again: from the last snapshot, and by stepping what was written down behind it.

The core decides the same again, so tables, sequences and what was said on every link are those of the moment of the kill. Then
hosts and sessions are without a connection, as after a stop, and come back as after any broken link: what they have not received
is said again, what was not acknowledged they say again. What was under way is finished, and nothing is done twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from pathways_common.model.ids import SessionNumber
from pathways_common.model.link import Pushed
from pathways_common.process.logs import fields
from pathways_proto.v1 import types_pb2

from pathways_server.core import events
from pathways_server.core.state import State
from pathways_server.rpc.decode import OperationDecoder, client_frame
from pathways_server.rpc.sessions import SessionsService, SessionStream
from pathways_server.rpc.wire import frame
from pathways_server.rpc.workers import HostStream, WorkersService
from pathways_server.shell.counters import Counters
from pathways_server.shell.event_log import Kind, Record
from pathways_server.shell.loop import Loop
from pathways_server.shell.object_graph import dumps, loads
from pathways_server.shell.peer import HostPeer, SessionPeer
from pathways_server.shell.programs import Programs

_LOG = logging.getLogger(__name__)
_WHY = "the controller was killed and started again"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a snapshot holds. Peers: identity, whether they were welcomed, what they pushed and received, and how far they are."""

    state: State
    ticket_key: bytes
    programs: tuple[tuple[bytes, bytes], ...]
    hosts: tuple[tuple[bytes, Pushed[bytes], int, tuple[int, ...]], ...]
    sessions: tuple[tuple[bytes, bool, Pushed[bytes], int, int], ...]


def kept_in(record: Record) -> Kept:
    """The snapshot with which a log begins; raises ValueError or TypeError if it is none."""
    if record.kind is not Kind.SNAPSHOT:
        raise ValueError(f"the log begins with {record.kind.name}")
    return Kept(*loads(record.payload))


@dataclass(slots=True)
class _Frame:
    """A frame of a session that is being stepped."""

    decoded: list[events.Event]
    sequence: int
    at: int


@dataclass(slots=True)
class Recovery:
    """Takes snapshots of a running controller, and makes one again."""

    loop: Loop
    workers: WorkersService
    sessions: SessionsService
    decoder: OperationDecoder
    programs: Programs
    counters: Counters
    term: int
    ticket_key: bytes
    _hosts: dict[int, HostStream] = field(default_factory=dict)
    _streams: dict[int, SessionStream] = field(default_factory=dict)
    _frames: dict[int, _Frame] = field(default_factory=dict)

    def snapshot(self) -> bytes:
        """Everything that another life needs, between two turns and with nothing in the inbox."""
        loop = self.loop
        loop.core.state.effects = []
        hosts = tuple(
            (peer.identity(), _pushed(peer), peer.link.received, self.workers.stream_named(peer.name).told)
            for peer in loop.hosts.values()
        )
        sessions = tuple(
            (peer.identity(), peer.opened and not peer.ending, _pushed(peer), peer.link.received, self._stepped(peer))
            for peer in loop.sessions.values()
        )
        return dumps((loop.core.state, self.ticket_key, self.programs.owned(), hosts, sessions))

    def _stepped(self, peer: SessionPeer) -> int:
        return self.loop.reading.stepped_of_next(peer)

    # ---- making it again --------------------------------------------------------------------------------------------

    def restore(self, kept: Kept, records: Iterable[Record]) -> None:
        """Everything is as it was when the last record was written; the core's tables are those of the snapshot already."""
        for pair in kept.programs:
            self.programs.adopt(*pair)
        for identity, pushed, received, told in kept.hosts:
            self._enter_host(identity, pushed, received, told)
        for identity, opened, pushed, received, stepped in kept.sessions:
            stream = self._enter_session(identity, pushed, received)
            if opened:
                stream.peer.open(b"")
            stream.stepped_before = stepped
        count = 0
        for record in records:
            self._again(record)
            count += 1
        self._expect()
        values = fields(hosts=len(self.loop.hosts), sessions=len(self.loop.sessions), records=count)
        _LOG.warning("going on where an earlier life of the controller was killed", extra=values)

    def _enter_host(self, identity: bytes, pushed: Pushed[bytes], received: int = 0, told: tuple[int, ...] = (0,) * 5) -> None:
        name, island, incarnation, data_address, grace_ns, versions = loads(identity)
        peer = HostPeer(name, island, incarnation, data_address, frame, self.counters, self.term, grace_ns)
        peer.versions = types_pb2.Versions.FromString(versions)
        peer.link.restore(pushed, received)
        peer.begin_again()
        before = self._hosts.get(incarnation)
        assert before is None, f"incarnation {incarnation} entered twice"
        stream = self._hosts[incarnation] = self.workers.stream_of(peer)
        stream.restore(received, told)
        self.loop.enter_host(peer)

    def _enter_session(self, identity: bytes, pushed: Pushed[bytes], received: int = 0) -> SessionStream:
        number, session_id, plain, lease_ns, tenant = loads(identity)
        peer = SessionPeer(number, session_id, frame, self.counters, plain, tenant)
        peer.lease_ns = lease_ns
        peer.link.restore(pushed, received)
        peer.begin_again()
        stream = self._streams[number] = self.sessions.stream_of(peer)
        self.loop.enter_session(peer)
        return stream

    def _again(self, record: Record) -> None:
        loop = self.loop
        match record.kind:
            case Kind.SLICE:
                self._slice(record)
            case Kind.HOST_FRAME:
                if (host := self._hosts.get(record.whom)) is not None:
                    loop.replay(host.taken_before(record.payload), record.now_ns)
            case Kind.SESSION_FRAME:
                message = client_frame(record.payload)
                decoded = self.decoder.decode(SessionNumber(record.whom), message.operations)
                self.decoder.let_go(decoded[: record.number])
                self._frames[record.whom] = _Frame(decoded, message.sequence, record.number)
            case Kind.ACCEPTED:
                self._streams[record.whom].peer.link.accept(record.number)
            case Kind.TICK:
                loop.replay((events.TimePassed(),), record.now_ns)
            case Kind.EVENTS:
                loop.replay(loads(record.payload), record.now_ns)
            case Kind.HOST_ENTERED:
                self._enter_host(record.payload, Pushed(0, 0, (), ()))
            case Kind.HOST_LEFT:
                if (host := self._hosts.pop(record.whom, None)) is not None:
                    host.forget()
                    loop.leave_host(host.peer)
            case Kind.SESSION_ENTERED:
                self._enter_session(record.payload, Pushed(0, 0, (), ()))
            case Kind.SESSION_LEFT:
                self._leave(self._streams[record.whom])
            case Kind.ASIDE:
                if (host := self._hosts.get(record.whom)) is not None:
                    host.peer.push(record.payload, urgent=True)
            case Kind.SNAPSHOT:
                raise ValueError("a snapshot in the middle of a log")

    def _slice(self, record: Record) -> None:
        current = self._frames[record.whom]
        self.loop.replay(current.decoded[current.at : current.at + record.number], record.now_ns)
        current.at += record.number
        stream = self._streams[record.whom]
        stream.stepped_before = current.at
        if current.at >= len(current.decoded):
            stream.peer.link.accept(current.sequence)
            stream.stepped_before = 0
            del self._frames[record.whom]

    def _leave(self, stream: SessionStream) -> None:
        del self._streams[stream.number]
        self.loop.leave_session(stream.peer)
        self.sessions.forget(stream)

    def _expect(self) -> None:
        """Everybody is without a connection now; who cannot come back is given up."""
        for unfinished in self._frames.values():
            self.decoder.let_go(unfinished.decoded[unfinished.at :])
        state = self.loop.core.state
        for host in list(self._hosts.values()):
            peer = host.peer
            if peer.ending or not peer.grace_ns or self.loop.hosts.get(peer.name) is not peer:
                host.lose(_WHY)
            else:
                peer.wait_restored()
                host.wait(_WHY)
        for stream in list(self._streams.values()):
            number, session = stream.number, stream.peer
            if number not in state.sessions and number not in state.pending:
                self._leave(stream)
            elif session.ending or not session.opened or not session.lease_ns:
                stream.close(_WHY)
            else:
                stream.restore(session.link.received, stream.stepped_before)
                session.wait_restored()
                self.loop.post((events.SessionDetached(number, _WHY),))
        # Their timers were those of the earlier life.
        self.loop.post([events.WindowDue(island) for island in state.islands])


def _pushed(peer: HostPeer | SessionPeer) -> Pushed[bytes]:
    kept = peer.link.pushed()
    return Pushed(kept.ordinary_count, kept.urgent_count, tuple(map(bytes, kept.ordinary)), tuple(map(bytes, kept.urgent)))
