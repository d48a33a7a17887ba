"""An executor that leaves ends when all that is kept of it is answered, not before; a defect in that ends the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from pathways_common.process.tasks import Supervisor, TaskFailed
from pathways_proto.v1 import workers_pb2
from pathways_worker.shell.coordinator_process import Coordinators
from pathways_worker.shell.departures import Departures
from pathways_worker.shell.executor_pool import ExecutorPool
from pathways_worker.shell.executor_process import ExecutorProcess
from pathways_worker.shell.spill_agent import SpillAgent


class Executor:
    number = 7

    def send_callback(self, payload: bytes) -> None:
        """Goes nowhere."""

    def send_commands(self, payload: bytes) -> None:
        """Goes nowhere."""


class Store:
    """Owes what was asked for until it is answered; buffer 1 is being spilled when the epoch ends."""

    coming = frozenset({1})

    def __init__(self) -> None:
        self.asked: set[int] = set()
        self.on_step: Callable[[], None] = lambda: None

    @property
    def owed(self) -> bool:
        return bool(self.asked)

    def keep(self, stored_id: int, number: int, executor: bool) -> bool:
        if executor:
            self.asked.add(stored_id)
        self.on_step()
        return executor

    def answer(self, stored_id: int) -> None:
        self.asked.discard(stored_id)
        self.on_step()

    def executor_changed(self) -> None:
        self.asked.clear()


class Pool:
    """`departing` and its executor; `error` is raised by the end of the rescue."""

    epoch = 1

    def __init__(self) -> None:
        self.rescued_numbers: list[int] = []
        self.error: Exception | None = None
        self.departing: Departures

    def end(self, epoch: int, keeps: bool) -> None:
        self.departing.rescue(cast(ExecutorProcess, Executor()))

    def rescued(self, number: int) -> None:
        self.rescued_numbers.append(number)
        self.departing.give_up()
        if self.error is not None:
            raise self.error


class Nobody:
    def kill_in(self, timeout_s: float) -> None:
        """There is no coordinator."""


def begun(supervisor: Supervisor) -> tuple[Pool, Store, Callable[..., None]]:
    """A pool, a store and a function that ends the epoch."""
    pool, store = Pool(), Store()
    parts: Any = pool, store, Nobody()
    departures = pool.departing = Departures(
        cast(ExecutorPool, parts[0]), cast(SpillAgent, parts[1]), cast(Coordinators, parts[2]), supervisor, lambda event: None
    )
    store.on_step = departures.look

    def end(*buffers: int, timeout_s: float = 60.0) -> None:
        keep = [workers_pb2.Keep(buffer_id=each, stored_id=each, spill_number=each) for each in buffers]
        departures.on_epoch_end(workers_pb2.EpochEnd(epoch=1, keep=keep, timeout_ns=int(timeout_s * 1e9)))

    return pool, store, end


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_is_refused_on_the_spot_does_not_end_the_rescue_of_the_others() -> None:
    async def scenario() -> None:
        pool, store, end = begun(Supervisor())
        end(1, 2, 3)
        await turns()
        assert pool.rescued_numbers == []
        store.answer(2)
        await turns()
        assert pool.rescued_numbers == []
        store.answer(3)
        await turns()
        assert pool.rescued_numbers == [7]

    asyncio.run(scenario())


def test_what_is_asked_for_meanwhile_is_waited_for() -> None:
    async def scenario() -> None:
        pool, store, end = begun(Supervisor())
        end(2)
        store.answer(2)
        store.asked.add(3)
        await turns()
        assert pool.rescued_numbers == []

    asyncio.run(scenario())


@pytest.mark.parametrize("late", [False, True])
def test_a_defect_at_the_end_of_a_rescue_ends_the_daemon(late: bool) -> None:
    async def scenario() -> None:
        supervisor = Supervisor()
        pool, store, end = begun(supervisor)
        pool.error = ZeroDivisionError()
        end(2, timeout_s=0.01 if late else 60.0)
        if not late:
            store.answer(2)
        async with asyncio.timeout(5):
            with pytest.raises(TaskFailed):
                await supervisor.run_until_stopped()

    asyncio.run(scenario())
