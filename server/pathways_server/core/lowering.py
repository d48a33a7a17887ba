"""Lowers one graph of a program onto placements: one launch per node, a move where two nodes lay a value out differently, a free
behind the last use of every value. The steps do not depend on shard counts.

A move stands right before the launch that needs it and serves every later consumer that wants the same layout. Arguments belong
to the caller and results to the session: neither is ever freed by a step.
"""

from __future__ import annotations

from typing import assert_never

from pathways_common.model.array import ITEM_BYTES
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.model.graph import ArgumentKind, BranchKind, ComputationKind, Edge, LoopKind, Node, Program, ResultKind

from .natural_order import natural
from .plan import Free, Launch, Move, PlacedSpec, Plan, Step
from .program_form import Laid, Ready, Specs, ready
from .records import Executable, Island, Session
from .state import State


def lower(state: State, session: Session, program: Program, graph: int = 0) -> Plan | Failure:
    """The plan of a graph whose executables are known, or what is wrong with the program."""
    try:
        specs = Specs(state, session, program)
        computations = [
            ready(state, session, specs, position, computation) for position, computation in enumerate(program.computations)
        ]
        if not 0 <= graph < len(program.graphs):
            raise fail(Reason.INVALID_ARGUMENT, f"the program has {len(program.graphs)} graphs and no number {graph}")
        return _Lowering(program, program.graphs[graph].nodes, specs, computations).plan()
    except PathwaysError as error:
        return numbered(state, error)


def numbered(state: State, error: PathwaysError) -> Failure:
    """What is wrong with a program, as a failure of its own."""
    failure = error.failure
    if failure.id:
        return failure
    return state.failure(failure.reason, failure.message, retryable=failure.retryable, **failure.metadata)


