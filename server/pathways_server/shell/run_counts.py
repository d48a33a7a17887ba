"""The last island sequence that a grant of a run releases, worked out from the plans and runs that pass by on their way to hosts.

Only /metrics needs it: hosts count for themselves. Bounded: what was pushed out costs a count that the next grant makes up for.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TypeVar

from pathways_common.model.bounds import RUNS_COUNTED_MAX
from pathways_common.model.ids import GlobalId, IslandName

from pathways_server.core import effects

Key = TypeVar("Key")
Value = TypeVar("Value")
# Per island the positions of the steps that launch there, rising.
_Launches = dict[IslandName, list[int]]


class RunCounts:
    """Sees every command about runs, once for each host that gets it."""

    def __init__(self) -> None:
        self._plans: dict[int, _Launches] = {}
        self._step_counts: dict[int, int] = {}
        self._runs: dict[GlobalId, _Launches] = {}

    def load(self, command: effects.LoadPlan) -> None:
        """A plan goes to a host."""
        if command.plan_id in self._plans:
            return
        launches: _Launches = {}
        for position, step in enumerate(command.steps):
            if isinstance(step, effects.PlanLaunch) and step.hosts:
                launches.setdefault(command.hosts[step.hosts[0]].island, []).append(position)
        _remember(self._plans, command.plan_id, launches)
        _remember(self._step_counts, command.plan_id, len(command.steps))

    def unload(self, command: effects.UnloadPlan) -> None:
        """Plans leave a host; they leave all at once."""
        for plan_id in command.plan_ids:
            self._plans.pop(plan_id, None)
            self._step_counts.pop(plan_id, None)

    def run(self, command: effects.RunPlan, island: IslandName) -> int:
        """The last sequence on `island` behind the first grant of a run."""
        launches = self._plans.get(command.plan_id)
        if launches is None:
            return command.sequence
        if command.end_step < self._step_counts[command.plan_id]:
            _remember(self._runs, command.execution_id, launches)
        return _last(launches, island, 0, command.end_step, command.sequence)

    def grant(self, command: effects.GrantRun, island: IslandName) -> int:
        """The same behind a further grant."""
        launches = self._runs.get(command.execution_id)
        if launches is None:
            return command.sequence
        return _last(launches, island, command.first_step, command.end_step, command.sequence)


def _last(launches: _Launches, island: IslandName, first_step: int, end_step: int, sequence: int) -> int:
    steps = launches.get(island, [])
    count = bisect_left(steps, end_step) - bisect_left(steps, first_step)
    return sequence + count - 1 if count else sequence


def _remember(known: dict[Key, Value], key: Key, value: Value) -> None:
    """Adds an entry; the oldest gives way at the bound."""
    known[key] = value
    if len(known) > RUNS_COUNTED_MAX:
        del known[next(iter(known))]
