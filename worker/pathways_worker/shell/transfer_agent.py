"""Carries out what `core.transfers` decides: holds the bytes of uploads and fetches, and hands them on whole.

Bytes are gathered here until a transfer is complete, so a peer that stalls never stops the executor's data channel; what it sent
is let go at the transfer's deadline. Of a held shard the bytes stay in the executor; a near caller brings shared memory for them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, assert_never

from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.model.ids import FetchId, TransferId
from pathways_common.process.logs import fields
from pathways_common.process.segments import write_aside
from pathways_common.process.tasks import Supervisor
from pathways_common.rpc.convert import optional_failure
from pathways_proto.v1 import workers_pb2

from pathways_worker.core import transfers as core
from pathways_worker.core.plans import RUN_NUMBERS
from pathways_worker.holdings import Held
from pathways_worker.shell.counters import Counters
from pathways_worker.shell.held_shards import HeldShards, Use

_LOG = logging.getLogger(__name__)
# Deadlines of transfers are minutes; this is how late they may be noticed.
_TICK_S = 0.5
# Of shards that were sent and may not arrive, all together: what sockets hold of a few transfers.
LINGER_BYTES_MAX = 16 << 20

Chunks = Sequence[bytes]
Pull = Callable[[str, str, int, int], Awaitable[list[bytes]]]


@dataclass(frozen=True, slots=True)
class Segment:
    """Where bytes lie, or go: a descriptor, valid until the call is over, and an offset."""

    descriptor: int
    offset: int


@dataclass(slots=True)
class PushCall:
    """One Push: `decided` is set when `size_bytes` says how much to take, or -1 to drop everything.

    `parts`: how many the executor has read itself, of a segment; `landing` ends when it has put them where they belong.
    `dropped` is set when nothing is wanted of it any more.
    """

    number: int
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: asyncio.Event = field(default_factory=asyncio.Event)
    size_bytes: int = -1
    chunks: list[bytes] = field(default_factory=list)
    received_bytes: int = 0
    over: bool = False
    parts: int = 0
    landing: asyncio.Task[Failure | None] | None = None


@dataclass(slots=True)
class PullCall:
    """One Pull: `decided` is set when there are `data` or a `failure`."""

    number: int
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    data: bytes = b""
    fetch_id: int = 0
    failure: Failure | None = None


class Executor(Protocol):
    """Where transfers land. Both raise OSError if the executor is gone."""

    async def deliver(self, transfer_id: TransferId, chunks: Chunks) -> None:
        """Sends the bytes of a transfer."""

    async def deliver_failure(self, transfer_id: TransferId, failure: Failure) -> None:
        """Says that the bytes of a transfer will not come."""


class TransferAgent:
    """`report_failed` tells the controller; `pull` reads from another worker; `on_run_pull_ended` hears of a run's pulls."""

    def __init__(
        self,
        host: str,
        counters: Counters,
        supervisor: Supervisor,
        executor: Executor,
        report_failed: Callable[[TransferId, Failure], None],
        on_run_pull_ended: Callable[[TransferId], None],
        pull: Pull,
        use_segment: Use,
    ) -> None:
        self._counters = counters
        self._supervisor = supervisor
        self._executor = executor
        self._report_failed = report_failed
        self._on_run_pull_ended = on_run_pull_ended
        self._pull = pull
        self._core = core.Transfers(host)
        self._last_call = 0
        self._pushes: dict[int, PushCall] = {}
        self._pulls: dict[int, PullCall] = {}
        self._fetched: dict[FetchId, bytes] = {}
        self._held = HeldShards(use_segment)
        self._lingering: dict[int, int] = {}  # fetches whose bytes were sent, and how many
        self._sources: dict[TransferId, tuple[str, str, int, int]] = {}
        self._pulled: dict[TransferId, list[bytes]] = {}
        self._pulling: dict[TransferId, asyncio.Task[None]] = {}

    @property
    def open_count(self) -> int:
        """Transfers that have not ended."""
        return self._core.open_count

    @property
    def held_bytes(self) -> int:
        """Bytes held here for somebody."""
        pushed = sum(call.received_bytes for call in self._pushes.values() if call.chunks)
        return pushed + sum(map(len, self._fetched.values())) - sum(self._lingering.values())

    def held(self) -> list[Held]:
        """Transfers that are not of runs, and what may be pulled. Transfers of runs are told with them."""
        tickets = self._core.tickets()
        sizes = [len(self._fetched.get(fetch_id, b"")) for fetch_id, _ in tickets]
        own = [transfer_id for transfer_id in self._core.transfer_ids() if transfer_id < RUN_NUMBERS]
        ids, sessions = [fetch_id for fetch_id, _ in tickets], [session for _, session in tickets]
        return [
            Held(workers_pb2.HELD_KIND_TRANSFER, own),
            Held(workers_pb2.HELD_KIND_TICKET, ids, sizes, sessions),
        ]

    async def watch_deadlines(self) -> None:
        """Runs for the life of the daemon."""
        while True:
            await asyncio.sleep(_TICK_S)
            self._step(core.TimePassed())

    # ---- commands and the executor ----------------------------------------------------------------------------------

    def upload_expected(self, transfer_id: int, ticket: str, size_bytes: int, timeout_ns: int) -> None:
        """An ExpectUpload."""
        self._step(core.UploadExpected(TransferId(transfer_id), ticket, size_bytes, timeout_ns))

    def fetch_expected(self, fetch_id: int, ticket: str, timeout_ns: int, session: int = 0) -> None:
        """A FetchShard with a ticket is on its way to the executor."""
        self._step(core.FetchExpected(FetchId(fetch_id), ticket, timeout_ns, session))

    def fetch_answered(self, fetch_id: int, failure: Failure | None, data: bytes) -> None:
        """The executor answered it."""
        if failure is None:
            self._fetched[FetchId(fetch_id)] = data
        self._step(core.FetchAnswered(FetchId(fetch_id), failure))

    def executor_said(self, header: workers_pb2.ExecutorDataHeader, data: bytes) -> None:
        """Bytes or the failure of a fetch with a ticket, that it is held, or that something was done with a segment."""
        if header.held:
            self._held.add(FetchId(header.fetch_id))
            self._step(core.FetchAnswered(FetchId(header.fetch_id), None))
        elif not self._held.answered(header, data):
            self.fetch_answered(header.fetch_id, optional_failure(header), data)

    def pull_wanted(self, transfer_id: int, address: str, ticket: str, size_bytes: int, timeout_ns: int) -> None:
        """A PullShard."""
        self._sources[TransferId(transfer_id)] = (address, ticket, size_bytes, timeout_ns)
        self._step(core.ShardPullWanted(TransferId(transfer_id), timeout_ns))

    def cancelled(self, transfer_ids: Sequence[int]) -> None:
        """A CancelTransfer."""
        self._step(core.TransfersCancelled(tuple(TransferId(number) for number in transfer_ids)))

    def session_ended(self, session: int) -> None:
        """What was fetched for it is forgotten."""
        self._step(core.SessionEnded(session))

    def run_ended(self, transfer_ids: Sequence[TransferId], fetch_ids: Sequence[FetchId], failure: Failure) -> None:
        """Pulls of a run that ended, and fetches of others from it."""
        self._step(core.RunEnded(tuple(transfer_ids), tuple(fetch_ids), failure))

    def executor_changed(self, failure: Failure) -> None:
        """Whoever waits for the executor before gets the failure."""
        self._held.executor_changed(failure)
        self._step(core.ExecutorChanged(failure))

    def host_left(self, failure: Failure) -> None:
        """The same, and whoever waits for what the controller would have said of its ticket."""
        self._step(core.HostLeft(failure))

    # ---- calls ------------------------------------------------------------------------------------------------------

    def begin_push(self, ticket: str) -> PushCall:
        """A Push with this ticket; wait for `decided`, then `take` chunk after chunk, then `end_call`."""
        self._last_call += 1
        call = self._pushes[self._last_call] = PushCall(self._last_call)
        self._step(core.PushBegan(call.number, ticket))
        return call

    def take(self, call: PushCall, data: bytes) -> None:
        """Keeps a chunk of an accepted push; forgets that of any other."""
        call.received_bytes += len(data)
        self._counters.bytes_received += len(data)
        if call.over or call.size_bytes < 0:
            return
        if call.received_bytes > call.size_bytes:
            self._finish_push(call)
        else:
            call.chunks.append(data)

    async def take_part(self, call: PushCall, segment: Segment, size_bytes: int) -> Failure | None:
        """The next bytes of an accepted push lie in a segment; returns when they were read, with the failure if they were not."""
        call.parts += 1
        failure = await self._held.part(call.number, segment.descriptor, segment.offset, size_bytes, call.size_bytes)
        if failure is None:
            call.received_bytes += size_bytes
            self._counters.bytes_received += size_bytes
        return failure

    def _finish_push(self, call: PushCall) -> None:
        """No more is taken: hands the bytes to the executor, or reports that they are too few or too many."""
        if not call.over:
            call.over = True
            self._step(core.PushEnded(call.number, call.received_bytes))
            call.chunks = []
            if call.parts and call.landing is None:
                self._held.drop(call.number)

    def begin_pull(self, ticket: str, again: bool = False) -> PullCall:
        """A Pull with this ticket; wait for `decided`. `again`: one before it broke."""
        self._last_call += 1
        call = self._pulls[self._last_call] = PullCall(self._last_call)
        self._step(core.PullBegan(call.number, ticket, again))
        return call

    async def write(self, call: PullCall, segment: Segment, size_bytes: int) -> Failure | None:
        """Puts the bytes of a decided pull into a segment; the failure if there are none, or too many."""
        fetch_id = FetchId(call.fetch_id)
        if call.failure is not None:
            return call.failure
        if fetch_id in self._held:
            failure = await self._held.write(fetch_id, segment.descriptor, segment.offset, size_bytes)
        elif len(call.data) != size_bytes:
            failure = Failure(Reason.INTERNAL, f"a shard has {len(call.data)} bytes, {size_bytes} were asked for")
        else:
            await write_aside(segment.descriptor, memoryview(call.data), segment.offset)
            failure = None
        self._counters.bytes_sent += 0 if failure else size_bytes
        return failure

    async def gather(self, call: PullCall) -> None:
        """Has the bytes of a decided pull here, if the executor still holds them."""
        if call.failure is None and FetchId(call.fetch_id) in self._held:
            call.data, call.failure = await self._held.stream(FetchId(call.fetch_id))

    def end_call(self, call: PushCall | PullCall, broke: bool = False) -> None:
        """The call is over. `broke`: the other end is gone before it was."""
        if broke and not (isinstance(call, PushCall) and call.over):
            self._step(core.CallBroke(call.number))
        else:
            if isinstance(call, PushCall) and call.size_bytes >= 0:
                self._finish_push(call)
            self._step(core.CallEnded(call.number, isinstance(call, PullCall) and self._may_linger(call)))
        self._pushes.pop(call.number, None)
        self._pulls.pop(call.number, None)

    def _may_linger(self, call: PullCall) -> bool:
        """Whether there is room to keep its bytes for a moment after they were sent; a held shard is let go."""
        if FetchId(call.fetch_id) in self._held:
            return False
        if not call.fetch_id or sum(self._lingering.values()) + len(call.data) > LINGER_BYTES_MAX:
            return False
        self._lingering[call.fetch_id] = len(call.data)
        return True

    # ---- effects ----------------------------------------------------------------------------------------------------

    def _step(self, event: core.Event) -> None:
        for effect in self._core.step(time.monotonic_ns(), event):
            self._carry_out(effect)

    def _carry_out(self, effect: core.Effect) -> None:
        match effect:
            case core.Accept(number, size_bytes):
                self._pushes[number].size_bytes = size_bytes
                self._pushes[number].decided.set()
            case core.Drop(number):
                call = self._pushes[number]
                call.over = True
                call.chunks = []
                if call.parts:
                    self._held.drop(number)
                call.decided.set()
                call.dropped.set()
            case core.Deliver(number, transfer_id):
                self._deliver_pushed(transfer_id, self._pushes[number])
            case core.Serve(number, fetch_id):
                self._lingering.pop(fetch_id, None)
                self._pulls[number].data = self._fetched.get(fetch_id, b"")  # or held
                self._pulls[number].fetch_id = fetch_id
                self._pulls[number].decided.set()
            case core.Refuse(number, failure):
                self._pulls[number].failure = failure
                self._pulls[number].decided.set()
            case core.Forget(fetch_id):
                self._fetched.pop(fetch_id, None)
                self._lingering.pop(fetch_id, None)
                self._held.forget(fetch_id)
            case core.StartPull(transfer_id):
                pulling = self._supervisor.spawn(f"pull {transfer_id}", self._pull_shard(transfer_id))
                self._pulling[transfer_id] = pulling
            case core.StopPull(transfer_id):
                self._sources.pop(transfer_id, None)
                self._pulling.pop(transfer_id).cancel()
            case core.DeliverPulled(transfer_id):
                self._hand_over(transfer_id, self._pulled.pop(transfer_id))
                if transfer_id >= RUN_NUMBERS:
                    self._on_run_pull_ended(transfer_id)
            case core.DeliverFailure(transfer_id, failure):
                _LOG.info("transfer of a run failed", extra=fields(transfer_id=transfer_id, cause=failure.message))
                self._spawn_delivery(transfer_id, partial(self._executor.deliver_failure, transfer_id, failure))
                self._on_run_pull_ended(transfer_id)
            case core.ReportFailed(transfer_id, failure):
                _LOG.warning("transfer failed", extra=fields(transfer_id=transfer_id, cause=failure.message))
                self._report_failed(transfer_id, failure)
            case _:
                assert_never(effect)

    def _deliver_pushed(self, transfer_id: TransferId, call: PushCall) -> None:
        if call.parts:
            call.landing = self._supervisor.spawn(f"deliver {transfer_id}", self._held.deliver(call.number, transfer_id))
        else:
            self._hand_over(transfer_id, call.chunks)

    def _hand_over(self, transfer_id: TransferId, chunks: Chunks) -> None:
        self._spawn_delivery(transfer_id, partial(self._executor.deliver, transfer_id, chunks))

    def _spawn_delivery(self, transfer_id: TransferId, deliver: Callable[[], Awaitable[None]]) -> None:
        self._supervisor.spawn(f"deliver {transfer_id}", self._deliver_quietly(transfer_id, deliver))

    async def _deliver_quietly(self, transfer_id: TransferId, deliver: Callable[[], Awaitable[None]]) -> None:
        try:
            await deliver()
        except OSError as error:
            # The executor is gone; its death is reported apart and ends everything that waits for it.
            _LOG.info("transfer not delivered", extra=fields(transfer_id=transfer_id, cause=str(error)))

    async def _pull_shard(self, transfer_id: TransferId) -> None:
        address, ticket, size_bytes, timeout_ns = self._sources.pop(transfer_id)
        failure = None
        try:
            self._pulled[transfer_id] = await self._pull(address, ticket, size_bytes, timeout_ns)
            self._counters.bytes_received += size_bytes
        except PathwaysError as error:
            failure = error.failure
        except Exception as error:  # a defect of ours must not take the daemon down with it
            _LOG.exception("pull failed", extra=fields(transfer_id=transfer_id))
            failure = Failure(Reason.INTERNAL, f"pulling a shard from {address} failed: {error}")
        self._pulling.pop(transfer_id, None)
        self._step(core.ShardPulled(transfer_id, failure))
        self._pulled.pop(transfer_id, None)
