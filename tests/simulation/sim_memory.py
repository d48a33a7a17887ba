"""Memory of simulated hosts: what every device really holds, byte by byte, and the store that spilled arrays go to.

Counted apart from the core's accounts: an array from its PlaceArray, a result from the start of its gang, what a move brings
from when it comes; to the end of the last gang that uses it, however early its name is freed. A moment above the budget, and a
spill of what somebody uses, break the rule `memory`.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import TYPE_CHECKING

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.sim_arithmetic import GARBAGE, LARGE, Program
from tests.simulation.sim_cells import Cell, Gang
from tests.simulation.sim_fused import Fused

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster
    from tests.simulation.sim_executor import Executor
    from tests.simulation.sim_host import SimHost

# What clients hold at once: whatever they do makes an array, or results and arguments, and what they do not drop stays. So a
# device of ample memory has room for all that they ever do, and as much again; a rule looks after it.
_MADE_MAX = 4_000  # operations of all clients of a seed; most have fewer than a thousand
AMPLE = _MADE_MAX * 8 * LARGE
HUGE = 2 * AMPLE  # no device has room for it
_BUDGETS = (AMPLE, AMPLE, AMPLE, 2_000, 900, 500)


def budget_of(seed: int) -> int:
    """Memory of every device of a seed; drawn apart from everything else of it."""
    return random.Random(f"memory {seed}").choice(_BUDGETS)


def short_of_memory(budget: int, failure: Failure) -> bool:
    """Whether devices of so little memory explain a failure: it says what does not fit where."""
    words = ("bytes", "host", "device")
    return failure.reason is Reason.RESOURCE_EXHAUSTED and budget < AMPLE and all(word in failure.message for word in words)


def judge_ample(cluster: Cluster) -> None:
    """Of a device of ample memory half is never used: else a want of memory is no fault of the core's."""
    if cluster.memory == AMPLE:
        cluster.world.look("memory")
        if cluster.most_held * 2 > AMPLE:
            cluster.world.violate("memory", f"clients hold {cluster.most_held} bytes of a device whose {AMPLE} were to be ample")


@lru_cache(maxsize=4096)
def sizes_of(program: Program | Fused) -> tuple[tuple[int, ...], int, int]:
    """Results, temporary bytes and aliased bytes per device."""
    facts = program.facts()
    return facts.output_shard_bytes, facts.temporary_bytes, facts.alias_bytes


