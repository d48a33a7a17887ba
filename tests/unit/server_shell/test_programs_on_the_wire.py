"""Programs between the wire and the core: operations, plans that are encoded once, frames and gangs of runs, traces, lists."""

from __future__ import annotations

import asyncio
import time
import types
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import grpc.aio
import pathways_server.core
import pytest
from pathways_common.model.failure import PathwaysError
from pathways_common.model.ids import SessionNumber
from pathways_common.rpc.auth import bearer
from pathways_proto.v1 import cluster_pb2, programs_pb2, sessions_pb2, types_pb2, workers_pb2
from pathways_server.core import effects, events
from pathways_server.core.snapshot import HostFigures, IslandFigures, Snapshot
from pathways_server.rpc import decode_programs
from pathways_server.rpc.decode import OperationDecoder
from pathways_server.rpc.decode_host import host_event
from pathways_server.rpc.encode import Encoder
from pathways_server.shell.programs import Programs
from pathways_server.shell.run_counts import RunCounts
from pathways_server.shell.tickets import Tickets

from tests.unit.server_shell import program_messages as written
from tests.unit.server_shell.scripted_core import TIMEOUT_S, controller, join, open_session, read_items

S, P, W = sessions_pb2, programs_pb2, workers_pb2
Operation: TypeAlias = sessions_pb2.ClientOperation
SESSION = SessionNumber(1)


def decode(**operation: Any) -> Any:
    (event,) = OperationDecoder(Programs(), {}).decode(SESSION, [Operation(**operation)])
    return event


def own(local: int) -> int:
    return 1 << 40 | local


def test_a_program_arrives_as_the_value_written_by_hand() -> None:
    event = decode(define_program=S.DefineProgram(program_id=3, program=written.PROGRAM))
    assert event == events.DefinitionRequested(SESSION, own(3), written.PROGRAM_VALUE)  # type: ignore[arg-type]


def test_specs_that_are_the_same_become_one_object() -> None:
    program = decode(define_program=S.DefineProgram(program_id=3, program=written.PROGRAM)).program
    argument = program.graphs[0].nodes[0].kind
    assert argument.specs[0] is program.computations[0].parameters[0]


OPERATIONS: list[tuple[Operation, Any]] = [
    (
        Operation(
            run_program=S.RunProgram(run_id=4, program_id=3, arguments=[9, 8], first_result_id=20, donated=[1], launch_id=1 << 40)
        ),
        events.RunRequested(SESSION, own(4), own(3), (own(9), own(8)), own(20), (1,), 1 << 40),  # type: ignore[arg-type]
    ),
    (
        Operation(fuse_program=S.FuseProgram(program_id=3, groups=written.PROGRAM.fused_groups)),
        events.FusionRequested(SESSION, own(3), written.PROGRAM_VALUE.fused),  # type: ignore[arg-type]
    ),
    (
        Operation(register_program=S.RegisterProgram(program_id=3, name="team/step.v2_x-y", replace=True)),
        events.RegistrationRequested(SESSION, own(3), "team/step.v2_x-y", True),  # type: ignore[arg-type]
    ),
    (
        Operation(open_program=S.OpenProgram(program_id=5, name="f", version=2, devices=[4, 5])),
        events.OpeningRequested(SESSION, own(5), "f", 2, (4, 5)),  # type: ignore[arg-type]
    ),
    (
        Operation(unregister_program=S.UnregisterProgram(request_id=77, name="a" * 200)),
        events.UnregistrationRequested(SESSION, 77, "a" * 200, 0),
    ),
    (Operation(cancel=S.CancelWork(views=[6])), events.CancelRequested(SESSION, (own(6),))),  # type: ignore[arg-type]
    (
        Operation(release=S.Release(views=[1], executables=[2], programs=[3])),
        events.Released(SESSION, (own(1),), (own(2),), (own(3),)),  # type: ignore[arg-type]
    ),
]


@pytest.mark.parametrize(("operation", "event"), OPERATIONS, ids=lambda value: type(value).__name__)
def test_an_operation_on_programs_arrives_as_its_event(operation: Operation, event: Any) -> None:
    assert OperationDecoder(Programs(), {}).decode(SESSION, [operation]) == [event]


