"""A model of an executor, the XLA child of a simulated host.

It runs gangs one after another in launch order. A collective meets the others by its position in the launch
order of its device list and not by its name, as in XLA: hosts that disagree about the order get wrong sums.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_worker.core import gang_queue

from tests.simulation.sim_arithmetic import GARBAGE
from tests.simulation.sim_cells import Cell, Gang
from tests.simulation.sim_clock import Clock
from tests.simulation.sim_fabric import Fabric
from tests.simulation.sim_fused import parse
from tests.simulation.sim_loader import Loader
from tests.simulation.sim_memory import Ledger
from tests.simulation.sim_runs import HostRuns
from tests.simulation.sim_stuck import Still
from tests.simulation.sim_world import MILLISECOND_NS

if TYPE_CHECKING:
    from tests.simulation.sim_host import SimHost

BROKEN = "a connection of the collective was closed"
BREAKS_NS = 30 * MILLISECOND_NS  # until others notice that a member of their collective is gone


class Executor:
    """The XLA child of a host, for one epoch."""

    def __init__(self, host: SimHost, begin: out.EpochBegin, fabric: Fabric) -> None:
        self.host = host
        self.epoch = begin.epoch
        self.rank = begin.rank
        self.per_host = begin.device_count
        self.fabric = fabric
        self.alive = True
        self.arrays: dict[int, list[Cell]] = {}
        self.executables: dict[int, out.Load] = {}
        self.loader = Loader(self)
        self.prepared: dict[int, out.Prepare] = {}
        self.launched: deque[Gang] = deque()
        self.running = False
        self.finished = 0
        self.counts: dict[tuple[int, ...], int] = {}
        self.landing: dict[int, Cell] = {}
        self.pulls: dict[int, Cell] = {}
        self.calls: dict[int, tuple[int, Callable[[int, Failure | None], None]]] = {}
        self.launches: list[tuple[int, int]] = []
        self.runs = HostRuns(self)
        self.memory = Ledger(self, host.memory)
        self.clock = Clock(host.cluster.books, (host.island, begin.epoch))
        self.stuck = Still()

    @property
    def launched_through(self) -> int:
        return self.launches[-1][0] if self.launches else 0

    def local(self, devices: tuple[int, ...]) -> list[int]:
        return [index for index, position in enumerate(devices) if position // self.per_host == self.rank]

    def launch(self, execution_id: int | gang_queue.RunRange) -> None:
        if isinstance(execution_id, gang_queue.RunRange):
            self.runs.launch(execution_id)
            return
        prepare = self.prepared.pop(execution_id)
        load = self.executables.get(prepare.executable_id)
        missing = [argument for argument in prepare.arguments if argument not in self.arrays]
        if load is None or missing:
            self.host.world.violate("commands", f"{self.host.name}: gang {prepare.sequence} uses what is not there: {missing}")
            return
        program = parse(load.program)
        cells = [[Cell() for _ in self.local(load.devices)] for _ in range(program.outputs)]
        arguments = [self.arrays[argument] for argument in prepare.arguments]
        for index, result in enumerate(cells):
            self.arrays[prepare.first_result_id + index] = result
        session = prepare.executable_id >> 40
        callback_id = load.callback_ids[0] if load.callback_ids else 0
        self.launched.append(Gang(prepare, program, load.devices, session, callback_id, arguments, cells))
        self.memory.launched(self.launched[-1], tuple(prepare.first_result_id + index for index in range(len(cells))))
        self.launches.append((prepare.sequence, prepare.execution_id))
        self.pump()

    def forget_pull(self, fetch_id: int) -> None:
        self.pulls.pop(fetch_id, None)

    def pump(self) -> None:
        if self.running or not self.launched or not self.alive or self.stuck.stopped:
            return
        gang = self.launched[0]
        for argument in gang.arguments:
            for cell in argument:
                if not cell.ready:
                    cell.when_ready(self.pump)
                    return
        self.running = True
        self.host.cluster.isolation.begins(self)
        self.clock.begin(self.host.world.now_ns)
        self.host.world.soon(lambda: self.start(gang), 0.02, 0.6 * self.host.slow)

    def start(self, gang: Gang) -> None:
        if not self.alive or self.stuck.keeps(lambda: self.start(gang)):
            return
        self.memory.started(gang)
        if gang.program.callback:
            self.host.call_client(self, gang, lambda value, failure: self.join(gang, value, failure))
        else:
            self.join(gang, 0, None)

    def join(self, gang: Gang, callback_value: int, failure: Failure | None) -> None:
        """Contributes to the collective; with a failed input, zeros in place of everything local (D9)."""
        if not self.alive or self.stuck.keeps(lambda: self.join(gang, callback_value, failure)):
            return
        inputs = [cell for argument in gang.arguments for cell in argument]
        gang.failure = failure or next((cell.failure for cell in inputs if cell.failure is not None), None)
        if gang.failure is None and gang.program.fallible and self.host.cluster.faults.node_fails(self.host.name):
            gang.failure = Failure(Reason.EXECUTION_ERROR, f"library call failed on {self.host.name}", host=self.host.name)
        given = [[cell.value or 0 for cell in argument] for argument in gang.arguments]
        value = gang.program.local(given) + callback_value if gang.failure is None else 0
        if gang.failure is not None:
            prepare = gang.prepare
            self.host.report(events.NodeFailed(HostName(self.host.name), prepare.execution_id, prepare.sequence, gang.failure))
        for index in gang.program.donated:
            if index not in gang.prepare.non_donatable:
                for cell in gang.arguments[index]:
                    cell.value = GARBAGE
        count = self.counts.get(gang.devices, 0)
        self.counts[gang.devices] = count + 1
        ranks = sorted({position // self.per_host for position in gang.devices})
        key, execution_id = (gang.devices, count), gang.prepare.execution_id
        self.fabric.meet(
            key, ranks, self.host.name, execution_id, value,
            lambda total: self.end_soon(gang, total), lambda: self.host.world.after(BREAKS_NS, lambda: self.broken(gang)),
        )  # fmt: skip

    def broken(self, gang: Gang) -> None:
        """Its collective has lost a member, as every later one with that member will."""
        if not self.alive or self.stuck.keeps(lambda: self.broken(gang)) or gang not in self.launched:
            return
        prepare, name = gang.prepare, HostName(self.host.name)
        gang.failure = Failure(Reason.SLICE_LOST, BROKEN, host=name)
        self.host.report(events.NodeFailed(name, prepare.execution_id, prepare.sequence, gang.failure))
        self.end(gang, 0)

    def end_soon(self, gang: Gang, total: int) -> None:
        self.host.world.soon(lambda: self.end(gang, total), 0.01, 0.5 * self.host.slow)

    def end(self, gang: Gang, total: int) -> None:
        if (
            not self.alive
            or gang not in self.launched
            or self.stuck.keeps(lambda: self.end(gang, total))
            or self.host.cluster.stuck_hosts.is_long(self, gang, total)
        ):
            return
        for index, result in enumerate(gang.results):
            for cell, shard in zip(result, self.local(gang.devices), strict=True):
                if gang.failure is not None:
                    cell.resolve(None, gang.failure)
                else:
                    cell.resolve(gang.program.output(total, index, shard), None)
        self.launched.popleft()
        self.memory.ended(gang)
        self.running = False
        self.finished = gang.prepare.sequence
        self.clock.end(gang.prepare.sequence, gang.prepare.timed, self.host.world.now_ns)
        self.host.flush()
        self.pump()
