"""Writes programs for tests of the core: arrays of 64 or 8 elements by rows or everywhere, computations, graphs."""

from __future__ import annotations

from dataclasses import dataclass, field

from pathways_common.model import graph
from pathways_common.model.array import ArraySpec, ExecutableFacts
from pathways_server.core import effects as out
from pathways_server.core.lowering import lower
from pathways_server.core.plan import Plan
from pathways_server.core.records import Session

from tests.unit.core.core_driver import F32, Driver, gid


def cut(*tiles: int) -> bytes:
    """A serialized xla.OpSharding: type OTHER, these tiles, positions in order."""
    count = 1
    for size in tiles:
        count *= size
    return b"\x08\x03\x1a" + bytes([len(tiles), *tiles]) + b"\x22" + bytes([count, *range(count)])


def rows(*devices: int, size: int = 8) -> ArraySpec:
    """A square of `size` x `size`, cut into rows."""
    return ArraySpec(F32, (size, size), cut(len(devices), 1), (size // len(devices), size), devices)


def columns(*devices: int, size: int = 8) -> ArraySpec:
    return ArraySpec(F32, (size, size), cut(1, len(devices)), (size, size // len(devices)), devices)


def everywhere(*devices: int, size: int = 8) -> ArraySpec:
    return ArraySpec(F32, (size, size), b"", (size, size), devices)


@dataclass
class Writer:
    """Collects the parts of one program and compiles its computations in the session of a driver."""

    driver: Driver
    arguments: tuple[ArraySpec, ...]
    computations: list[graph.Computation] = field(default_factory=list)
    nodes: list[graph.Node] = field(default_factory=list)
    first_executable: int = 1

    def computation(
        self,
        parameters: tuple[ArraySpec, ...],
        results: tuple[ArraySpec, ...],
        devices: tuple[int, ...] = (),
        donated: tuple[int, ...] = (),
    ) -> int:
        """Compiled on `devices`, or on those of its specs; returns its position."""
        number = self.first_executable + len(self.computations)
        sizes = tuple(spec.shard_bytes for spec in results) or (0,)
        facts = ExecutableFacts(b"d", len(sizes), sizes, frozenset(donated), False, 0, b"info", len(parameters))
        self.driver.facts[f"program {number}"] = facts
        self.driver.compile(number, devices or (*parameters, *results)[0].devices, f"program {number}")
        self.computations.append(graph.Computation(gid(number), parameters, results))
        return len(self.computations) - 1

    def node(self, computation: int, *inputs: tuple[int, int], name: str = "") -> int:
        """Inputs are (node, output); returns its position in the graph."""
        position = len(self.nodes) + 1
        edges = tuple(graph.Edge(node, output) for node, output in inputs)
        kind = graph.ComputationKind(computation)
        self.nodes.append(graph.Node(name or f"step {position}", f"train.py:{position}", edges, kind))
        return position

    def program(self, *results: tuple[int, int]) -> graph.Program:
        """The program so far, returning these outputs."""
        specs = [*self.arguments]
        for computation in self.computations:
            specs += [*computation.parameters, *computation.results]
        devices = tuple(sorted({device for spec in specs for device in spec.devices}))
        first = graph.Node("", "", (), graph.ArgumentKind(self.arguments))
        last = graph.Node("", "", tuple(graph.Edge(node, output) for node, output in results), graph.ResultKind())
        body = graph.Graph((first, *self.nodes, last))
        return graph.Program("train", devices, tuple(self.computations), (body,))


def session_of(driver: Driver) -> Session:
    return next(iter(driver.core.state.sessions.values()))


def plan_of(driver: Driver, program: graph.Program) -> Plan:
    """The plan of a program that has nothing wrong."""
    plan = lower(driver.core.state, session_of(driver), program)
    assert isinstance(plan, Plan), plan
    return plan


def two_islands(hosts: int = 1, devices: int = 2) -> Driver:
    """Islands a and b, with one session on both."""
    driver = Driver({name: [f"{name}{index}" for index in range(hosts)] for name in ("a", "b")}, devices=devices)
    driver.open(1, ("*",))
    return driver


def collected(driver: Driver) -> list[out.Effect]:
    """What the core wanted since the last step or the last call."""
    state = driver.core.state
    found, state.effects = state.effects, []
    return found
