"""Programs with branches and loops over islands a and b, and hosts that answer what a walk looks at."""

from __future__ import annotations

from dataclasses import replace

from pathways_common.model import graph
from pathways_common.model.array import ArraySpec, ExecutableFacts
from pathways_common.model.graph import Program
from pathways_common.model.ids import HostName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import Driver, gid, only, sent
from tests.unit.core.core_runs import PROGRAM, A, B

BOOLEAN, INTEGER = 1, 4
FLAG = ArraySpec(BOOLEAN, (), b"", (), (0, 1))
COUNT = ArraySpec(INTEGER, (), b"", (), (0, 1))
Inputs = tuple[tuple[int, int], ...]


class Graphs:
    """Collects the graphs of one program. A node's inputs are (node, output), node 0 the arguments."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.computations: list[graph.Computation] = []
        self.graphs: dict[int, graph.Graph] = {}

    def call(self, parameters: tuple[ArraySpec, ...], results: tuple[ArraySpec, ...], *inputs: tuple[int, int]) -> graph.Node:
        number = PROGRAM + 1 + len(self.computations)
        sizes = tuple(spec.shard_bytes for spec in results)
        self.driver.facts[f"program {number}"] = ExecutableFacts(
            b"d", len(sizes), sizes, frozenset(), False, 0, b"info", len(parameters)
        )
        self.driver.compile(number, (*parameters, *results)[0].devices, f"program {number}")
        self.computations.append(graph.Computation(gid(number), parameters, results))
        kind = graph.ComputationKind(len(self.computations) - 1)
        return node(f"call {number}", kind, *inputs)

    def graph(
        self, number: int, arguments: tuple[ArraySpec, ...], nodes: tuple[graph.Node, ...], *results: tuple[int, int]
    ) -> None:
        first = graph.Node("", "", (), graph.ArgumentKind(arguments))
        last = node("", graph.ResultKind(), *results)
        self.graphs[number] = graph.Graph((first, *nodes, last))

    def program(self) -> Program:
        graphs = tuple(self.graphs[number] for number in sorted(self.graphs))
        devices = tuple(sorted({0, 1, 2, 3, *(device for each in self.computations for device in each.results[0].devices)}))
        return Program("train", devices, tuple(self.computations), graphs)

    def define(self, number: int = PROGRAM) -> out.ProgramDefined:
        effects = self.driver.step(events.DefinitionRequested(SessionNumber(1), gid(number), self.program()))
        found = [e.reply for e in effects if isinstance(e, out.SendToSession) and isinstance(e.reply, out.ProgramDefined)]
        return only(found)


def node(name: str, kind: graph.Kind, *inputs: tuple[int, int]) -> graph.Node:
    return graph.Node(name, f"train.py:{name}" if name else "", tuple(graph.Edge(*source) for source in inputs), kind)


def branching(driver: Driver, limits: tuple[int, ...] = ()) -> Graphs:
    """x -> (count, y); y goes through one of three graphs on a, a and b, returned on a; z = f(y) stands beside, w = g(result)."""
    graphs = Graphs(driver)
    graphs.graph(1, (A,), (graphs.call((A,), (A,), (0, 0)),), (1, 0))
    graphs.graph(2, (A,), (graphs.call((A,), (A,), (0, 0)), graphs.call((A,), (A,), (1, 0))), (2, 0))
    graphs.graph(3, (B,), (graphs.call((B,), (B,), (0, 0)),), (1, 0))
    first = graphs.call((A,), (COUNT, A), (0, 0))
    beside = graphs.call((A,), (A,), (1, 1))
    choice = node("choose", graph.BranchKind((1, 2, 3), limits, (A,)), (1, 0), (1, 1))
    last = graphs.call((A,), (A,), (3, 0))
    graphs.graph(0, (A,), (first, beside, choice, last), (2, 0), (3, 0), (4, 0))
    return graphs


def looping(driver: Driver, most: int = 3, lies: ArraySpec = A) -> Graphs:
    """x -> y -> loop(y): flag = c(y), y = b(y); returns the last y."""
    graphs = Graphs(driver)
    flag = replace(FLAG, devices=lies.devices)
    graphs.graph(1, (lies,), (graphs.call((lies,), (flag,), (0, 0)),), (1, 0))
    graphs.graph(2, (lies,), (graphs.call((lies,), (lies,), (0, 0)),), (1, 0))
    first = graphs.call((lies,), (lies,), (0, 0))
    loop = node("while", graph.LoopKind(1, 2, most, (lies,)), (1, 0))
    graphs.graph(0, (lies,), (first, loop), (2, 0))
    return graphs


def asked(effects: list[out.Effect]) -> tuple[str, out.FetchShard]:
    """The one small value that a walk asks for."""
    host, command = only(sent(effects, out.FetchShard), lambda pair: not pair[1].pull)
    return host, command


def answer(driver: Driver, question: tuple[str, out.FetchShard], value: int, size: int = 4) -> list[out.Effect]:
    host, command = question
    data = value.to_bytes(size, "little", signed=True)
    return driver.step(events.ShardFetched(HostName(host), command.fetch_id, data, None))
