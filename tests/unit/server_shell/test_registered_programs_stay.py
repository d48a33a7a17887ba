"""Names of programs survive the controller: they are in the journal before they are told, and there again in its next life."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pathways_common.model import graph
from pathways_common.model.array import ArraySpec
from pathways_common.model.ids import GlobalId
from pathways_common.model.registered import Origin
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import open_channel
from pathways_proto.v1 import (
    cluster_pb2,
    cluster_pb2_grpc,
    programs_pb2,
    sessions_pb2,
    sessions_pb2_grpc,
    types_pb2,
    workers_pb2_grpc,
)
from pathways_server.app import App
from pathways_server.config import Config
from pathways_server.rpc.program_records import program_from_bytes, program_to_bytes
from pathways_server.shell.journal import Journal, ProgramRow

from tests.unit.server_shell.scripted_core import TIMEOUT_S, join, open_session, read_items
from tests.unit.server_shell.test_shell_with_the_core import play_worker, say

Operation = sessions_pb2.ClientOperation
SPEC = ArraySpec(11, (2,), b"", (2,), (0,))
OTHER = ArraySpec(4, (8, 2), b"\x08\x03", (4, 2), (1, 0), "pinned_host")
MESSAGE = types_pb2.ArraySpec(dtype=11, shape=[2], shard_shape=[2], devices=[0])


def every_kind() -> graph.Program:
    nodes = (
        graph.Node("", "", (), graph.ArgumentKind((SPEC, OTHER))),
        graph.Node("f", "a.py:1", (graph.Edge(0, 1),), graph.ComputationKind(0)),
        graph.Node("g", "a.py:2", (graph.Edge(0, 1, True), graph.Edge(1, 0)), graph.BranchKind((1, 2), (3, -4), (OTHER,))),
        graph.Node("h", "a.py:3", (graph.Edge(2, 0),), graph.LoopKind(1, 2, 10, (OTHER,))),
        graph.Node("", "", (graph.Edge(3, 0),), graph.ResultKind()),
    )
    computations = (graph.Computation(GlobalId(1), (SPEC,), (OTHER, SPEC)), graph.Computation(GlobalId(2), (), (SPEC,)))
    bodies = (graph.Graph(nodes), graph.Graph((graph.Node("", "", (), graph.ResultKind()),)))
    together = graph.Computation(GlobalId(3), (OTHER, SPEC), (SPEC,))
    inputs = (graph.NodeInput(1, 0), graph.NodeInput(2, 1))
    groups = (graph.FusedGroup(1, 2, 5, together, inputs, (graph.Edge(5, 1),)),)
    return graph.Program("train", (0, 1), computations, bodies, True, groups)


def test_a_record_gives_back_every_part_of_a_program() -> None:
    assert program_from_bytes(program_to_bytes(every_kind())) == every_kind()


def test_equal_bytes_are_kept_once_and_go_with_the_last_version(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    rows = [ProgramRow("t", "n", version, b"graph", (Origin("p", (1, 0)), Origin("q", ()))) for version in (1, 2)]
    for row in rows:
        journal.keep_program(row, {"p": (b"module", b""), "q": (b"other", b"options")})
    journal.close()
    journal = Journal(tmp_path)
    assert journal.kept_programs() == rows
    assert journal.program_bytes("q") == (b"other", b"options")
    journal.forget_program("t", "n", 1)
    assert journal.program_bytes("p") == (b"module", b"")
    journal.forget_program("t", "n", 2)
    assert journal.kept_programs() == []
    with pytest.raises(KeyError):
        journal.program_bytes("p")
    journal.close()


def test_a_version_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    row = ProgramRow("t", "n", 1, b"graph", (Origin("p", (0,)),))
    journal.keep_program(row, {"p": (b"module", b"")})
    with pytest.raises(sqlite3.IntegrityError):
        journal.keep_program(row._replace(graph=b"other"), {"new": (b"x", b"")})
    assert journal.kept_programs() == [row]
    with pytest.raises(KeyError):
        journal.program_bytes("new")
    journal.close()


@asynccontextmanager
async def life(path: Path) -> AsyncIterator[tuple[Any, Any]]:
    """One life of a controller with one played worker: a session's stream, and the status service."""
    app = App(Config(listen="127.0.0.1:0", state_dir=path, metrics_port=-1))
    await app.start()
    running = asyncio.create_task(app.run())
    token, secret = ((path / name).read_text().strip() for name in ("token", "secret"))
    async with open_channel(app.address) as channel:
        worker = workers_pb2_grpc.WorkersStub(channel).Connect(metadata=bearer(secret), timeout=60)
        await join(worker)
        playing = asyncio.create_task(play_worker(worker))
        call = sessions_pb2_grpc.SessionsStub(channel).Connect(metadata=bearer(token), timeout=60)
        await open_session(call)
        yield call, (cluster_pb2_grpc.ClustersStub(channel), bearer(token))
        app.stop("test")
        await asyncio.wait_for(playing, TIMEOUT_S)
    await asyncio.wait_for(running, TIMEOUT_S)


