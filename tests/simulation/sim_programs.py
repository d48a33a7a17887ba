"""A simulated client's programs: random graphs of its executables over all its devices, whose results it knows by arithmetic.

Every value is one number per shard. A node takes a value as its source lays it out, in another order, on other devices or on
several at once; the client follows the tiles and never asks a host.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pathways_common.model import graph
from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Reason
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation import sim_judging
from tests.simulation.sim_arithmetic import LARGE, SMALL
from tests.simulation.sim_fused import fuse, on_fused
from tests.simulation.sim_records import Array
from tests.simulation.sim_reshard import cut
from tests.simulation.sim_runs import tiles_of

F32 = 11


@dataclass
class Node:
    """`inputs` are (node, output), node 0 the arguments; `parameters` say how they are taken."""

    compilation: Any
    inputs: list[tuple[int, int]]
    parameters: list[ArraySpec]
    results: list[ArraySpec]


@dataclass
class Traced:
    id: int
    arguments: list[ArraySpec]
    nodes: list[Node]
    results: list[tuple[int, int]]
    ok: bool = False
    lost: bool = False  # values of it lay on a slice that was given back
    group: Any = field(default=None, init=False)  # a fused group and its compilation
    offered: bool = field(default=False, init=False)  # or will never be
    irregular = False

    @property
    def gone(self) -> bool:
        """Whether a slice that it uses was given back."""
        return self.lost or any(node.compilation.gone for node in self.nodes)

    def devices(self) -> set[int]:
        specs = [*self.arguments, *(found for node in self.nodes for found in (*node.parameters, *node.results))]
        return {device for found in specs for device in found.devices}

    def values(self, client: Any, given: list[list[int]]) -> dict[tuple[int, int], list[int] | None]:
        return _values(client, self, given)

    def moves(self) -> bool:
        return any(
            self.spec_of(*source) != parameter
            for node in self.nodes
            for source, parameter in zip(node.inputs, node.parameters, strict=True)
        )

    def spec_of(self, node: int, output: int) -> ArraySpec:
        return self.nodes[node - 1].results[output] if node else self.arguments[output]


def spec(client: Any, devices: tuple[int, ...], tiles: int, size: int, shuffled: bool) -> ArraySpec:
    order = list(range(len(devices)))
    if shuffled:
        client.random.shuffle(order)
    return ArraySpec(F32, (size // 4 * tiles,), cut(order, tiles), (size // 4,), devices)


def define(client: Any) -> None:
    """A graph of up to six nodes; inputs are earlier values that fit, or new arguments."""
    choose = client.random
    usable = client.usable()
    if not usable or len(client.traced) > 4:
        return
    traced = Traced(0, [], [], [])
    for _ in range(choose.randint(1, 6)):
        before = traced.nodes[-1].compilation if traced.nodes and choose.random() < 0.5 else None
        near = [found for found in usable if before is not None and found.devices == before.devices]
        compilation = choose.choice(near or usable)
        program, devices = compilation.program, compilation.devices
        count = len(devices)
        parameters: list[ArraySpec] = []
        inputs: list[tuple[int, int]] = []
        for _ in range(program.parameters):
            fitting = [
                (position, output)
                for position, node in enumerate(traced.nodes, 1)
                for output, result in enumerate(node.results)
                if count % len(result.devices) == 0
            ]
            if fitting and choose.random() < 0.8:
                source = choose.choice(fitting)
                given = traced.spec_of(*source)
                size = given.shard_bytes
                same = given.devices == devices and choose.random() < 0.7
                parameters.append(given if same else spec(client, devices, len(given.devices), size, choose.random() < 0.4))
            else:
                source = (0, len(traced.arguments))
                traced.arguments.append(spec(client, devices, count, SMALL, False))
                parameters.append(traced.arguments[-1] if choose.random() < 0.7 else spec(client, devices, count, SMALL, True))
            inputs.append(source)
        size = LARGE if program.large else SMALL
        results = [spec(client, devices, count, size, choose.random() < 0.2) for _ in range(program.outputs)]
        traced.nodes.append(Node(compilation, inputs, parameters, results))
    made = [(position, output) for position, node in enumerate(traced.nodes, 1) for output in range(len(node.results))]
    traced.results = choose.sample(made, choose.randint(1, min(3, len(made))))
    traced.id = client.new_id()
    client.traced[traced.id] = traced
    client.open_questions["program", traced.id] = ([], 0)
    client.send(events.DefinitionRequested(client.number, client.g(traced.id), _message(client, traced)))


def _message(client: Any, traced: Traced) -> graph.Program:
    computations = tuple(
        graph.Computation(client.g(node.compilation.id), tuple(node.parameters), tuple(node.results)) for node in traced.nodes
    )
    nodes = [graph.Node("", "", (), graph.ArgumentKind(tuple(traced.arguments)))]
    for position, node in enumerate(traced.nodes):
        edges = tuple(graph.Edge(*source) for source in node.inputs)
        nodes.append(graph.Node(f"f{position + 1}", f"sim.py:{position + 1}", edges, graph.ComputationKind(position)))
    nodes.append(graph.Node("", "", tuple(graph.Edge(*result) for result in traced.results), graph.ResultKind()))
    specs = [*traced.arguments, *(found for node in traced.nodes for found in (*node.parameters, *node.results))]
    devices = tuple(sorted({device for found in specs for device in found.devices}))
    sequential = client.random.random() < 0.2
    traced.offered = sequential  # refused for those
    return graph.Program(f"p{traced.id}", devices, computations, (graph.Graph(tuple(nodes)),), sequential)


def on_answered(client: Any, reply: out.ProgramDefined | out.ProgramFused) -> None:
    if isinstance(reply, out.ProgramFused):
        on_fused(client, reply)
    else:
        on_defined(client, reply)


def on_defined(client: Any, reply: out.ProgramDefined) -> None:
    client.open_questions.pop(("program", reply.program_id), None)
    client.answers += 1
    traced = client.traced[reply.program_id]
    if reply.failure is None:
        traced.ok = True
        client.defined += 1
        return
    del client.traced[reply.program_id]
    if not traced.gone and all(node.compilation.id in client.programs for node in traced.nodes):
        sim_judging.judge(client, "program", [], reply.failure)


def run(client: Any) -> None:
    """Runs a program and works out what must come of it."""
    choose = client.random
    usable = [traced for traced in client.traced.values() if traced.ok and not traced.gone]
    if not usable:
        define(client)
        return
    traced = choose.choice(usable)
    arguments = []
    for given in traced.arguments:
        live = client.live(given.devices)
        arguments.append(choose.choice(live) if live and choose.random() < 0.8 else client.upload(given.devices))
    values = traced.values(client, [argument.expected for argument in arguments])
    devices = [device for node in traced.nodes for device in node.compilation.devices]
    devices += [device for given in traced.arguments for device in given.devices]
    history = tuple(sorted({*client.homes_of(tuple(devices)), *(name for array in arguments for name in array.history)}))
    may_fail, must_fail = _failures(traced, arguments)
    if None in values.values():  # a loop that does not end, or a count that is too large
        may_fail = (*may_fail, Reason.EXECUTION_ERROR)
    first = client.identifier + 1
    for result in traced.results:
        identifier, made = client.new_id(), traced.spec_of(*result)
        value = values[result]
        fails = must_fail or (Reason.EXECUTION_ERROR if value is None else None)
        client.arrays[identifier] = Array(
            identifier, value or [0] * len(made.devices), made.devices, (identifier,) * len(made.devices), made.shard_bytes,
            history, may_fail, fails,
        )  # fmt: skip
    donated = tuple(
        index
        for index, argument in enumerate(arguments)
        if choose.random() < 0.2 and set(argument.buffers) == {argument.id} and arguments.count(argument) == 1
    )
    for index in donated:
        if choose.random() < 0.3:
            client.fetch_one(arguments[index])
    client.runs += 1
    client.send(
        events.RunRequested(
            client.number, client.g(client.new_id()), client.g(traced.id), tuple(client.g(argument.id) for argument in arguments),
            client.g(first), donated, 0,
        )
    )  # fmt: skip
    for index in donated:
        client.ended[arguments[index].id] = None


def _values(client: Any, traced: Traced, given: list[list[int]]) -> dict[tuple[int, int], list[int] | None]:
    found = {(0, index): value for index, value in enumerate(given)}
    for position, node in enumerate(traced.nodes, 1):
        taken = []
        for source, parameter in zip(node.inputs, node.parameters, strict=True):
            have, want = tiles_of(traced.spec_of(*source).sharding), tiles_of(parameter.sharding)
            taken.append([found[source][have.index(tile)] for tile in want])
        program, devices = node.compilation.program, node.compilation.devices
        hosts = len({client.devices[device].host for device in devices})
        for output, value in enumerate(program.results(taken, len(devices), hosts)):
            found[position, output] = value
    return {**found}


def _failures(traced: Traced, arguments: list[Any]) -> tuple[tuple[Reason, ...], Reason | None]:
    """What may and what must come of a run: a failed argument fails all of it, a failed node at least what needs it."""
    may_fail = {reason for argument in arguments for reason in argument.may_fail}
    for node in traced.nodes:
        program = node.compilation.program
        may_fail |= {Reason.EXECUTION_ERROR} if program.fallible else set()
        may_fail |= {Reason.USER_ERROR, Reason.TIMED_OUT, Reason.CANCELLED} if program.callback else set()
    if traced.moves():
        may_fail.add(Reason.UNAVAILABLE)
        if any(argument.size != given.shard_bytes for argument, given in zip(arguments, traced.arguments, strict=True)):
            may_fail.add(Reason.INVALID_ARGUMENT)  # a copy that misstates its source is refused; nothing else looks at the size
    must = [argument.must_fail for argument in arguments if argument.must_fail is not None]
    may_fail |= set(must)
    return tuple(sorted(may_fail, key=lambda reason: reason.value)), must[0] if must else None


def cancel(client: Any) -> None:
    """Whatever is there already or is computed from one of the cancelled values may end with it."""
    arrays = list(client.arrays.values())
    if not arrays:
        return
    chosen = client.random.sample(arrays, min(len(arrays), 2))
    asked = [array for question, _ in client.open_questions.values() for array in question]  # maybe released meanwhile
    for array in {id(array): array for array in (*arrays, *asked)}.values():
        array.may_fail = (*array.may_fail, Reason.CANCELLED)
    client.send(events.CancelRequested(client.number, tuple(client.g(array.id) for array in chosen)))


def drop(client: Any) -> None:
    """Releases a program, with runs of it under way."""
    usable = [traced for traced in client.traced.values() if traced.ok]
    if usable:
        traced = client.random.choice(usable)
        del client.traced[traced.id]
        client.send(events.Released(client.number, (), (), (client.g(traced.id),)))


OPERATIONS = {"define": define, "fuse": fuse, "run_program": run, "cancel": cancel, "drop_program": drop}
