"""A plan as it came from the controller: the LoadPlan message in plain values. It says the same to every host that takes part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pathways_common.model.array import ArraySpec
from pathways_common.model.ids import Epoch, GlobalId, HostName, IslandName


@dataclass(frozen=True, slots=True)
class PlanHost:
    """`data_address` is where the host serves pulls."""

    name: HostName
    island: IslandName
    epoch: Epoch
    data_address: str


@dataclass(frozen=True, slots=True)
class PlanSpec:
    """One layout. Per shard: the position of its host in the plan and the index of its device there."""

    spec: ArraySpec
    hosts: tuple[int, ...]
    local_devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanLaunch:
    """One gang; `arguments` and `results` are slots, `hosts` its members."""

    node: int
    executable_id: GlobalId
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    non_donatable: tuple[int, ...]
    hosts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanMove:
    """Slot `destination` is made from slot `source`; the specs are positions in `LoadedPlan.specs`."""

    source: int
    destination: int
    source_spec: int
    destination_spec: int


@dataclass(frozen=True, slots=True)
class PlanFree:
    """No later step uses these slots."""

    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanGroup:
    """`launch` in place of the launches among the steps from `first_step` to `end_step`; the others of them are frees."""

    first_step: int
    end_step: int
    last_node: int
    launch: PlanLaunch


PlanStep: TypeAlias = PlanLaunch | PlanMove | PlanFree


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """`steps` are in the order of the program; `results` are slots."""

    plan_id: int
    hosts: tuple[PlanHost, ...]
    specs: tuple[PlanSpec, ...]
    steps: tuple[PlanStep, ...]
    argument_count: int
    slot_count: int
    results: tuple[int, ...]
    name: str
