"""The main thread: reads frames of commands, carries them out in order, launches, and answers each frame with one report.

It is the only thread that launches, and the only one that reads the control pair. Programs are loaded and inspected beside it: of
one tenant's compilation the launches of others notice nothing. Between frames it only looks, every few milliseconds while
something is in flight, whether launches have ended, so that `finished_through` is told when nothing else is.
While timed launches are in flight others wait for their ends: the watch wakes it, and ends are told at once.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pathways_common.model.failure import Reason
from pathways_proto.v1 import workers_pb2

from pathways_worker.core.gang_queue import (
    AskAgain,
    Cancelled,
    EpochReset,
    GangQueue,
    Granted,
    Ignored,
    Launch,
    Prepared,
    RunRange,
    Stop,
    Work,
)
from pathways_worker.core.loaded_plan import LoadedPlan
from pathways_worker.executor import runtime
from pathways_worker.executor.callbacks import CallbackChannel
from pathways_worker.executor.clock import now_ns
from pathways_worker.executor.completion import Lane
from pathways_worker.executor.data_channel import DataChannel
from pathways_worker.executor.device_memory import DeviceMemory
from pathways_worker.executor.executables import Executables
from pathways_worker.executor.failures import FailureMessage, failure_of, make_failure, missing_buffer
from pathways_worker.executor.frames import FrameReader
from pathways_worker.executor.launcher import Launcher
from pathways_worker.executor.objects import Objects
from pathways_worker.executor.placing import Placer
from pathways_worker.executor.progress import Progress
from pathways_worker.executor.python_calls import PythonCalls
from pathways_worker.executor.readers import Readers
from pathways_worker.executor.reports import Reports
from pathways_worker.executor.rescue import Rescue
from pathways_worker.executor.runs import Runs
from pathways_worker.executor.spilling import Spilling
from pathways_worker.executor.trimming import Trimmer
from pathways_worker.holdings import Held, answers

# How often launches in flight are looked at between frames: soon at first, then rarely.
_LOOK_S = (0.001, 0.002, 0.005, 0.01, 0.02)
_MEMORY_INTERVAL_S = 1.0
# Adding up a hundred thousand buffers takes milliseconds; it may take this share of the time at most.
_MEMORY_SHARE = 0.01
# Commands that may take long: what was answered before them in the same frame does not wait for them.
_LONG = frozenset(("prepare", "grant", "run_plan", "grant_run", "epoch_begin"))
_LAUNCHES = frozenset(("prepare", "grant", "run_plan", "grant_run"))
# A long range is reported on this often.
_PROGRESS_INTERVAL_NS = 2_000_000
# Of a range behind which nothing of its run waits, rarely: each report costs the daemon and the controller a frame.
_ALONE_INTERVAL_NS = 25_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How this process was started. `host` is its name in plans; `prepare_delay_ns` and the two rules are for tests.

    `ffi_targets`: what this host's own libraries let programs call, and whether it cannot fail. `split_threads`: keep the
    dispatcher and the gloo thread on different CPUs. `device_memory_bytes`: the limit of each device, 0 = none.
    """

    host: str = ""
    device_count: int = 1
    check_order: bool = True
    await_fallible: bool = True
    prepare_delay_ns: int = 0
    ffi_targets: Mapping[str, bool] = field(default_factory=dict)
    split_threads: bool = False
    device_memory_bytes: int = 0
    python: bool = True  # colocated Python is run


