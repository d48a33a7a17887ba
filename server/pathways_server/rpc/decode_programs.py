"""Operations on programs to events: graphs with global ids, bounded in nodes, computations, graphs and bytes.

Whether nodes, edges and specs fit together is the core's question; here every number, name and list is checked alone. Specs
that are the same become one object: both ends of an edge and all microbatches name the same few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pathways_common.model import graph
from pathways_common.model.array import ArraySpec
from pathways_common.model.bounds import (
    PROGRAM_COMPUTATIONS_MAX,
    PROGRAM_GRAPH_BYTES_MAX,
    PROGRAM_GRAPHS_MAX,
    PROGRAM_MENTIONS_MAX,
    PROGRAM_NAME_MAX,
    PROGRAM_NODES_MAX,
)
from pathways_common.model.ids import SessionNumber
from pathways_proto.v1 import programs_pb2, sessions_pb2, types_pb2

from pathways_server.core import events
from pathways_server.rpc.form import (
    bad,
    checked_first_result,
    checked_id,
    checked_ids,
    checked_length,
    checked_naturals,
    checked_spec,
    checked_words,
)

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_SEQUENTIAL = {
    programs_pb2.DISPATCH_UNSPECIFIED: False,
    programs_pb2.DISPATCH_PARALLEL: False,
    programs_pb2.DISPATCH_SEQUENTIAL: True,
}


def checked_name(name: str, what: str) -> str:
    """The name under which a program is registered."""
    if not 0 < len(name) <= PROGRAM_NAME_MAX or _NAME.fullmatch(name) is None:
        shown = repr(name[: PROGRAM_NAME_MAX + 1])
        raise bad(f"{what} must have 1 to {PROGRAM_NAME_MAX} letters and digits, with . _ - / only between them", shown)
    return name


class ProgramReader:
    """Reads one Program message."""

    def __init__(self, session: SessionNumber) -> None:
        self._session = session
        self._specs: dict[bytes, ArraySpec] = {}

    def read(self, message: programs_pb2.Program) -> graph.Program:
        """The program; raises PathwaysError for a breach of form."""
        size = message.ByteSize()
        if size > PROGRAM_GRAPH_BYTES_MAX:
            raise bad(f"program has more than {PROGRAM_GRAPH_BYTES_MAX} bytes besides its computations", size)
        _bounded(len(message.computations), PROGRAM_COMPUTATIONS_MAX, "program.computations")
        _bounded(len(message.graphs), PROGRAM_GRAPHS_MAX, "program.graphs")
        _bounded(sum(len(part.nodes) for part in message.graphs), PROGRAM_NODES_MAX, "program.graphs.nodes")
        inputs = sum(len(node.inputs) for part in message.graphs for node in part.nodes)
        _bounded(inputs, PROGRAM_MENTIONS_MAX, "program.graphs.nodes.inputs")
        _bounded(_specs_named(message), PROGRAM_MENTIONS_MAX, "specs of program")
        if not message.graphs:
            raise bad("program.graphs is empty", "no graph")
        if message.dispatch not in _SEQUENTIAL:
            raise bad("program.dispatch is newer than this server", message.dispatch)
        groups = self.groups(message.fused_groups)
        return graph.Program(
            name=checked_words(message.name, "program.name"),
            devices=checked_naturals(message.devices, "program.devices"),
            computations=tuple(self._computation(each) for each in message.computations),
            graphs=tuple(graph.Graph(tuple(self._node(node) for node in part.nodes)) for part in message.graphs),
            sequential=_SEQUENTIAL[message.dispatch],
            fused=groups,
        )

    def groups(self, messages: Sequence[programs_pb2.FusedGroup]) -> tuple[graph.FusedGroup, ...]:
        """Fused groups of a program; raises PathwaysError for a breach of form."""
        _bounded(len(messages), PROGRAM_COMPUTATIONS_MAX, "fused_groups")
        specs = sum(len(each.computation.parameters) + len(each.computation.results) for each in messages)
        _bounded(specs, PROGRAM_MENTIONS_MAX, "specs of fused_groups")
        _bounded(sum(len(each.inputs) + len(each.outputs) for each in messages), PROGRAM_MENTIONS_MAX, "fused_groups.inputs")
        return tuple(self._group(message) for message in messages)

    def _group(self, message: programs_pb2.FusedGroup) -> graph.FusedGroup:
        return graph.FusedGroup(
            graph=message.graph,
            first_node=message.first_node,
            last_node=message.last_node,
            computation=self._computation(message.computation, "fused_groups.computation"),
            inputs=tuple([graph.NodeInput(each.node, each.input) for each in message.inputs]),
            outputs=tuple([graph.Edge(each.node, each.output, each.HasField("sparse")) for each in message.outputs]),
        )

    def _computation(self, message: programs_pb2.Computation, what: str = "program.computations") -> graph.Computation:
        return graph.Computation(
            executable_id=checked_id(self._session, message.executable_id, f"{what}.executable_id"),
            parameters=self._spec_list(message.parameters, f"{what}.parameters"),
            results=self._spec_list(message.results, f"{what}.results"),
        )

    def _spec_list(self, messages: Iterable[types_pb2.ArraySpec], what: str) -> tuple[ArraySpec, ...]:
        return tuple([self._spec(message, what) for message in messages])

    def _spec(self, message: types_pb2.ArraySpec, what: str) -> ArraySpec:
        encoded = message.SerializeToString(deterministic=True)
        known = self._specs.get(encoded)
        if known is None:
            known = self._specs[encoded] = checked_spec(message, what)
        return known

    def _node(self, message: programs_pb2.Node) -> graph.Node:
        checked_length(message.inputs, "program.graphs.nodes.inputs")
        return graph.Node(
            name=checked_words(message.name, "program.graphs.nodes.name"),
            source=checked_words(message.source, "program.graphs.nodes.source"),
            inputs=tuple([graph.Edge(edge.node, edge.output, edge.HasField("sparse")) for edge in message.inputs]),
            kind=self._kind(message),
        )

    def _kind(self, message: programs_pb2.Node) -> graph.Kind:
        match message.WhichOneof("kind"):
            case "computation":
                return graph.ComputationKind(message.computation.computation)
            case "argument":
                return graph.ArgumentKind(self._spec_list(message.argument.specs, "program.graphs.nodes.argument.specs"))
            case "result":
                return graph.ResultKind()
            case "branch":
                branch = message.branch
                checked_length(branch.limits, "program.graphs.nodes.branch.limits")
                results = self._spec_list(branch.results, "program.graphs.nodes.branch.results")
                return graph.BranchKind(
                    checked_naturals(branch.graphs, "program.graphs.nodes.branch.graphs"), tuple(branch.limits), results
                )
            case "loop":
                loop = message.loop
                carried = self._spec_list(loop.carried, "program.graphs.nodes.loop.carried")
                return graph.LoopKind(loop.condition, loop.body, loop.max_iterations, carried)
            case _:
                raise bad("a node of a program has no kind or one that is newer than this server", repr(message.name))


def _specs_named(message: programs_pb2.Program) -> int:
    count = sum(len(each.parameters) + len(each.results) for each in message.computations)
    for part in message.graphs:
        for node in part.nodes:
            count += len(node.argument.specs) + len(node.branch.results) + len(node.loop.carried)
    return count


def _bounded(count: int, bound: int, what: str) -> None:
    if count > bound:
        raise bad(f"{what} has more than {bound} entries", count)


def _define(session: SessionNumber, message: sessions_pb2.DefineProgram) -> events.Event:
    program_id = checked_id(session, message.program_id, "define_program.program_id")
    return events.DefinitionRequested(session, program_id, ProgramReader(session).read(message.program))


def _fuse(session: SessionNumber, message: sessions_pb2.FuseProgram) -> events.Event:
    size = message.ByteSize()
    if size > PROGRAM_GRAPH_BYTES_MAX:
        raise bad(f"fuse_program has more than {PROGRAM_GRAPH_BYTES_MAX} bytes", size)
    program_id = checked_id(session, message.program_id, "fuse_program.program_id")
    return events.FusionRequested(session, program_id, ProgramReader(session).groups(message.groups))


def _run(session: SessionNumber, message: sessions_pb2.RunProgram) -> events.Event:
    return events.RunRequested(
        session,
        checked_id(session, message.run_id, "run_program.run_id"),
        checked_id(session, message.program_id, "run_program.program_id"),
        checked_ids(session, message.arguments, "run_program.arguments"),
        checked_first_result(session, message.first_result_id),
        checked_naturals(message.donated, "run_program.donated"),
        message.launch_id,
    )


def _register(session: SessionNumber, message: sessions_pb2.RegisterProgram) -> events.Event:
    program_id = checked_id(session, message.program_id, "register_program.program_id")
    return events.RegistrationRequested(session, program_id, checked_name(message.name, "register_program.name"), message.replace)


def _open(session: SessionNumber, message: sessions_pb2.OpenProgram) -> events.Event:
    return events.OpeningRequested(
        session,
        checked_id(session, message.program_id, "open_program.program_id"),
        checked_name(message.name, "open_program.name"),
        message.version,
        checked_naturals(message.devices, "open_program.devices"),
    )


def _unregister(session: SessionNumber, message: sessions_pb2.UnregisterProgram) -> events.Event:
    name = checked_name(message.name, "unregister_program.name")
    return events.UnregistrationRequested(session, message.request_id, name, message.version)


def _cancel(session: SessionNumber, message: sessions_pb2.CancelWork) -> events.Event:
    return events.CancelRequested(session, checked_ids(session, message.views, "cancel.views"))


PROGRAM_OPERATIONS: Mapping[str, Callable[[SessionNumber, Any], events.Event]] = {
    "run_program": _run,
    "define_program": _define,
    "fuse_program": _fuse,
    "register_program": _register,
    "open_program": _open,
    "unregister_program": _unregister,
    "cancel": _cancel,
}
