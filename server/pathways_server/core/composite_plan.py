"""A program with irregular nodes, lowered: per graph the stages that may start once their values exist, each piece with its plan.

Made once by irregular.py and walked many times by walks.py. Values are numbered over a whole graph, as composites.py says; every
one has a layout, and where a stage wants another one the value is moved there first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pathways_common.model.graph import BranchKind, LoopKind, Node

from .plan import PlacedSpec, Plan
from .program_form import Laid


@dataclass(frozen=True, slots=True)
class PieceStage:
    """A regular part of a graph, run whole."""

    plan: Plan
    arguments: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChoiceStage:
    """`value` chooses one of `kind.graphs`, which takes `arguments`; what it returns is moved to where `results` lie."""

    node: Node
    kind: BranchKind
    value: int
    arguments: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoopStage:
    """Starts with `arguments`; the carried values lie like `results`."""

    node: Node
    kind: LoopKind
    arguments: tuple[int, ...]
    results: tuple[int, ...]


StagePlan: TypeAlias = PieceStage | ChoiceStage | LoopStage


@dataclass(frozen=True, slots=True)
class Body:
    """One graph. Its first values are its arguments; `laid` is per value."""

    argument_count: int
    stages: tuple[StagePlan, ...]
    results: tuple[int, ...]
    laid: tuple[Laid, ...]

    def argument(self, index: int) -> Laid:
        return self.laid[index]


@dataclass(frozen=True, slots=True)
class CompositePlan:
    """`bodies` are by the number of their graph; 0 is the program. `slices` are the numbers of all that it uses."""

    name: str
    bodies: dict[int, Body]
    arguments: tuple[PlacedSpec, ...]
    result_specs: tuple[PlacedSpec, ...]
    slices: tuple[int, ...]

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Those of all pieces."""
        return tuple(stage.plan for body in self.bodies.values() for stage in body.stages if isinstance(stage, PieceStage))