class Dispatcher:
    """One epoch's life, from EpochBegin to the end of the control stream."""

    def __init__(
        self,
        control: socket.socket,
        data: DataChannel,
        callbacks: CallbackChannel,
        progress: Progress,
        settings: Settings,
    ) -> None:
        self._reader = FrameReader(control)
        self._reports = Reports(control)
        self._data = data
        self._callbacks = callbacks
        self._progress = progress
        self._settings = settings
        self._queue = GangQueue(check=settings.check_order)
        self._epoch = 0
        self._prepared: dict[Work, Any] = {}
        self._machine: runtime.Runtime | None = None
        self._memory_due_s = 0.0
        self._memory_told: tuple[int, ...] | None = None
        self._peak_bytes = 0
        self._trimmer = Trimmer()
        self._traces = Lane("traces")
        self._changed = False
        self._rescue = Rescue()
        callbacks.take_others(self._rescue.on_command)
        # What the last report said, and when.
        self._told = (0, 0)
        self._reported_ns = 0
        self._handlers: dict[str, Callable[[Any], None]] = {
            "prepare": self._on_prepare,
            "grant": self._on_grant,
            "cancel": self._on_cancel,
            "free": self._on_free,
            "fetch_shard": self._on_fetch_shard,
            "await_ready": self._on_await_ready,
            "place_array": self._on_place_array,
            "place_view": self._on_place_view,
            "poison": self._on_poison,
            "load": lambda message: self._executables.load(message),
            "unload": self._on_unload,
            "inspect": lambda message: self._executables.inspect(message),
            "epoch_begin": self._on_epoch_begin,
            "cancel_transfer": self._on_cancel_transfer,
            "load_plan": self._on_load_plan,
            "group_plan": lambda message: self._runs.group(message),
            "unload_plan": lambda message: self._runs.unload(message),
            "run_plan": self._on_run_plan,
            "grant_run": self._on_grant_run,
            "end_run": self._on_end_run,
            "collect_trace": self._on_collect_trace,
            "spill_array": self._on_spill_array,
            "spill_decided": self._on_spill_decided,
            "restore_array": self._on_restore_array,
            "drop_spilled": lambda message: self._spilling.drop(message),
            "report_holdings": self._on_report_holdings,
            "epoch_end": lambda message: self._rescue.drained.set(),
        }

    def run(self) -> str:
        """Serves until the daemon closes the control pair or asks to stop; returns why it ended."""
        self._reports.send(0, 0, 0)
        looked = 0
        while True:
            if not self._wait_for_frame(looked):
                looked += 1
                self._report(0, only_news=True)
                continue
            looked = 0
            payload = self._reader.read()
            if payload is None:
                return "the daemon closed the control channel"
            frame = workers_pb2.ExecutorCommands.FromString(payload)
            for command in frame.commands:
                name = command.WhichOneof("command")
                if name == "shutdown":
                    return command.shutdown.reason or "told to stop"
                handler = None if self._rescue.begun and name in _LAUNCHES else self._handlers.get(name)
                # Without an epoch there is nothing to act on; its failure was told.
                if handler is not None and (self._machine is not None or name == "epoch_begin"):
                    if self._reports.kept and name in _LONG:
                        self._report(0, only_news=True)
                    handler(getattr(command, name))
            self._report(frame.frame, only_news=False)

    def _wait_for_frame(self, looked: int) -> bool:
        """Sleeps until a frame comes; False: it is time to look at what is in flight."""
        timeout_s = self._look_again_s(looked)
        if timeout_s is None:
            return True
        window = self._launcher.window
        if not window.timed:
            if looked != 1 or not len(window):
                return self._reader.ready(timeout_s)
            # It takes long: an end that is seen late would be booked as computing.
            window.follow_last()
        watch = window.watch
        watch.reported_ns = self._reported_ns
        watch.asleep = True
        # What was noted from here on wakes; what was noted before is looked at.
        if window.timed:
            window.follow_timed()
            timeout_s = window.quiet_ns(self._reported_ns) / 1e9
        ready = self._reader.ready(timeout_s)
        watch.woken()
        return ready

    def _look_again_s(self, looked: int) -> float | None:
        """How long to wait for a frame before looking at what is in flight; None: until one comes."""
        if self._machine is None:
            return None
        if len(self._launcher.window):
            return _LOOK_S[min(looked, len(_LOOK_S) - 1)]
        return max(0.0, self._memory_due_s - time.monotonic()) if self._changed else None

    def _report(self, frame: int, only_news: bool) -> None:
        busy_ns, times = 0, None
        if self._machine is not None:
            window = self._launcher.window
            window.sweep()
            busy_ns, times = window.busy_ns, window.times
            self._add_memory()
        reached = (self._progress.finished, self._progress.launched)
        if self._reports.kept or reached != self._told or not only_news:
            self._told = reached
            self._reported_ns = now_ns()
            self._reports.send(frame, *reached, busy_ns, times or ())
            if times:
                self._launcher.window.told()

    def _breathe(self, waits: bool) -> None:
        """Between launches: what is reached is told now and then, and sooner if the next grant waits for it."""
        at_ns, window = now_ns(), self._launcher.window
        interval_ns = _PROGRESS_INTERVAL_NS if waits else _ALONE_INTERVAL_NS
        if window.timed or window.times:
            interval_ns = window.patience_ns
        if at_ns - self._reported_ns > interval_ns:
            self._reported_ns = at_ns
            self._report(0, only_news=True)

    def _wait(self, identifier: int, timeout_s: float) -> None:
        """Waits for a value that is on its way; what ends meanwhile is told."""
        deadline_s = time.monotonic() + timeout_s
        looked = 0
        self._launcher.window.follow_timed()
        with self._progress.waiting_for(workers_pb2.EXECUTOR_WAIT_BYTES):
            while (left_s := deadline_s - time.monotonic()) > 0:
                if self._objects.wait(identifier, min(left_s, _LOOK_S[min(looked, len(_LOOK_S) - 1)])):
                    return
                looked = 0 if self._launcher.window.timed else looked + 1
                self._report(0, only_news=True)

    def _add_memory(self) -> None:
        now_s = time.monotonic()
        if not self._changed or now_s < self._memory_due_s or self._machine is None:
            return
        # What is on its way lands on another thread, which tells nobody here.
        self._changed = self._objects.anything_pending
        runtime.collect_garbage()
        live_bytes, count, took_s = self._objects.live()
        self._memory_due_s = now_s + max(_MEMORY_INTERVAL_S, took_s / _MEMORY_SHARE)
        # Without a limit nobody keeps accounts: what is seen here is then the highest that is known.
        self._peak_bytes = max(self._peak_bytes, -(-live_bytes // len(self._machine.local_devices)))
        peak_bytes = self._peak_bytes if self._memory is None else self._memory.peak_bytes
        figures = (live_bytes, count, self._launcher.launched_gangs, peak_bytes)
        if figures != self._memory_told:
            self._memory_told = figures
            memory = workers_pb2.Memory(live_bytes=live_bytes, buffer_count=count, launched_gangs=figures[2])
            memory.device_peak_bytes = peak_bytes
            self._say(memory=memory)
        self._trimmer.observe(live_bytes)

    def _say(self, **event: Any) -> None:
        """An event of the dispatcher; goes with the report of the frame at hand."""
        self._reports.keep(**event)

    # ---- membership ------------------------------------------------------------------------------------------------

    def _on_epoch_begin(self, message: Any) -> None:
        if self._machine is not None:
            failure = make_failure(Reason.INTERNAL, f"this executor serves epoch {self._epoch}; a new epoch takes a new executor")
            self._say(epoch_failed=workers_pb2.EpochFailed(epoch=message.epoch, failure=failure))
            return
        devices = message.device_count or self._settings.device_count
        try:
            machine = runtime.Runtime(
                message.rank, message.rank_count, message.coordinator_address, devices, self._settings.split_threads
            )
        except Exception as error:
            self._say(epoch_failed=workers_pb2.EpochFailed(epoch=message.epoch, failure=failure_of(error, Reason.UNAVAILABLE)))
            return
        self._machine = machine
        self._epoch = message.epoch
        limit_bytes = self._settings.device_memory_bytes
        memory = self._memory = DeviceMemory(limit_bytes, devices) if limit_bytes else None
        self._objects = Objects(machine, self._landed, memory)
        self._placer = Placer(machine, self._objects, self._landed, self._transfer_failed, memory)
        self._python = PythonCalls(
            machine, self._objects, self._callbacks, self._landed, self._transfer_failed, self._settings.host, memory
        )
        await_fallible, python = self._settings.await_fallible, self._python
        self._launcher = Launcher(
            machine, self._objects, self._progress, self._node_failed, self._wait, await_fallible, memory, python
        )
        self._executables = Executables(
            machine,
            self._launcher,
            self._callbacks,
            self._progress,
            self._reports,
            self._settings.ffi_targets,
            self._settings.python,
        )
        self._readers = Readers(self._objects, self._reports, self._data)
        self._spilling = Spilling(machine, self._objects, self._reports, self._data, memory)
        self._runs = Runs(
            self._queue,
            message.epoch,
            lambda plan: self._own_name(plan, message.rank, message.rank_count),
            self._objects,
            self._launcher,
            self._placer,
            self._readers,
            self._carry_out,
            self._breathe,
            self._settings.prepare_delay_ns,
        )
        self._reader.wake_by(self._launcher.window.watch.descriptor)
        self._rescue.enter(machine, self._objects, self._launcher, self._reports, self._data)
        self._data.start(self._objects.land, self._spilling.receive)
        self._queue.step(EpochReset(message.epoch))
        self._say(
            epoch_ready=workers_pb2.EpochReady(
                epoch=message.epoch,
                platform=machine.platform,
                platform_version=machine.platform_version,
                device_kind=machine.device_kind,
                memory_kinds=machine.memory_kinds,
                compiler=machine.compiler,
            )
        )

    def _landed(self, transfer_id: int) -> None:
        self._reports.post(landed=workers_pb2.Landed(transfer_id=transfer_id))

    def _transfer_failed(self, transfer_id: int, failure: FailureMessage) -> None:
        self._reports.post(transfer_failed=workers_pb2.TransferFailed(transfer_id=transfer_id, failure=failure))

    # ---- launches --------------------------------------------------------------------------------------------------

    def _on_prepare(self, prepare: Any) -> None:
        if prepare.sequence and self._queue.launch_next(prepare.execution_id, prepare.sequence, prepare.previous, prepare.epoch):
            self._launch(prepare, prepare.sequence)
            return
        fresh = prepare.execution_id not in self._prepared
        if fresh:
            self._prepared[prepare.execution_id] = prepare
        effects = self._queue.step(Prepared(prepare.execution_id, prepare.sequence, prepare.previous, prepare.epoch))
        if fresh and any(isinstance(effect, Ignored | Stop) for effect in effects):
            del self._prepared[prepare.execution_id]
        self._carry_out(effects)

    def _launch(self, prepare: Any, sequence: int) -> None:
        self._changed = True
        self._launcher.launch_prepared(prepare, sequence)
        if self._launcher.window.timed:
            self._breathe(True)

    def _on_grant(self, grant: Any) -> None:
        self._carry_out(self._queue.step(Granted(grant.execution_id, grant.sequence, grant.previous, grant.epoch)))

    def _on_cancel(self, cancel: Any) -> None:
        effects = self._queue.step(Cancelled(cancel.execution_id))
        if not effects:
            self._prepared.pop(cancel.execution_id, None)

    def _carry_out(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            match effect:
                case Launch(RunRange() as work):
                    self._changed = True
                    self._runs.carry_out(work)
                case Launch():
                    self._launch(self._prepared.pop(effect.work), effect.sequence)
                case AskAgain():
                    self._say(missing=workers_pb2.Missing(sequence=effect.sequence, epoch=effect.epoch))
                case Stop():
                    broken = workers_pb2.Contradiction(epoch=self._epoch, sequence=effect.sequence, text=effect.text)
                    self._say(contradiction=broken)

    def _node_failed(self, execution_id: int, sequence: int, failure: FailureMessage, with_zeros: bool) -> None:
        self._say(
            node_failed=workers_pb2.NodeFailed(
                execution_id=execution_id, sequence=sequence, failure=failure, launched_with_zeros=with_zeros
            )
        )

    # ---- runs ------------------------------------------------------------------------------------------------------

    def _own_name(self, plan: LoadedPlan, rank: int, rank_count: int) -> str:
        """This host's name in a plan."""
        if self._settings.host:
            return self._settings.host
        ours = [host.name for host in plan.hosts if host.epoch == self._epoch]
        if len(ours) != rank_count:
            raise LookupError("the executor was not told the name of its host; start it with --host")
        return ours[rank]

    def _on_run_plan(self, message: Any) -> None:
        self._changed = True
        self._runs.run(message)

    def _on_grant_run(self, message: Any) -> None:
        self._changed = True
        self._runs.grant(message)

    def _on_end_run(self, message: Any) -> None:
        self._changed = True
        self._runs.end(message)

    def _on_collect_trace(self, message: Any) -> None:
        window = self._launcher.window
        window.sweep()
        if message.session_number:
            answer = window.log.collect(message, self._epoch, window)
            self._traces.put(lambda: self._reports.post(trace_collected=answer()))
        else:
            self._say(trace_collected=self._runs.traces.collect(message))

    def _on_load_plan(self, message: Any) -> None:
        answer = self._runs.load(message)
        if answer is not None:
            self._say(plan_loaded=answer)

    def _on_report_holdings(self, message: Any) -> None:
        held = [
            *self._objects.held(),
            Held(workers_pb2.HELD_KIND_EXECUTABLE, self._executables.held()),
            *self._runs.held(),
            Held(workers_pb2.HELD_KIND_EXECUTION, [int(work) for work in self._prepared if not isinstance(work, RunRange)]),
        ]
        for answer in answers(held, message.request_id, False, self._epoch, self._progress.launched):
            self._say(holdings=answer)

    # ---- buffers ---------------------------------------------------------------------------------------------------

    def _on_free(self, message: Any) -> None:
        self._changed = True
        self._spilling.freed(message.ids)
        self._launcher.forget(message.ids)

    def _on_poison(self, message: Any) -> None:
        self._changed = True
        for identifier in message.ids:
            self._objects.poison(identifier, message.failure)

    def _on_place_array(self, message: Any) -> None:
        self._changed = True
        self._launcher.view_of(message.buffer_id, self._placer.place(message))

    def _on_place_view(self, message: Any) -> None:
        self._changed = True
        if not message.shards:
            self._objects.poison(message.view_id, missing_buffer(message.view_id))
            return
        self._placer.place_view(message)
        self._launcher.view_of(message.view_id, [shard.id for shard in message.shards])

    def _on_spill_array(self, message: Any) -> None:
        self._tell_failures_first()
        self._spilling.spill(message)

    def _on_spill_decided(self, message: Any) -> None:
        self._changed = True
        self._spilling.decide(message)

    def _on_restore_array(self, message: Any) -> None:
        self._changed = True
        self._spilling.restore(message)

    def _on_cancel_transfer(self, message: Any) -> None:
        self._objects.cancel_transfers(message.transfer_ids)
        if message.session_number:
            self._python.end_session(message.session_number)

    def _on_fetch_shard(self, message: Any) -> None:
        self._tell_failures_first()
        self._readers.fetch(message)

    def _on_await_ready(self, message: Any) -> None:
        self._tell_failures_first()
        self._readers.await_ready(message)

    def _tell_failures_first(self) -> None:
        """What readers are told on the spot must not overtake the failure that explains it."""
        if not self._reports.answers_alone:
            self._report(0, only_news=True)

    # ---- executables -----------------------------------------------------------------------------------------------

    def _on_unload(self, message: Any) -> None:
        self._executables.unload(message)
        self._python.unloaded(message.executable_ids)
