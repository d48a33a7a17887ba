"""Workers: an incarnation of a host, over one connection after another, whatever carries its frames.

A broken connection is told to the core, which gives the host up after its grace. A daemon that is gone is not waited for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pathways_common.model.bounds import WORDS_BYTES_MAX
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.model.ids import Epoch, HostName, IslandName, Sequence
from pathways_common.process.logs import fields
from pathways_common.rpc.channels import parse_address
from pathways_proto.v1 import workers_pb2

from pathways_server.core import effects, events
from pathways_server.rpc import handshake
from pathways_server.rpc.attached import Attached, LinkTerms, Sever
from pathways_server.rpc.daemon_probe import refuses
from pathways_server.rpc.decode_host import Progress, coordinates, host_event, progress_in, progress_of, worker_frame
from pathways_server.rpc.form import bad, checked_natural, checked_words
from pathways_server.rpc.streams import acknowledge, read_first, run_stream
from pathways_server.rpc.versions import versions_of, worker_refusal
from pathways_server.rpc.wire import frame
from pathways_server.shell.counters import Counters
from pathways_server.shell.loop import Loop
from pathways_server.shell.peer import HostPeer, Peer

_LOG = logging.getLogger(__name__)
# While a host has no connection, so often it is looked whether its daemon lives.
_PROBE_S = 0.05
# An answer that takes longer than this comes over a slow link, or not at all: then the core is told that the host lives.
_OVERDUE_NS = 10**9


Acknowledge = Callable[[Peer, int, int, int], bool]


def _of_another_life(_peer: Peer, sequence: int, _acknowledged: int, _item_count: int) -> bool:
    """Its frames are not those of this life."""
    return sequence > 0


class HostStream:
    """One incarnation of a host: what its frames say goes to the core. `peer` is the other direction.

    Progress belongs to the epoch that the host entered last.
    """

    def __init__(self, loop: Loop, counters: Counters, peer: HostPeer, streams: dict[str, HostStream], resumable: bool) -> None:
        self.peer = peer
        self.attached: Attached | None = None
        self.connection = 0  # the last that the worker numbered
        self._loop = loop
        self._counters = counters
        self._streams = streams
        self._resumable = resumable
        self._broken = ""
        self._probing: asyncio.Task[None] | None = None
        self._taken = 0  # the last frame; it is accepted when it is stepped
        self._begin(0)

    def _begin(self, epoch: int) -> None:
        """Progress counts from 0 again. `_timed`: the last gang whose time was told."""
        self._epoch, self._finished, self._launched, self._busy_ns, self._timed = epoch, 0, 0, 0, 0

    async def settled(self) -> None:
        """Hosts are not waited for."""

    def take(self, data: bytes) -> None:
        """One frame; raises PathwaysError if it is malformed."""
        peer, before = self.peer, self._taken
        self._counters.frames_received += 1
        decoded, progress = self._decoded(data, acknowledge)
        if progress.acknowledged > peer.acknowledged_frames:
            peer.acknowledged_frames = progress.acknowledged
        if self._taken != before:
            self._loop.post(decoded, peer, partial(peer.link.accept, self._taken), data)
        elif decoded:
            self._loop.post(decoded, peer, frame=data)
        else:
            peer.wake()
        self.heard()

    def heard(self) -> None:
        """Something came, if only a sign of life; told now and then while an answer is overdue."""
        peer = self.peer
        if peer.asked_ns and (now_ns := time.monotonic_ns()) - peer.asked_ns >= _OVERDUE_NS:
            peer.asked_ns = now_ns
            self._loop.post((events.HostHeard(peer.name, peer.incarnation),))

    def taken_before(self, data: bytes) -> list[events.Event]:
        """One frame that an earlier life of the controller has stepped."""
        before = self._taken
        decoded, _ = self._decoded(data, _of_another_life)
        if self._taken != before:
            self.peer.link.accept(self._taken)
        return decoded

    def _decoded(self, data: bytes, acknowledge: Acknowledge) -> tuple[list[events.Event], Progress]:
        peer = self.peer
        decoded: list[events.Event] = []
        progress = progress_of(data)
        if progress is not None:
            acknowledge(peer, 0, progress.acknowledged, 0)
        else:
            message = worker_frame(data)
            if message.HasField("hello"):
                raise bad("a second hello", message.hello.host)
            progress = progress_in(message)
            if acknowledge(peer, message.sequence, progress.acknowledged, len(message.events)):
                if message.sequence > self._taken + 1:
                    raise bad(f"frame {self._taken + 1} is missing before frame", message.sequence)
                if message.sequence > self._taken:
                    self._taken = message.sequence
                    decoded = self._events(message.events)
        if self._epoch and (progress.finished_through > self._finished or progress.launched_through > self._launched):
            decoded.append(self._progressed(progress))
        return decoded, progress

    @property
    def told(self) -> tuple[int, ...]:
        """What has to be kept of it: epoch, finished, launched, computed, and the last gang whose time was told."""
        return self._epoch, self._finished, self._launched, self._busy_ns, self._timed

    def restore(self, taken: int, told: tuple[int, ...]) -> None:
        """As an earlier life of the controller left it."""
        self._taken = taken
        self._epoch, self._finished, self._launched, self._busy_ns, self._timed = told

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
                elif isinstance(event, events.HostPulsed):
                    peer.asked_ns = 0
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

    def fail(self, failure: Failure) -> bool:
        """Nothing is told by the peer. It would send the same again if it came back."""
        self._broken = failure.message
        return False

    def end(self, reason: str) -> None:
        """The connection is gone."""
        peer = self.peer
        if not self._resumable or self._broken or peer.ending:
            self.lose(self._broken or reason)
            return
        peer.detach()
        self.wait(reason)

    def wait(self, reason: str) -> None:
        """It has no connection, and another is expected."""
        peer = self.peer
        self._loop.post((events.HostDetached(peer.name, peer.incarnation, reason),))
        self._probing = asyncio.get_running_loop().create_task(self._probe(reason), name=f"probe of {peer.name}")
        _LOG.warning("host waits for its link", extra=fields(host=peer.name, incarnation=peer.incarnation, reason=reason))

    async def _probe(self, reason: str) -> None:
        while not await refuses(self.peer.data_address):
            await asyncio.sleep(_PROBE_S)
        self.lose(f"{reason}, and its daemon is gone")

    def back(self) -> None:
        """Another connection has come."""
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None

    def lose(self, reason: str) -> None:
        """Nobody can come back to this incarnation."""
        if self.forget():
            peer = self.peer
            lost = events.HostLost(peer.name, peer.incarnation, reason)
            self._loop.post((lost,), before=lambda: self._loop.leave_host(peer))
            _LOG.warning("host lost", extra=fields(host=peer.name, incarnation=peer.incarnation, reason=reason))

    def forget(self) -> bool:
        """It is over; False if it was before."""
        self.back()
        if self._streams.get(self.peer.name) is not self:
            return False
        del self._streams[self.peer.name]
        attached, self.attached = self.attached, None
        if attached is not None:
            attached.sever()
        return True


class WorkersService:
    """Admits workers. Serves Connect with undecoded frames: bytes in, bytes out."""

    def __init__(
        self, loop: Loop, counters: Counters, next_incarnation: Callable[[], int], terms: LinkTerms, version: str
    ) -> None:
        self._loop = loop
        self._counters = counters
        self._next_incarnation = next_incarnation
        self._term = terms.term
        self._grace_ns = terms.grace_ns
        self._orphan_ns = terms.orphan_ns
        self._version = version
        self._streams: dict[str, HostStream] = {}
        loop.carry_out(effects.HostGivenUp, self._on_given_up)

    async def connect(self, _requests: Any, context: Any) -> None:
        """One worker from hello to its end."""
        severed = asyncio.Event()
        admitted = self.admit(await read_first(context, "worker"), sever=severed.set)
        if isinstance(admitted, bytes):
            await context.write(admitted)
            return
        reason = "the connection broke"
        try:
            reason = await run_stream(context, admitted.peer, admitted.read(context), severed)
        except PathwaysError as error:
            reason = error.failure.message
            admitted.fail(error.failure)
            raise
        finally:
            admitted.end(reason)

    def admit(
        self, first: bytes, attach: Callable[[Peer], None] | None = None, sent: str = "", sever: Sever | None = None
    ) -> Attached | bytes:
        """The host behind a first frame joins or comes back; or the frame that refuses it.

        Raises PathwaysError if the frame is malformed.
        """
        message = worker_frame(first)
        if not message.HasField("hello") or message.sequence:
            raise bad("the first frame must hold a hello alone and have sequence 0", message.sequence)
        hello = message.hello
        versions = versions_of(hello)
        refusal = self._refusal(hello) or worker_refusal(versions, hello.host, hello.island, self._loop.hosts.values())
        if refusal is not None:
            _LOG.warning("worker refused", extra=fields(host=hello.host, sentence=refusal.message))
            return self.refused(refusal)
        if hello.resume:
            return self._go_on(hello, attach, sever)
        before = self._streams.get(hello.host)
        if before is not None:
            before.lose("it joined again")
        host, island, incarnation = HostName(hello.host), IslandName(hello.island), self._next_incarnation()
        grace_ns = self._grace_ns if hello.resumable else 0
        peer = HostPeer(host, island, incarnation, hello.data_address, frame, self._counters, self._term, grace_ns)
        peer.versions = versions
        if attach is not None:
            attach(peer)
        joined = events.HostJoined(
            host, island, incarnation, hello.device_count, hello.data_address, hello.pid, hello.device_memory_bytes,
            tuple(hello.topology), coordinates(hello), hello.device_kind,
        )  # fmt: skip
        peer.open(handshake.worker_welcome_frame(peer, self._term, self._orphan_ns))
        _LOG.info("host joined", extra=fields(host=host, island=island, incarnation=incarnation, devices=hello.device_count))
        self._loop.post((joined,), before=lambda: self._loop.enter_host(peer))
        return Attached(self.stream_of(peer), sever)

    def stream_of(self, peer: HostPeer) -> HostStream:
        """What takes the frames of an incarnation; it can be gone on with if it has a grace."""
        stream = HostStream(self._loop, self._counters, peer, self._streams, peer.grace_ns > 0)
        self._streams[peer.name] = stream
        return stream

    def stream_named(self, host: HostName) -> HostStream:
        """The stream of a host that is there."""
        return self._streams[host]

    def _go_on(
        self, hello: workers_pb2.WorkerHello, attach: Callable[[Peer], None] | None, sever: Sever | None
    ) -> Attached | bytes:
        """The worker is back, maybe before its earlier connection was seen to break; or it has to join anew."""
        stream = self._streams.get(hello.host)
        if hello.last_term > self._term:
            stream = None  # it has seen a later life than this
        if stream is not None and stream.peer.incarnation == hello.incarnation and stream.peer.restored:
            try:
                stream.peer.rebase(hello.received_frames, hello.received_commands, hello.received_urgent_commands)
            except ValueError as error:
                stream.lose(f"the controller was restarted and lost a part of what it said ({error})")
                stream = None
        if stream is None or stream.peer.incarnation != hello.incarnation or stream.peer.ending:
            sentence = f"incarnation {hello.incarnation} of host {hello.host} is over; join again"
            if hello.last_term != self._term:
                sentence = f"this is life {self._term} of the controller and not life {hello.last_term}; join again"
            _LOG.info("host not resumed", extra=fields(host=hello.host, sentence=sentence))
            failure = Failure(Reason.UNAVAILABLE, sentence, host=hello.host, retryable=True)
            return handshake.worker_refused_frame(failure, self._term, join_again=True)
        if hello.connection <= stream.connection:
            failure = Failure(Reason.UNAVAILABLE, "a later connection of the host was heard before this one", host=hello.host)
            return self.refused(failure)
        peer = stream.peer
        stream.connection = hello.connection
        stream.back()
        attached = Attached(stream, sever)
        (attach or Peer.attach_writer)(peer)
        welcome = handshake.worker_welcome_frame(peer, self._term, self._orphan_ns, resumed=True)
        peer.resume(welcome, peer.acknowledged_frames)
        self._loop.post((events.HostResumed(peer.name, peer.incarnation),), peer)
        _LOG.info("host resumed", extra=fields(host=peer.name, incarnation=peer.incarnation, connection=hello.connection))
        return attached

    def _on_given_up(self, effect: effects.HostGivenUp) -> None:
        """The core has lost it: nothing that it sends from here on is for this incarnation."""
        stream = self._streams.get(effect.host)
        if stream is not None and stream.peer.incarnation == effect.incarnation:
            stream.forget()
            self._loop.leave_host(stream.peer)
            _LOG.warning("host lost", extra=fields(host=effect.host, incarnation=effect.incarnation, reason=effect.reason))

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
        before = self._streams.get(hello.host)
        # Without a connection, or known by the daemon that has given it up: it is over.
        here = before is not None and before.attached is not None and before.peer.incarnation != hello.incarnation
        if here and not hello.resume:
            sentence = f"a host named {hello.host} has joined already; start this worker with another --host"
            return Failure(Reason.UNAVAILABLE, sentence, host=hello.host, retryable=True)
        return None
