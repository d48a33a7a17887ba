"""The Workers service: one stream, one incarnation of a host. Its end is always told to the core, once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import grpc.aio
from pathways_common.model.bounds import WORDS_BYTES_MAX
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.model.ids import Epoch, HostName, IslandName, Sequence
from pathways_common.process.logs import fields
from pathways_common.rpc.channels import parse_address
from pathways_common.rpc.version import mismatch
from pathways_proto.v1 import workers_pb2

from pathways_server.core import events
from pathways_server.rpc import handshake
from pathways_server.rpc.decode_host import coordinates, host_event, worker_frame
from pathways_server.rpc.form import bad, checked_natural, checked_words
from pathways_server.rpc.streams import accept, read_first, run_stream
from pathways_server.rpc.wire import frame
from pathways_server.shell.counters import Counters
from pathways_server.shell.loop import Loop
from pathways_server.shell.peer import HostPeer

_LOG = logging.getLogger(__name__)


class WorkersService:
    """Serves Connect with undecoded frames: bytes in, bytes out."""

    def __init__(self, loop: Loop, counters: Counters, next_incarnation: Callable[[], int], term: int, version: str) -> None:
        self._loop = loop
        self._counters = counters
        self._next_incarnation = next_incarnation
        self._term = term
        self._version = version
        self._names: set[str] = set()

    async def connect(self, _requests: Any, context: Any) -> None:
        """One worker from hello to its end."""
        first = worker_frame(await read_first(context, "worker"))
        if not first.HasField("hello") or first.sequence:
            raise bad("the first frame must hold a hello alone and have sequence 0", first.sequence)
        hello = first.hello
        refusal = self._refusal(hello)
        if refusal is not None:
            _LOG.warning("worker refused", extra=fields(host=hello.host, sentence=refusal.message))
            await context.write(handshake.worker_refused_frame(refusal, self._term))
            return
        self._names.add(hello.host)
        try:
            await self._serve(context, hello)
        finally:
            self._names.discard(hello.host)

    async def _serve(self, context: Any, hello: workers_pb2.WorkerHello) -> None:
        host, island, incarnation = HostName(hello.host), IslandName(hello.island), self._next_incarnation()
        peer = HostPeer(host, island, incarnation, hello.data_address, frame, self._counters, self._term)
        joined = events.HostJoined(
            host, island, incarnation, hello.device_count, hello.data_address, hello.pid, hello.device_memory_bytes,
            tuple(hello.topology), coordinates(hello), hello.device_kind,
        )  # fmt: skip
        peer.open(handshake.worker_welcome_frame(incarnation, self._term))
        _LOG.info("host joined", extra=fields(host=host, island=island, incarnation=incarnation, devices=hello.device_count))
        self._loop.post((joined,), before=lambda: self._loop.enter_host(peer))
        reason = "the connection broke"
        try:
            reason = await run_stream(context, peer, self._read(context, peer))
        except PathwaysError as error:
            reason = error.failure.message
            raise
        finally:
            lost = events.HostLost(host, incarnation, reason)
            self._loop.post((lost,), before=lambda: self._loop.leave_host(peer))
            _LOG.warning("host lost", extra=fields(host=host, incarnation=incarnation, reason=reason))

    def _refusal(self, hello: workers_pb2.WorkerHello) -> Failure | None:
        """Why a hello is not accepted; raises PathwaysError if it is malformed."""
        for name in (hello.host, hello.island):
            if not name or not checked_words(name, "hello.host and hello.island"):
                raise bad("hello.host and hello.island must be set", repr(name))
        checked_words(hello.pathways_version, "hello.pathways_version")
        parse_address(hello.data_address)
        checked_natural(hello.device_memory_bytes, "hello.device_memory_bytes")
        checked_words(hello.device_kind, "hello.device_kind")
        coordinates(hello)
        if hello.device_count < 1:
            raise bad("hello.device_count must be at least 1", hello.device_count)
        if hello.host in self._names:
            sentence = f"a host named {hello.host} has joined already; start this worker with another --host"
            return Failure(Reason.UNAVAILABLE, sentence, host=hello.host, retryable=True)
        return mismatch(self._version, hello.pathways_version, "worker")

    async def _read(self, context: Any, peer: HostPeer) -> None:
        """Reads frames until the stream ends. Progress belongs to the epoch that the host entered last."""
        host, post, counters = peer.name, self._loop.post, self._counters
        epoch, finished, launched = 0, 0, 0
        while True:
            data = await context.read()
            if data is grpc.aio.EOF:
                return
            counters.frames_received += 1
            message = worker_frame(data)
            if message.HasField("hello"):
                raise bad("a second hello", message.hello.host)
            new = accept(peer, message.sequence, message.acknowledged, len(message.events))
            peer.acknowledged_frames = max(peer.acknowledged_frames, message.acknowledged)
            decoded: list[events.Event] = []
            for entry in message.events if new else ():
                name = entry.WhichOneof("event")
                if name == "log":
                    peer.log_tail.extend(line[:WORDS_BYTES_MAX] for line in entry.log.lines[-20:])
                elif name == "memory":
                    peer.reported_bytes = entry.memory.live_bytes
                elif name is None:
                    raise bad("an event is empty or newer than this controller", "none set")
                else:
                    event = host_event(host, name, getattr(entry, name))
                    if isinstance(event, events.EpochEntered):
                        epoch, finished, launched = event.epoch, 0, 0
                    elif isinstance(event, events.ExecutorLost):
                        epoch, finished, launched = Epoch(0), 0, 0
                    decoded.append(event)
            if epoch and (message.finished_through > finished or message.launched_through > launched):
                finished = max(finished, message.finished_through)
                launched = max(launched, message.launched_through)
                decoded.append(events.HostProgressed(host, Epoch(epoch), Sequence(finished), Sequence(launched)))
            if decoded:
                post(decoded, peer)
            else:
                peer.wake()
