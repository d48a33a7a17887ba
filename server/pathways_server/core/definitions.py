"""Programs of a session: checked and lowered once, as soon as all their executables are there, and kept until they are released.

A definition keeps its executables (`Executable.queued`), also those that the client has released meanwhile. A program that was
refused is told and forgotten; one that was defined fails its runs with what ended its executables.
"""

from __future__ import annotations

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.graph import Program
from pathways_common.model.ids import GlobalId, local_id

from . import colocated, fusion, irregular, plans, programs
from .composite_plan import CompositePlan
from .composites import is_regular, outputs_of
from .effects import ProgramDefined
from .events import DefinitionRequested, Released
from .lowering import lower
from .plan import slices_of_plan
from .records import Definition, Executable, Session
from .state import State


def on_definition_requested(state: State, event: DefinitionRequested, session: Session) -> None:
    for computation in event.program.computations:
        executable = session.executables.get(computation.executable_id)
        if executable is not None and executable.released:
            failure = programs.unknown(state, executable.id)
            state.reply(session, ProgramDefined(local_id(event.program_id), (), (), "", 0, failure))
            return
    define(state, session, event.program_id, event.program)


def define(state: State, session: Session, identifier: GlobalId, program: Program, name: str = "", version: int = 0) -> None:
    """Gives the session a program; `name` and `version` if it was opened by name. ProgramDefined follows, at once or later."""
    definition = Definition(identifier, session, program, name=name, version=version)
    executables: dict[Executable, None] = {}
    failure = _refusal(state, session, identifier)
    for computation in program.computations:
        executable = session.executables.get(computation.executable_id)
        if executable is None:
            failure = failure or programs.unknown(state, computation.executable_id)
        else:
            executables[executable] = None
    if failure is not None:
        _answer(state, definition, failure)
        return
    session.definitions[identifier] = definition
    definition.executables = tuple(executables)
    for executable in executables:
        executable.queued += 1
    fusion.hold(state, definition)
    try_define(state, definition)


def _refusal(state: State, session: Session, identifier: GlobalId) -> Failure | None:
    number = local_id(identifier)
    if identifier in session.definitions or identifier in session.executables:
        return state.failure(Reason.INVALID_ARGUMENT, f"id {number} names a program already; use a new id")
    count = len(session.definitions)
    if count >= state.config.definitions_max:
        message = f"the session holds {count} programs, the most allowed; drop some first"
        return state.failure(Reason.RESOURCE_EXHAUSTED, message, programs=count)
    return None


def try_define(state: State, definition: Definition) -> None:
    """Looks at a program that waits for its executables; called again whenever one of them was loaded or has failed."""
    session = definition.session
    if session.definitions.get(definition.id) is not definition:
        return
    if definition.plan is not None or definition.composite is not None:
        fusion.try_fuse(state, definition)
        return
    failure = defect(definition)
    if failure is None:
        for executable in definition.executables:
            if executable.facts is None:
                if definition not in executable.waiters:
                    executable.waiters.append(definition)
                return
        python = [each.facts.name for each in definition.executables if each.facts is not None and each.facts.python]
        failure = colocated.refusal(state, python)
    if failure is None:
        program = definition.program
        regular = not program.graphs or is_regular(program.graphs[0])
        plan = lower(state, session, program) if regular else irregular.lower(state, session, program)
        match plan:
            case Failure():
                failure = plan
            case CompositePlan():
                definition.composite = plan
            case _:
                definition.plan = plan
    _answer(state, definition, failure)
    if failure is not None:
        _forget(state, definition)
    else:
        fusion.try_fuse(state, definition)


def _answer(state: State, definition: Definition, failure: Failure | None) -> None:
    arguments: tuple[ArraySpec, ...] = ()
    results: tuple[ArraySpec, ...] = ()
    if failure is None:
        program = definition.program
        nodes = program.graphs[0].nodes
        arguments = outputs_of(nodes[0], program.computations)
        results = tuple(outputs_of(nodes[edge.node], program.computations)[edge.output] for edge in nodes[-1].inputs)
    number = local_id(definition.id)
    state.reply(definition.session, ProgramDefined(number, arguments, results, definition.name, definition.version, failure))


def get(session: Session, identifier: GlobalId) -> Definition | None:
    """A program that can be run: it was announced and its `plan` or `composite` is set."""
    definition = session.definitions.get(identifier)
    if definition is None or definition.released or (definition.plan is None and definition.composite is None):
        return None
    return definition


def unknown(state: State, identifier: GlobalId) -> Failure:
    number = local_id(identifier)
    message = f"no program has id {number}; it was released, or its definition was not answered yet"
    return state.failure(Reason.INVALID_ARGUMENT, message, program=number)


def defect(definition: Definition) -> Failure | None:
    """Why no new run of it can work: an executable has failed, or a slice that it uses was released."""
    ended = next((executable.ended for executable in definition.executables if executable.ended is not None), None)
    return broken(definition) or definition.ended or ended


def slices_of(definition: Definition) -> tuple[int, ...]:
    """The numbers of the slices that its runs use; none before it was lowered."""
    if definition.composite is not None:
        return definition.composite.slices
    return slices_of_plan(definition.plan) if definition.plan is not None else ()


def broken(definition: Definition) -> Failure | None:
    """Why also a run that was asked for earlier cannot go on: an executable has failed."""
    failed = next((executable.failure for executable in definition.executables if executable.failure is not None), None)
    return definition.failure or failed


def release_if_unused(state: State, definition: Definition) -> None:
    """Forgets a released program once no run of it waits; to be called whenever `queued` went down."""
    if definition.released and not definition.queued and definition.session.definitions.get(definition.id) is definition:
        _forget(state, definition)


def _forget(state: State, definition: Definition) -> None:
    """Hosts forget its plan, and its executables go if nobody else needs them."""
    del definition.session.definitions[definition.id]
    if definition.plan is not None:
        plans.unload(state, definition.plan)
    if definition.composite is not None:
        for plan in definition.composite.plans:
            plans.unload(state, plan)
    for executable in (*definition.executables, *definition.fusing):
        if definition in executable.waiters:
            executable.waiters.remove(definition)
        executable.queued -= 1
        programs.release_if_unused(state, executable)
    definition.executables = definition.fusing = ()


def on_released(state: State, event: Released, session: Session) -> None:
    for identifier in event.programs:
        definition = session.definitions.get(identifier)
        if definition is not None:
            definition.released = True
            release_if_unused(state, definition)


def on_session_closed(state: State, session: Session) -> None:
    """Drops all of them; its lanes are closed already and its executables are still there."""
    for definition in list(session.definitions.values()):
        _forget(state, definition)
