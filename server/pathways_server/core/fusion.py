"""Fused groups: neighbouring nodes of a plan as one executable, launched in place of them where a grant covers all of them.

A client offers the executables; they compute the same bits. A group keeps the steps and the sequences of its nodes, so windows,
quanta and shares count it as that many launches, and a grant may cut it anywhere: what does not lie in a range whole is launched
node by node. So with others in line nobody waits longer for a group than for a quantum of nodes, or, where nobody awaits answers,
than for a bound of groups; one that is measured longer is tried again from time to time. Hosts hear of groups once the
executables are loaded in the epoch; until then nodes run alone.
"""

from __future__ import annotations

from dataclasses import replace

from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.model.graph import ComputationKind, FusedGroup, Program
from pathways_common.model.ids import local_id

from . import definitions, estimates, programs, quarantine
from .composite_plan import PieceStage
from .effects import GroupPlan, PlanGroup, PlanLaunch, ProgramFused
from .events import FusionRequested
from .plan import Group, Launch, Move, Plan
from .program_form import Ready, Specs, ready
from .records import Definition, Executable, Host, Session
from .run_records import Span
from .state import State
from .transitions import ExecutableState, IslandState

# ---- offers -----------------------------------------------------------------------------------------------------------


def on_fusion_requested(state: State, event: FusionRequested, session: Session) -> None:
    definition = definitions.get(session, event.program_id)
    number = local_id(event.program_id)
    failure: Failure | None = None
    if definition is None:
        failure = definitions.unknown(state, event.program_id)
    elif definition.program.fused or definition.program.sequential:
        why = "is dispatched sequentially" if definition.program.sequential else "has fused groups already"
        failure = state.failure(Reason.INVALID_ARGUMENT, f"program {number} {why}; define another one", program=number)
    if definition is None or failure is not None:
        state.reply(session, ProgramFused(number, 0, failure))
        return
    definition.program = replace(definition.program, fused=event.groups)
    hold(state, definition)
    try_fuse(state, definition)
    state.reply(session, ProgramFused(number, sum(len(plan.groups) for plan in _plans(definition).values()), None))


def hold(state: State, definition: Definition) -> None:
    """The executables of its groups stay as long as the program; groups without one are left out."""
    held: dict[Executable, None] = {}
    groups: list[FusedGroup] = []
    for group in definition.program.fused:
        executable = definition.session.executables.get(group.computation.executable_id)
        if executable is None or executable.released:
            _left_out(state, definition, group, "its executable is not there")
            continue
        groups.append(group)
        if executable not in definition.executables:
            held[executable] = None
    definition.program = replace(definition.program, fused=tuple(groups))
    definition.fusing = tuple(held)
    for executable in held:
        executable.queued += 1


def try_fuse(state: State, definition: Definition) -> None:
    """Lowers the groups of a lowered program; called again when an executable that is waited for was loaded or has failed."""
    program = definition.program
    plans = _plans(definition)
    if not program.fused or program.sequential or any(plan.groups for plan in plans.values()):
        return
    for executable in definition.fusing:
        if executable.facts is None and executable.failure is None:
            if definition not in executable.waiters:
                executable.waiters.append(definition)
            return
    specs = Specs(state, definition.session, program)
    used: list[FusedGroup] = []
    for group in program.fused:
        try:
            plan = plans.get(group.graph)
            if plan is None:
                raise fail(Reason.UNSUPPORTED, f"graph {group.graph} has branches or loops, or is not there")
            lowered = _lowered(state, definition.session, program, plan, specs, group)
            if plan.groups and plan.groups[-1].end_step > lowered.first_step:
                raise fail(Reason.INVALID_ARGUMENT, "it begins before the group before it ends")
            plan.groups = (*plan.groups, lowered)
            used.append(group)
        except PathwaysError as error:
            _left_out(state, definition, group, error.failure.message)
    _hold_only(state, definition, tuple(used))


def _hold_only(state: State, definition: Definition, used: tuple[FusedGroup, ...]) -> None:
    """Groups that are of no use are not kept, nor registered, and their executables may go."""
    definition.program = replace(definition.program, fused=used)
    needed = dict.fromkeys(group.computation.executable_id for group in used)
    idle = [executable for executable in definition.fusing if executable.id not in needed]
    definition.fusing = tuple(executable for executable in definition.fusing if executable.id in needed)
    for executable in idle:
        executable.queued -= 1
        programs.release_if_unused(state, executable)


