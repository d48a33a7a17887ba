"""What a session asks to be run: a program, with arguments where it takes them. A wrong request makes results that say so."""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId

from . import buffers, definitions, quotas, runs, scheduler, spans, walks
from .composite_plan import CompositePlan
from .events import RunRequested
from .plan import Plan
from .records import Handle, Session
from .run_records import Run
from .state import State


def on_run_requested(state: State, event: RunRequested, session: Session) -> None:
    definition = definitions.get(session, event.program_id)
    plan = (definition.plan or definition.composite) if definition is not None else None
    if definition is None or plan is None:
        scheduler.refuse(state, session, event, 1, definitions.unknown(state, event.program_id))
        return
    if event.run_id <= session.last_execution:
        scheduler.refuse(state, session, event, len(plan.result_specs), scheduler.reused(state, session, event.run_id))
        return
    session.last_execution = event.run_id
    session.executions += 1
    arguments: list[Handle] = []
    failure = definitions.defect(definition) or _request_failure(state, event, session, plan)
    if failure is None:
        for index, identifier in enumerate(event.arguments):
            handle = session.handles.get(identifier)
            failure = _argument_failure(state, handle, identifier, plan, index)
            if failure is not None:
                break
            assert handle is not None
            arguments.append(handle)
    if failure is not None:
        scheduler.refuse(state, session, event, len(plan.result_specs), failure)
        return
    if isinstance(plan, CompositePlan):
        walks.start(state, event, session, definition, arguments)
        return
    lanes = tuple(scheduler.lane_of(state, session, island) for island in spans.shape_of(plan).islands)
    run = Run(
        event.run_id, state.number(), definition, plan, event.arguments, arguments, event.first_result_id, GlobalId(0),
        event.donated, event.launch_id, lanes, state.now_ns,
    )  # fmt: skip
    runs.submit(state, run)


def _argument_failure(
    state: State, handle: Handle | None, identifier: GlobalId, plan: Plan | CompositePlan, index: int
) -> Failure | None:
    if handle is None:
        return buffers.unknown(state, identifier)
    if failure := buffers.defect(handle):
        return failure
    if handle.placement is plan.arguments[index].placement:
        return None
    message = (
        f"argument {index} of program {plan.name} does not lie on the devices that the program was traced for; move it there"
    )
    return state.failure(Reason.INVALID_ARGUMENT, message, argument=index, program=plan.name)


def _request_failure(state: State, event: RunRequested, session: Session, plan: Plan | CompositePlan) -> Failure | None:
    expected = len(plan.arguments)
    if expected != len(event.arguments):
        message = f"program {plan.name} takes {expected} arguments and got {len(event.arguments)}"
        return state.failure(Reason.INVALID_ARGUMENT, message, expected=expected, got=len(event.arguments))
    if any(not 0 <= index < expected for index in event.donated):
        message = f"program {plan.name} takes {expected} arguments and was told to end argument {max(event.donated)}"
        return state.failure(Reason.INVALID_ARGUMENT, message, expected=expected)
    return quotas.refusal(state, session) or buffers.no_room(state, session, event.first_result_id, len(plan.result_specs))
