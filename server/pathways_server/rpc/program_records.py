"""A registered program as bytes and back: its graph is a Program message whose executable ids are positions, from 1.

Written by one life of the controller and read by later ones, so it stands on programs.proto, which only grows.
"""

from __future__ import annotations

from typing import assert_never

from pathways_common.model import graph
from pathways_common.model.array import ArraySpec
from pathways_common.model.ids import SessionNumber
from pathways_common.rpc.convert import spec_to_proto
from pathways_proto.v1 import programs_pb2, types_pb2

from pathways_server.rpc.decode_programs import ProgramReader

_NOBODY = SessionNumber(0)


def program_to_bytes(program: graph.Program) -> bytes:
    """The record of a program."""
    message = programs_pb2.Program(
        name=program.name,
        devices=program.devices,
        computations=[_computation(each) for each in program.computations],
        graphs=[programs_pb2.Graph(nodes=[_node(node) for node in part.nodes]) for part in program.graphs],
        dispatch=programs_pb2.DISPATCH_SEQUENTIAL if program.sequential else programs_pb2.DISPATCH_PARALLEL,
        fused_groups=[_group(group) for group in program.fused],
    )
    return bytes(message.SerializeToString())


def program_from_bytes(data: bytes) -> graph.Program:
    """The program of a record; raises PathwaysError or DecodeError if it is none."""
    return ProgramReader(_NOBODY).read(programs_pb2.Program.FromString(data))


def _computation(computation: graph.Computation) -> programs_pb2.Computation:
    return programs_pb2.Computation(
        executable_id=computation.executable_id,
        parameters=_specs(computation.parameters),
        results=_specs(computation.results),
    )


def _group(group: graph.FusedGroup) -> programs_pb2.FusedGroup:
    return programs_pb2.FusedGroup(
        graph=group.graph,
        first_node=group.first_node,
        last_node=group.last_node,
        computation=_computation(group.computation),
        inputs=[programs_pb2.NodeInput(node=each.node, input=each.input) for each in group.inputs],
        outputs=[programs_pb2.Edge(node=each.node, output=each.output) for each in group.outputs],
    )


def _specs(specs: tuple[ArraySpec, ...]) -> list[types_pb2.ArraySpec]:
    return [spec_to_proto(spec) for spec in specs]


def _node(node: graph.Node) -> programs_pb2.Node:
    message = programs_pb2.Node(name=node.name, source=node.source)
    for edge in node.inputs:
        added = message.inputs.add(node=edge.node, output=edge.output)
        if edge.sparse:
            added.sparse.SetInParent()
    kind = node.kind
    match kind:
        case graph.ArgumentKind():
            message.argument.specs.extend(_specs(kind.specs))
            message.argument.SetInParent()
        case graph.ComputationKind():
            message.computation.computation = kind.computation
            message.computation.SetInParent()
        case graph.ResultKind():
            message.result.SetInParent()
        case graph.BranchKind():
            branch = programs_pb2.BranchNode(graphs=kind.graphs, limits=kind.limits, results=_specs(kind.results))
            message.branch.CopyFrom(branch)
        case graph.LoopKind():
            loop = programs_pb2.LoopNode(
                condition=kind.condition, body=kind.body, max_iterations=kind.max_iterations, carried=_specs(kind.carried)
            )
            message.loop.CopyFrom(loop)
        case _:
            assert_never(kind)
    return message