class Ledger:
    """What the devices of one executor hold."""

    def __init__(self, executor: Executor, budget: int) -> None:
        self.executor = executor
        self.host = executor.host
        self.per_host = executor.per_host
        self.rank = executor.rank
        self.budget = budget
        self.held = [0] * executor.per_host
        self.sizes: dict[int, tuple[tuple[int, int], ...]] = {}
        self.references: dict[int, int] = {}
        self.born: set[int] = set()
        self.views: dict[int, tuple[int, ...]] = {}

    def _local(self, devices: tuple[int, ...]) -> list[int]:
        return [position % self.per_host for position in devices if position // self.per_host == self.rank]

    def _add(self, sizes: tuple[tuple[int, int], ...], sign: int) -> None:
        for device, size in sizes:
            self.held[device] += sign * size
        most = max(max(self.held), self.host.cluster.isolation.held_together(self.executor))
        self.host.world.look("memory")
        if sign > 0 and most > self.budget:
            self.host.world.violate("memory", f"{self.host.name} holds {most} bytes on a device of {self.budget}")
        self.host.cluster.most_held = max(self.host.cluster.most_held, most)

    def name(self, identifier: int, sizes: tuple[tuple[int, int], ...], born: bool = True) -> None:
        """An id stands for a value; not `born`: its gang has not begun."""
        self.sizes[identifier] = sizes
        self.references[identifier] = self.references.get(identifier, 0) + 1
        if born:
            self.born.add(identifier)
            self._add(sizes, 1)

    def _leave(self, identifier: int) -> None:
        left = self.references[identifier] = self.references[identifier] - 1
        if not left:
            del self.references[identifier]
            sizes = self.sizes.pop(identifier)
            if identifier in self.born:
                self.born.discard(identifier)
                self._add(sizes, -1)

    def unname(self, identifier: int) -> None:
        """The id stands for nothing any more; gangs that use the value keep it."""
        for base in self.views.pop(identifier, ()):
            self._leave(base)
        if identifier in self.references:
            self._leave(identifier)

    def used(self, identifier: int) -> bool:
        """By a gang that has not ended, or under another name."""
        return self.references.get(identifier, 0) > 1

    def only_named(self, identifier: int) -> tuple[tuple[int, int], ...]:
        """What goes with the name of a value."""
        last = self.references.get(identifier) == 1 and identifier in self.born
        return self.sizes[identifier] if last else ()

    # ---- what hosts do ----

    def placed(self, command: out.PlaceArray) -> None:
        size = command.spec.shard_bytes
        self.name(command.buffer_id, tuple((piece.local_device, size) for piece in command.pieces))

    def viewed(self, command: out.PlaceView) -> None:
        bases = tuple({base: None for shard in command.shards for base in self.bases(shard.id)})
        self.views[command.view_id] = bases
        for base in bases:
            self.references[base] += 1

    def bases(self, identifier: int) -> tuple[int, ...]:
        return self.views.get(identifier, (identifier,) if identifier in self.references else ())

    def brought(self, identifier: int, devices: list[int], size: int, cells: list[Cell]) -> None:
        """A move makes an array here, which takes memory as soon as a part of it has come."""
        self.name(identifier, tuple((device, size) for device in devices), born=False)
        for cell in cells:
            cell.when_ready(lambda: self._came(identifier))

    def _came(self, identifier: int) -> None:
        if identifier in self.references and identifier not in self.born:
            self.born.add(identifier)
            self._add(self.sizes[identifier], 1)

    def launched(self, gang: Gang, result_ids: tuple[int, ...]) -> None:
        gang.result_ids = result_ids
        outputs, _, _ = sizes_of(gang.program)
        local = self._local(gang.devices)
        for identifier, size in zip(result_ids, outputs, strict=True):
            self.name(identifier, tuple((device, size) for device in local), born=False)
            self.references[identifier] += 1  # the gang itself
        for argument in gang.prepare.arguments:
            gang.bases[argument] = bases = self.bases(argument)  # of a view, also when it is freed meanwhile
            for base in bases:
                self.references[base] += 1

    def _consumed(self, gang: Gang) -> list[int]:
        taken = [index for index in gang.program.donated if index not in gang.prepare.non_donatable]
        return [gang.prepare.arguments[index] for index in taken if gang.prepare.arguments[index] in self.sizes]

    def _besides(self, gang: Gang, sign: int) -> None:
        """Temporary bytes, less what its results take over from donated arguments."""
        _, temporary, aliased = sizes_of(gang.program)
        sizes = [self.sizes[identifier] for identifier in self._consumed(gang)]
        gang.besides = gang.besides or tuple(
            (device, temporary - min(aliased, sum(size for each in sizes for at, size in each if at == device)))
            for device in self._local(gang.devices)
        )
        self._add(gang.besides, sign)

    def started(self, gang: Gang) -> None:
        # In one go: what is taken over is not there twice.
        budget, self.budget = self.budget, 1 << 60
        for identifier in gang.result_ids:
            self.born.add(identifier)
            self._add(self.sizes[identifier], 1)
        self.budget = budget
        self._besides(gang, 1)

    def ended(self, gang: Gang) -> None:
        consumed = self._consumed(gang)
        self._add(gang.besides, -1)
        for identifier in consumed:
            self._add(self.sizes[identifier], -1)
            self.sizes[identifier] = ()
        for identifier in gang.result_ids:
            self._leave(identifier)
        for argument in gang.prepare.arguments:
            for base in gang.bases[argument]:
                self._leave(base)


class SpillStore:
    """What the daemon of a host keeps for its executor; it outlives executors and goes with the connection."""

    def __init__(self, host: SimHost, room: int) -> None:
        self.host = host
        self.room = room
        self.kept: dict[int, tuple[list[int], tuple[tuple[int, int], ...]]] = {}
        self.random = random.Random(f"old answers {host.world.seed} {host.name}")
        self.coming: dict[int, None] = {}  # what is to be restored and has not begun
        self.said: dict[tuple[type, int], events.Event] = {}  # the last answer about an array to either command

    def handle(self, executor: Executor, command: out.SpillArray | out.RestoreArray | out.DropSpilled) -> None:
        if not isinstance(command, out.DropSpilled):
            self.say_again(self.said.get((type(command), command.buffer_id)))
        match command:
            case out.SpillArray():
                self.spill(executor, command)
            case out.RestoreArray():
                self.coming[command.buffer_id] = None
                self.host.world.soon(lambda: self.restore(executor, command), 0.1, 3)
            case out.DropSpilled():
                self.drop(command)

    def say_again(self, answer: events.Event | None) -> None:
        """What was answered to an earlier command about the same array comes late, before the answer to this one."""
        if answer is not None and self.host.cluster.faults.says_again(self.random):
            self.host.world.after(self.random.randrange(50_000, 1_000_000), lambda: self.host.cluster.post(answer))

    def answer(self, kind: type, event: events.ArraySpilled | events.ArrayRestored) -> None:
        self.said[kind, event.buffer_id] = event
        self.host.report(event)

    def drop(self, command: out.DropSpilled) -> None:
        for identifier in command.ids:
            self.kept.pop(identifier, None)
            self.coming.pop(identifier, None)
            self.host.cluster.rescues.kept.discard((self.host.name, identifier))

    def spill(self, executor: Executor, command: out.SpillArray) -> None:
        identifier = command.buffer_id
        cells = executor.arrays.get(identifier)
        ledger = executor.memory
        if cells is None or ledger.used(identifier):
            self.host.world.violate("memory", f"{self.host.name} is to spill {identifier}, which is in use or not there")
            return
        left = [cell for cell in cells if not cell.ready]
        if left:
            left[0].when_ready(lambda: self.spill(executor, command))
            return
        self.host.world.soon(lambda: self.put_aside(executor, command, cells), 0.1, 3)

    def put_aside(self, executor: Executor, command: out.SpillArray, cells: list[Cell]) -> None:
        if not executor.alive or not self.host.up:
            return
        identifier = command.buffer_id
        sizes = executor.memory.sizes[identifier]
        size = sum(each for _, each in sizes)
        failure = next((cell.failure for cell in cells if cell.failure is not None), None)
        stored = sum(each for _, kept in self.kept.values() for _, each in kept)
        if failure is None and (stored + size > self.room or self.host.cluster.faults.refuses_spill()):
            failure = Failure(Reason.RESOURCE_EXHAUSTED, "no room for spilled arrays", host=self.host.name)
        if failure is None:
            self.kept[identifier] = ([cell.value or 0 for cell in cells], sizes)
            for cell in cells:
                cell.value = GARBAGE  # others have the memory now
            del executor.arrays[identifier]
            executor.memory.unname(identifier)
            self.host.cluster.spilled += 1
        answer = events.ArraySpilled(HostName(self.host.name), identifier, command.spill_number, size, failure)
        self.answer(out.SpillArray, answer)

    def restore(self, executor: Executor, command: out.RestoreArray) -> None:
        if not executor.alive or not self.host.up:
            return
        identifier = command.buffer_id
        if identifier not in self.coming:
            return  # dropped since: its epoch ends
        del self.coming[identifier]
        found = self.kept.pop(identifier, None)
        if found is None:
            self.host.world.violate("memory", f"{self.host.name} is to restore {identifier}, which it does not keep")
            return
        values, sizes = found
        cells = [Cell() for _ in values]
        for cell, value in zip(cells, values, strict=True):
            cell.resolve(value, None)
        executor.arrays[identifier] = cells
        executor.memory.name(identifier, sizes)
        self.host.cluster.restored += 1
        self.host.cluster.rescues.restored(self.host.name, identifier)
        answer = events.ArrayRestored(HostName(self.host.name), identifier, command.spill_number, None)
        self.answer(out.RestoreArray, answer)
