"""How a walk goes through a graph: pieces are handed to the lanes as soon as their values exist; branches and loops look first.

Everything here may be called again at any time: it goes on as far as it can and says whether the graph is over. What goes wrong
is noted in the walk, which then goes nowhere. A loop has one body under way, so others get their turn between iterations.
"""

from __future__ import annotations

from typing import assert_never

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId

from . import buffers, definitions, reads, runs, shares, spans
from .composite_plan import Body, ChoiceStage, LoopStage, PieceStage
from .irregular import called, chosen, decoded
from .program_form import Laid
from .records import Handle, Island, Lane
from .run_records import Run
from .state import State
from .walk_records import Frame, Look, Turn, Value, Walk
from .walk_values import give, moved, new_ids


def _enter(state: State, walk: Walk, turn: Turn, what: str, number: int, given: list[Value]) -> Frame:
    """A frame of a graph, with its arguments moved to where it wants them; `what` says for people which one it is."""
    body = walk.composite.bodies[number]
    arguments = [moved(state, walk, value, body.argument(index)) for index, value in enumerate(given)]
    label = f"{what} of {turn.stage.node.name or 'a node without a name'}"
    return frame_of(body, arguments, f"{turn.around}, {label}" if turn.around else label)


def frame_of(body: Body, arguments: list[Value], label: str = "") -> Frame:
    missing: list[Value | None] = [None] * (len(body.laid) - len(arguments))
    return Frame(body, [*arguments, *missing], dict.fromkeys(range(len(body.stages))), label)


def leave(state: State, frame: Frame) -> None:
    """Lets go of everything in a frame and below."""
    for turn in frame.turns.values():
        _end_turn(state, turn)
    frame.turns.clear()
    for value in frame.values:
        if value is not None:
            give(state, value)
    frame.values = [None] * len(frame.values)


def advance(state: State, walk: Walk, frame: Frame) -> bool:
    """Goes on as far as it can; True once all stages are over."""
    moving = True
    while moving and frame.left:
        moving = False
        for index in list(frame.left):
            over = _stage(state, walk, frame, index)
            if walk.failure is not None:
                return False
            if over:
                del frame.left[index]
                moving = True
    return not frame.left


def _stage(state: State, walk: Walk, frame: Frame, index: int) -> bool:
    stage = frame.body.stages[index]
    turn = frame.turns.get(index)
    if turn is None:
        taken = (stage.value, *stage.arguments) if isinstance(stage, ChoiceStage) else stage.arguments
        if any(frame.values[value] is None for value in taken):
            return False
        if isinstance(stage, PieceStage):
            _run(state, walk, frame, stage)
            return True
        turn = frame.turns[index] = _begin(state, walk, frame, stage)
    match stage:
        case ChoiceStage():
            results = _choose(state, walk, frame, turn, stage)
        case LoopStage():
            results = _loop(state, walk, turn, stage)
        case PieceStage():
            raise AssertionError("a piece has no turn")
        case _:
            assert_never(stage)
    if results is None:
        return False
    for number, value in zip(stage.results, results, strict=True):
        frame.values[number] = value
    _end_turn(state, frame.turns.pop(index))
    return True


def _value(frame: Frame, number: int) -> Value:
    value = frame.values[number]
    assert value is not None
    return value


# ---- pieces -----------------------------------------------------------------------------------------------------------


def _run(state: State, walk: Walk, frame: Frame, stage: PieceStage) -> None:
    """Queues the piece; its results exist from here on."""
    arguments = [_value(frame, number).handle for number in stage.arguments]
    walk.failure = definitions.broken(walk.definition) or _poisoned(arguments)
    if walk.failure is not None:
        return
    session, plan = walk.session, stage.plan
    lanes = tuple(_lane(state, walk, island) for island in spans.shape_of(plan).islands)
    first = new_ids(session, len(plan.results))
    run = Run(
        new_ids(session, 1), state.number(), walk.definition, plan, tuple(handle.id for handle in arguments), arguments, first,
        GlobalId(0), (), walk.launch_id, lanes, state.now_ns, walk=walk, label=frame.label,
    )  # fmt: skip
    runs.submit(state, run)
    for index, number in enumerate(stage.results):
        frame.values[number] = Value(session.buffers[GlobalId(first + index)], frame.body.laid[number], made=True)


def _poisoned(arguments: list[Handle]) -> Failure | None:
    parts = [part for handle in arguments for part in buffers.parts_of(handle)]
    return next((part.buffer.failure for part in parts if part.buffer.failure is not None), None)


def _lane(state: State, walk: Walk, island: Island) -> Lane:
    """A walk has lanes of its own, so that it stands behind other work of its session only for its values."""
    lane = walk.lanes.get(island.name)
    if lane is None:
        share = shares.of(state, walk.session, island)
        lane = walk.lanes[island.name] = Lane(walk.session, island, share, walk=walk.number)
        island.lanes[lane.key] = lane
    return lane


