"""Where the controller's commands and the executor's events meet: the first go to the executor unless the daemon handles them.

Commands of one frame reach the executor as one message and in order; the frame is acknowledged when the executor handled it.
Callback replies overtake everything. Events of any executor but the current one are dropped, so nothing of an earlier epoch is
heard.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pathways_common.model.failure import Failure, PathwaysError
from pathways_common.model.ids import Epoch, GlobalId, TransferId, session_of
from pathways_common.process.logs import fields
from pathways_common.process.tasks import Supervisor
from pathways_common.rpc.convert import failure_from_proto, failure_to_proto
from pathways_proto.v1 import workers_pb2

from pathways_worker.cells import Cells
from pathways_worker.core.frame_clock import FrameClock
from pathways_worker.holdings import Held, answers
from pathways_worker.shell.attribution import Attribution
from pathways_worker.shell.coordinator_process import Coordinators
from pathways_worker.shell.counters import Counters
from pathways_worker.shell.departures import Departures
from pathways_worker.shell.diagnosis import Diagnosis
from pathways_worker.shell.executor_pool import ExecutorPool, Recipe
from pathways_worker.shell.executor_process import Death
from pathways_worker.shell.image_agent import ImageAgent
from pathways_worker.shell.image_files import ImageFolder
from pathways_worker.shell.output_log import OutputLog
from pathways_worker.shell.pulse import pulse_of
from pathways_worker.shell.run_agent import RunAgent
from pathways_worker.shell.spill_agent import DROP, RESTORE, SPILL, SpillAgent
from pathways_worker.shell.transfer_agent import Chunks, Pull, TransferAgent
from pathways_worker.shell.uplink import SpillStore, Uplink
from pathways_worker.shell.wire import COMMAND, EVENT, ControllerFrame, Item, executor_commands, read_report

_LOG = logging.getLogger(__name__)
_RUNS = frozenset((COMMAND["run_plan"], COMMAND["grant_run"]))
_LAUNCHES = _RUNS | {COMMAND["prepare"], COMMAND["grant"]}
_CALLBACKS = frozenset((COMMAND["callback_reply"], COMMAND["callback_abort"]))
_SPILLS = frozenset((SPILL, RESTORE, DROP))
# Events that may hold a failure, which names this host.
_FALLIBLE = frozenset(
    EVENT[name]
    for name in (
        "became_ready",
        "fetch_failed",
        "node_failed",
        "transfer_failed",
        "loaded",
        "inspected",
        "epoch_failed",
        "prepare_refused",
        "plan_loaded",
        "array_spilled",
        "array_restored",
    )
)
# Of spilling, between the executor and the daemon.
_OWN = frozenset((EVENT["spill_offered"], EVENT["restore_expected"]))
_LOOKED_AT = _FALLIBLE | {EVENT["epoch_ready"], EVENT["memory"], EVENT["trace_collected"]}


class HostAgent:
    """The daemon's side of one host. `open` after the welcome, `close` when the link is gone; then it can be opened again.

    `cells` is set once it is known; the host of a cell has none.
    """

    def __init__(
        self,
        host: str,
        recipe: Recipe,
        coordinators: Coordinators,
        log: OutputLog,
        counters: Counters,
        supervisor: Supervisor,
        pull: Pull,
        on_shutdown: Callable[[str, bool], None],
        spill: SpillStore,
        images: ImageFolder | None = None,
    ) -> None:
        words = Attribution(host)
        self._lost, self._named, self._attributed = words.lost, words.named, words.attributed
        self._counters = counters
        self._supervisor = supervisor
        self._coordinators = coordinators
        self._on_shutdown = on_shutdown
        self._uplink: Uplink | None = None
        self._clock = FrameClock()
        self.finished_through = self.launched_through = self.busy_ns = 0
        # Of timed gangs, not told yet: serialized GangTimes.
        self._times: list[bytes] = []
        # A run of a program may be granted step by step, as its launches are told; nothing else waits for launches.
        self.launches_awaited = False
        # Plans name hosts; the executor has to find itself in them.
        recipe = replace(recipe, command=(*recipe.command, "--host", host))
        self.pool = ExecutorPool(recipe, log, counters, supervisor, self, self._on_use, self._on_death)
        self.transfers = TransferAgent(
            host, counters, supervisor, self, self._transfer_failed, self._run_pull_ended, pull, self.pool.use_segment
        )
        self.images = ImageAgent(counters, supervisor, self.transfers, pull, self.send_item, self.tell, images)
        self.runs = RunAgent(host, self.transfers, self._present_epoch, self._named)
        self.diagnosis = Diagnosis(
            self.pool, coordinators, log, counters, supervisor, lambda event: self._emit(event, urgent=True)
        )
        self.cells: Cells | None = None
        self.spills = SpillAgent(spill.memory_bytes, spill.disk_bytes, spill.folder, counters, supervisor, self)
        self.departures = self.pool.departing = Departures(self.pool, self.spills, coordinators, supervisor, self._emit)
        self._handlers: dict[int, Callable[[Any], None]] = {
            COMMAND["start_coordinator"]: self._on_start_coordinator,
            COMMAND["expect_upload"]: self._on_expect_upload,
            COMMAND["pull_shard"]: self._on_pull_shard,
            COMMAND["offer_image"]: self.images.on_offer,
            COMMAND["probe"]: self._on_probe,
            COMMAND["drain"]: self._on_drain,
            COMMAND["shutdown"]: self._on_shutdown_command,
            COMMAND["diagnose_host"]: self.diagnosis.on_command,
            COMMAND["open_cell"]: self._on_open_cell,
            COMMAND["close_cell"]: self._on_close_cell,
            # Only the daemon decides this; the executor never hears of one that comes from elsewhere.
            COMMAND["spill_decided"]: lambda command: None,
        }
        # Those that also go on to the executor.
        self._watchers: dict[int, Callable[[Any], None]] = {
            COMMAND["fetch_shard"]: self._note_fetch,
            # The executor forgets what it still expects of them.
            COMMAND["cancel_transfer"]: self._on_cancel_transfer,
            COMMAND["unload"]: self.images.on_unload,
            COMMAND["load_plan"]: self.runs.on_load_plan,
            COMMAND["unload_plan"]: self.runs.on_unload_plan,
            COMMAND["run_plan"]: self.runs.on_run_plan,
            COMMAND["grant_run"]: self.runs.on_grant_run,
            COMMAND["end_run"]: self.runs.on_end_run,
            COMMAND["collect_trace"]: self._on_collect_trace,
            COMMAND["report_holdings"]: self._on_report_holdings,
        }

    @property
    def acknowledged(self) -> int:
        """The highest frame of the controller handled together with all before it."""
        return self._clock.acknowledged

    def open(self, uplink: Uplink) -> None:
        """The host has joined; executors start."""
        self._uplink = uplink
        self._clock = FrameClock()
        self._forget_progress()
        self.pool.open()

    def _forget_progress(self) -> None:
        self.finished_through = self.launched_through = self.busy_ns = 0
        self._times.clear()

    def take_times(self) -> list[bytes]:
        """Rows of timed gangs up to `finished_through` that were not taken before."""
        taken, self._times = self._times, []
        return taken

    def close(self) -> None:
        """The link is gone: nothing that the controller asked for goes on."""
        self._uplink = None
        if self.cells is not None:
            self.cells.close_all()
        self._coordinators.kill()
        self.pool.close()
        self.images.executor_changed()
        self.runs.executor_changed()
        self.spills.close()
        self.transfers.host_left(self._lost("left the cluster"))

    # ---- from the controller ----------------------------------------------------------------------------------------

    def on_frame(self, frame: ControllerFrame) -> None:
        """Handles a new frame. Raises DecodeError or PathwaysError if a command is malformed."""
        commands = frame.commands or ()
        self._counters.frames_received += 1
        self._counters.commands += len(commands)
        batch: list[Item] = []
        for command in commands:
            kind = command.kind
            handler = self._handlers.get(kind)
            if handler is not None:
                handler(_command(command))
            elif kind == COMMAND["epoch_begin"]:
                # What came before in this frame was for an executor that ends here.
                batch.clear()
                if self.pool.begin(Epoch(_command(command).epoch)):
                    self._coordinators.retire()
                    batch.append(command)
            elif kind == COMMAND["epoch_end"]:
                end = _command(command)
                if self.pool.current is not None and end.epoch == self.pool.epoch:
                    # What came before it in this frame may be part of what is kept.
                    self.pool.current.send_commands(executor_commands(0, batch))
                    batch.clear()
                self.departures.on_epoch_end(end)
            elif kind in _CALLBACKS:
                self._send_callback(frame.sequence, command)
            elif kind == COMMAND["load"]:
                batch += self.images.on_load(_command(command))
            elif kind in _SPILLS:
                batch += self.spills.on_command(kind, _command(command))
            else:
                watcher = self._watchers.get(kind)
                if watcher is not None:
                    watcher(_command(command))
                if kind in _LAUNCHES:
                    self.launches_awaited = kind in _RUNS
                batch.append(command)
        executor = self.pool.current
        if batch and executor is not None:
            self._clock.forwarded(frame.sequence)
            executor.send_commands(executor_commands(frame.sequence, batch))
        else:
            self._clock.handled(frame.sequence)
            self._wake()

    def _send_callback(self, frame: int, command: Item) -> None:
        if self.pool.current is not None:
            self.pool.current.send_callback(executor_commands(frame, (command,)))

    @property
    def has_executor(self) -> bool:
        """Whether commands go to an executor."""
        return self.pool.current is not None

    @property
    def sender(self) -> int:
        """Who is told what the spill store decides, and sends what it asks for."""
        executor = self.departures.executor or self.pool.current
        return 0 if executor is None else executor.number

    def send_item(self, item: Item) -> None:
        """A command of ours, or one that waited; its frame was acknowledged without it."""
        if item.kind == COMMAND["spill_decided"] and self.departures.send_decision(item):
            return
        if self.pool.current is not None:
            self.pool.current.send_commands(executor_commands(0, (item,)))

    def store_changed(self) -> None:
        """The spill store has taken a step."""
        self.departures.look()

    def _note_fetch(self, command: workers_pb2.FetchShard) -> None:
        if command.ticket:
            session = session_of(GlobalId(command.shard.id))
            self.transfers.fetch_expected(command.fetch_id, command.ticket, command.timeout_ns, session)
            if self.pool.current is None:
                self.transfers.fetch_answered(command.fetch_id, self._lost("is gone"), b"")

    def _on_cancel_transfer(self, command: workers_pb2.CancelTransfer) -> None:
        self.transfers.cancelled(command.transfer_ids)
        if command.session_number:
            self.transfers.session_ended(command.session_number)

    def _on_report_holdings(self, command: workers_pb2.ReportHoldings) -> None:
        """What the daemon holds, right now: between the commands before and those after."""
        spilled = self.spills.held
        held = [
            *self.transfers.held(),
            *self.runs.held(),
            *self.images.held(),
            Held(workers_pb2.HELD_KIND_SPILLED, [each for each, _ in spilled], [size for _, size in spilled]),
        ]
        for answer in answers(held, command.request_id, True, self._present_epoch() or 0):
            self._emit(workers_pb2.HostEvent(holdings=answer))

    def _on_collect_trace(self, command: workers_pb2.CollectTrace) -> None:
        if self.pool.current is None:
            nothing = workers_pb2.TraceCollected(trace_id=command.trace_id, execution_id=command.execution_id)
            self._emit(workers_pb2.HostEvent(trace_collected=nothing))

    def _on_probe(self, command: workers_pb2.Probe) -> None:
        """Says how far the executor is; one that cannot say so itself is what the controller wants to find."""
        pulse = pulse_of(command.number, self.pool.current, self.pool.epoch, self._clock.idle)
        if self._uplink is not None:
            self._uplink.push(workers_pb2.HostEvent(pulse=pulse).SerializeToString(), urgent=True)

    def _on_start_coordinator(self, command: workers_pb2.StartCoordinator) -> None:
        self._supervisor.spawn(
            f"coordinator of epoch {command.epoch}", self._start_coordinator(command.epoch, command.rank_count)
        )

    async def _start_coordinator(self, epoch: int, rank_count: int) -> None:
        uplink = self._uplink
        ready = workers_pb2.CoordinatorReady(epoch=epoch)
        try:
            ready.address = await self._coordinators.start(rank_count)
        except PathwaysError as error:
            _LOG.error("coordinator not up", extra=fields(epoch=epoch, cause=error.failure.message))
            ready.failure.CopyFrom(self._attributed(failure_to_proto(error.failure)))
        if uplink is self._uplink:
            self._emit(workers_pb2.HostEvent(coordinator_ready=ready))

    def _on_expect_upload(self, command: workers_pb2.ExpectUpload) -> None:
        self.transfers.upload_expected(command.transfer_id, command.ticket, command.size_bytes, command.timeout_ns)

    def _on_pull_shard(self, command: workers_pb2.PullShard) -> None:
        self.transfers.pull_wanted(command.transfer_id, command.address, command.ticket, command.size_bytes, command.timeout_ns)

    def _on_drain(self, _command: workers_pb2.Drain) -> None:
        _LOG.info("drain asked for; this host finishes what it has")

    def _on_shutdown_command(self, command: workers_pb2.Shutdown) -> None:
        self._on_shutdown(command.reason, command.refused)

    def _on_open_cell(self, command: workers_pb2.OpenCell) -> None:
        if self.cells is not None:
            self.cells.open(command.tenant)

    def _on_close_cell(self, command: workers_pb2.CloseCell) -> None:
        if self.cells is not None:
            self.cells.close(command.tenant)

    # ---- from executors ---------------------------------------------------------------------------------------------

    def on_report(self, number: int, data: bytes) -> None:
        """A report; only the current executor is heard."""
        self.pool.announced(number)
        if self.pool.current is None or self.pool.current.number != number:
            if self.departures.leaves(number):
                self.departures.on_events(read_report(data).events or ())
            return
        report = read_report(data)
        self._clock.reported(report.acknowledged_frame)
        self.finished_through = max(self.finished_through, report.finished_through)
        self.launched_through = max(self.launched_through, report.launched_through)
        self.busy_ns = max(self.busy_ns, report.busy_ns)
        self._times += report.times or ()
        for event in report.events or ():
            self._on_event(number, event)
        self._wake()

    def _on_event(self, number: int, event: Item) -> None:
        if event.kind in _OWN:
            message = workers_pb2.HostEvent.FromString(event.data)
            if event.kind == EVENT["spill_offered"]:
                self.spills.on_offered(message.spill_offered)
            else:
                self.spills.on_expected(message.restore_expected)
            return
        data = self._look_at(number, event) if event.kind in _LOOKED_AT else event.data
        self._counters.events += 1
        if self._uplink is not None:
            self._uplink.push(data, urgent=event.kind == EVENT["callback_call"])

    def _look_at(self, number: int, item: Item) -> bytes:
        """What the daemon learns from an event; returns its bytes, with what the daemon knows better put in."""
        event = workers_pb2.HostEvent.FromString(item.data)
        name = event.WhichOneof("event")
        body = getattr(event, name)
        if name == "memory":
            self._counters.on_memory(body.live_bytes, body.buffer_count, body.launched_gangs)
            self.spills.add_figures(body)
            return bytes(event.SerializeToString())
        if name == "epoch_ready":
            self.pool.answered(number, entered=True)
            self.images.on_ready(body.compiler)
            return item.data
        if name == "trace_collected":
            body.received_ns = self.runs.received_ns(body.execution_id)
            return bytes(event.SerializeToString())
        if name == "epoch_failed":
            self.pool.answered(number, entered=False)
        if name == "array_spilled":
            self.spills.on_refused(body)
        elif name == "array_restored":
            self.spills.on_restored(body)
        if name == "loaded":
            self.images.on_loaded(body)
        elif not body.HasField("failure"):
            return item.data
        if body.HasField("failure"):
            self._attributed(body.failure)
        if name == "fetch_failed":
            self.transfers.fetch_answered(body.fetch_id, failure_from_proto(body.failure), b"")
        return bytes(event.SerializeToString())

    def on_fetched(self, number: int, header: workers_pb2.ExecutorDataHeader, data: bytes) -> None:
        """Bytes or the failure of a fetch with a ticket."""
        if self.pool.current is None or self.pool.current.number != number:
            return
        if header.HasField("failure"):
            self._attributed(header.failure)
        self.transfers.executor_said(header, data)

    async def on_spilled(self, number: int, buffer_id: int, data: bytes) -> None:
        """The next bytes of a buffer that is spilled."""
        if self.departures.leaves(number) or (self.pool.current is not None and self.pool.current.number == number):
            await self.spills.on_bytes(number, buffer_id, data)

    def on_exit(self, number: int, death: Death) -> None:
        """A process is gone."""
        self.spills.executor_gone(number)
        self.pool.exited(number, death)

    # ---- from the pool and the transfers ----------------------------------------------------------------------------

    def _on_use(self) -> None:
        """Another executor, or none: what the one before owed is void."""
        self._clock.abandoned()
        self._forget_progress()
        if self._uplink is not None:
            self._uplink.restart_progress()
        self._counters.on_executor_changed()
        self.images.executor_changed()
        # First: what ends below starts nothing in its place.
        self.runs.executor_changed()
        self.spills.executor_changed()
        self.transfers.executor_changed(self._lost("is gone"))
        self._wake()

    def _on_death(self, epoch: Epoch, death: Death) -> None:
        self._counters.executor_deaths += 1
        self.images.executor_died()
        progress = death.progress._asdict()
        _LOG.error("executor died", extra=fields(epoch=epoch, exit=death.exit_text, last_words=death.tail[-1000:], **progress))
        died = workers_pb2.ExecutorDied(epoch=epoch, exit=death.exit_text, stderr_tail=death.tail, **progress)
        self._emit(workers_pb2.HostEvent(executor_died=died))

    async def deliver(self, transfer_id: TransferId, chunks: Chunks) -> None:
        """Hands the bytes of a transfer to the current executor; raises OSError if it is gone."""
        executor = self.pool.current
        if executor is not None:
            await executor.send_transfer(transfer_id, chunks)

    async def deliver_failure(self, transfer_id: TransferId, failure: Failure) -> None:
        """Tells the current executor that a transfer of a run failed; raises OSError if it is gone."""
        executor = self.pool.current
        if executor is not None:
            message = failure_to_proto(self._named(failure))
            await executor.send_failure(workers_pb2.ExecutorDataHeader(transfer_id=transfer_id, failure=message))

    async def send_spilled(self, buffer_id: int, data: bytes, failure: Failure | None) -> None:
        """The next bytes of a buffer that is restored, or why there are none; raises OSError if the executor is gone."""
        executor = self.pool.current
        if executor is None:
            raise ConnectionResetError("the executor is gone")
        if failure is None:
            await executor.send_spilled(buffer_id, data)
        else:
            message = failure_to_proto(self._named(failure))
            await executor.send_failure(workers_pb2.ExecutorDataHeader(buffer_id=buffer_id, failure=message))

    def _run_pull_ended(self, transfer_id: TransferId) -> None:
        self.runs.on_pull_ended(transfer_id)

    def _present_epoch(self) -> Epoch | None:
        return None if self.pool.current is None else self.pool.epoch

    def _transfer_failed(self, transfer_id: TransferId, failure: Failure) -> None:
        failed = workers_pb2.TransferFailed(transfer_id=transfer_id, failure=self._attributed(failure_to_proto(failure)))
        self._emit(workers_pb2.HostEvent(transfer_failed=failed))

    def tell(self, event: workers_pb2.HostEvent) -> None:
        """An event about spilled buffers, or a Load that went no further."""
        for name in ("array_spilled", "array_restored", "loaded"):
            if event.HasField(name) and getattr(event, name).HasField("failure"):
                self._attributed(getattr(event, name).failure)
        self._emit(event)

    def _emit(self, event: workers_pb2.HostEvent, urgent: bool = False) -> None:
        self._counters.events += 1
        if self._uplink is not None:
            self._uplink.push(event.SerializeToString(), urgent)

    def _wake(self) -> None:
        if self._uplink is not None:
            self._uplink.wake()


def _command(item: Item) -> Any:
    """The message inside a HostCommand's one-of."""
    command = workers_pb2.HostCommand.FromString(item.data)
    return getattr(command, command.WhichOneof("command"))