def changed(change: Callable[[Any], None]) -> Operation:
    program = P.Program()
    program.CopyFrom(written.PROGRAM)
    change(program)
    return Operation(define_program=S.DefineProgram(program_id=3, program=program))


def repeat_graphs(program: Any) -> None:
    program.graphs.extend([P.Graph()] * 1024)


def repeat_nodes(program: Any) -> None:
    program.graphs[0].nodes.extend([P.Node(result=P.ResultNode())] * (1 << 14))


def set_to(path: str, value: Any) -> Callable[[Any], None]:
    def change(program: Any) -> None:
        target = program
        *way, last = path.split(".")
        for step in way:
            target = target[int(step)] if step.isdecimal() else getattr(target, step)
        setattr(target, last, value)

    return change


MALFORMED: list[tuple[Operation, str]] = [
    (Operation(define_program=S.DefineProgram(program=written.PROGRAM)), "define_program.program_id is outside"),
    (Operation(define_program=S.DefineProgram(program_id=3)), "program.graphs is empty"),
    (changed(repeat_graphs), "program.graphs has more than 1024 entries"),
    (changed(repeat_nodes), "program.graphs.nodes has more than 16384 entries"),
    (
        changed(lambda program: program.computations.extend([P.Computation(executable_id=1)] * 4096)),
        "program.computations has more than 4096 entries",
    ),
    (
        changed(lambda program: program.graphs[0].nodes[1].inputs.extend([P.Edge()] * (1 << 19))),
        "program.graphs.nodes.inputs has more than",
    ),
    (
        changed(lambda program: program.graphs[0].nodes[0].argument.specs.extend([types_pb2.ArraySpec()] * (1 << 19))),
        "specs of program has more than 524288 entries",
    ),
    (changed(set_to("dispatch", 9)), "program.dispatch is newer"),
    (changed(set_to("name", "a\nb")), "program.name holds control characters"),
    (changed(set_to("graphs.0.nodes.1.source", "x" * 1025)), "program.graphs.nodes.source is longer"),
    (changed(lambda program: program.graphs[1].nodes.add(name="f")), "a node of a program has no kind or one that is newer"),
    (changed(lambda program: program.devices.append(-1)), "program.devices holds a negative number"),
    (changed(set_to("computations.0.executable_id", 1 << 39)), "program.computations.executable_id is outside 1..2^39-1"),
    (
        changed(lambda program: program.computations[0].parameters[0].devices.append(-1)),
        "program.computations.parameters.devices holds a negative number",
    ),
    (
        changed(lambda program: program.graphs[0].nodes[0].argument.specs[0].shape.append(-1)),
        "program.graphs.nodes.argument.specs.shape holds a negative number",
    ),
    (
        changed(lambda program: program.graphs[0].nodes[3].loop.carried.append(types_pb2.ArraySpec(shape=[1] * 65))),
        "program.graphs.nodes.loop.carried has more than 64 dimensions",
    ),
    (Operation(run_program=S.RunProgram(program_id=1)), "run_program.run_id is outside"),
    (Operation(fuse_program=S.FuseProgram()), "fuse_program.program_id is outside"),
    (Operation(fuse_program=S.FuseProgram(program_id=1, groups=[P.FusedGroup()])), "fused_groups.computation.executable_id is"),
    (
        Operation(fuse_program=S.FuseProgram(program_id=1, groups=[P.FusedGroup()] * 4097)),
        "fused_groups has more than 4096 entries",
    ),
    (
        changed(lambda program: program.fused_groups[0].inputs.extend([P.NodeInput()] * (1 << 19))),
        "fused_groups.inputs has more than",
    ),
    (Operation(run_program=S.RunProgram(run_id=1, program_id=1, arguments=[1 << 39])), "run_program.arguments holds an id"),
    (Operation(run_program=S.RunProgram(run_id=1, program_id=1, first_result_id=1 << 39)), "first_result_id is too large"),
    (Operation(open_program=S.OpenProgram(program_id=1, name="f", devices=[-1])), "open_program.devices holds a negative"),
    (Operation(cancel=S.CancelWork(views=[0])), "cancel.views holds an id"),
    (Operation(release=S.Release(programs=[1 << 39])), "release.programs holds an id"),
]


