"""A graph with irregular nodes is cut into pieces: regular graphs that run whole, between nodes that wait for a value.

Regular nodes with the same irregular nodes among their ancestors make one piece, so that everything a choice or a loop does
not touch runs ahead of it. Values that cross the cuts are numbered over the whole graph: first its arguments, then the outputs of
nodes in their order. Pure: graphs in, graphs out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pathways_common.model.array import ArraySpec
from pathways_common.model.graph import (
    ArgumentKind,
    BranchKind,
    Computation,
    ComputationKind,
    Edge,
    Graph,
    LoopKind,
    Node,
    Program,
    ResultKind,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A regular graph. `arguments` and `results` are values of the whole graph, in the order of the piece's own."""

    graph: Graph
    arguments: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """`value` chooses one of `kind.graphs`, which takes `arguments` and makes `results`; `given` is how the arguments lie."""

    node: int
    kind: BranchKind
    value: int
    value_spec: ArraySpec
    arguments: tuple[int, ...]
    given: tuple[ArraySpec, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """Starts with `arguments`, which lie as `given` says, and ends with `results`."""

    node: int
    kind: LoopKind
    arguments: tuple[int, ...]
    given: tuple[ArraySpec, ...]
    results: tuple[int, ...]


Stage: TypeAlias = Piece | Choice | Loop


@dataclass(frozen=True, slots=True)
class Composite:
    """`stages` may start as soon as their values are there. `results` are values; `specs` says how each value lies."""

    graph: Graph
    stages: tuple[Stage, ...]
    results: tuple[int, ...]
    specs: tuple[ArraySpec, ...]


def is_regular(graph: Graph) -> bool:
    """Whether nothing in the graph waits for a value."""
    return not any(isinstance(node.kind, BranchKind | LoopKind) for node in graph.nodes)


def outputs_of(node: Node, computations: tuple[Computation, ...]) -> tuple[ArraySpec, ...]:
    """How the outputs of a node lie."""
    match node.kind:
        case ArgumentKind(specs):
            return specs
        case ComputationKind(computation):
            return computations[computation].results
        case BranchKind():
            return node.kind.results
        case LoopKind():
            return node.kind.carried
        case ResultKind():
            return ()


def cut(program: Program, graph: Graph) -> Composite:
    """Cuts a graph whose form was checked."""
    specs: list[ArraySpec] = []
    first: list[int] = []
    for node in graph.nodes:
        first.append(len(specs))
        specs.extend(outputs_of(node, program.computations))
    ancestors = _irregular_ancestors(graph)
    groups: dict[frozenset[int], list[int]] = {}
    stages: list[Stage] = []
    for position, node in enumerate(graph.nodes):
        if isinstance(node.kind, ComputationKind):
            groups.setdefault(ancestors[position], []).append(position)
        elif isinstance(node.kind, BranchKind | LoopKind):
            stages.append(_irregular(position, node, first, specs))
    read = _read_elsewhere(graph, ancestors)
    pieces = [_piece(graph, members, first, specs, read) for members in groups.values()]
    results = tuple(first[edge.node] + edge.output for edge in graph.nodes[-1].inputs)
    return Composite(graph, (*pieces, *stages), results, tuple(specs))


def _irregular_ancestors(graph: Graph) -> list[frozenset[int]]:
    """Per node: the irregular nodes that have to be over before it can start."""
    found: list[frozenset[int]] = []
    for node in graph.nodes:
        before: set[int] = set()
        for edge in node.inputs:
            before |= found[edge.node]
            if isinstance(graph.nodes[edge.node].kind, BranchKind | LoopKind):
                before.add(edge.node)
        found.append(frozenset(before))
    return found


def _irregular(position: int, node: Node, first: list[int], specs: list[ArraySpec]) -> Choice | Loop:
    values = tuple(first[edge.node] + edge.output for edge in node.inputs)
    given = tuple(specs[value] for value in values)
    if isinstance(node.kind, LoopKind):
        results = tuple(range(first[position], first[position] + len(node.kind.carried)))
        return Loop(position, node.kind, values, given, results)
    assert isinstance(node.kind, BranchKind)
    results = tuple(range(first[position], first[position] + len(node.kind.results)))
    return Choice(position, node.kind, values[0], given[0], values[1:], given[1:], results)


def _read_elsewhere(graph: Graph, ancestors: list[frozenset[int]]) -> dict[tuple[int, int], None]:
    """Outputs that a node outside of the producer's own piece reads, or that are results."""
    read: dict[tuple[int, int], None] = {}
    for position, node in enumerate(graph.nodes):
        for edge in node.inputs:
            together = isinstance(node.kind, ComputationKind) and ancestors[position] == ancestors[edge.node]
            if not together:
                read[edge.node, edge.output] = None
    return read


def _piece(
    graph: Graph, members: list[int], first: list[int], specs: list[ArraySpec], read: dict[tuple[int, int], None]
) -> Piece:
    """The graph of some nodes: what they take from outside is its arguments, what is read outside its results."""
    own = {position: index for index, position in enumerate(members, 1)}
    arguments: dict[int, int] = {}
    nodes: list[Node] = []
    for position in members:
        node = graph.nodes[position]
        inputs: list[Edge] = []
        for edge in node.inputs:
            if edge.node in own:
                inputs.append(Edge(own[edge.node], edge.output, edge.sparse))
            else:
                value = first[edge.node] + edge.output
                inputs.append(Edge(0, arguments.setdefault(value, len(arguments)), edge.sparse))
        nodes.append(Node(node.name, node.source, tuple(inputs), node.kind))
    results = [edge for edge in read if edge[0] in own]
    if not results:  # runs for its effects only: one value keeps it a program
        results = [(members[-1], 0)]
    taken = Node("arguments", "", (), ArgumentKind(tuple(specs[value] for value in arguments)))
    given = Node("results", "", tuple(Edge(own[node], output) for node, output in results), ResultKind())
    values = tuple(first[node] + output for node, output in results)
    return Piece(Graph((taken, *nodes, given)), tuple(arguments), values)
