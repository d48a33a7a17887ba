"""Programs as messages and as values of the core, written by hand side by side."""

from __future__ import annotations

from hashlib import sha256
from hmac import digest
from typing import Any

from pathways_common.model import graph
from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure, Reason
from pathways_proto.v1 import programs_pb2, sessions_pb2, types_pb2, workers_pb2
from pathways_server.core import effects

P, S, W = programs_pb2, sessions_pb2, workers_pb2
FAILURE = Failure(Reason.CANCELLED, "ended", host="a0", metadata={"host": "a0"})
FAILURE_MESSAGE = types_pb2.Failure(reason="CANCELLED", message="ended", host="a0", metadata={"host": "a0"})
SPEC = ArraySpec(11, (4,), b"s", (2,), (0, 1))
SPEC_MESSAGE = types_pb2.ArraySpec(dtype=11, shape=[4], sharding=b"s", shard_shape=[2], devices=[0, 1])
OTHER = ArraySpec(4, (), b"", (), (2,), "pinned_host")
OTHER_MESSAGE = types_pb2.ArraySpec(dtype=4, devices=[2], memory_kind="pinned_host")

PROGRAM = P.Program(
    name="step",
    devices=[0, 1, 2],
    computations=[P.Computation(executable_id=7, parameters=[SPEC_MESSAGE], results=[OTHER_MESSAGE])],
    graphs=[
        P.Graph(
            nodes=[
                P.Node(argument=P.ArgumentNode(specs=[SPEC_MESSAGE])),
                P.Node(name="forward", source="train.py:12", inputs=[P.Edge(node=0, output=0)], computation=P.ComputationNode()),
                P.Node(
                    inputs=[P.Edge(node=1, output=0)],
                    branch=P.BranchNode(graphs=[1], limits=[-5, 9], results=[OTHER_MESSAGE]),
                ),
                P.Node(
                    inputs=[P.Edge(node=2, output=3, sparse=P.SparseEdge(elements_max=4))],
                    loop=P.LoopNode(condition=1, body=2, max_iterations=1 << 63, carried=[OTHER_MESSAGE]),
                ),
                P.Node(inputs=[P.Edge(node=3, output=0)], result=P.ResultNode()),
            ]
        ),
        P.Graph(),
    ],
    dispatch=P.DISPATCH_SEQUENTIAL,
    fused_groups=[
        P.FusedGroup(
            graph=1,
            first_node=2,
            last_node=4,
            computation=P.Computation(executable_id=9, parameters=[SPEC_MESSAGE], results=[OTHER_MESSAGE, SPEC_MESSAGE]),
            inputs=[P.NodeInput(node=2, input=1)],
            outputs=[P.Edge(node=3), P.Edge(node=4, output=1)],
        )
    ],
)
# The same for session 1.
PROGRAM_VALUE = graph.Program(
    name="step",
    devices=(0, 1, 2),
    computations=(graph.Computation(1 << 40 | 7, (SPEC,), (OTHER,)),),  # type: ignore[arg-type]
    graphs=(
        graph.Graph(
            (
                graph.Node("", "", (), graph.ArgumentKind((SPEC,))),
                graph.Node("forward", "train.py:12", (graph.Edge(0, 0),), graph.ComputationKind(0)),
                graph.Node("", "", (graph.Edge(1, 0),), graph.BranchKind((1,), (-5, 9), (OTHER,))),
                graph.Node("", "", (graph.Edge(2, 3, sparse=True),), graph.LoopKind(1, 2, 1 << 63, (OTHER,))),
                graph.Node("", "", (graph.Edge(3, 0),), graph.ResultKind()),
            )
        ),
        graph.Graph(()),
    ),
    sequential=True,
    fused=(
        graph.FusedGroup(
            1, 2, 4,
            graph.Computation(1 << 40 | 9, (SPEC,), (OTHER, SPEC)),  # type: ignore[arg-type]
            (graph.NodeInput(2, 1),),
            (graph.Edge(3, 0), graph.Edge(4, 1)),
        ),
    ),
)  # fmt: skip

# Two launches on island a, one on island b with two members.
PLAN = effects.LoadPlan(
    plan_id=3,
    hosts=(effects.PlanHost("a0", "a", 5), effects.PlanHost("b0", "b", 6), effects.PlanHost("b1", "b", 6)),  # type: ignore[arg-type]
    specs=(effects.PlanSpec(SPEC, (1, 2), (0, 1)),),
    steps=(
        effects.PlanLaunch(1, 7, (0,), (1, 2), (0,), (0,)),  # type: ignore[arg-type]
        effects.PlanMove(1, 3, 0, 4),
        effects.PlanLaunch(2, 8, (3,), (4,), (), (1, 2)),  # type: ignore[arg-type]
        effects.PlanFree((1, 3)),
        effects.PlanLaunch(3, 7, (2,), (5,), (), (0,)),  # type: ignore[arg-type]
    ),
    argument_count=1,
    slot_count=6,
    results=(4, 5),
    name="step",
)
PLAN_MESSAGE = W.LoadPlan(
    plan_id=3,
    hosts=[
        W.PlanHost(name="a0", island="a", epoch=5, data_address="a0:1"),
        W.PlanHost(name="b0", island="b", epoch=6, data_address="b0:1"),
        W.PlanHost(name="b1", island="b", epoch=6, data_address="b1:1"),
    ],
    specs=[W.PlanSpec(spec=SPEC_MESSAGE, hosts=[1, 2], local_devices=[0, 1])],
    steps=[
        W.PlanStep(launch=W.PlanLaunch(node=1, executable_id=7, arguments=[0], results=[1, 2], non_donatable=[0], hosts=[0])),
        W.PlanStep(move=W.PlanMove(source=1, destination=3, source_spec=0, destination_spec=4)),
        W.PlanStep(launch=W.PlanLaunch(node=2, executable_id=8, arguments=[3], results=[4], hosts=[1, 2])),
        W.PlanStep(free=W.PlanFree(slots=[1, 3])),
        W.PlanStep(launch=W.PlanLaunch(node=3, executable_id=7, arguments=[2], results=[5], hosts=[0])),
    ],
    argument_count=1,
    slot_count=6,
    results=[4, 5],
    name="step",
)
BIG = 5 << 40 | 123
VALUES = 5 << 40 | 1 << 39 | 64

