"""Lowers a program whose nodes wait for values: every graph is cut into pieces, every piece is lowered like a program of its own.

What a client can get wrong in branches and loops is found here, before anything runs: which graphs they name, what these take and
return, and whether the values they look at are small enough to be read by the controller.
"""

from __future__ import annotations

from typing import assert_never

from pathways_common.model.array import ITEM_BYTES, ArraySpec
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.model.graph import ArgumentKind, BranchKind, ComputationKind, Graph, Node, Program, ResultKind

from .composite_plan import Body, ChoiceStage, CompositePlan, LoopStage, PieceStage, StagePlan
from .composites import Choice, Composite, Loop, Piece, cut, outputs_of
from .lowering import lower as lower_piece
from .lowering import named, numbered
from .placements import slices_of
from .plan import slices_of_plan
from .program_form import Laid, Specs
from .records import Session
from .state import State

DEPTH_MAX = 16  # bodies within bodies
PREDICATE = 1  # xla.PrimitiveType of a boolean
INTEGERS = {2: True, 3: True, 4: True, 5: True, 6: False, 7: False, 8: False, 9: False}  # whether the type has a sign


def lower(state: State, session: Session, program: Program) -> CompositePlan | Failure:
    """The plan of a program whose executables are known, or what is wrong with it."""
    try:
        return _Lowering(state, session, program).composite()
    except PathwaysError as error:
        return numbered(state, error)


