"""A simulated client's programs with branches and loops: random bodies in one another, whose way the client works out itself.

Values are one number per shard, as in sim_programs.py, which also runs these. What decides is the result of a flag program,
one byte of 0, 1 or 2; the client interprets the graphs it sent, with plain arithmetic, and never asks a host.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pathways_common.model import graph
from pathways_common.model.array import ArraySpec
from pathways_server.core import events

from tests.simulation.sim_arithmetic import SMALL, Program
from tests.simulation.sim_programs import Node, Traced, spec
from tests.simulation.sim_runs import tiles_of

PREDICATE, BYTE = 1, 6
Value = list[int] | None  # None: what makes it fails


@dataclass
class Irregular(Traced):
    """`made` lists what nodes of the first graph return, flags left out."""

    program: graph.Program | None = None
    made: dict[tuple[int, int], ArraySpec] = field(default_factory=dict)
    irregular = True

    def moves(self) -> bool:
        return True

    def devices(self) -> set[int]:
        assert self.program is not None
        return set(self.program.devices)

    def spec_of(self, node: int, output: int) -> ArraySpec:
        return self.made[node, output]

    def values(self, client: Any, given: list[list[int]]) -> dict[tuple[int, int], Value]:
        arguments: list[Value] = [*given]
        return self.interpret(client, 0, arguments)

    def interpret(self, client: Any, number: int, given: list[Value]) -> dict[tuple[int, int], Value]:
        """Every value of a graph, by node and output."""
        assert self.program is not None
        nodes = self.program.graphs[number].nodes
        found = {(0, index): value for index, value in enumerate(given)}
        for position, node in enumerate(nodes[1:-1], 1):
            taken = [found[edge.node, edge.output] for edge in node.inputs]
            specs = [self.laid(number, edge) for edge in node.inputs]
            match node.kind:
                case graph.ComputationKind(computation):
                    made = self.compute(client, computation, taken, specs)
                case graph.BranchKind():
                    made = [self.branch(client, node.kind, taken, specs)]
                case graph.LoopKind():
                    made = [self.loop(client, node.kind, taken[0], specs[0])]
                case _:
                    raise AssertionError(f"unhandled {node}")
            found.update(((position, output), value) for output, value in enumerate(made))
        return found

    def laid(self, number: int, edge: graph.Edge) -> ArraySpec:
        assert self.program is not None
        kind = self.program.graphs[number].nodes[edge.node].kind
        match kind:
            case graph.ArgumentKind(specs):
                return specs[edge.output]
            case graph.ComputationKind(computation):
                return self.program.computations[computation].results[edge.output]
            case graph.BranchKind():
                return kind.results[edge.output]
            case graph.LoopKind():
                return kind.carried[edge.output]
            case _:
                raise AssertionError(f"unhandled {kind}")

    def compute(self, client: Any, computation: int, taken: list[Value], specs: list[ArraySpec]) -> list[Value]:
        assert self.program is not None
        compilation = self.nodes[computation].compilation
        parameters = self.program.computations[computation].parameters
        moved = [_moved(*pair) for pair in zip(taken, specs, parameters, strict=True)]
        arguments = [value for value in moved if value is not None]
        if len(arguments) < len(moved):
            return [None] * compilation.program.outputs
        devices = compilation.devices
        hosts = len({client.devices[device].host for device in devices})
        return [*compilation.program.results(arguments, len(devices), hosts)]

    def branch(self, client: Any, kind: graph.BranchKind, taken: list[Value], specs: list[ArraySpec]) -> Value:
        if taken[0] is None:
            return None
        flag = taken[0][0]
        if kind.limits:
            fitting = [number for number, limit in zip(kind.graphs, kind.limits, strict=True) if flag <= limit]
            return self.call(client, fitting[0], taken[1], specs[1], kind.results[0]) if fitting else None
        return self.call(client, kind.graphs[min(flag, len(kind.graphs) - 1)], taken[1], specs[1], kind.results[0])

    def loop(self, client: Any, kind: graph.LoopKind, value: Value, given: ArraySpec) -> Value:
        carried = kind.carried[0]
        value = _moved(value, given, carried)
        for _ in range(kind.max_iterations + 1):
            flag = self.call(client, kind.condition, value, carried, None)
            if flag is None:
                return None
            if not flag[0]:
                return value
            value = self.call(client, kind.body, value, carried, carried)
        return None

    def call(self, client: Any, number: int, value: Value, given: ArraySpec, wanted: ArraySpec | None) -> Value:
        """What a body of one argument returns, moved to where it is wanted."""
        assert self.program is not None
        nodes = self.program.graphs[number].nodes
        first = nodes[0].kind
        assert isinstance(first, graph.ArgumentKind)
        found = self.interpret(client, number, [_moved(value, given, first.specs[0])])
        edge = nodes[-1].inputs[0]
        result = found[edge.node, edge.output]
        return _moved(result, self.laid(number, edge), wanted) if wanted is not None else result


def _moved(value: Value, have: ArraySpec, want: ArraySpec) -> Value:
    if value is None or have == want:
        return value
    tiles = tiles_of(have.sharding)
    return [value[tiles.index(tile)] for tile in tiles_of(want.sharding)]


class Writer:
    """Writes the graphs of one program over computations of one shard count."""

    def __init__(self, client: Any, usable: list[Any], flags: list[Any]) -> None:
        self.client, self.choose = client, client.random
        self.usable, self.flags = usable, flags
        self.computations: list[graph.Computation] = []
        self.nodes: list[Node] = []
        self.graphs: dict[int, graph.Graph] = {}
        self.made: dict[tuple[int, int], ArraySpec] = {}

    def laid(self, devices: tuple[int, ...]) -> ArraySpec:
        return spec(self.client, devices, len(devices), SMALL, self.choose.random() < 0.3)

    def somewhere(self) -> ArraySpec:
        return self.laid(self.choose.choice(self.usable).devices)

    def call(self, compilation: Any, source: tuple[int, int], results: tuple[ArraySpec, ...]) -> graph.Node:
        """A node that takes one value for all its parameters."""
        count = compilation.program.parameters
        parameters = tuple(self.laid(compilation.devices) for _ in range(count))
        self.computations.append(graph.Computation(self.client.g(compilation.id), parameters, results))
        self.nodes.append(Node(compilation, [], [], []))
        number = len(self.computations) - 1
        kind = graph.ComputationKind(number)
        return graph.Node(f"f{number}", f"sim.py:{number}", (graph.Edge(*source),) * count, kind)

    def flag(self, source: tuple[int, int], kind: int) -> graph.Node:
        compilation = self.choose.choice(self.flags)
        return self.call(compilation, source, (ArraySpec(kind, (), b"", (), compilation.devices),))

    def body(self, depth: int) -> tuple[int, ArraySpec]:
        """A graph of one argument, with branches and loops if it is not too deep; returns its number and what it returns."""
        number = len(self.graphs)
        argument = self.somewhere()
        self.graphs[number] = graph.Graph(())
        nodes: list[graph.Node] = []
        source, lies = (0, 0), argument
        wanted = self.choose.randint(1, 3 if depth == 0 else 2)
        for index in range(wanted):
            last = index + 1 == wanted
            if (depth < 3 and self.choose.random() < (0.3 if depth else 0.6)) or (last and not depth):
                lies = self.irregular(depth, nodes, source)
            else:
                compilation = self.choose.choice(self.usable)
                results = tuple(self.laid(compilation.devices) for _ in range(compilation.program.outputs))
                nodes.append(self.call(compilation, source, results))
                lies = results[0]
            source = (len(nodes), 0)
            if not depth:
                self.made[source] = lies
            if not depth and self.choose.random() < 0.3:  # stands beside whatever comes next
                compilation = self.choose.choice(self.usable)
                results = tuple(self.laid(compilation.devices) for _ in range(compilation.program.outputs))
                nodes.append(self.call(compilation, source, results))
                self.made[len(nodes), 0] = results[0]
        self.finish(number, argument, nodes, source)
        return number, lies

    def irregular(self, depth: int, nodes: list[graph.Node], source: tuple[int, int]) -> ArraySpec:
        name = f"choice or loop {len(self.graphs)}"
        if self.choose.random() < 0.5:
            condition = len(self.graphs)
            self.graphs[condition] = graph.Graph(())
            self.finish(condition, self.somewhere(), [self.flag((0, 0), PREDICATE)], (1, 0))
            body, returned = self.body(depth + 1)
            carried = returned if self.choose.random() < 0.6 else self.somewhere()
            kind: graph.Kind = graph.LoopKind(condition, body, self.choose.choice([2, 6, 6, 12]), (carried,))
            nodes.append(graph.Node(name, "sim.py:9", (graph.Edge(*source),), kind))
            return carried
        nodes.append(self.flag(source, BYTE))
        value = graph.Edge(len(nodes), 0)
        bodies = [self.body(depth + 1) for _ in range(self.choose.randint(1, 3))]
        lies = bodies[0][1] if self.choose.random() < 0.6 else self.somewhere()
        limits = tuple(range(3 - len(bodies), 3)) if self.choose.random() < 0.4 else ()
        if limits and self.choose.random() < 0.3:
            limits = tuple(limit - 1 for limit in limits)
        kind = graph.BranchKind(tuple(number for number, _ in bodies), limits, (lies,))
        nodes.append(graph.Node(name, "sim.py:9", (value, graph.Edge(*source)), kind))
        return lies

    def finish(self, number: int, argument: ArraySpec, nodes: list[graph.Node], *results: tuple[int, int]) -> None:
        first = graph.Node("", "", (), graph.ArgumentKind((argument,)))
        last = graph.Node("", "", tuple(graph.Edge(*result) for result in results), graph.ResultKind())
        self.graphs[number] = graph.Graph((first, *nodes, last))


def define(client: Any) -> None:
    """Sends a program, or first compiles what decides in it."""
    choose = client.random
    known = [found for found in client.programs.values() if found.ok and not found.gone]
    ready = [found for found in known if not found.program.large and found.program.parameters]
    if len(client.traced) > 6 or not ready:
        return
    count = len(choose.choice(ready).devices)
    fitting = [found for found in ready if len(found.devices) == count]
    fitting = [found for found in fitting if not found.program.fused]
    usable = [found for found in fitting if not found.program.flag]
    flags = [found for found in fitting if found.program.flag]
    if not usable:
        return
    if not flags:
        devices = choose.choice(usable).devices
        client.start_compilation(devices, Program(1, 1, (), False, 0, False, choose.randint(1, 5), flag=True))
        return
    writer = Writer(client, usable, flags)
    writer.body(0)
    first = writer.graphs[0].nodes
    results = choose.sample(list(writer.made), choose.randint(1, min(3, len(writer.made))))
    kind = first[0].kind
    assert isinstance(kind, graph.ArgumentKind)
    writer.finish(0, kind.specs[0], list(first[1:-1]), *results)
    graphs = tuple(writer.graphs[number] for number in range(len(writer.graphs)))
    found = [found for computation in writer.computations for found in (*computation.parameters, *computation.results)]
    for written in graphs:
        for node in written.nodes:
            match node.kind:
                case graph.ArgumentKind(specs):
                    found += specs
                case graph.BranchKind():
                    found += node.kind.results
                case graph.LoopKind():
                    found += node.kind.carried
    devices = tuple(sorted({device for lies in found for device in lies.devices}))
    identifier = client.new_id()
    program = graph.Program(f"p{identifier}", devices, tuple(writer.computations), graphs, choose.random() < 0.1)
    client.traced[identifier] = Irregular(identifier, [kind.specs[0]], writer.nodes, results, program=program, made=writer.made)
    client.open_questions["program", identifier] = ([], 0)
    client.send(events.DefinitionRequested(client.number, client.g(identifier), program))


OPERATIONS = {"define_irregular": define}
