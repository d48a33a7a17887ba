"""A whole cluster in one thread: real doors, the real decoder, core and encoder of the controller, and hosts that are played.

What a door says reaches the core as bytes and comes back as bytes, at once. A shard reads as its buffer's global id again and
again, so that whoever gets bytes of another session shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pathways_common.model.array import ExecutableFacts
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.model.ids import HostName, SessionNumber
from pathways_door.ifrt_session import IfrtSession
from pathways_door.upstream import Away, Upstream
from pathways_proto.v1 import sessions_pb2
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.invariants import check
from pathways_server.rpc.decode import OperationDecoder, client_frame
from pathways_server.rpc.encode import Encoder
from pathways_server.rpc.wire import frame
from pathways_server.shell.counters import Counters
from pathways_server.shell.peer import SessionPeer
from pathways_server.shell.programs import Programs
from pathways_server.shell.tickets import Tickets

from tests.unit.core.core_driver import Driver

HOST = HostName("a0")
# What is read through a ticket; nobody is served more here.
_PULLED_BYTES_MAX = 1 << 24
SHARE_BYTES = 8


def shard_of(buffer_id: int, size_bytes: int) -> bytes:
    """What a shard of a buffer reads as."""
    return (buffer_id.to_bytes(8, "little") * (size_bytes // 8 + 1))[:size_bytes]


class _Hosts(Driver):
    """Hosts that answer reads, waits and loads, too. `load` says what becomes of a program by its name."""

    def __init__(self, load: Callable[[str], ExecutableFacts | Failure]) -> None:
        self._load = load
        self.commands: list[out.HostCommand] = []
        super().__init__({"a": [HOST]}, devices=2, memory=1 << 30, pool_slices=1)

    def _answer(self, sent: out.SendToHost) -> list[events.Event]:
        command, host = sent.command, sent.host
        self.commands.append(command)
        match command:
            case out.Load():
                found = self._load(command.program)
                facts, failure = (None, found) if isinstance(found, Failure) else (found, None)
                return [events.ExecutableLoaded(host, command.epoch, command.executable_id, facts, failure)]
            case out.FetchShard():
                buffer = next(
                    (
                        each.buffers[command.shard.id]
                        for each in self.core.state.sessions.values()
                        if command.shard.id in each.buffers
                    ),
                    None,
                )
                size = min(buffer.shard_bytes if buffer is not None else 0, _PULLED_BYTES_MAX)
                data = b"" if command.pull else shard_of(command.shard.id, size)
                return [events.ShardFetched(host, command.fetch_id, data, None)]
            case out.AwaitReady():
                return [events.BecameReady(host, command.wait_id, None)]
            case out.ExpectUpload() | out.PullShard():
                return [events.TransferLanded(host, command.transfer_id, None)]
            case out.InspectExecutable():
                return [events.ExecutableInspected(host, command.inspect_id, b"", None)]
            case out.Prepare() if command.sequence:
                return [events.HostProgressed(host, self.epoch(), command.sequence)]
            case out.Grant():
                return [events.HostProgressed(host, self.epoch(), command.sequence)]
        return super()._answer(sent)


class PlayedCluster:
    """One island, one host, two devices."""

    def __init__(self, load: Callable[[str, bytes, bytes], ExecutableFacts | Failure]) -> None:
        self.programs = Programs()
        self.hosts = _Hosts(lambda name: load(name, *self.programs.bytes_of(name)))
        self._decoder = OperationDecoder(self.programs, {})
        self._encoder = Encoder(Tickets(), self.programs, lambda host: f"{host}:1", "test")
        self._sessions: dict[int, list[sessions_pb2.ServerOperation]] = {}
        # Of sessions that were ended from here: why.
        self.ended: dict[int, Failure] = {}

    @property
    def state(self) -> Any:
        """The core's tables."""
        return self.hosts.core.state

    def open(self, number: int, tenant: str = "default") -> sessions_pb2.Welcome:
        """A session; its welcome."""
        self._sessions[number] = []
        for effect in self.hosts.open(number, tenant=tenant):
            if isinstance(effect, out.SendToSession) and isinstance(effect.reply, out.WelcomeSession):
                peer = SessionPeer(SessionNumber(number), f"session-{number}", frame, Counters())
                return sessions_pb2.ServerFrame.FromString(self._encoder.welcome(effect.reply, peer)).welcome
        raise AssertionError("the session was not welcomed")

    def close(self, number: int) -> None:
        """Its connection is gone for good."""
        self._carry_out(self.hosts.close(number))
        del self._sessions[number]

    def take(self, number: int, data: bytes) -> None:
        """One frame of a session, as the shell takes it. What is malformed ends the session, and no other."""
        session = SessionNumber(number)
        try:
            decoded = self._decoder.decode(session, client_frame(data).operations)
        except PathwaysError as error:
            self.ended[number] = error.failure
            return
        for event in decoded:
            produced = self.hosts.step(event)
            if isinstance(event, events.CompileRequested):
                self.programs.hand_over(event.program)
            self._carry_out(produced)

    def _carry_out(self, produced: Sequence[out.Effect]) -> None:
        for effect in produced:
            if isinstance(effect, out.SendToHost):
                self._encoder.command(effect.command)
            elif isinstance(effect, out.DropProgram):
                self.programs.drop(effect.program)
            elif isinstance(effect, out.SendToSession) and effect.session in self._sessions:
                self._answer(effect)
        self._encoder.forget_last()

    def _answer(self, effect: out.SendToSession) -> None:
        if isinstance(effect.reply, out.WelcomeSession | out.RefuseSession):
            return
        item = self._encoder.reply(effect.reply)
        answered = sessions_pb2.ServerFrame.FromString(frame(1, 0, 0, [item])).operations
        self._sessions[effect.session].extend(answered)

    def answers(self, number: int) -> list[sessions_pb2.ServerOperation]:
        """What the session was told since it was last asked."""
        told = self._sessions[number]
        self._sessions[number] = []
        return told

    def pass_time(self, seconds: float) -> None:
        """Deadlines pass."""
        self._carry_out(self.hosts.pass_time(seconds))

    def check(self) -> None:
        """Every invariant of the core."""
        check(self.hosts.core)