class _Lowering:
    def __init__(self, state: State, session: Session, program: Program) -> None:
        self._state = state
        self._session = session
        self._program = program
        self._specs = Specs(state, session, program)
        self._bodies: dict[int, Body] = {}

    def composite(self) -> CompositePlan:
        body = self._body(0, ())
        arguments = tuple(laid.placed for laid in body.laid[: body.argument_count])
        results = tuple(body.laid[value].placed for value in body.results)
        placements = [laid.placed.placement for each in self._bodies.values() for laid in each.laid]
        slices = dict.fromkeys(slices_of(placements))
        for each in self._bodies.values():
            for stage in each.stages:
                if isinstance(stage, PieceStage):
                    slices.update(dict.fromkeys(slices_of_plan(stage.plan)))
        return CompositePlan(self._program.name, self._bodies, arguments, results, tuple(slices))

    def _body(self, number: int, above: tuple[int, ...]) -> Body:
        if number in above:
            message = f"graph {number} is a body of itself; a branch or a loop runs other graphs than those around it"
            raise fail(Reason.INVALID_ARGUMENT, message)
        if len(above) > DEPTH_MAX:
            message = f"branches and loops lie {len(above)} deep in one another, more than {DEPTH_MAX}; nest fewer"
            raise fail(Reason.INVALID_ARGUMENT, message)
        known = self._bodies.get(number)
        if known is not None:
            return known
        graph = self._program.graphs[number]
        self._check_form(number, graph)
        composite = cut(self._program, graph)
        laid = tuple(self._specs.laid(spec, f"value {index} of graph {number}") for index, spec in enumerate(composite.specs))
        first = graph.nodes[0].kind
        assert isinstance(first, ArgumentKind)
        stages: list[StagePlan] = []
        for stage in composite.stages:
            match stage:
                case Piece():
                    stages.append(self._piece(stage))
                case Choice():
                    stages.append(self._choice(graph, stage, (*above, number)))
                case Loop():
                    stages.append(self._loop(graph, stage, (*above, number)))
                case _:
                    assert_never(stage)
        self._check_results(composite, len(first.specs))
        body = self._bodies[number] = Body(len(first.specs), tuple(stages), composite.results, laid)
        return body

    # ---- form -------------------------------------------------------------------------------------------------------

    def _check_form(self, number: int, graph: Graph) -> None:
        """What cutting relies on. The rest of a computation node is looked at when its piece is lowered."""
        nodes = graph.nodes
        if len(nodes) < 2 or not isinstance(nodes[0].kind, ArgumentKind) or not isinstance(nodes[-1].kind, ResultKind):
            message = f"graph {number} does not begin with its argument node and end with its result node; order the nodes so"
            raise fail(Reason.INVALID_ARGUMENT, message)
        if nodes[0].inputs:
            raise fail(Reason.INVALID_ARGUMENT, f"the argument node of graph {number} has inputs; it takes none")
        counts: list[int] = []
        for position, node in enumerate(nodes):
            what = f"{named(position, node)} of graph {number}"
            inner = 0 < position < len(nodes) - 1
            if inner and isinstance(node.kind, ArgumentKind | ResultKind):
                message = f"{what} is another argument or result node; a graph has one of each, first and last"
                raise fail(Reason.INVALID_ARGUMENT, message)
            if isinstance(node.kind, ComputationKind) and not 0 <= node.kind.computation < len(self._program.computations):
                count = len(self._program.computations)
                message = f"{what} runs computation {node.kind.computation}; the program has {count}"
                raise fail(Reason.INVALID_ARGUMENT, message)
            if isinstance(node.kind, BranchKind) and not node.inputs:
                message = f"{what} is a branch and has no inputs; its first input is the value that chooses"
                raise fail(Reason.INVALID_ARGUMENT, message)
            for index, edge in enumerate(node.inputs):
                if edge.sparse:
                    message = f"input {index} of {what} is sparse; sparse edges are not carried out yet: use a dense one"
                    raise fail(Reason.UNSUPPORTED, message)
                if not 0 <= edge.node < position or not 0 <= edge.output < counts[edge.node]:
                    message = (
                        f"input {index} of {what} is output {edge.output} of node {edge.node}, which is not before it or has"
                        " fewer outputs; put every node behind its inputs"
                    )
                    raise fail(Reason.INVALID_ARGUMENT, message)
            counts.append(len(outputs_of(node, self._program.computations)))
        if not nodes[-1].inputs:
            raise fail(Reason.INVALID_ARGUMENT, f"graph {number} has no results; give its result node at least one input")

    def _check_results(self, composite: Composite, argument_count: int) -> None:
        seen: dict[int, None] = {}
        for index, value in enumerate(composite.results):
            if value < argument_count:
                message = f"result {index} is an argument of the graph; return it on the caller's side"
                raise fail(Reason.INVALID_ARGUMENT, message)
            if value in seen:
                raise fail(Reason.INVALID_ARGUMENT, f"result {index} is a result already; name every value once")
            seen[value] = None

    # ---- stages -----------------------------------------------------------------------------------------------------

    def _piece(self, piece: Piece) -> PieceStage:
        program = self._program
        alone = Program(program.name, program.devices, program.computations, (piece.graph,), program.sequential)
        plan = lower_piece(self._state, self._session, alone)
        if isinstance(plan, Failure):
            raise PathwaysError(plan)
        return PieceStage(plan, piece.arguments, piece.results)

    def _choice(self, graph: Graph, choice: Choice, above: tuple[int, ...]) -> ChoiceStage:
        node, kind = graph.nodes[choice.node], choice.kind
        what = named(choice.node, node)
        spec = choice.value_spec
        if spec.dtype not in (PREDICATE, *INTEGERS) or spec.shape or spec.shard_bytes > 8:
            message = f"input 0 of {what} chooses a graph and is no integer or boolean without dimensions; give it one"
            raise fail(Reason.INVALID_ARGUMENT, message, dtype=spec.dtype)
        if not kind.graphs:
            raise fail(Reason.INVALID_ARGUMENT, f"{what} has no graphs to choose from; give it at least one")
        rising = all(low < high for low, high in zip(kind.limits, kind.limits[1:], strict=False))
        if kind.limits and (len(kind.limits) != len(kind.graphs) or not rising):
            message = f"{what} has {len(kind.graphs)} graphs and {len(kind.limits)} limits; give one for each, ascending"
            raise fail(Reason.INVALID_ARGUMENT, message)
        for number in kind.graphs:
            body = self._named_body(what, number, above)
            self._alike(what, number, "takes", body.laid[: body.argument_count], choice.given)
            self._alike(what, number, "returns", tuple(body.laid[value] for value in body.results), kind.results)
        return ChoiceStage(node, kind, choice.value, choice.arguments, choice.results)

    def _loop(self, graph: Graph, loop: Loop, above: tuple[int, ...]) -> LoopStage:
        node, kind = graph.nodes[loop.node], loop.kind
        what = named(loop.node, node)
        given = tuple(self._specs.laid(spec, what) for spec in loop.given)
        if not kind.carried:
            raise fail(Reason.INVALID_ARGUMENT, f"{what} carries no values; a loop without any never changes its mind")
        self._compare(f"the carried values of {what}", given, kind.carried)
        condition = self._named_body(what, kind.condition, above)
        self._alike(what, kind.condition, "takes", condition.laid[: condition.argument_count], kind.carried)
        answers = [condition.laid[value].spec for value in condition.results]
        if len(answers) != 1 or answers[0].dtype != PREDICATE or answers[0].shape:
            message = f"the condition of {what} returns something else than one boolean without dimensions"
            raise fail(Reason.INVALID_ARGUMENT, message)
        body = self._named_body(what, kind.body, above)
        self._alike(what, kind.body, "takes", body.laid[: body.argument_count], kind.carried)
        self._alike(what, kind.body, "returns", tuple(body.laid[value] for value in body.results), kind.carried)
        return LoopStage(node, kind, loop.arguments, loop.results)

    def _named_body(self, what: str, number: int, above: tuple[int, ...]) -> Body:
        count = len(self._program.graphs)
        if not 0 < number < count:
            message = f"{what} runs graph {number}; the bodies of the program are graphs 1 to {count - 1}"
            raise fail(Reason.INVALID_ARGUMENT, message)
        return self._body(number, above)

    def _alike(self, what: str, number: int, verb: str, have: tuple[Laid, ...], want: tuple[ArraySpec, ...]) -> None:
        self._compare(f"graph {number} of {what} {verb} what the node does not name:", have, want)

    def _compare(self, text: str, have: tuple[Laid, ...], want: tuple[ArraySpec, ...]) -> None:
        """Same number, types and shapes; layouts may differ, since values are moved."""
        mine = [(laid.spec.dtype, laid.spec.shape) for laid in have]
        theirs = [(spec.dtype, spec.shape) for spec in want]
        if mine != theirs:
            message = f"{text} {_listed(mine)} against {_listed(theirs)}; make types and shapes the same"
            raise fail(Reason.INVALID_ARGUMENT, message)
        for laid, spec in zip(have, want, strict=True):
            wanted = self._specs.laid(spec, text)
            if wanted.number != laid.number and not ITEM_BYTES.get(spec.dtype):
                message = f"{text} a value of element type {spec.dtype} has no bytes to move; lay it out the same everywhere"
                raise fail(Reason.UNSUPPORTED, message)


def _listed(specs: list[tuple[int, tuple[int, ...]]]) -> str:
    return "(" + ", ".join(f"type {dtype} {list(shape)}" for dtype, shape in specs) + ")"


def decoded(spec: ArraySpec, data: bytes) -> int:
    """The integer or boolean in the first bytes of a value."""
    size = ITEM_BYTES[spec.dtype]
    return int.from_bytes(data[:size], "little", signed=INTEGERS.get(spec.dtype, False))


def chosen(kind: BranchKind, value: int) -> int | None:
    """The graph that a value chooses; None if it is above the last limit."""
    if not kind.limits:
        return kind.graphs[min(max(value, 0), len(kind.graphs) - 1)]
    return next((graph for graph, limit in zip(kind.graphs, kind.limits, strict=True) if value <= limit), None)


def called(node: Node) -> str:
    """A node as failures name it."""
    where = f", called at {node.source}" if node.source else ""
    return f"node {node.name or 'without a name'}{where}"