class _Lowering:
    """The work on one graph. Values are slots, each with the layout in which it lies."""

    def __init__(self, program: Program, nodes: tuple[Node, ...], specs: Specs, computations: list[Ready]) -> None:
        self._program = program
        self._nodes = nodes
        self._specs = specs
        self._computations = computations
        self._slots: list[Laid | None] = []  # None: the hidden result of a computation without results
        self._outputs: list[range] = []  # per node, the slots that it makes
        self._steps: list[Launch | Move] = []
        self._moved: dict[tuple[int, int], int] = {}  # slot and number of the layout -> slot of the moved value
        self._numbers: dict[int, int] = {}  # number of a layout -> position in the plan's specs
        self._placed: list[PlacedSpec] = []
        self._last: list[int] = []  # per slot, the step that uses it last; that which makes it if none does

    def plan(self) -> Plan:
        nodes = self._nodes
        if len(nodes) < 2 or not isinstance(nodes[0].kind, ArgumentKind) or not isinstance(nodes[-1].kind, ResultKind):
            message = "a graph begins with its argument node and ends with its result node; order the nodes so"
            raise fail(Reason.INVALID_ARGUMENT, message)
        arguments = self._arguments(nodes[0], nodes[0].kind)
        for position in range(1, len(nodes) - 1):
            self._node(position, nodes[position])
        results = self._results(nodes[-1])
        made = tuple(laid.placed for slot in results if (laid := self._slots[slot]) is not None)
        executables = {step.executable: None for step in self._steps if isinstance(step, Launch)}
        return Plan(
            name=self._program.name,
            nodes=nodes,
            arguments=arguments,
            results=results,
            result_specs=made,
            slot_count=len(self._slots),
            steps=self._finished(len(arguments), dict.fromkeys(results)),
            specs=tuple(self._placed),
            islands=_islands(arguments, executables),
            executables=tuple(executables),
            sequential=self._program.sequential,
        )

    # ---- nodes ------------------------------------------------------------------------------------------------------

    def _arguments(self, node: Node, kind: ArgumentKind) -> tuple[PlacedSpec, ...]:
        if node.inputs:
            raise fail(Reason.INVALID_ARGUMENT, "the argument node has inputs; it takes none")
        laid = [self._specs.laid(spec, f"argument {index}") for index, spec in enumerate(kind.specs)]
        self._outputs.append(self._make(laid, -1))
        return tuple(spec.placed for spec in laid)

    def _node(self, position: int, node: Node) -> None:
        match node.kind:
            case ComputationKind(computation):
                self._launch(position, node, computation)
            case BranchKind() | LoopKind():
                self._irregular(position, node)
            case ArgumentKind() | ResultKind():
                text = "a graph has one argument node, which is the first, and one result node, which is the last"
                raise fail(Reason.INVALID_ARGUMENT, f"{named(position, node)} is another argument or result node; {text}")
            case _:
                assert_never(node.kind)

    def _irregular(self, position: int, node: Node) -> None:
        """A plan has no nodes that wait for a value, since its steps are known before it runs; irregular.py cuts them out."""
        message = f"{named(position, node)} is a branch or a loop, which has no place in a regular graph"
        raise fail(Reason.UNSUPPORTED, message)

    def _launch(self, position: int, node: Node, computation: int) -> None:
        if not 0 <= computation < len(self._computations):
            message = f"{named(position, node)} runs computation {computation}; the program has {len(self._computations)}"
            raise fail(Reason.INVALID_ARGUMENT, message, computation=computation)
        found = self._computations[computation]
        if len(node.inputs) != len(found.parameters):
            message = f"{named(position, node)} takes {len(found.parameters)} inputs and has {len(node.inputs)}"
            raise fail(Reason.INVALID_ARGUMENT, message, expected=len(found.parameters), got=len(node.inputs))
        taken = tuple(
            self._edge(position, node, index, edge, parameter)
            for index, (edge, parameter) in enumerate(zip(node.inputs, found.parameters, strict=True))
        )
        facts = found.executable.facts
        assert facts is not None
        hidden = [None] * facts.output_count if not found.results else []
        made = self._make([*found.results, *hidden], len(self._steps))
        self._outputs.append(range(made.start, made.start + len(found.results)))
        for slot in taken:
            self._last[slot] = len(self._steps)
        self._steps.append(Launch(position, found.executable, taken, tuple(made), ()))

    def _edge(self, position: int, node: Node, index: int, edge: Edge, parameter: Laid) -> int:
        """The slot that holds an input as the parameter wants it; moved there first if need be."""
        slot = self._source(position, node, index, edge)
        laid = self._slots[slot]
        assert laid is not None
        if laid.number == parameter.number:
            return slot
        have, want = laid.spec, parameter.spec
        if (have.dtype, have.shape) != (want.dtype, want.shape):
            message = (
                f"input {index} of {named(position, node)} is of element type {have.dtype} and shape {list(have.shape)}; its"
                f" computation takes element type {want.dtype} and shape {list(want.shape)}"
            )
            raise fail(Reason.INVALID_ARGUMENT, message)
        known = self._moved.get((slot, parameter.number))
        if known is not None:
            return known
        if not ITEM_BYTES.get(have.dtype):
            message = f"input {index} of {named(position, node)} is of element type {have.dtype}, which has no bytes to move"
            raise fail(Reason.UNSUPPORTED, f"{message}; compute it where it is used", dtype=have.dtype)
        step = len(self._steps)
        destination = self._make([parameter], step).start
        self._last[slot] = step
        self._steps.append(Move(slot, destination, self._spec(laid), self._spec(parameter)))
        self._moved[slot, parameter.number] = destination
        return destination

    def _source(self, position: int, node: Node, index: int, edge: Edge) -> int:
        """The slot that an edge comes from."""
        what = f"input {index} of {named(position, node)}"
        if edge.sparse:
            message = f"{what} is sparse; sparse edges are not carried out yet: use a dense one, padded to the most elements"
            raise fail(Reason.UNSUPPORTED, message)
        if not 0 <= edge.node < position:
            message = f"{what} comes from node {edge.node}, which is not before it; put every node behind its inputs"
            raise fail(Reason.INVALID_ARGUMENT, message)
        outputs = self._outputs[edge.node]
        if not 0 <= edge.output < len(outputs):
            message = f"{what} is output {edge.output} of node {edge.node}, which has {len(outputs)} outputs"
            raise fail(Reason.INVALID_ARGUMENT, message)
        return outputs[edge.output]

    def _results(self, node: Node) -> tuple[int, ...]:
        if not node.inputs:
            raise fail(Reason.INVALID_ARGUMENT, "the graph has no results; give its result node at least one input")
        position = len(self._nodes) - 1
        found: dict[int, None] = {}
        for index, edge in enumerate(node.inputs):
            slot = self._source(position, node, index, edge)
            if edge.node == 0:
                message = f"result {index} is an argument of the graph; return it on the caller's side"
                raise fail(Reason.INVALID_ARGUMENT, message)
            if slot in found:
                raise fail(Reason.INVALID_ARGUMENT, f"result {index} is a result already; name every value once")
            found[slot] = None
        return tuple(found)

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _make(self, laid: list[Laid | None] | list[Laid], step: int) -> range:
        first = len(self._slots)
        self._slots.extend(laid)
        self._last.extend([step] * len(laid))
        return range(first, len(self._slots))

    def _spec(self, laid: Laid) -> int:
        position = self._numbers.setdefault(laid.number, len(self._placed))
        if position == len(self._placed):
            self._placed.append(laid.placed)
        return position

    def _finished(self, argument_count: int, results: dict[int, None]) -> tuple[Step, ...]:
        """The steps with what is known at the end: which arguments are needed later, and where values are no longer."""
        dead: dict[int, list[int]] = {}
        for slot in range(argument_count, len(self._slots)):
            if slot not in results:
                dead.setdefault(self._last[slot], []).append(slot)
        steps: list[Step] = []
        for index, step in enumerate(self._steps):
            steps.append(self._donating(index, step, results) if isinstance(step, Launch) else step)
            if index in dead:
                steps.append(Free(tuple(dead[index])))
        return tuple(steps)

    def _donating(self, index: int, step: Launch, results: dict[int, None]) -> Launch:
        """Of the parameters that the executable donates, those whose value has another use keep it."""
        taken = step.arguments
        donated = [position for position in step.executable.donated if position < len(taken)]
        if not donated:
            return step
        repeated = len(dict.fromkeys(taken)) < len(taken)
        kept = tuple(
            position
            for position in donated
            if self._last[slot := taken[position]] > index or slot in results or (repeated and taken.count(slot) > 1)
        )
        return Launch(step.node, step.executable, taken, step.results, kept)


def named(position: int, node: Node) -> str:
    return f"node {position} ({node.name})" if node.name else f"node {position}"


def _islands(arguments: tuple[PlacedSpec, ...], executables: dict[Executable, None]) -> tuple[Island, ...]:
    """All that take part, in the order of their names."""
    found: dict[Island, None] = {placed.placement.island: None for placed in arguments}
    found.update({executable.placement.island: None for executable in executables})
    return tuple(sorted(found, key=lambda island: natural(island.name)))