# ---- turns ------------------------------------------------------------------------------------------------------------


def _begin(state: State, walk: Walk, frame: Frame, stage: ChoiceStage | LoopStage) -> Turn:
    turn = Turn(stage, frame.label)
    given = [_value(frame, number) for number in stage.arguments]
    if isinstance(stage, ChoiceStage):
        value = _value(frame, stage.value)
        value.holders += 1
        _look(state, walk, turn, value)
    else:
        laid = frame.body.laid
        turn.carried = [moved(state, walk, value, laid[number]) for number, value in zip(stage.results, given, strict=True)]
        turn.frame = _enter(state, walk, turn, "test 1", stage.kind.condition, turn.carried)
    return turn


def _end_turn(state: State, turn: Turn) -> None:
    if turn.frame is not None:
        leave(state, turn.frame)
    if turn.look is not None:
        reads.finish(state, turn.look)
    if turn.looked_at is not None:
        give(state, turn.looked_at)
    for value in turn.carried:
        give(state, value)
    turn.frame, turn.look, turn.looked_at, turn.carried = None, None, None, []


def _choose(state: State, walk: Walk, frame: Frame, turn: Turn, stage: ChoiceStage) -> list[Value] | None:
    if turn.frame is None:
        value = _seen(state, walk, turn)
        if value is None:
            return None
        number = chosen(stage.kind, value)
        if number is None:
            message = f"its value is {value}, above the last limit {stage.kind.limits[-1]}; pad to more elements"
            walk.failure = _failure(state, walk, turn, message)
            return None
        what = f"branch {stage.kind.graphs.index(number)}"
        turn.frame = _enter(state, walk, turn, what, number, [_value(frame, argument) for argument in stage.arguments])
    if not advance(state, walk, turn.frame):
        return None
    return _returned(state, walk, turn.frame, [frame.body.laid[result] for result in stage.results])


def _loop(state: State, walk: Walk, turn: Turn, stage: LoopStage) -> list[Value] | None:
    """Condition, look, body, and again; returns when it has to wait."""
    while True:
        if turn.frame is None:
            value = _seen(state, walk, turn)
            if value is None:
                return None
            if not value:
                results, turn.carried = turn.carried, []
                return results
            if turn.iterations >= stage.kind.max_iterations:
                message = f"the loop did not end within {turn.iterations} iterations; correct its condition or allow more"
                walk.failure = _failure(state, walk, turn, message)
                return None
            turn.in_body = True
            turn.frame = _enter(state, walk, turn, f"turn {turn.iterations + 1}", stage.kind.body, turn.carried)
        frame = turn.frame
        if not advance(state, walk, frame):
            return None
        turn.frame = None
        if turn.in_body:
            before = turn.carried
            turn.carried = _returned(state, walk, frame, [value.laid for value in before])
            for value_before in before:
                give(state, value_before)
            turn.in_body = False
            turn.iterations += 1
            turn.frame = _enter(state, walk, turn, f"test {turn.iterations + 1}", stage.kind.condition, turn.carried)
        else:
            answer = _value(frame, frame.body.results[0])
            answer.holders += 1
            _look(state, walk, turn, answer)
        leave(state, frame)


def _returned(state: State, walk: Walk, frame: Frame, wanted: list[Laid]) -> list[Value]:
    return [moved(state, walk, _value(frame, number), laid) for number, laid in zip(frame.body.results, wanted, strict=True)]


# ---- looks ------------------------------------------------------------------------------------------------------------


def _look(state: State, walk: Walk, turn: Turn, value: Value) -> None:
    """Asks for the bytes of a value once they are there; the turn holds it meanwhile."""
    turn.looked_at = value
    if failure := reads.full(state, walk.session) or _poisoned([value.handle]):
        walk.failure = walk.failure or failure
        return
    part = reads.locate(value.handle, 0)
    assert part is not None, "a value that did not fail has a shard"
    deadline = state.now_ns + state.config.read_ns
    turn.look = Look(state.number(), walk.session, walk, (part.buffer,), part.start, deadline)
    reads.register(state, turn.look)
    reads.try_look(state, turn.look)


def _seen(state: State, walk: Walk, turn: Turn) -> int | None:
    """What was looked at, if the answer is there; ends the look."""
    look, value = turn.look, turn.looked_at
    if look is None or value is None or look.data is None:
        return None
    turn.look = turn.looked_at = None
    size, number = value.laid.spec.shard_bytes, decoded(value.laid.spec, look.data)
    give(state, value)
    if len(look.data) < size:
        walk.failure = _failure(state, walk, turn, f"the host sent {len(look.data)} bytes of a value of {size}")
        return None
    return number


def _failure(state: State, walk: Walk, turn: Turn, text: str) -> Failure:
    node = turn.stage.node
    message = f"{called(node)} of program {walk.composite.name} failed: {text}"
    return state.failure(Reason.EXECUTION_ERROR, message, node=node.name, program=walk.composite.name, source=node.source)