class PlayedUpstream(Upstream):
    """A door's end of a session of a played cluster; `pump` lets it say what it has to say. `said` keeps all of it."""

    def __init__(self, cluster: PlayedCluster, number: int, tenant: str = "default") -> None:
        super().__init__(_NoCall(), Away(), cluster.open(number, tenant))
        self.number = number
        self.said: list[sessions_pb2.ClientOperation] = []
        self._cluster = cluster
        self._to_say: list[sessions_pb2.ClientOperation] = []

    def _push(self, operation: sessions_pb2.ClientOperation, urgent: bool) -> None:
        self._to_say.append(operation)

    def pump(self) -> None:
        """Everything that was pushed goes up and is answered, and so what comes of the answers."""
        while True:
            self._flush_releases()
            operations, self._to_say = self._to_say, []
            answers = self._cluster.answers(self.number)
            if not operations and not answers:
                return
            if self.late is not None:
                self.late.seal()
            self.said += operations
            if operations:
                self._cluster.take(self.number, sessions_pb2.ClientFrame(sequence=1, operations=operations).SerializeToString())
            for answer in answers:
                self._dispatch(answer)

    def lose(self, failure: Failure) -> None:
        """Everything that is waited for ends with this."""
        self._lose(failure)


class _NoCall:
    """Nobody is called."""

    def done(self) -> bool:
        return False

    def cancel(self) -> None:
        pass


class PlayedBulk:
    """Bytes of shards for tickets: nobody's, and as many as were asked for, within reason."""

    async def push(self, _target: Any, _data: Any) -> None:
        """They arrive."""

    async def pull(self, _source: Any, size_bytes: int) -> bytes:
        """They are zeros."""
        if size_bytes > _PULLED_BYTES_MAX:
            raise PathwaysError(Failure(Reason.INTERNAL, f"nobody sends {size_bytes} bytes here"))
        return bytes(size_bytes)

    async def close(self) -> None:
        """There is nothing to close."""


def door_session(cluster: PlayedCluster, number: int, tenant: str = "default", session_id: int = 0) -> IfrtSession:
    """An IFRT session of a door, over a session of the cluster."""
    upstream = PlayedUpstream(cluster, number, tenant)
    bulk: Any = PlayedBulk()
    return IfrtSession(session_id or number, upstream, bulk, lambda _awaited: None)