def checked(definition: Definition) -> tuple[FusedGroup, ...]:
    """The groups that fit the program; none as long as an executable of theirs is being compiled."""
    lowered = any(plan.groups for plan in _plans(definition).values())
    return definition.program.fused if lowered else ()


def _plans(definition: Definition) -> dict[int, Plan]:
    """By graph, those that are plans as a whole."""
    if definition.plan is not None:
        return {0: definition.plan}
    found: dict[int, Plan] = {}
    bodies = definition.composite.bodies if definition.composite is not None else {}
    for number, body in bodies.items():
        if len(body.stages) == 1 and isinstance(stage := body.stages[0], PieceStage):
            found[number] = stage.plan
    return found


def _left_out(state: State, definition: Definition, group: FusedGroup, why: str) -> None:
    nodes = f"{group.first_node}-{group.last_node}"
    state.log("fused group left out", program=definition.program.name, nodes=nodes, cause=why)


def _lowered(state: State, session: Session, program: Program, plan: Plan, specs: Specs, group: FusedGroup) -> Group:
    """The group on the slots of the plan. Raises PathwaysError if it does not fit its nodes."""
    launches = {step.node: (index, step) for index, step in enumerate(plan.steps) if isinstance(step, Launch)}
    nodes = range(group.first_node, group.last_node + 1)
    if len(nodes) < 2 or any(node not in launches for node in nodes):
        raise fail(Reason.INVALID_ARGUMENT, "it does not cover two or more nodes of the graph")
    covered = {node: launches[node][1] for node in nodes}
    first_step, end_step = launches[nodes[0]][0], launches[nodes[-1]][0] + 1
    if any(isinstance(step, Move) for step in plan.steps[first_step:end_step]):
        raise fail(Reason.INVALID_ARGUMENT, "a value is moved between its nodes")
    found = ready(state, session, specs, len(program.computations), group.computation)
    executable = found.executable
    if any(launch.executable.placement is not executable.placement for launch in covered.values()):
        raise fail(Reason.INVALID_ARGUMENT, "its nodes do not all run on the devices of its executable")
    if executable.fallible or any(launch.executable.fallible for launch in covered.values()):
        raise fail(Reason.UNSUPPORTED, "a node of it may fail")
    arguments = _arguments(program, plan, specs, group, covered, found)
    results = _results(program, plan, specs, group, covered, found)
    _check_closed(plan, covered, end_step, arguments, results)
    later = _used_from(plan, end_step)
    donated = [(index, arguments[index]) for index in executable.donated if index < len(arguments)]
    kept = tuple(index for index, slot in donated if slot in later or slot in plan.results)
    launch = Launch(nodes[0], executable, arguments, results, kept)
    return Group(first_step, end_step, nodes[-1], launch)


def _arguments(
    program: Program, plan: Plan, specs: Specs, group: FusedGroup, covered: dict[int, Launch], found: Ready
) -> tuple[int, ...]:
    """The slot of each parameter."""
    if len(group.inputs) != len(found.parameters):
        raise fail(Reason.INVALID_ARGUMENT, f"its executable takes {len(found.parameters)} inputs, it names {len(group.inputs)}")
    slots: list[int] = []
    for taken, parameter in zip(group.inputs, found.parameters, strict=True):
        launch = covered.get(taken.node)
        if launch is None or not 0 <= taken.input < len(launch.arguments):
            raise fail(Reason.INVALID_ARGUMENT, f"none of its nodes has input {taken.input} of node {taken.node}")
        spec = program.computations[_computation(plan, taken.node)].parameters[taken.input]
        if specs.laid(spec, "an input").number != parameter.number:
            raise fail(
                Reason.INVALID_ARGUMENT, f"its executable takes input {taken.input} of node {taken.node} in another layout"
            )
        slots.append(launch.arguments[taken.input])
    return tuple(slots)


def _results(
    program: Program, plan: Plan, specs: Specs, group: FusedGroup, covered: dict[int, Launch], found: Ready
) -> tuple[int, ...]:
    """The slot of each result."""
    if not group.outputs or len(group.outputs) != len(found.results):
        raise fail(Reason.INVALID_ARGUMENT, f"its executable has {len(found.results)} results, it names {len(group.outputs)}")
    slots: list[int] = []
    for edge, result in zip(group.outputs, found.results, strict=True):
        made = program.computations[_computation(plan, edge.node)].results if edge.node in covered else ()
        if not 0 <= edge.output < len(made):
            raise fail(Reason.INVALID_ARGUMENT, f"none of its nodes makes output {edge.output} of node {edge.node}")
        if specs.laid(made[edge.output], "an output").number != result.number:
            raise fail(
                Reason.INVALID_ARGUMENT, f"its executable makes output {edge.output} of node {edge.node} in another layout"
            )
        slots.append(covered[edge.node].results[edge.output])
    return tuple(slots)


