"""A traced program as the controller sees it: computations, and graphs whose nodes run them, whatever their shard counts.

Mirrors programs.proto, with ids made global. Devices in specs are virtual ids of the session that defined the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .array import ArraySpec
from .ids import GlobalId


@dataclass(frozen=True, slots=True)
class Computation:
    """An executable of the session, and how its parameters and results lie."""

    executable_id: GlobalId
    parameters: tuple[ArraySpec, ...]
    results: tuple[ArraySpec, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """Output `output` of the node at position `node`. `sparse` edges are known to the schema and refused in execution."""

    node: int
    output: int
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class ArgumentKind:
    specs: tuple[ArraySpec, ...]


@dataclass(frozen=True, slots=True)
class ComputationKind:
    """`computation` is a position in `Program.computations`."""

    computation: int


@dataclass(frozen=True, slots=True)
class ResultKind:
    pass


@dataclass(frozen=True, slots=True)
class BranchKind:
    """Input 0 chooses among `graphs`: by position (clamped) if `limits` is empty, else the first limit not below the value."""

    graphs: tuple[int, ...]
    limits: tuple[int, ...]
    results: tuple[ArraySpec, ...]


@dataclass(frozen=True, slots=True)
class LoopKind:
    condition: int
    body: int
    max_iterations: int
    carried: tuple[ArraySpec, ...]


Kind: TypeAlias = ArgumentKind | ComputationKind | ResultKind | BranchKind | LoopKind


@dataclass(frozen=True, slots=True)
class Node:
    """`source` is the user's "file:line"."""

    name: str
    source: str
    inputs: tuple[Edge, ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Graph:
    """The first node is the argument node, the last one the result node; every node comes after its inputs."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class NodeInput:
    """Input `input` of the node at position `node`."""

    node: int
    input: int


@dataclass(frozen=True, slots=True)
class FusedGroup:
    """Nodes `first_node` to `last_node` of a graph as one executable; what its parameters take and what its results are."""

    graph: int
    first_node: int
    last_node: int
    computation: Computation
    inputs: tuple[NodeInput, ...]
    outputs: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """`graphs[0]` is the program. `devices` lists every device that a spec names, each once."""

    name: str
    devices: tuple[int, ...]
    computations: tuple[Computation, ...]
    graphs: tuple[Graph, ...]
    sequential: bool = False
    fused: tuple[FusedGroup, ...] = ()