@pytest.mark.parametrize(("operation", "sentence"), MALFORMED, ids=lambda value: value if isinstance(value, str) else "")
def test_a_malformed_operation_on_programs_gets_one_sentence(operation: Operation, sentence: str) -> None:
    with pytest.raises(PathwaysError) as refusal:
        OperationDecoder(Programs(), {}).decode(SESSION, [operation])
    message = refusal.value.failure.message
    assert message.startswith(f"malformed message: {sentence}")
    assert "\n" not in message
    assert len(message) < 400


def test_a_program_larger_than_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_programs, "PROGRAM_GRAPH_BYTES_MAX", written.PROGRAM.ByteSize() - 1)
    with pytest.raises(PathwaysError, match="program has more than"):
        decode(define_program=S.DefineProgram(program_id=3, program=written.PROGRAM))


@pytest.mark.parametrize("name", ["", ".", "a/", "/a", "-a", "a b", "é", "a\n", "a" * 201, "a:b", "a\0"])
def test_a_name_with_anything_but_letters_digits_and_marks_between_is_refused(name: str) -> None:
    for operation in (
        Operation(register_program=S.RegisterProgram(program_id=1, name=name)),
        Operation(open_program=S.OpenProgram(program_id=1, name=name)),
        Operation(unregister_program=S.UnregisterProgram(name=name)),
    ):
        with pytest.raises(PathwaysError, match=r"name must have 1 to 200 letters and digits, with \. _ - / only between them"):
            OperationDecoder(Programs(), {}).decode(SESSION, [operation])


def run_plan(sequence: int, previous: int, end_step: int = 5, run: int = 9) -> effects.RunPlan:
    return effects.RunPlan(run, 3, (1,), 4, 64, (), run, 10**9, end_step, sequence, previous, 6)  # type: ignore[arg-type]


def test_a_plan_for_all_hosts_and_equal_runs_are_encoded_once() -> None:
    asked: list[str] = []

    def address_of(host: str) -> str:
        asked.append(host)
        return f"{host}:1"

    encoder = Encoder(Tickets(b"key"), Programs(), address_of, "0.1.0")
    plan, run = encoder.command(written.PLAN), encoder.command(run_plan(1, 0))
    assert encoder.command(written.PLAN) is plan
    assert encoder.command(run_plan(1, 0)) is run
    assert asked == ["a0", "b0", "b1"]
    assert encoder.command(run_plan(1, 2)) != run
    encoder.forget_last()
    assert encoder.command(written.PLAN) == plan
    assert len(asked) == 6


def test_a_run_has_a_key_of_its_own_that_can_be_derived_again() -> None:
    tickets = Tickets()
    assert tickets.run_key(1) == tickets.run_key(1)
    assert len({tickets.run_key(number) for number in range(100)}) == 100
    assert tickets.run_key(1) != Tickets().run_key(1)


def test_the_last_sequence_of_a_range_follows_from_the_plan() -> None:
    counts = RunCounts()
    counts.load(written.PLAN)
    # Island a launches steps 0 and 4, island b step 2.
    assert counts.run(run_plan(11, 10), "a") == 12  # type: ignore[arg-type]
    assert counts.run(run_plan(31, 30), "b") == 31  # type: ignore[arg-type]
    assert counts.run(run_plan(13, 12, end_step=1), "a") == 13  # type: ignore[arg-type]
    assert counts.run(run_plan(0, 31, end_step=1), "b") == 0  # type: ignore[arg-type]
    further = effects.GrantRun(9, 1, 5, 14, 13, 5)  # type: ignore[arg-type]
    assert counts.grant(further, "a") == 14  # type: ignore[arg-type]
    counts.unload(effects.UnloadPlan((3,)))
    assert counts.run(run_plan(20, 19), "a") == 20  # type: ignore[arg-type]


