"""Fused groups of a simulated client: what such an executable computes, and which neighbours of a graph one is offered for.

A host adds up every input of a group by itself and packs the sums into one number; from the sum over all hosts each of them
computes node after node, as the nodes would alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pathways_common.model import graph
from pathways_common.model.array import ArraySpec, ExecutableFacts
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.sim_arithmetic import LARGE, SMALL, Program

_BITS = 64
# A node of a group: where its arguments come from, (-1, input) or (call, output).
Call = tuple[Program, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class Fused:
    """`results` are (call, output); every call is of a program without callbacks that cannot fail."""

    devices: int
    parameters: int
    donated: tuple[int, ...]
    calls: tuple[Call, ...]
    results: tuple[tuple[int, int], ...]
    fallible = broken = large = flag = False
    callback = 0
    fused = True

    @property
    def outputs(self) -> int:
        return len(self.results)

    def text(self) -> str:
        calls = "/".join(f"{program.text()}&{_pairs(sources)}" for program, sources in self.calls)
        donated = ",".join(map(str, self.donated))
        return f"fused#{self.devices}#{self.parameters}#{donated}#{calls}#{_pairs(self.results)}"

    def facts(self) -> ExecutableFacts:
        sizes = tuple(LARGE if self.calls[call][0].large else SMALL for call, _ in self.results)
        donated = frozenset(self.donated)
        outputs = tuple(ArraySpec(11, (), b"", (size // 4,), ()) for size in sizes)
        return ExecutableFacts(
            self.text().encode(), self.outputs, sizes, donated, False, 0, b"", self.parameters, outputs=outputs
        )

    def local(self, arguments: list[list[int]]) -> int:
        return sum(sum(shards) << _BITS * index for index, shards in enumerate(arguments))

    def output(self, total: int, index: int, shard: int) -> int:
        sums = [total >> _BITS * place & (1 << _BITS) - 1 for place in range(self.parameters)]
        totals: list[int] = []
        for _, sources in self.calls:
            taken = 0
            for call, position in sources:
                if call < 0:
                    taken += sums[position]
                else:
                    program = self.calls[call][0]
                    taken += sum(program.output(totals[call], position, each) for each in range(self.devices))
            totals.append(taken)
        call, position = self.results[index]
        return self.calls[call][0].output(totals[call], position, shard)


def _pairs(pairs: tuple[tuple[int, int], ...]) -> str:
    return ";".join(f"{first}:{second}" for first, second in pairs)


def _read_pairs(text: str) -> tuple[tuple[int, int], ...]:
    found = [pair.split(":") for pair in text.split(";") if pair]
    return tuple((int(first), int(second)) for first, second in found)


def parse(text: str) -> Program | Fused:
    """What travels as text."""
    if not text.startswith("fused#"):
        return Program.parse(text)
    _, devices, parameters, donated, calls, results = text.split("#")
    indices = tuple(int(index) for index in donated.split(",") if index)
    read = tuple((Program.parse(call.split("&")[0]), _read_pairs(call.split("&")[1])) for call in calls.split("/"))
    return Fused(int(devices), int(parameters), indices, read, _read_pairs(results))


# ---- offers ---------------------------------------------------------------------------------------------------------


def fuse(client: Any) -> None:
    """Compiles a group for a program that has none, or offers one that is compiled."""
    for traced in client.traced.values():
        if traced.irregular or not traced.ok or traced.gone or traced.offered:
            continue
        if traced.group is None:
            first, last = _neighbours(traced)
            if last > first:
                _compile(client, traced, first, last)
                return
        elif traced.group[1].ok:
            _offer(client, traced)
            return


def _neighbours(traced: Any) -> tuple[int, int]:
    """The longest run of nodes, by number, on the same devices without a move; equal if there is none."""
    best = run = (1, 1)
    for number, node in enumerate(traced.nodes, 1):
        moves = any(traced.spec_of(*source) != taken for source, taken in zip(node.inputs, node.parameters, strict=True))
        alone = node.compilation.program.fallible or node.compilation.program.callback
        goes_on = number > 1 and not moves and not alone and run[1] == number - 1
        goes_on = goes_on and traced.nodes[number - 2].compilation.devices == node.compilation.devices
        run = (run[0], number) if goes_on else (number + 1, number) if alone else (number, number)
        best = max(best, run, key=lambda found: found[1] - found[0])
    return best


def _compile(client: Any, traced: Any, first: int, last: int) -> None:
    inputs: list[graph.NodeInput] = []
    known: dict[tuple[tuple[int, int], Any], int] = {}
    calls: list[Call] = []
    for number in range(first, last + 1):
        node = traced.nodes[number - 1]
        sources: list[tuple[int, int]] = []
        for index, (source, taken) in enumerate(zip(node.inputs, node.parameters, strict=True)):
            if source[0] >= first:
                sources.append((source[0] - first, source[1]))
                continue
            # What is replicated is the same in any order of its devices.
            key = (source, replace(taken, sharding=b"") if taken.shape == taken.shard_shape else taken)
            if key not in known:
                known[key] = len(inputs)
                inputs.append(graph.NodeInput(number, index))
            sources.append((-1, known[key]))
        calls.append((node.compilation.program, tuple(sources)))
    outside = {source for node in traced.nodes[last:] for source in node.inputs}
    made = [(number, output) for number in range(first, last + 1) for output in range(len(traced.nodes[number - 1].results))]
    outputs = [value for value in made if value in outside or value in traced.results] or [made[-1]]
    devices = traced.nodes[first - 1].compilation.devices
    donated = (0,) if inputs and client.random.random() < 0.4 else ()
    results = tuple((number - first, output) for number, output in outputs)
    program = Fused(len(devices), len(inputs), donated, tuple(calls), results)
    compilation = client.start_compilation(devices, program)
    group = graph.FusedGroup(
        0, first, last,
        graph.Computation(
            client.g(compilation.id),
            tuple(traced.nodes[taken.node - 1].parameters[taken.input] for taken in inputs),
            tuple(traced.spec_of(*value) for value in outputs),
        ),
        tuple(inputs), tuple(graph.Edge(*value) for value in outputs),
    )  # fmt: skip
    traced.group = (group, compilation)


def _offer(client: Any, traced: Any) -> None:
    traced.offered = True
    group, compilation = traced.group
    client.open_questions["fuse", traced.id] = ([], 0)
    client.send(events.FusionRequested(client.number, client.g(traced.id), (group,)))
    if compilation.id in client.programs and client.random.random() < 0.5:
        del client.programs[compilation.id]
        client.send(events.Released(client.number, (), (client.g(compilation.id),)))


def on_fused(client: Any, reply: out.ProgramFused) -> None:
    """The group fits, unless something of it has gone meanwhile."""
    client.open_questions.pop(("fuse", reply.program_id), None)
    client.answers += 1
    traced = client.traced.get(reply.program_id)
    if traced is None or traced.gone or traced.group[1].id not in client.programs or client.cluster.lost_islands:
        return
    if reply.failure is not None or reply.group_count != 1:
        client.world.violate("values", f"client {client.number}: a group that fits was left out: {reply}")
