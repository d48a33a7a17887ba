"""A compiled program as the cluster takes it: the message, how its arguments have to lie, and where its results go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pathways_proto.v1 import door_pb2, programs_pb2, types_pb2

from pathways import _graph, errors
from pathways import _jax_nodes as jn
from pathways._arrays import element_number
from pathways._blocks import LOOP, Block, Irregular
from pathways._nodes import Executable


@dataclass(slots=True, eq=False)
class Wiring:
    """What the graph of a program is made of. Arguments and results are variables; every result is a block's output, once."""

    name: str
    source: str
    sequential: bool
    blocks: Sequence[Block]
    arguments: Sequence[Any]
    results: Sequence[Any]
    fuse: bool = True

    def argument_shardings(self, executables: Mapping[Block, Executable]) -> list[Any]:
        """How each argument has to lie: as the first node wants it that reads it."""
        wanted: dict[Any, Any] = {}
        for block in self.blocks:
            for variable, sharding in zip(block.inputs, taken(block, executables), strict=True):
                wanted.setdefault(variable, sharding)
        return [wanted[variable] for variable in self.arguments]

    def result_shardings(self, executables: Mapping[Block, Executable]) -> list[Any]:
        """How each result lies."""
        lies: dict[Any, Any] = {}
        for block in self.blocks:
            lies.update(zip(block.outputs, returned(block, executables), strict=True))
        return [lies[variable] for variable in self.results]


def taken(block: Block, executables: Mapping[Block, Executable]) -> list[Any]:
    """How what a node takes has to lie."""
    return block.irregular.taken if block.irregular is not None else executables[block].parameter_shardings


def returned(block: Block, executables: Mapping[Block, Executable]) -> list[Any]:
    """How what a node returns lies."""
    return block.irregular.returned if block.irregular is not None else executables[block].result_shardings


def outputs_of(arguments: Sequence[Any], blocks: Sequence[Block]) -> dict[Any, tuple[int, int]]:
    """Node and output by variable: node 0 are the arguments, the blocks follow."""
    made = {variable: (0, position) for position, variable in enumerate(arguments)}
    for number, block in enumerate(blocks, 1):
        made.update({variable: (number, position) for position, variable in enumerate(block.outputs)})
    return made


def spec_of(shape: Any, sharding: Any) -> types_pb2.ArraySpec:
    """Type, shape and layout of a value, as it is stored."""
    stored, lies = jn.physical(shape, sharding)
    try:
        number = element_number(stored.dtype)
    except KeyError:
        raise errors.UnsupportedError(f"values of type {stored.dtype} cannot pass from node to node of a program") from None
    return types_pb2.ArraySpec(
        dtype=number,
        shape=stored.shape,
        sharding=jn.op_sharding(lies, len(stored.shape)),
        shard_shape=lies.shard_shape(tuple(stored.shape)),
        devices=[device.id for device in jn.device_order(lies)],
        memory_kind=jn.memory_kind(lies),
    )


def groups_of(shardings: Sequence[Any]) -> list[tuple[int, list[int]]]:
    """Positions of arguments by their number of shards, the first argument's group first."""
    groups: dict[int, list[int]] = {}
    for position, sharding in enumerate(shardings):
        groups.setdefault(len(jn.device_order(sharding)), []).append(position)
    return list(groups.items()) or [(1, [])]


def message_of(
    wiring: Wiring, executables: Mapping[Block, Executable], ids: Mapping[Executable, int], donated: Sequence[int]
) -> door_pb2.PluginProgram:
    """The message. `executables` are those of the blocks, `ids` names them; `donated` are positions of arguments."""
    distinct = list(dict.fromkeys(executables.values()))
    program = programs_pb2.Program(name=wiring.name)
    program.dispatch = programs_pb2.DISPATCH_SEQUENTIAL if wiring.sequential else programs_pb2.DISPATCH_PARALLEL
    for each in distinct:
        program.computations.add(
            executable_id=ids[each],
            parameters=map(spec_of, each.parameters, each.parameter_shardings),
            results=map(spec_of, each.results, each.result_shardings),
        )
    shardings = wiring.argument_shardings(executables)
    writer = _Writer(program, {block: distinct.index(executable) for block, executable in executables.items()})
    writer.graph(wiring.source, wiring.arguments, shardings, wiring.blocks, wiring.results)
    program.devices.extend(_devices(program))
    groups = [door_pb2.PluginGroup(shard_count=count, arguments=positions) for count, positions in groups_of(shardings)]
    return door_pb2.PluginProgram(program=program, groups=groups, donated=donated)