def test_frames_with_runs_and_gangs_of_runs_are_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            workers = {"a0": running.worker_call(), "b0": running.worker_call()}
            for name, call in workers.items():
                await join(call, name, name[0])
            answers: dict[int, list[tuple[str, Any]]] = {
                1: [("a0", written.PLAN), ("b0", written.PLAN), ("a0", run_plan(1, 0)), ("b0", run_plan(1, 0))],
                2: [("a0", effects.Cancel(1))],  # type: ignore[arg-type]
                3: [("a0", run_plan(3, 2, end_step=1, run=10))],
                4: [("a0", effects.GrantRun(10, 1, 5, 4, 3, 6))],  # type: ignore[arg-type]
            }
            running.core.answers[events.FenceRequested] = lambda event: [
                effects.SendToHost(host, command)  # type: ignore[arg-type]
                for host, command in answers[event.fence_id]
            ]
            call = running.session_call()
            await open_session(call)
            for number, count in ((1, 2), (2, 1), (3, 1), (4, 1)):
                await call.write(S.ClientFrame(sequence=number, operations=[Operation(fence=S.Fence(fence_id=number))]))
                _, frames = await read_items(workers["a0"], "commands", count)
                assert len(frames) == 1
                await workers["a0"].write(W.WorkerFrame(acknowledged=frames[-1].sequence))
            await read_items(workers["b0"], "commands", 2)
            url = f"http://127.0.0.1:{running.app.metrics_port}/metrics"
            text = (await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=TIMEOUT_S).read())).decode()
            assert 'pathways_run_frames_total{host="a0"} 3.0' in text
            assert 'pathways_run_frames_total{host="b0"} 1.0' in text
            # Both runs launch two gangs on island a; only the first one is known to have reached island b.
            assert 'pathways_server_gangs_granted_total{island="a"} 4.0' in text
            assert 'pathways_server_gangs_granted_total{island="b"} 1.0' in text
            running.core.view = Snapshot(
                (IslandFigures("a", "ACTIVE", 6, (HostFigures("a0", "ACTIVE", 1, 1, "", 42, 4, 0),), 4, 0, 0, ""),), ()
            )
            status = await running.clusters().GetStatus(
                cluster_pb2.GetStatusRequest(), metadata=bearer(running.token), timeout=TIMEOUT_S
            )
            assert (status.islands[0].hosts[0].run_frames, status.islands[0].hosts[0].gangs_granted) == (3, 4)

    asyncio.run(scenario())


