"""A stand-in for the cluster: carries a program message out on local devices, node by node, as the message says.

Between two nodes a value is put where the consumer's spec wants it; nothing of the tracer is used but the compiled nodes.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import jax
import numpy as np
from pathways import _jax_nodes
from pathways_proto.v1 import door_pb2, programs_pb2, types_pb2


class LocalRunner:
    """Runs programs on the CPU devices of this process. `owned` are ids of devices that count; `defined` the messages taken."""

    def __init__(self, owned: Sequence[int]) -> None:
        self.traced: MutableMapping[Any, Any] = weakref.WeakKeyDictionary()
        self.defined: list[door_pb2.PluginProgram] = []
        self.runs = 0
        self.registered: dict[str, Any] = {}
        # Names of the computation nodes that ran, in order.
        self.launched: list[str] = []
        self.deleted_on_way = 0
        # By program, groups that were offered.
        self.offered: dict[Any, list[programs_pb2.FusedGroup]] = {}
        self._owned = frozenset(owned)
        self._ids = itertools.count(1)
        self._compiled: dict[int, Any] = {}
        # Of the run that this thread carries out: `groups`.
        self._now = threading.local()
        self._lock = threading.Lock()

    def generation(self) -> int:
        return 0

    def owns(self, device: Any) -> bool:
        return device.id in self._owned

    def executable_id(self, compiled: Any) -> int:
        for number, known in list(self._compiled.items()):
            if known is compiled:
                return number
        number = next(self._ids)
        self._compiled[number] = compiled
        return number

    def register(self, run: Any, name: str, replace: bool) -> int:
        self.registered[name] = run
        return len(self.registered)

    def define(
        self, message: door_pb2.PluginProgram, results: Sequence[Any], shardings: Sequence[Any]
    ) -> Callable[[Sequence[Any]], list[Any]]:
        copy = door_pb2.PluginProgram.FromString(message.SerializeToString())
        _check(copy)
        self.defined.append(copy)
        makers = _jax_nodes.result_makers(results, shardings)
        assert len(makers) == len(results)

        def run(arrays: Sequence[Any]) -> list[Any]:
            with self._lock:
                self.runs += 1
            _check_arguments(copy, arrays)
            self._now.groups = self.offered.get(run, [])
            outputs = self._interpret(copy.program, 0, arrays)
            if len(copy.program.graphs) > 1:
                # A loop that never turned returns what it was given, wherever that lay; the cluster moves it.
                outputs = [jax.device_put(value, sharding) for value, sharding in zip(outputs, shardings, strict=True)]
            for value, sharding in zip(outputs, shardings, strict=True):
                assert _jax_nodes.physical(value.aval, value.sharding)[1].is_equivalent_to(
                    _jax_nodes.physical(value.aval, sharding)[1], _jax_nodes.stored(value).ndim
                )
            return outputs

        return run

    def fuse(self, run: Any, message: door_pb2.PluginFusion) -> int:
        groups = list(door_pb2.PluginFusion.FromString(message.SerializeToString()).groups)
        self.offered[run] = groups
        return len(groups)

    def _fused(
        self, group: programs_pb2.FusedGroup, nodes: Sequence[programs_pb2.Node], values: list[list[Any]]
    ) -> dict[tuple[int, int], Any]:
        """What a group makes, by (node, output)."""
        edges = [nodes[each.node].inputs[each.input] for each in group.inputs]
        self.launched.append(f"{group.first_node}-{group.last_node}")
        found = self._launch(group.computation.executable_id, [values[edge.node][edge.output] for edge in edges])
        return {(edge.node, edge.output): value for edge, value in zip(group.outputs, found, strict=True)}

    def _launch(self, executable_id: int, inputs: Sequence[Any]) -> list[Any]:
        compiled = self._compiled[executable_id]
        taken, _ = compiled.input_shardings
        wrapped = [_as_wanted(value, aval) for value, aval in zip(inputs, compiled.in_avals[0], strict=True)]
        # Nodes may donate what they take, so they get copies.
        put = [
            jax.device_put(jax.device_put(value, jax.devices()[7]), sharding, may_alias=False)
            for value, sharding in zip(wrapped, taken, strict=True)
        ]
        return list(compiled(*put))

    def _interpret(self, program: programs_pb2.Program, graph: int, arrays: Sequence[Any]) -> list[Any]:
        values: list[list[Any]] = []
        nodes = program.graphs[graph].nodes
        groups = {group.first_node: group for group in self._now.groups if group.graph == graph}
        made: dict[tuple[int, int], Any] = {}
        last = 0
        for position, node in enumerate(nodes):
            if position in groups:
                made = self._fused(groups[position], nodes, values)
                last = groups[position].last_node
            if position and position <= last:
                count = len(program.computations[node.computation.computation].results)
                values.append([made.get((position, output)) for output in range(count)])
                continue
            inputs = [values[edge.node][edge.output] for edge in node.inputs]
            kind = node.WhichOneof("kind")
            if kind == "argument":
                values.append(list(arrays))
            elif kind == "result":
                return inputs
            elif kind == "branch":
                values.append(self._branch(program, node, inputs))
            elif kind == "loop":
                values.append(self._loop(program, node, inputs))
            else:
                self.launched.append(node.name)
                values.append(self._launch(program.computations[node.computation.computation].executable_id, inputs))
        raise AssertionError("a graph ends with its result node")

    def _branch(self, program: programs_pb2.Program, node: programs_pb2.Node, inputs: list[Any]) -> list[Any]:
        branch, value = node.branch, int(inputs[0])
        if branch.limits:
            fitting = [each for each, limit in enumerate(branch.limits) if value <= limit]
            if not fitting:
                raise RuntimeError(f"{node.name} at {node.source}: {value} is above every limit")
            chosen = fitting[0]
        else:
            chosen = min(max(value, 0), len(branch.graphs) - 1)
        return self._interpret(program, branch.graphs[chosen], inputs[1:])

    def _loop(self, program: programs_pb2.Program, node: programs_pb2.Node, inputs: list[Any]) -> list[Any]:
        loop, carried = node.loop, inputs
        for _ in range(loop.max_iterations):
            if not bool(self._interpret(program, loop.condition, carried)[0]):
                return carried
            carried = self._interpret(program, loop.body, carried)
        if bool(self._interpret(program, loop.condition, carried)[0]):
            raise RuntimeError(f"{node.name} at {node.source}: still true after {loop.max_iterations} iterations")
        return carried


def _as_wanted(value: Any, aval: Any) -> Any:
    """Random keys travel as the words they consist of."""
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key) and not jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(value, impl=aval.dtype._impl.name)
    return value


def _check(message: door_pb2.PluginProgram) -> None:
    """What the door and the controller demand of a program."""
    program = message.program
    specs = program.graphs[0].nodes[0].argument.specs
    assert sorted(position for group in message.groups for position in group.arguments) == list(range(len(specs)))
    for group in message.groups:
        assert all(len(specs[position].devices) == group.shard_count for position in group.arguments)
    assert len(program.devices) == len(set(program.devices))
    used = [number for graph in range(len(program.graphs)) for number in _check_graph(program, graph)]
    assert sorted(used) == list(range(1, len(program.graphs)))


def _check_graph(program: programs_pb2.Program, number: int) -> list[int]:
    """Checks one graph; returns the graphs that its irregular nodes name."""
    nodes = program.graphs[number].nodes
    used: list[int] = []
    kinds = [node.WhichOneof("kind") for node in nodes]
    assert (kinds[0], kinds[-1]) == ("argument", "result")
    assert set(kinds[1:-1]) <= {"computation", "branch", "loop"}
    made: list[list[types_pb2.ArraySpec]] = [list(nodes[0].argument.specs)]
    for position, node in enumerate(nodes):
        assert all(edge.node < position and edge.output < len(made[edge.node]) for edge in node.inputs)
        inputs = [made[edge.node][edge.output] for edge in node.inputs]
        if kinds[position] == "computation":
            computation = program.computations[node.computation.computation]
            _same_values(inputs, computation.parameters)
            made.append(list(computation.results))
        elif kinds[position] == "branch":
            assert not inputs[0].shape
            assert not node.branch.limits or (
                len(node.branch.limits) == len(node.branch.graphs) and sorted(node.branch.limits) == list(node.branch.limits)
            )
            for graph in node.branch.graphs:
                used.append(graph)
                _same_values(inputs[1:], program.graphs[graph].nodes[0].argument.specs)
                assert _results(program, graph) == list(node.branch.results)
            made.append(list(node.branch.results))
        elif kinds[position] == "loop":
            used.extend((node.loop.condition, node.loop.body))
            _same_values(inputs, node.loop.carried)
            _same_values(node.loop.carried, program.graphs[node.loop.condition].nodes[0].argument.specs)
            assert list(program.graphs[node.loop.body].nodes[0].argument.specs) == list(node.loop.carried)
            assert _results(program, node.loop.body) == list(node.loop.carried)
            answer = _results(program, node.loop.condition)
            assert [(spec.dtype, list(spec.shape)) for spec in answer] == [(1, [])]  # PRED
            made.append(list(node.loop.carried))
        for spec in made[-1]:
            assert set(spec.devices) <= set(program.devices)
    assert all(graph > number for graph in used)
    results = [(edge.node, edge.output) for edge in nodes[-1].inputs]
    assert len(results) == len(set(results)) > 0
    assert all(node > 0 for node, _ in results)
    return used


def _results(program: programs_pb2.Program, graph: int) -> list[types_pb2.ArraySpec]:
    """How the results of a graph lie where they are made."""
    nodes, found = program.graphs[graph].nodes, []
    for edge in nodes[-1].inputs:
        node = nodes[edge.node]
        computed = program.computations[node.computation.computation].results if node.HasField("computation") else ()
        found.append((*computed, *node.branch.results, *node.loop.carried)[edge.output])
    return found


def _same_values(some: Sequence[types_pb2.ArraySpec], others: Sequence[types_pb2.ArraySpec]) -> None:
    assert [(each.dtype, list(each.shape)) for each in some] == [(each.dtype, list(each.shape)) for each in others]


def _check_arguments(message: door_pb2.PluginProgram, arrays: Sequence[Any]) -> None:
    """Arguments lie as the program says."""
    specs = message.program.graphs[0].nodes[0].argument.specs
    for spec, array in zip(specs, arrays, strict=True):
        assert [device.id for device in array.sharding._device_assignment] == list(spec.devices)
        assert list(array.shape) == list(spec.shape)
        assert array.sharding.shard_shape(array.shape) == tuple(spec.shard_shape)
        assert np.prod(spec.shard_shape, dtype=int) <= np.prod(spec.shape, dtype=int)
