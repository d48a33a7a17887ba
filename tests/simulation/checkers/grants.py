"""Reads grants out of commands: which launches of which work a host was told to make, and what those use of the host's values.

Counted anew from the messages, as a host would: the steps of a run are numbered from the first sequence of its range, and
only the host's own launches are its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pathways_common.model.cells import tenant_in
from pathways_common.model.ids import HostName
from pathways_server.core import effects as out

from tests.simulation.sim_fused import parse


@dataclass(frozen=True, slots=True)
class Grant:
    """`sequences`: of the host's own launches; a fused group is one, with that of its last node. `gangs` counts its nodes.

    `end_step` 0: no run.
    `executables` are those of its nodes, each once.

    `needs` and `makes` are ids of values on the host; a value that a step makes for a later one is in neither.
    """

    host: HostName
    epoch: int
    execution_id: int
    end_step: int
    sequences: tuple[int, ...]
    gangs: int
    previous: int
    executables: tuple[int, ...]
    members: tuple[HostName, ...]
    needs: tuple[int, ...]
    makes: tuple[int, ...]


@dataclass
class HostView:
    """What one host has been told in its present epoch."""

    epoch: int
    rank: int
    per_host: int
    last: int = 0
    runs: dict[int, tuple[out.RunPlan, int]] = field(default_factory=dict)  # with the step up to which it is granted


class Grants:
    """`hosts` and `outputs` may be used by rules."""

    def __init__(self) -> None:
        self.hosts: dict[HostName, HostView] = {}
        self.loads: dict[int, out.Load] = {}
        self.outputs: dict[int, int] = {}
        self.plans: dict[int, out.LoadPlan] = {}
        self.groups: dict[int, tuple[out.PlanGroup, ...]] = {}

    def read(self, host: HostName, command: out.HostCommand) -> Grant | None:
        """What a command grants that was not granted before."""
        match command:
            case out.EpochBegin():
                self.hosts[host] = HostView(command.epoch, command.rank, command.device_count)
            case out.Load():
                self.loads[command.executable_id] = command
                self.outputs[command.executable_id] = parse(command.program).outputs
            case out.LoadPlan():
                self.plans[command.plan_id] = command
            case out.GroupPlan():
                self.groups[command.plan_id] = command.groups
            case out.Prepare():
                return self._gang(host, command)
            case out.RunPlan():
                view = self.hosts[host]
                if command.execution_id not in view.runs:
                    view.runs[command.execution_id] = (command, 0)
                    return self._range(host, view, command, 0)
            case out.GrantRun():
                view = self.hosts[host]
                if command.end_step > view.runs[command.execution_id][1]:
                    return self._range(host, view, command, command.first_step)
            case _:
                pass
        return None

    def _gang(self, host: HostName, command: out.Prepare) -> Grant | None:
        view = self.hosts[host]
        if command.sequence <= view.last or command.epoch != view.epoch:
            return None
        view.last = command.sequence
        devices = self.loads[command.executable_id].devices
        ranks = {position // view.per_host for position in devices}
        here = (host[0], tenant_in(host))  # the island, and the cell on it
        members = tuple(
            name
            for name, other in self.hosts.items()
            if other.epoch == view.epoch and other.rank in ranks and (name[0], tenant_in(name)) == here
        )
        makes = tuple(range(command.first_result_id, command.first_result_id + self.outputs[command.executable_id]))
        return Grant(
            host, command.epoch, command.execution_id, 0, (command.sequence,), 1, command.previous, (command.executable_id,),
            members, command.arguments, makes,
        )  # fmt: skip

    def _range(self, host: HostName, view: HostView, command: out.RunPlan | out.GrantRun, first_step: int) -> Grant:
        run = view.runs[command.execution_id][0]
        view.runs[command.execution_id] = (run, command.end_step)
        plan = self.plans[run.plan_id]
        own = [each.name for each in plan.hosts].index(host)
        island = plan.hosts[own].island
        groups = self.groups.get(run.plan_id, ()) if command.fused else ()
        whole = [group for group in groups if first_step <= group.first_step and group.end_step <= command.end_step]
        inside = {step for group in whole for step in range(group.first_step, group.end_step - 1)}
        sequences: list[int] = []
        executables: dict[int, None] = {}
        needs: dict[int, None] = {}
        makes: dict[int, None] = {}
        members: dict[HostName, None] = {}
        number, gangs = int(command.sequence), 0
        for index in range(first_step, command.end_step):
            step = plan.steps[index]
            taken: tuple[int, ...] = ()
            match step:
                case out.PlanLaunch():
                    members.update((plan.hosts[each].name, None) for each in step.hosts)
                    if plan.hosts[step.hosts[0]].island != island:
                        continue
                    if own in step.hosts:
                        view.last = number
                        gangs += 1
                        sequences += [] if index in inside else [number]
                        executables[step.executable_id] = None
                        taken = step.arguments
                        makes.update((slot, None) for slot in step.results)
                    number += 1
                case out.PlanMove():
                    source, destination = plan.specs[step.source_spec], plan.specs[step.destination_spec]
                    members.update((plan.hosts[each].name, None) for each in (*source.hosts, *destination.hosts))
                    taken = (step.source,) if own in source.hosts else ()
                    makes.update(((step.destination, None),) if own in destination.hosts else ())
                case out.PlanFree():
                    pass
            needs.update((run.arguments[slot], None) for slot in taken if slot < plan.argument_count)
        made = tuple(run.first_result_id + plan.results.index(slot) for slot in makes if slot in plan.results)
        return Grant(
            host, command.epoch, command.execution_id, command.end_step, tuple(sequences), gangs, command.previous,
            tuple(executables), tuple(members), tuple(needs), made,
        )  # fmt: skip