class _Writer:
    """Writes graphs into a program, each before those of its bodies."""

    def __init__(self, program: programs_pb2.Program, computations: Mapping[Block, int]) -> None:
        self._program = program
        self._computations = computations

    def graph(
        self, source: str, arguments: Sequence[Any], shardings: Sequence[Any], blocks: Sequence[Block], results: Sequence[Any]
    ) -> int:
        """The number of the graph."""
        number = len(self._program.graphs)
        nodes = self._program.graphs.add().nodes
        made = outputs_of(arguments, blocks)
        first = nodes.add(name="arguments", source=source)
        first.argument.specs.extend(_specs(arguments, shardings))
        for block in blocks:
            node = nodes.add(name=block.place.name, source=str(block.place), inputs=_edges(block.inputs, made))
            if block.irregular is None:
                node.computation.computation = self._computations[block]
            else:
                self._irregular(node, block, block.irregular)
        nodes.add(name="results", source=source, inputs=_edges(results, made)).result.SetInParent()
        return number

    def _irregular(self, node: programs_pb2.Node, block: Block, irregular: Irregular) -> None:
        numbers = [
            self.graph(str(block.place), each.arguments, [each.lies[var] for var in each.arguments], each.blocks, each.results)
            for each in irregular.scopes
        ]
        specs = _specs(block.outputs, irregular.returned)
        if irregular.kind == LOOP:
            node.loop.condition, node.loop.body = numbers
            node.loop.max_iterations = irregular.max_iterations
            node.loop.carried.extend(specs)
        else:
            node.branch.graphs.extend(numbers)
            node.branch.limits.extend(irregular.limits)
            node.branch.results.extend(specs)


def _specs(variables: Sequence[Any], shardings: Sequence[Any]) -> list[types_pb2.ArraySpec]:
    return [spec_of(jn.shape_of(variable), sharding) for variable, sharding in zip(variables, shardings, strict=True)]


def _devices(program: programs_pb2.Program) -> list[int]:
    """Every device that a spec names, each once."""
    specs = [spec for each in program.computations for spec in (*each.parameters, *each.results)]
    for graph in program.graphs:
        for node in graph.nodes:
            specs.extend((*node.argument.specs, *node.branch.results, *node.loop.carried))
    return list(dict.fromkeys(device for spec in specs for device in spec.devices))


def _edges(variables: Sequence[Any], made: Mapping[Any, tuple[int, int]]) -> list[programs_pb2.Edge]:
    return [programs_pb2.Edge(node=node, output=output) for node, output in (made[variable] for variable in variables)]


def graph_of(wiring: Wiring) -> _graph.Graph:
    """The same for people."""
    return _graph_for_people(wiring.name, wiring.source, wiring.arguments, wiring.blocks, wiring.results)


def _graph_for_people(
    name: str, source: str, arguments: Sequence[Any], blocks: Sequence[Block], results: Sequence[Any]
) -> _graph.Graph:
    made = outputs_of(arguments, blocks)

    def edges(variables: Sequence[Any]) -> tuple[_graph.GraphEdge, ...]:
        return tuple(_graph.GraphEdge(*made[variable]) for variable in variables)

    nodes = [_graph.GraphNode(0, _graph.ARGUMENT, "Arg", source, (), "", (), _types(arguments))]
    for number, block in enumerate(blocks, 1):
        devices = block.devices
        kind = _graph.COMPUTATION
        bodies: tuple[_graph.Graph, ...] = ()
        if block.irregular is not None:
            kind = _graph.LOOP if block.irregular.kind == LOOP else _graph.BRANCH
            bodies = tuple(
                _graph_for_people(each.label, str(block.place), each.arguments, each.blocks, each.results)
                for each in block.irregular.scopes
            )
        nodes.append(
            _graph.GraphNode(
                number,
                kind,
                block.place.name,
                str(block.place),
                tuple(device.id for device in devices),
                _island(devices[0]) if devices else "",
                edges(block.inputs),
                _types(block.outputs),
                bodies,
            )
        )
    nodes.append(_graph.GraphNode(len(nodes), _graph.RESULT, "Result", source, (), "", edges(results), ()))
    return _graph.Graph(name, tuple(nodes))


def _types(variables: Sequence[Any]) -> tuple[str, ...]:
    return tuple(_type(jn.shape_of(variable)) for variable in variables)


def _type(shape: Any) -> str:
    return f"{shape.dtype.name}[{','.join(map(str, shape.shape))}]"


def _island(device: Any) -> str:
    number = getattr(device, "slice_index", None)
    return "" if number is None else str(number)