def _computation(plan: Plan, node: int) -> int:
    kind = plan.nodes[node].kind
    assert isinstance(kind, ComputationKind), "launches are of computations"
    return kind.computation


def _check_closed(
    plan: Plan, covered: dict[int, Launch], end_step: int, arguments: tuple[int, ...], results: tuple[int, ...]
) -> None:
    """What its nodes take from outside are its arguments; what others take of them is among its results."""
    made = dict.fromkeys(slot for launch in covered.values() for slot in launch.results)
    outside = dict.fromkeys(slot for launch in covered.values() for slot in launch.arguments if slot not in made)
    if sorted(arguments) != sorted(outside):
        raise fail(Reason.INVALID_ARGUMENT, "its inputs are not what its nodes take from outside, each once")
    if len(dict.fromkeys(results)) != len(results):
        raise fail(Reason.INVALID_ARGUMENT, "it names an output twice")
    used = _used_from(plan, end_step)
    if any(slot not in results for slot in made if slot in used or slot in plan.results):
        raise fail(Reason.INVALID_ARGUMENT, "an output of its nodes that others take is not among its outputs")


def _used_from(plan: Plan, first_step: int) -> dict[int, None]:
    """The slots that steps from here on read."""
    used: dict[int, None] = {}
    for step in plan.steps[first_step:]:
        if isinstance(step, Launch):
            used.update(dict.fromkeys(step.arguments))
        elif isinstance(step, Move):
            used[step.source] = None
    return used


# ---- runs -------------------------------------------------------------------------------------------------------------


def is_ready(state: State, plan: Plan) -> bool:
    """Whether hosts of the present epochs know the groups; tells them once all executables are loaded there."""
    bound = plan.bound
    if not plan.groups or bound is None:
        return False
    if bound.grouped:
        return True
    loaded = True
    for group in plan.groups:
        executable = group.launch.executable
        if executable.failure is not None or quarantine.is_held(state, executable.program):
            plan.groups = ()  # it could not be loaded again, or is not to be: nodes run alone from here on
            return False
        if executable.state is ExecutableState.IDLE and executable.placement.island.state is IslandState.ACTIVE:
            programs.load(state, executable)
        loaded = loaded and executable.state is ExecutableState.LOADED
    if not loaded:
        return False
    positions = {host: index for index, host in enumerate(bound.hosts)}
    command = GroupPlan(bound.command.plan_id, tuple(_command(group, positions) for group in plan.groups))
    for host in bound.hosts:
        state.tell(host, command)
    bound.grouped = True
    return True


def _command(group: Group, positions: dict[Host, int]) -> PlanGroup:
    launch = group.launch
    members = tuple(positions[host] for host in launch.executable.placement.hosts)
    told = PlanLaunch(launch.node, launch.executable.id, launch.arguments, launch.results, launch.non_donatable, members)
    return PlanGroup(group.first_step, group.end_step, group.last_node, told)


def aligned(plan: Plan, first_step: int, end_step: int) -> int:
    """The end of a range that would cut a group: before it, if there is anything before it."""
    cut = next((group for group in plan.groups if group.first_step < end_step < group.end_step), None)
    return cut.first_step if cut is not None and cut.first_step > first_step else end_step


def whole_in(plan: Plan, first_step: int, end_step: int) -> bool:
    """Whether a range has a group that lies in it whole."""
    return any(first_step <= group.first_step and group.end_step <= end_step for group in plan.groups)


def learn_of_cut(state: State, plan: Plan, first_step: int, end_step: int) -> None:
    """A group whose first nodes go one by one in this range comes to be taken for as long as they are, and is tried again."""
    for group in plan.groups:
        if group.first_step >= end_step:
            return
        if first_step <= group.first_step and end_step < group.end_step:
            launches = (step for step in plan.steps[group.first_step : group.end_step] if isinstance(step, Launch))
            nodes_ns = sum(launch.executable.estimate.duration_ns for launch in launches)
            estimates.observe_apart(state, group.launch.executable.estimate, nodes_ns)


def group_at(span: Span, step: int) -> Group | None:
    """The group as part of which a step of the span is launched."""
    found = next((group for group in span.groups if group.first_step <= step < group.end_step), None)
    return found if found is not None and span.first_step <= found.first_step and found.end_step <= span.end_step else None
