"""Workers: one stream, one incarnation of a host, whatever carries its frames. Its end is always told to the core, once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import grpc.aio
from pathways_common.model.bounds import WORDS_BYTES_MAX
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.model.ids import Epoch, HostName, IslandName, Sequence
from pathways_common.process.logs import fields
from pathways_common.rpc.channels import parse_address
from pathways_proto.v1 import workers_pb2

from pathways_server.core import events
from pathways_server.rpc import handshake
from pathways_server.rpc.decode_host import Progress, coordinates, host_event, progress_in, progress_of, worker_frame
from pathways_server.rpc.form import bad, checked_natural, checked_words
from pathways_server.rpc.streams import accept, read_first, run_stream
from pathways_server.rpc.versions import versions_of, worker_refusal
from pathways_server.rpc.wire import frame
from pathways_server.shell.counters import Counters
from pathways_server.shell.loop import Loop
from pathways_server.shell.peer import HostPeer, Peer

_LOG = logging.getLogger(__name__)


class HostStream:
    """One incarnation of a host: what its frames say goes to the core. `peer` is the other direction.

    Progress belongs to the epoch that the host entered last.
    """

    def __init__(self, loop: Loop, counters: Counters, peer: HostPeer, names: set[str]) -> None:
        self.peer = peer
        self._loop = loop
        self._counters = counters
        self._names = names
        self._begin(0)

    def _begin(self, epoch: int) -> None:
        """Progress counts from 0 again. `_timed`: the last gang whose time was told."""
        self._epoch, self._finished, self._launched, self._busy_ns, self._timed = epoch, 0, 0, 0, 0

    async def read(self, context: Any) -> None:
        """Takes frames until the stream ends."""
        while (data := await context.read()) is not grpc.aio.EOF:
            self.take(data)

    def take(self, data: bytes) -> None:
        """One frame; raises PathwaysError if it is malformed."""
        peer = self.peer
        self._counters.frames_received += 1
        decoded: list[events.Event] = []
        progress = progress_of(data)
        if progress is not None:
            accept(peer, 0, progress.acknowledged, 0)
        else:
            message = worker_frame(data)
            if message.HasField("hello"):
                raise bad("a second hello", message.hello.host)
            progress = progress_in(message)
            if accept(peer, message.sequence, progress.acknowledged, len(message.events)):
                decoded = self._events(message.events)
        if progress.acknowledged > peer.acknowledged_frames:
            peer.acknowledged_frames = progress.acknowledged
        if self._epoch and (progress.finished_through > self._finished or progress.launched_through > self._launched):
            decoded.append(self._progressed(progress))
        if decoded:
            self._loop.post(decoded, peer)
        else:
            peer.wake()

    def _progressed(self, progress: Progress) -> events.HostProgressed:
        """Numbers only grow, and a row that was told before is left out."""
        self._finished = max(self._finished, progress.finished_through)
        self._launched = max(self._launched, progress.launched_through)
        self._busy_ns = max(self._busy_ns, progress.busy_ns)
        times = progress.times
        if times:
            if times[0].sequence <= self._timed:
                times = tuple(row for row in times if row.sequence > self._timed)
            for row in times:
                if not self._timed < row.sequence <= self._finished or row.ended_ns < row.started_ns:
                    raise bad("times must be of finished gangs in their order, and end after they start", row)
                self._timed = row.sequence
        return events.HostProgressed(
            self.peer.name, Epoch(self._epoch), Sequence(self._finished), Sequence(self._launched), self._busy_ns, times
        )

    def _events(self, entries: Iterable[workers_pb2.HostEvent]) -> list[events.Event]:
        peer = self.peer
        decoded: list[events.Event] = []
        for entry in entries:
            name = entry.WhichOneof("event")
            if name == "log":
                peer.log_tail.extend(line[:WORDS_BYTES_MAX] for line in entry.log.lines[-20:])
            elif name == "memory":
                peer.reported_bytes = entry.memory.live_bytes
            elif name == "host_diagnosis":
                self._loop.diagnoses.answer(peer.name, entry.host_diagnosis.request_id, entry.host_diagnosis)
            elif name is None:
                raise bad("an event is empty or newer than this controller", "none set")
            else:
                event = host_event(peer.name, name, getattr(entry, name))
                if isinstance(event, events.EpochEntered):
                    self._begin(event.epoch)
                elif isinstance(event, events.ExecutorLost):
                    self._begin(0)
                decoded.append(event)
        return decoded

    @property
    def crowded(self) -> bool:
        """What hosts say is heard at once."""
        return False

    @property
    def over(self) -> bool:
        """Hosts do not say goodbye."""
        return False

    def fail(self, _failure: Failure) -> bool:
        """Nothing is told by the peer."""
        return False

    def end(self, reason: str) -> None:
        """The stream is gone. Call it once."""
        peer = self.peer
        self._names.discard(peer.name)
        lost = events.HostLost(peer.name, peer.incarnation, reason)
        self._loop.post((lost,), before=lambda: self._loop.leave_host(peer))
        _LOG.warning("host lost", extra=fields(host=peer.name, incarnation=peer.incarnation, reason=reason))


class WorkersService:
    """Admits workers. Serves Connect with undecoded frames: bytes in, bytes out."""

    def __init__(self, loop: Loop, counters: Counters, next_incarnation: Callable[[], int], term: int, version: str) -> None:
        self._loop = loop
        self._counters = counters
        self._next_incarnation = next_incarnation
        self._term = term
        self._version = version
        self._names: set[str] = set()

    async def connect(self, _requests: Any, context: Any) -> None:
        """One worker from hello to its end."""
        admitted = self.admit(await read_first(context, "worker"))
        if isinstance(admitted, bytes):
            await context.write(admitted)
            return
        reason = "the connection broke"
        try:
            reason = await run_stream(context, admitted.peer, admitted.read(context))
        except PathwaysError as error:
            reason = error.failure.message
            raise
        finally:
            admitted.end(reason)

    def admit(self, first: bytes, attach: Callable[[Peer], None] | None = None, sent: str = "") -> HostStream | bytes:
        """The host behind a first frame joins; or the frame that refuses it. Raises PathwaysError if the frame is malformed."""
        message = worker_frame(first)
        if not message.HasField("hello") or message.sequence:
            raise bad("the first frame must hold a hello alone and have sequence 0", message.sequence)
        hello = message.hello
        versions = versions_of(hello)
        refusal = self._refusal(hello) or worker_refusal(versions, hello.host, hello.island, self._loop.hosts.values())
        if refusal is not None:
            _LOG.warning("worker refused", extra=fields(host=hello.host, sentence=refusal.message))
            return self.refused(refusal)
        host, island, incarnation = HostName(hello.host), IslandName(hello.island), self._next_incarnation()
        peer = HostPeer(host, island, incarnation, hello.data_address, frame, self._counters, self._term)
        peer.versions = versions
        if attach is not None:
            attach(peer)
        joined = events.HostJoined(
            host, island, incarnation, hello.device_count, hello.data_address, hello.pid, hello.device_memory_bytes,
            tuple(hello.topology), coordinates(hello), hello.device_kind,
        )  # fmt: skip
        peer.open(handshake.worker_welcome_frame(incarnation, self._term))
        _LOG.info("host joined", extra=fields(host=host, island=island, incarnation=incarnation, devices=hello.device_count))
        self._loop.post((joined,), before=lambda: self._loop.enter_host(peer))
        self._names.add(hello.host)
        return HostStream(self._loop, self._counters, peer, self._names)

    def refused(self, failure: Failure) -> bytes:
        """The frame that says why a worker is not admitted, or no longer served."""
        return handshake.worker_refused_frame(failure, self._term)

    def _refusal(self, hello: workers_pb2.WorkerHello) -> Failure | None:
        """Why a hello is not accepted; raises PathwaysError if it is malformed."""
        for name in (hello.host, hello.island):
            if not name or not checked_words(name, "hello.host and hello.island"):
                raise bad("hello.host and hello.island must be set", repr(name))
        parse_address(hello.data_address)
        checked_natural(hello.device_memory_bytes, "hello.device_memory_bytes")
        checked_words(hello.device_kind, "hello.device_kind")
        coordinates(hello)
        if hello.device_count < 1:
            raise bad("hello.device_count must be at least 1", hello.device_count)
        if hello.host in self._names:
            sentence = f"a host named {hello.host} has joined already; start this worker with another --host"
            return Failure(Reason.UNAVAILABLE, sentence, host=hello.host, retryable=True)
        return None
