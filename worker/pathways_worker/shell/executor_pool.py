"""Carries out what `core.executors` decides: starts, kills and chooses the executor processes of this host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

from pathways_common.model.ids import Epoch
from pathways_common.process.logs import fields
from pathways_common.process.tasks import Supervisor
from pathways_proto.v1 import segments_pb2

from pathways_worker.core.executors import (
    Announced,
    Closed,
    EpochAnswered,
    EpochBegun,
    EpochEnded,
    Event,
    Executors,
    Exited,
    GiveUp,
    Kill,
    Opened,
    ReportDeath,
    ReportLeft,
    Rescue,
    Rescued,
    Start,
    Use,
)
from pathways_worker.shell.counters import Counters
from pathways_worker.shell.executor_process import Death, ExecutorProcess, Owner
from pathways_worker.shell.output_log import OutputLog

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an executor process is started."""

    command: Sequence[str]
    device_count: int
    environment: Mapping[str, str]
    keep_spare: bool = True


@dataclass(slots=True)
class _Entry:
    process: ExecutorProcess
    timer: asyncio.TimerHandle | None


class Departing(Protocol):
    """Who is told of the end of epochs."""

    def rescue(self, executor: ExecutorProcess) -> None:
        """The executor is nobody's any more, but what is to be kept may come from it."""

    def give_up(self) -> None:
        """Nothing more comes from it."""

    def left(self, epoch: Epoch) -> None:
        """The executor of an epoch that was ended is gone."""


class ExecutorPool:
    """`on_use` hears of every change of the current executor, `on_death` of the end of an epoch's one.

    `departing` is set before the first epoch ends.
    """

    departing: Departing

    def __init__(
        self,
        recipe: Recipe,
        log: OutputLog,
        counters: Counters,
        supervisor: Supervisor,
        owner: Owner,
        on_use: Callable[[], None],
        on_death: Callable[[Epoch, Death], None],
    ) -> None:
        self._recipe = recipe
        self._log = log
        self._counters = counters
        self._supervisor = supervisor
        self._owner = owner
        self._on_use = on_use
        self._on_death = on_death
        self._core = Executors(recipe.keep_spare)
        self._entries: dict[int, _Entry] = {}
        self._last_death = Death("")
        self.current: ExecutorProcess | None = None

    @property
    def epoch(self) -> Epoch:
        """Of the current executor, or the last that was."""
        return self._core.epoch

    def processes(self) -> list[ExecutorProcess]:
        """Those that run: the current one, and others."""
        return [entry.process for entry in self._entries.values() if entry.process.pid]

    def use_segment(self, order: segments_pb2.SegmentUse, descriptor: int = -1) -> None:
        """Hands shared memory of a client to the current executor, or says what becomes of a shard that it holds."""
        if self.current is not None:
            self.current.use_segment(order, descriptor)

    def open(self) -> None:
        """The host has joined."""
        self._step(Opened())

    def close(self) -> None:
        """Ends every executor."""
        self._step(Closed())

    def announced(self, number: int) -> None:
        """The executor said something."""
        self._step(Announced(number))

    def begin(self, epoch: Epoch) -> bool:
        """Makes a fresh executor the current one; False if the epoch is late."""
        self._step(EpochBegun(epoch))
        return self._core.epoch == epoch and self.current is not None

    def answered(self, number: int, entered: bool) -> None:
        """The executor entered its epoch, or could not."""
        self._step(EpochAnswered(number, entered))

    def end(self, epoch: Epoch, keeps: bool = False) -> None:
        """The epoch is over; `keeps`: what is to be kept is brought from its executor first."""
        self._step(EpochEnded(epoch, keeps))

    def rescued(self, number: int) -> None:
        """All that was to be kept of this executor is answered, or the time is over."""
        self._step(Rescued(number))

    def exited(self, number: int, death: Death) -> None:
        """The process is gone."""
        self._entries.pop(number, None)
        self._last_death = death
        self._step(Exited(number))

    async def wait_gone(self, timeout_s: float) -> None:
        """Waits until every process that was killed is gone."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        while self._entries and asyncio.get_running_loop().time() < deadline_s:
            await asyncio.sleep(0.01)

    def _step(self, event: Event) -> None:
        for effect in self._core.step(event):
            match effect:
                case Start(number, wait_ns):
                    self._schedule(number, wait_ns)
                case Kill(number):
                    self._kill(number)
                case Use(number):
                    self._use(number)
                case ReportDeath(_, epoch):
                    self._on_death(epoch, self._last_death)
                case Rescue(number):
                    self.departing.rescue(self._entries[number].process)
                case GiveUp():
                    self.departing.give_up()
                case ReportLeft(epoch):
                    self.departing.left(epoch)
                case _:
                    assert_never(effect)

    def _schedule(self, number: int, wait_ns: int) -> None:
        entry = self._entries[number] = _Entry(ExecutorProcess(number, self._owner, self._log), None)
        if wait_ns:
            entry.timer = self._supervisor.later(wait_ns / 1e9, f"start of executor {number}", self._start, number)
        else:
            self._start(number)

    def _start(self, number: int) -> None:
        entry = self._entries[number]
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        self._counters.executor_starts += 1
        _LOG.info("executor starts", extra=fields(number=number))
        running = entry.process.run(self._recipe.command, self._recipe.device_count, self._recipe.environment)
        self._supervisor.spawn(f"executor {number}", running)

    def _kill(self, number: int) -> None:
        entry = self._entries.get(number)
        if entry is None:
            return
        entry.process.kill()
        if entry.timer is not None:
            # It never ran: nobody else will say that it is gone.
            entry.timer.cancel()
            self.exited(number, Death("never started"))

    def _use(self, number: int) -> None:
        entry = self._entries.get(number)
        if entry is not None and entry.timer is not None:
            self._start(number)
        self.current = None if entry is None else entry.process
        _LOG.info("executor chosen", extra=fields(number=number, epoch=self._core.epoch))
        self._on_use()
