"""Programs over islands a (a0, a1: devices 0 and 1) and b (b0, b1: devices 2 and 3), run by hand."""

from __future__ import annotations

from typing import Any

from pathways_common.model import graph
from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure
from pathways_common.model.ids import Epoch, HostName, Sequence, SessionNumber, global_id
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.records import Buffer

from tests.unit.core.core_driver import Driver, gid
from tests.unit.core.core_graphs import Writer, rows

A, B, A0, A1, B0, B1 = rows(0, 1), rows(2, 3), rows(0), rows(1), rows(2), rows(3)
PROGRAM = 900


def driver_of(sessions: int = 1, **config: Any) -> Driver:
    driver = Driver({"a": ["a0", "a1"], "b": ["b0", "b1"]}, **config)
    for number in range(1, sessions + 1):
        driver.open(number, ("*",))
    return driver


def chain(driver: Driver, *specs: ArraySpec, program: int = PROGRAM, sequential: bool = False) -> graph.Program:
    """Defines a program of one node per spec, each on the spec's devices and fed by the one before; returns the last value."""
    writer = Writer(driver, (specs[0],), first_executable=program + 1)
    for position, spec in enumerate(specs):
        writer.node(writer.computation((spec,), (spec,)), (position, 0))
    made = writer.program((len(specs), 0))
    return define(driver, made, program, sequential)


def define(driver: Driver, program: graph.Program, number: int = PROGRAM, sequential: bool = False) -> graph.Program:
    made = graph.Program(program.name, program.devices, program.computations, program.graphs, sequential)
    driver.step(events.DefinitionRequested(SessionNumber(1), gid(number), made))
    return made


def put(driver: Driver, number: int, spec: ArraySpec, upload: int = 0) -> list[out.Effect]:
    """An array of this spec, at once or with its bytes still to come."""
    inline = None if upload else bytes(spec.shard_bytes)
    piece = events.Piece(tuple(range(len(spec.devices))), spec.shard_bytes, inline, upload)
    return driver.step(events.ArrayMade(SessionNumber(1), gid(number), spec, (piece,)))


def run(
    driver: Driver, arguments: tuple[int, ...], result: int, program: int = PROGRAM, donated: tuple[int, ...] = ()
) -> list[out.Effect]:
    number = SessionNumber(1)
    named = tuple(global_id(number, argument) for argument in arguments)
    event = events.RunRequested(number, gid(result + 5000), gid(program), named, gid(result), donated, 0)
    return driver.step(event)


def buffer(driver: Driver, number: int) -> Buffer:
    return driver.core.state.sessions[SessionNumber(1)].buffers[gid(number)]


def node_failed(driver: Driver, host: str, result: int, sequence: int, failure: Failure) -> list[out.Effect]:
    return driver.step(events.NodeFailed(HostName(host), gid(result + 5000), Sequence(sequence), failure))


def kill(driver: Driver, host: str, finished: int) -> list[out.Effect]:
    island = driver.core.state.hosts[HostName(host)].island
    lost = events.ExecutorLost(
        HostName(host), island.epoch, "signal 9", "", Sequence(finished + 1), finished_through=Sequence(finished)
    )
    return driver.step(lost)


def launched(driver: Driver, host: str, through: int) -> list[out.Effect]:
    epoch = Epoch(driver.core.state.hosts[HostName(host)].island.epoch)
    return driver.step(events.HostProgressed(HostName(host), epoch, Sequence(0), Sequence(through)))
