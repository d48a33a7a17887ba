"""Ends of epochs: what is to be kept goes from the executor to the spill store, then the executor ends, and that is told last.

The executor is asked on the callback pair, which it reads on a thread of its own: its dispatcher may be in a collective that
never comes back. On the control pair it is told where the commands before the end stop. Every answer is the spill store's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from pathways_common.model.ids import Epoch
from pathways_common.process.tasks import Supervisor
from pathways_proto.v1 import workers_pb2

from pathways_worker.shell.coordinator_process import Coordinators
from pathways_worker.shell.executor_pool import ExecutorPool
from pathways_worker.shell.executor_process import ExecutorProcess
from pathways_worker.shell.spill_agent import SpillAgent
from pathways_worker.shell.wire import COMMAND, EVENT, Item, executor_commands

# All that is heard of an executor that leaves.
_HEARD = frozenset((EVENT["spill_offered"], EVENT["array_spilled"]))


class Departures:
    """At most one executor leaves at a time: `executor`."""

    def __init__(
        self,
        pool: ExecutorPool,
        spills: SpillAgent,
        coordinators: Coordinators,
        supervisor: Supervisor,
        emit: Callable[[workers_pb2.HostEvent], None],
    ) -> None:
        self._pool = pool
        self._spills = spills
        self._coordinators = coordinators
        self._supervisor = supervisor
        self._emit = emit
        self.executor: ExecutorProcess | None = None
        self._timer: asyncio.TimerHandle | None = None
        # Of the EpochEnd at hand: what nobody has taken up, how long it may take, and what was being spilled when it came.
        self._keep: Sequence[Any] = ()
        self._timeout_ns = 0
        self._busy: frozenset[int] = frozenset()

    def on_epoch_end(self, command: workers_pb2.EpochEnd) -> None:
        """Every Keep is answered once, and EpochLeft follows."""
        epoch = Epoch(command.epoch)
        if epoch == self._pool.epoch:
            # Executors of this epoch end with its coordinator, here and on other hosts, which may have something to keep.
            self._coordinators.kill_in(command.timeout_ns / 1e9)
        self._keep, self._timeout_ns = command.keep, command.timeout_ns
        self._busy = self._spills.coming
        self._pool.end(epoch, bool(command.keep))
        self._refuse_the_rest()

    def _refuse_the_rest(self) -> None:
        keep, self._keep = self._keep, ()
        for each in keep:
            self._spills.keep(each.stored_id, each.spill_number, executor=False)

    def rescue(self, executor: ExecutorProcess) -> None:
        """Asks for what is to be kept."""
        keep, self._keep = self._keep, ()
        # What was being spilled is put aside in the executor, which may still offer it under the same id.
        wanted = [each for each in keep if self._spills.keep(each.stored_id, each.spill_number, each.stored_id not in self._busy)]
        # Behind that: one that is refused on the spot is no sign that the others are answered.
        self.executor = executor
        epoch = self._pool.epoch
        asked = workers_pb2.EpochEnd(epoch=epoch, keep=wanted, timeout_ns=self._timeout_ns)
        executor.send_callback(executor_commands(0, (_item(asked),)))
        executor.send_commands(executor_commands(0, (_item(workers_pb2.EpochEnd(epoch=epoch)),)))
        self._timer = self._supervisor.later(self._timeout_ns / 1e9, "end of a rescue", self._spawn_end, executor.number, True)
        self.look()

    def look(self) -> None:
        """The spill store has changed: if nothing is missing any more, the executor ends."""
        if self.executor is not None and not self._spills.owed:
            self._spawn_end(self.executor.number, False)

    def _spawn_end(self, number: int, late: bool) -> None:
        # As a task: the store is in the middle of a step now, and a defect in it ends the daemon.
        self._supervisor.spawn(f"end of executor {number}", self._end(number, late))

    async def _end(self, number: int, late: bool) -> None:
        """`late`: whether anything is missing or not."""
        if self.leaves(number) and (late or not self._spills.owed):
            self._pool.rescued(number)

    def leaves(self, number: int) -> bool:
        """Whether this is the executor that leaves."""
        return self.executor is not None and self.executor.number == number

    def on_events(self, events: Sequence[Item]) -> None:
        """What the executor says of what is to be kept."""
        for event in events:
            if event.kind not in _HEARD:
                continue
            message = workers_pb2.HostEvent.FromString(event.data)
            if event.kind == EVENT["spill_offered"]:
                self._spills.on_offered(message.spill_offered)
            else:
                self._spills.on_kept_not(message.array_spilled)

    def send_decision(self, item: Item) -> bool:
        """Sends what the store decided about a buffer; False if no executor leaves."""
        if self.executor is None:
            return False
        self.executor.send_callback(executor_commands(0, (item,)))
        return True

    def give_up(self) -> None:
        """What is not here by now is answered so."""
        self.executor = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._spills.executor_changed()

    def left(self, epoch: Epoch) -> None:
        """The last word about an epoch."""
        self._refuse_the_rest()
        self._emit(workers_pb2.HostEvent(epoch_left=workers_pb2.EpochLeft(epoch=epoch)))


def _item(command: workers_pb2.EpochEnd) -> Item:
    return Item(COMMAND["epoch_end"], workers_pb2.HostCommand(epoch_end=command).SerializeToString())