def test_progress_tells_launched_and_finished_and_is_not_repeated(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            worker = running.worker_call()
            await join(worker)
            ready = W.HostEvent(epoch_ready=W.EpochReady(epoch=3, platform="cpu", memory_kinds=["device"]))
            await worker.write(W.WorkerFrame(sequence=1, events=[ready]))
            for launched, finished in ((2, 0), (2, 0), (2, 1), (5, 1), (5, 5), (5, 5)):
                await worker.write(W.WorkerFrame(launched_through=launched, finished_through=finished))
            died = W.ExecutorDied(epoch=3, exit="9", launched_through=7, finished_through=6, entered_through=8, loading=5)
            told = [W.HostEvent(executor_died=died)]
            await worker.write(W.WorkerFrame(sequence=2, events=told, launched_through=7, finished_through=6))
            (lost,) = await running.core.wait_for(events.ExecutorLost)
            wanted = events.ExecutorLost("a0", 3, "9", "", 7, 6, entered_through=8, loading=5)  # type: ignore[arg-type]
            assert lost == wanted
            progress = [(each.launched_through, each.finished_through) for each in running.core.of(events.HostProgressed)]
            assert progress == [(2, 0), (2, 1), (5, 1), (5, 5)]

    asyncio.run(scenario())


def test_a_collected_trace_reaches_the_core_as_it_came() -> None:
    message = W.TraceCollected(trace_id=4, execution_id=9, received_ns=1, rows=[W.TraceRow(step=2, started_ns=5)])
    event = host_event("a0", "trace_collected", message)  # type: ignore[arg-type]
    assert event == events.TraceCollected("a0", 4, message.SerializeToString())  # type: ignore[arg-type]


def test_a_tool_gets_the_trace_that_the_core_collected(tmp_path: Path) -> None:
    collected = W.TraceCollected(trace_id=1, execution_id=9, received_ns=5, rows=[W.TraceRow(step=0, node=1, sequence=1)])

    def answer(event: events.TraceRequested) -> list[effects.Effect]:
        nodes = (effects.TracedNode(1, "f", "t.py:3", "a", 9),)
        hosts = (("a0", "a", collected.SerializeToString()),)
        requested_ns = time.monotonic_ns() - 10**9
        return [
            effects.TraceReady(
                event.request_id,
                event.execution_id or 9,
                1,
                "step",
                nodes,
                hosts,
                requested_ns,
                0,
                None,
                (effects.TracedPiece(9, "turn 2 of loop"),),
                5,
                ("a1",),
                ("a2",),
            )  # type: ignore[arg-type]
        ]

    async def scenario() -> None:
        async with controller(tmp_path) as running:
            running.core.answers[events.TraceRequested] = answer
            ask = running.clusters().GetTrace
            got = await ask(cluster_pb2.GetTraceRequest(), metadata=bearer(running.token), timeout=TIMEOUT_S)
            age_s = (time.time_ns() - got.requested_ns) / 1e9
            assert 0.9 < age_s < 1 + TIMEOUT_S
            got.requested_ns = 0
            assert got == cluster_pb2.GetTraceResponse(
                execution_id=9,
                session_number=1,
                program="step",
                nodes=[cluster_pb2.TraceNode(node=1, name="f", source="t.py:3", island="a", execution_id=9)],
                hosts=[cluster_pb2.TraceHost(host="a0", island="a", trace=collected)],
                pieces=[cluster_pb2.TracePiece(execution_id=9, label="turn 2 of loop")],
                piece_count=5,
                late_hosts=["a1"],
                lost_hosts=["a2"],
            )
            again = await ask(cluster_pb2.GetTraceRequest(execution_id=7), metadata=bearer(running.token), timeout=TIMEOUT_S)
            assert again.execution_id == 7
            assert [event.execution_id for event in running.core.of(events.TraceRequested)] == [0, 7]
            behind = cluster_pb2.IslandPosition(island="a", epoch=4, sequence=9)
            session = cluster_pb2.GetTraceRequest(session_number=3, after=[behind])
            await ask(session, metadata=bearer(running.token), timeout=TIMEOUT_S)
            asked = running.core.of(events.TraceRequested)[-1]
            assert (asked.execution_id, asked.session, asked.after) == (0, 3, (("a", 4, 9),))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ask(cluster_pb2.GetTraceRequest(), timeout=TIMEOUT_S)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED

    asyncio.run(scenario())


def test_a_trace_that_never_comes_ends_at_a_named_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            monkeypatch.setattr(running.app.loop.traces, "_timeout_ns", 10**8)
            with pytest.raises(grpc.aio.AioRpcError, match="the trace was not collected within"):
                await running.clusters().GetTrace(
                    cluster_pb2.GetTraceRequest(), metadata=bearer(running.token), timeout=TIMEOUT_S
                )
            assert not running.app.loop.traces._waiting

    asyncio.run(scenario())


def test_registered_programs_are_listed_with_their_specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = types.SimpleNamespace(
        tenant="ads", name="team/step", version=2, device_count=4, node_count=9, arguments=(written.SPEC,),
        results=(written.OTHER,),
    )  # fmt: skip
    registry = types.SimpleNamespace(listed=lambda _state, tenant: [listed] if tenant is None else [])
    monkeypatch.setattr(pathways_server.core, "registry", registry, raising=False)

    async def scenario() -> None:
        async with controller(tmp_path) as running:
            ask = running.clusters().ListPrograms
            got = await ask(cluster_pb2.ListProgramsRequest(), metadata=bearer(running.token), timeout=TIMEOUT_S)
            program = cluster_pb2.RegisteredProgram(
                name="team/step",
                version=2,
                device_count=4,
                node_count=9,
                arguments=[written.SPEC_MESSAGE],
                results=[written.OTHER_MESSAGE],
                tenant="ads",
            )
            assert got == cluster_pb2.ListProgramsResponse(programs=[program])
            with pytest.raises(grpc.aio.AioRpcError):
                await ask(cluster_pb2.ListProgramsRequest(), timeout=TIMEOUT_S)

    asyncio.run(scenario())
