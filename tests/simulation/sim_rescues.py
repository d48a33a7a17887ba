"""How a simulated host ends an epoch: what it is to keep goes into its store, each with an answer, and then it has left.

Until then nothing else that it is told is done, while answers of before are still on their way. A stopped executor gives nothing
and is ended when its time is up, some take longer than that, and an executor or a host may go in the middle.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.sim_world import MILLISECOND_NS

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster
    from tests.simulation.sim_executor import Executor
    from tests.simulation.sim_host import SimHost

RESCUE_NS = 500 * MILLISECOND_NS
RESCUE_KINDS = ("kept", "replicated", "refused", "late", "restored")
_REFUSED_SHARE, _LATE_SHARE = 0.15, 0.3


class Rescues:
    """What the hosts of one seed did; `counts` for the end."""

    def __init__(self, cluster: Cluster, on: bool) -> None:
        self.cluster = cluster
        self.on = on
        self.random = Random(f"rescues {cluster.world.seed}")
        self.counts = dict.fromkeys(RESCUE_KINDS, 0)
        self.kept: set[tuple[str, int]] = set()  # what lies in a store because of the end of an epoch

    def start(self) -> None:
        if self.on:
            self.cluster.world.after(self.random.randrange(60, 200) * MILLISECOND_NS, self.strike)

    def strike(self) -> None:
        """An executor dies, again and again: most of what clients have lies on others."""
        cluster = self.cluster
        if not cluster.faults.on:
            return
        host = cluster.hosts[self.random.choice(list(cluster.hosts))]
        if host.executor is not None and host.executor.alive and host.inbox is None:
            cluster.lost_islands[host.island] = None
            host.kill_executor()
        cluster.world.after(self.random.randrange(40, 400) * MILLISECOND_NS, self.strike)

    def count(self, kind: str) -> None:
        self.counts[kind] += 1

    def restored(self, host: str, identifier: int) -> None:
        """It is back on a device."""
        if (host, identifier) in self.kept:
            self.kept.discard((host, identifier))
            self.count("restored")


def end(host: SimHost, command: out.EpochEnd) -> None:
    """The daemon is told to end the executor of an epoch."""
    executor = host.executor
    if executor is not None and executor.epoch > command.epoch:
        executor = None
    if executor is None or not command.keep:
        if executor is not None:
            host.stop_executor()
        for keep in command.keep:
            _answer(host, keep, 0, Failure(Reason.UNAVAILABLE, "there is no executor", host=host.name))
        host.report(events.EpochLeft(HostName(host.name), command.epoch))
        return
    stuck = executor.stuck.stopped or executor.stuck.backlog is not None
    executor.stuck.backlog, executor.stuck.leaves = None, True
    _Leaving(host, executor, command, stuck).start()


class _Leaving:
    """One executor on its way out."""

    def __init__(self, host: SimHost, executor: Executor, command: out.EpochEnd, stuck: bool) -> None:
        self.host = host
        self.executor = executor
        self.command = command
        self.incarnation = host.incarnation
        self.left = list(command.keep)
        self.rescues = host.cluster.rescues
        self.stuck = stuck
        self.late = not stuck and self.rescues.random.random() < _LATE_SHARE and host.cluster.faults.on
        self.over = False

    def start(self) -> None:
        world = self.host.world
        if not self.late:
            world.after(self.command.timeout_ns, self.give_up)
        if not self.stuck:
            world.after(self._pause_ns(), self.step)

    def _pause_ns(self) -> int:
        if self.late:
            self.late = False
            self.rescues.count("late")
            return int(self.rescues.random.uniform(300, 1500) * MILLISECOND_NS)
        return int(self.rescues.random.uniform(0.1, 3 * self.host.slow) * MILLISECOND_NS)

    def _is_there(self) -> bool:
        """The daemon lives, and was not told to begin another epoch."""
        host = self.host
        return not self.over and host.up and host.incarnation == self.incarnation and host.executor in (None, self.executor)

    def step(self) -> None:
        if not self._is_there():
            return
        if not self.left or not self.executor.alive:
            self.give_up()
            return
        keep = self.left.pop(0)
        failure, size = self._keep(keep)
        _answer(self.host, keep, size, failure)
        self.host.world.after(self._pause_ns(), self.step)

    def _keep(self, keep: out.Keep) -> tuple[Failure | None, int]:
        host, executor, store = self.host, self.executor, self.host.store
        cells = executor.arrays.get(keep.buffer_id)
        if cells is None or not all(cell.ready for cell in cells):
            return Failure(Reason.UNAVAILABLE, "it is not there", host=host.name), 0
        failure = next((cell.failure for cell in cells if cell.failure is not None), None)
        sizes = executor.memory.sizes[keep.buffer_id]
        if keep.shards:
            cells, sizes = [cells[index] for index in keep.shards], tuple(sizes[index] for index in keep.shards)
        size = sum(each for _, each in sizes)
        stored = sum(each for _, kept in store.kept.values() for _, each in kept)
        refused = self.rescues.random.random() < _REFUSED_SHARE and host.cluster.faults.on
        if failure is None and (stored + size > store.room or refused):
            failure = Failure(Reason.RESOURCE_EXHAUSTED, "no room for what outlives the epoch", host=host.name)
        if failure is not None:
            self.rescues.count("refused")
            return failure, 0
        store.kept[keep.stored_id] = ([cell.value or 0 for cell in cells], sizes)
        self.rescues.kept.add((host.name, keep.stored_id))
        self.rescues.count("kept")
        if keep.stored_id != keep.buffer_id:
            self.rescues.count("replicated")
        return None, size

    def give_up(self) -> None:
        """What is not in the store by now is lost."""
        if not self._is_there():
            return
        self.over = True
        for keep in self.left:
            _answer(self.host, keep, 0, Failure(Reason.UNAVAILABLE, "the executor did not give it", host=self.host.name))
        if self.host.executor is self.executor:
            self.host.stop_executor()
        self.host.report(events.EpochLeft(HostName(self.host.name), self.command.epoch))


def _answer(host: SimHost, keep: out.Keep, size: int, failure: Failure | None) -> None:
    host.store.say_again(host.store.said.get((out.SpillArray, keep.stored_id)))
    answer = events.ArraySpilled(HostName(host.name), keep.stored_id, keep.spill_number, size, failure)
    host.store.answer(out.SpillArray, answer)