async def answer_to(call: Any, sequence: int, **operation: Any) -> Any:
    await say(call, sequence, Operation(**operation))
    items, _ = await read_items(call, "operations", 1)
    return items[0]


def one_node() -> programs_pb2.Program:
    node, kinds = programs_pb2.Node, programs_pb2
    nodes = [
        node(argument=kinds.ArgumentNode(specs=[MESSAGE])),
        node(name="f", inputs=[kinds.Edge(node=0)], computation=kinds.ComputationNode(computation=0)),
        node(inputs=[kinds.Edge(node=1)], result=kinds.ResultNode()),
    ]
    computation = kinds.Computation(executable_id=1, parameters=[MESSAGE], results=[MESSAGE])
    return programs_pb2.Program(name="f", devices=[0], computations=[computation], graphs=[kinds.Graph(nodes=nodes)])


def test_a_registered_program_is_opened_in_the_next_life_of_the_controller(tmp_path: Path) -> None:
    async def first() -> None:
        async with life(tmp_path) as (call, _):
            compile_ = sessions_pb2.Compile(executable_id=1, program=b"module", options=b"options", devices=[0])
            assert (await answer_to(call, 1, compile=compile_)).compiled.info.name == "jit_f"
            defined = await answer_to(call, 2, define_program=sessions_pb2.DefineProgram(program_id=2, program=one_node()))
            assert not defined.program_defined.HasField("failure")
            registration = sessions_pb2.RegisterProgram(program_id=2, name="team/f")
            registered = await answer_to(call, 3, register_program=registration)
            assert registered.program_registered == sessions_pb2.ProgramRegistered(program_id=2, name="team/f", version=1)

    async def second() -> None:
        async with life(tmp_path) as (call, (clusters, token)):
            listed = await clusters.ListPrograms(cluster_pb2.ListProgramsRequest(), metadata=token, timeout=TIMEOUT_S)
            program = cluster_pb2.RegisteredProgram(
                name="team/f", version=1, device_count=1, node_count=1, arguments=[MESSAGE], results=[MESSAGE], tenant="default"
            )
            assert list(listed.programs) == [program]
            opened = await answer_to(call, 1, open_program=sessions_pb2.OpenProgram(program_id=9, name="team/f"))
            assert opened.program_defined == sessions_pb2.ProgramDefined(
                program_id=9, arguments=[MESSAGE], results=[MESSAGE], name="team/f", version=1
            )
            gone = await answer_to(call, 2, unregister_program=sessions_pb2.UnregisterProgram(request_id=4, name="team/f"))
            assert gone.program_unregistered == sessions_pb2.ProgramUnregistered(request_id=4)

    async def third() -> None:
        async with life(tmp_path) as (call, _):
            opened = await answer_to(call, 1, open_program=sessions_pb2.OpenProgram(program_id=9, name="team/f"))
            assert "no program is registered as 'team/f'" in opened.program_defined.failure.message

    for each in (first, second, third):
        asyncio.run(each())