PROGRAM_COMMANDS: list[tuple[Any, Any]] = [
    (PLAN, W.HostCommand(load_plan=PLAN_MESSAGE)),
    (
        effects.GroupPlan(3, (effects.PlanGroup(0, 5, 3, effects.PlanLaunch(1, 9, (0,), (4, 5), (0,), (0,))),)),  # type: ignore[arg-type]
        W.HostCommand(
            group_plan=W.GroupPlan(
                plan_id=3,
                groups=[
                    W.PlanGroup(
                        first_step=0,
                        end_step=5,
                        last_node=3,
                        launch=W.PlanLaunch(node=1, executable_id=9, arguments=[0], results=[4, 5], non_donatable=[0], hosts=[0]),
                    )
                ],
            )
        ),
    ),
    (effects.UnloadPlan((3, 4)), W.HostCommand(unload_plan=W.UnloadPlan(plan_ids=[3, 4]))),
    (
        effects.RunPlan(BIG, 3, (1, BIG), 4, VALUES, (1,), 9, 10**9, 5, 21, 20, 6),  # type: ignore[arg-type]
        W.HostCommand(
            run_plan=W.RunPlan(
                execution_id=BIG,
                plan_id=3,
                arguments=[1, BIG],
                first_result_id=4,
                first_value_id=VALUES,
                donated=[1],
                ticket_key=digest(b"key", b"run:9", sha256),
                number=9,
                timeout_ns=10**9,
                end_step=5,
                sequence=21,
                previous=20,
                epoch=6,
            )
        ),
    ),
    (
        effects.GrantRun(BIG, 2, 5, 22, 20, 6),  # type: ignore[arg-type]
        W.HostCommand(grant_run=W.GrantRun(execution_id=BIG, first_step=2, end_step=5, sequence=22, previous=20, epoch=6)),
    ),
    (
        effects.GrantRun(BIG, 2, 5, 22, 20, 6, True),  # type: ignore[arg-type]
        W.HostCommand(
            grant_run=W.GrantRun(execution_id=BIG, first_step=2, end_step=5, sequence=22, previous=20, epoch=6, fused=True)
        ),
    ),
    (
        effects.RunPlan(BIG, 3, (), 4, VALUES, (), 9, 1, 5, 21, 20, 6, timed=True),  # type: ignore[arg-type]
        W.HostCommand(
            run_plan=W.RunPlan(
                execution_id=BIG,
                plan_id=3,
                first_result_id=4,
                first_value_id=VALUES,
                ticket_key=digest(b"key", b"run:9", sha256),
                number=9,
                timeout_ns=1,
                end_step=5,
                sequence=21,
                previous=20,
                epoch=6,
                timed=True,
            )
        ),
    ),
    (
        effects.GrantRun(BIG, 2, 5, 22, 20, 6, timed=True),  # type: ignore[arg-type]
        W.HostCommand(
            grant_run=W.GrantRun(execution_id=BIG, first_step=2, end_step=5, sequence=22, previous=20, epoch=6, timed=True)
        ),
    ),
    (effects.EndRun(BIG, FAILURE), W.HostCommand(end_run=W.EndRun(execution_id=BIG, failure=FAILURE_MESSAGE))),  # type: ignore[arg-type]
    (effects.CollectTrace(2, BIG), W.HostCommand(collect_trace=W.CollectTrace(trace_id=2, execution_id=BIG))),  # type: ignore[arg-type]
]

PROGRAM_REPLIES: list[tuple[Any, Any]] = [
    (
        effects.ProgramDefined(3, (SPEC,), (OTHER, SPEC), "team/step", 2, None),
        S.ServerOperation(
            program_defined=S.ProgramDefined(
                program_id=3, arguments=[SPEC_MESSAGE], results=[OTHER_MESSAGE, SPEC_MESSAGE], name="team/step", version=2
            )
        ),
    ),
    (
        effects.ProgramFused(3, 7, None),
        S.ServerOperation(program_fused=S.ProgramFused(program_id=3, group_count=7)),
    ),
    (
        effects.ProgramRegistered(3, "team/step", 2, None),
        S.ServerOperation(program_registered=S.ProgramRegistered(program_id=3, name="team/step", version=2)),
    ),
    (
        effects.ProgramUnregistered(4, FAILURE),
        S.ServerOperation(program_unregistered=S.ProgramUnregistered(request_id=4, failure=FAILURE_MESSAGE)),
    ),
]
