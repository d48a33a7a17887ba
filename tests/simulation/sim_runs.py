"""Runs on a simulated host: plans obeyed step by step, launches in the island's order, moves as meetings of both ends.

Written anew from the messages and not with the worker's own code. A value is one number per shard, so that whole shards
move: a destination shard takes the number of a source shard with the same tile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId, HostName, Sequence
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_worker.core import gang_queue

from tests.simulation.sim_cells import Cell, Gang
from tests.simulation.sim_fused import parse
from tests.unit.core.core_driver import understood

if TYPE_CHECKING:
    from tests.simulation.sim_executor import Executor


def tiles_of(sharding: bytes) -> list[int]:
    """Per position, the tile that it holds; the form is that of sim_reshard.cut."""
    copies, count = sharding[5], sharding[7]
    order = list(sharding[8 : 8 + count])
    return [order.index(position) // copies for position in range(count)]


@dataclass
class Range:
    first: int
    end: int
    launches: list[tuple[int, int]]  # own steps and their sequences
    groups: dict[int, out.PlanGroup] = field(default_factory=dict)  # those that are launched as one, by their first step
    timed: bool = False


@dataclass
class HostRun:
    command: out.RunPlan
    plan: out.LoadPlan
    ranges: list[Range] = field(default_factory=list)  # granted and not carried out, in order
    told: int = 0
    failure: Failure | None = None

    def name(self, slot: int) -> int:
        if slot < self.plan.argument_count:
            return self.command.arguments[slot]
        if slot in self.plan.results:
            return self.command.first_result_id + self.plan.results.index(slot)
        return self.command.first_value_id + slot


class HostRuns:
    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.host = executor.host
        self.plans: dict[int, out.LoadPlan] = {}
        self.groups: dict[int, tuple[out.PlanGroup, ...]] = {}
        self.runs: dict[int, HostRun] = {}
        self.over: dict[int, None] = {}
        self.waiting: dict[int, list[Cell]] = {}  # for pulls, also of runs whose steps were all carried out

    def handle(self, command: Any) -> None:
        match command:
            case out.LoadPlan():
                self.plans[command.plan_id] = command
                fields = understood(self.host.name, command)
                epoch = self.executor.epoch
                self.host.report(events.PlanLoaded(HostName(self.host.name), epoch, command.plan_id, fields))
            case out.GroupPlan():
                self.groups[command.plan_id] = command.groups
            case out.UnloadPlan():
                for plan_id in command.plan_ids:
                    self.plans.pop(plan_id, None)  # of an earlier epoch: the executor is a new one
            case out.RunPlan():
                if command.execution_id not in self.over:  # else it was sent again
                    run = self.runs.setdefault(command.execution_id, HostRun(command, self.plans[command.plan_id]))
                    self.grant(run, 0, command.end_step, command)
            case out.GrantRun():
                known = self.runs.get(command.execution_id)
                if known is None and command.execution_id not in self.over:
                    self.violate(f"a grant of run {command.execution_id}, which it does not know")
                elif known is not None:
                    self.grant(known, command.first_step, command.end_step, command)
            case out.EndRun():
                for cell in self.waiting.pop(command.execution_id, []):
                    cell.resolve(None, command.failure)
                ended = self.runs.get(command.execution_id)
                if ended is not None:
                    ended.failure = command.failure
                    self.end(ended)
            case out.CollectTrace():
                payload = str(command.execution_id).encode()
                self.host.report(events.TraceCollected(HostName(self.host.name), command.trace_id, payload))
            case _:
                raise AssertionError(f"unhandled {command}")

    def violate(self, text: str) -> None:
        self.host.world.violate("commands", f"{self.host.name}: {text}")

    # ---- grants ----

    def grant(self, run: HostRun, first: int, end: int, command: out.RunPlan | out.GrantRun) -> None:
        if end <= run.told:
            return  # sent again
        if first != run.told:
            self.violate(f"run {command.execution_id} goes on at step {first}, it was granted to {run.told}")
        run.told = end
        number = int(command.sequence)
        launches: list[tuple[int, int]] = []
        for step in range(first, end):
            launch = run.plan.steps[step]
            if not isinstance(launch, out.PlanLaunch) or run.plan.hosts[launch.hosts[0]].island != self.host.island:
                continue
            if any(run.plan.hosts[host].name == self.host.name for host in launch.hosts):
                launches.append((step, number))
            number += 1
        groups = self.whole_groups(run, first, end) if command.fused else {}
        self.host.cluster.split_ranges += not command.fused and run.plan.plan_id in self.groups
        run.ranges.append(Range(first, end, launches, groups, command.timed))
        work = gang_queue.RunRange(command.execution_id, first, end)
        event: gang_queue.Event = gang_queue.Following(work, command.previous, command.epoch)
        if launches:
            one, last = Sequence(launches[0][1]), Sequence(launches[-1][1])
            event = gang_queue.Prepared(work, one, command.previous, command.epoch, last)
        self.host.launch(self.executor, self.host.queue.step(event))

    def whole_groups(self, run: HostRun, first: int, end: int) -> dict[int, out.PlanGroup]:
        known = self.groups.get(run.plan.plan_id)
        if known is None:
            self.violate(f"run {run.command.execution_id} is granted fused, and it knows no groups of the plan")
        whole = [group for group in known or () if first <= group.first_step and group.end_step <= end]
        return {group.first_step: group for group in whole}

    def launch(self, work: gang_queue.RunRange) -> None:
        """The order lets this range go."""
        run = self.runs[work.execution_id]
        if (run.ranges[0].first, run.ranges[0].end) != (work.first_step, work.end_step):
            self.violate(f"run {work.execution_id} launches steps {work} before {run.ranges[0]}")
        self.carry_out(run, run.ranges.pop(0))
        self.end(run)

    def end(self, run: HostRun) -> None:
        """Forgets a run of which nothing more comes."""
        over = run.told == len(run.plan.steps) or run.failure is not None
        if run.ranges or not over:
            return
        self.runs.pop(run.command.execution_id, None)
        self.over[run.command.execution_id] = None
        for slot in range(run.plan.argument_count, run.plan.slot_count):
            left = self.executor.arrays.pop(run.command.first_value_id + slot, None)
            if left is not None:
                self.executor.memory.unname(run.command.first_value_id + slot)
            if left is not None and run.failure is None:
                self.violate(f"slot {slot} of run {run.command.execution_id} was not freed by a step")

    # ---- steps ----

    def carry_out(self, run: HostRun, granted: Range) -> None:
        sequences = dict(granted.launches)
        within = 0  # the end of the group that was launched last
        for index in range(granted.first, granted.end):
            step = run.plan.steps[index]
            group = granted.groups.get(index)
            if group is not None:
                within = group.end_step
                if index in sequences:
                    self.host.cluster.fused_launches += 1
                    self.launch_gang(run, group.launch, sequences[within - 1], granted.timed)
            match step:
                case out.PlanLaunch():
                    if index in sequences and index >= within:
                        self.launch_gang(run, step, sequences[index], granted.timed)
                case out.PlanMove():
                    self.move(run, index, step)
                case out.PlanFree():
                    for slot in step.slots:
                        if self.executor.arrays.pop(run.name(slot), None) is not None:
                            self.executor.memory.unname(run.name(slot))

    def launch_gang(self, run: HostRun, step: out.PlanLaunch, sequence: int, timed: bool) -> None:
        executor = self.executor
        load = executor.executables.get(step.executable_id)
        names = [run.name(slot) for slot in step.arguments]
        missing = [name for name in names if name not in executor.arrays]
        if load is None or missing:
            self.violate(f"node {step.node} of run {run.command.execution_id} uses what is not there: {missing}")
            return
        program = parse(load.program)
        kept = [position for position, slot in enumerate(step.arguments) if self.is_kept(run, slot)]
        cells = [[Cell() for _ in executor.local(load.devices)] for _ in range(program.outputs)]
        arguments = [executor.arrays[name] for name in names]
        for slot, result in zip(step.results, cells, strict=True):
            executor.arrays[run.name(slot)] = result
        prepare = out.Prepare(
            run.command.execution_id, step.executable_id, tuple(GlobalId(name) for name in names), GlobalId(0),
            (*step.non_donatable, *kept), 0, Sequence(sequence), Sequence(0), run.command.epoch, timed,
        )  # fmt: skip
        callback_id = load.callback_ids[0] if load.callback_ids else 0
        executor.launched.append(Gang(prepare, program, load.devices, step.executable_id >> 40, callback_id, arguments, cells))
        executor.memory.launched(executor.launched[-1], tuple(run.name(slot) for slot in step.results))
        executor.launches.append((sequence, run.command.execution_id))
        executor.pump()

    def is_kept(self, run: HostRun, slot: int) -> bool:
        return slot < run.plan.argument_count and slot not in run.command.donated

    def move(self, run: HostRun, index: int, step: out.PlanMove) -> None:
        plan = run.plan
        mine = [host.name for host in plan.hosts].index(HostName(self.host.name))
        source, destination = plan.specs[step.source_spec], plan.specs[step.destination_spec]
        have, want = tiles_of(source.spec.sharding), tiles_of(destination.spec.sharding)
        held = self.executor.arrays.get(run.name(step.source), [])
        offered: dict[tuple[int, int], None] = {}
        filled: list[Cell] = []
        for shard, host in enumerate(destination.hosts):
            candidates = [position for position, tile in enumerate(have) if tile == want[shard]]
            near = [position for position in candidates if source.hosts[position] == host]
            taken = (near or candidates)[0]
            giver = source.hosts[taken]
            local = [position for position, owner in enumerate(source.hosts) if owner == giver].index(taken)
            if giver == mine and local >= len(held):
                self.violate(f"move {index} of run {run.command.execution_id} sends what is not there")
                return
            if host == mine:
                cell = Cell()
                filled.append(cell)
                if giver == mine:
                    given = held[local]
                    given.when_ready(lambda cell=cell, given=given: cell.resolve(_value(given), given.failure))  # type: ignore[misc]
                else:
                    self.pull(run, (run.command.number, index, taken, mine), cell)
            elif giver == mine and (taken, host) not in offered:
                offered[taken, host] = None
                key = (run.command.number, index, taken, host)
                self.host.cluster.exchange.offer(key, self.executor, held[local])
        if filled:
            self.executor.arrays[run.name(step.destination)] = filled
            local = [at for at, host in zip(destination.local_devices, destination.hosts, strict=True) if host == mine]
            self.executor.memory.brought(run.name(step.destination), local, destination.spec.shard_bytes, filled)

    def pull(self, run: HostRun, key: tuple[int, int, int, int], cell: Cell) -> None:
        if run.failure is not None:
            cell.resolve(None, run.failure)
            return
        self.waiting.setdefault(run.command.execution_id, []).append(cell)
        if self.host.cluster.faults.transfer_fails(self.host.name):
            cell.resolve(None, Failure(Reason.UNAVAILABLE, "connection reset", host=self.host.name))
            return
        self.host.cluster.exchange.ask(key, self.executor, cell)


def _value(cell: Cell) -> int | None:
    return cell.value if cell.failure is None else None


class Exchange:
    """Where both ends of a move meet: whoever comes first waits.

    What is sent is read as soon as it is computed, before a later launch may take it as a donation.
    """

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.offers: dict[tuple[int, int, int, int], tuple[Executor, Cell]] = {}
        self.askers: dict[tuple[int, int, int, int], list[Cell]] = {}

    def offer(self, key: tuple[int, int, int, int], executor: Executor, cell: Cell) -> None:
        read = Cell()
        cell.when_ready(lambda: read.resolve(_value(cell), cell.failure))
        self.offers[key] = (executor, read)
        for asker in self.askers.pop(key, []):
            self.serve(key, asker)

    def ask(self, key: tuple[int, int, int, int], executor: Executor, cell: Cell) -> None:
        self.askers.setdefault(key, []).append(cell)
        if key in self.offers:
            for asker in self.askers.pop(key):
                self.serve(key, asker)

    def serve(self, key: tuple[int, int, int, int], asker: Cell) -> None:
        executor, cell = self.offers[key]

        def leave() -> None:
            if not executor.alive:
                asker.resolve(None, Failure(Reason.UNAVAILABLE, f"{executor.host.name} went away", host=executor.host.name))
            else:
                asker.resolve(_value(cell), cell.failure)

        self.cluster.when_ready_or_dead(executor, cell, lambda: self.cluster.world.soon(leave, 0.05, 2 * executor.host.slow))
