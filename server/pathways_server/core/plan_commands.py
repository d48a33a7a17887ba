"""What the core tells hosts about programs: plans, runs of them, grants. Commands, as in effects.py."""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure
from pathways_common.model.ids import Epoch, GlobalId, HostName, IslandName, Sequence, SessionNumber

_NO_SESSION = SessionNumber(0)
_BEGINNING = Sequence(0)


@dataclass(frozen=True, slots=True)
class PlanHost:
    """The shell adds the address of its data port."""

    name: HostName
    island: IslandName
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class PlanSpec:
    """`spec.devices` are epoch positions; per shard, `hosts` are positions in the plan's hosts."""

    spec: ArraySpec
    hosts: tuple[int, ...]
    local_devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanLaunch:
    node: int
    executable_id: GlobalId
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    non_donatable: tuple[int, ...]
    hosts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanMove:
    source: int
    destination: int
    source_spec: int
    destination_spec: int


@dataclass(frozen=True, slots=True)
class PlanFree:
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One object for all hosts of the plan, so that it is encoded once."""

    plan_id: int
    hosts: tuple[PlanHost, ...]
    specs: tuple[PlanSpec, ...]
    steps: tuple[PlanLaunch | PlanMove | PlanFree, ...]
    argument_count: int
    slot_count: int
    results: tuple[int, ...]
    name: str


@dataclass(frozen=True, slots=True)
class PlanGroup:
    first_step: int
    end_step: int
    last_node: int
    launch: PlanLaunch


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One object for all hosts of the plan, like LoadPlan."""

    plan_id: int
    groups: tuple[PlanGroup, ...]


@dataclass(frozen=True, slots=True)
class UnloadPlan:
    plan_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The ticket key is derived by the shell from `number`. `sequence` 0: no launch of the host's island in the range.

    `timed`: tell when its gangs ran.
    """

    execution_id: GlobalId
    plan_id: int
    arguments: tuple[GlobalId, ...]
    first_result_id: GlobalId
    first_value_id: GlobalId
    donated: tuple[int, ...]
    number: int
    timeout_ns: int
    end_step: int
    sequence: Sequence
    previous: Sequence
    epoch: Epoch
    fused: bool = False
    timed: bool = False


@dataclass(frozen=True, slots=True)
class GrantRun:
    execution_id: GlobalId
    first_step: int
    end_step: int
    sequence: Sequence
    previous: Sequence
    epoch: Epoch
    fused: bool = False
    timed: bool = False


@dataclass(frozen=True, slots=True)
class EndRun:
    execution_id: GlobalId
    failure: Failure


@dataclass(frozen=True, slots=True)
class CollectTrace:
    """Of a run; or, with execution id 0, of what a session launched behind a sequence of the island, `rows_max` at most."""

    trace_id: int
    execution_id: GlobalId
    session: SessionNumber = _NO_SESSION
    after: Sequence = _BEGINNING
    rows_max: int = 0
