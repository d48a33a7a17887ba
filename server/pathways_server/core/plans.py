"""Plans on hosts: a plan is bound to one set of epochs and told to every host that takes part, as one object for all of them.

Nothing in it grows with shards x shards: layouts are of size shards, launches name hosts, and what a move cuts and where it
sends it is worked out by every host for itself. Also: which results depend on a step or an argument.
"""

from __future__ import annotations

from typing import assert_never

from pathways_common.model.failure import Failure, Reason

from .effects import LoadPlan, PlanFree, PlanHost, PlanLaunch, PlanMove, PlanSpec, UnloadPlan
from .placements import bind
from .plan import Bound, Free, Group, Launch, Move, PlacedSpec, Plan
from .records import Host, Placement
from .state import State
from .transitions import IslandState

_KNOWN_MAX = 1024  # answers kept per plan: the first causes of a run are few


def load(state: State, plan: Plan) -> Bound | Failure:
    """The plan on the hosts of the current epochs; tells it to them if they do not have it. All its islands are to be ACTIVE."""
    for island in plan.islands:
        if island.state is not IslandState.ACTIVE:
            message = f"island {island.name} is {island.state.value}; try again when its hosts are back"
            return state.failure(Reason.UNAVAILABLE, message, retryable=True, island=island.name)
    epochs = tuple(island.epoch for island in plan.islands)
    if plan.bound is not None and plan.bound.epochs == epochs:
        return plan.bound
    placements = _placements(plan)
    for placement in placements:
        if not bind(placement):
            name = placement.island.name
            message = f"island {name} has fewer hosts than when this session was opened; connect again"
            return state.failure(Reason.UNAVAILABLE, message, island=name)
    unload(state, plan)
    plan.bound = _bound(state, plan, placements, epochs)
    for host in plan.bound.hosts:
        state.tell(host, plan.bound.command)
    return plan.bound


def unload(state: State, plan: Plan) -> None:
    """Hosts of the plan that are still there forget it, behind the runs that were granted before."""
    bound = plan.bound
    if bound is None:
        return
    plan.bound = None
    state.agreements.pop(bound.command.plan_id, None)
    command = UnloadPlan((bound.command.plan_id,))
    for host in bound.hosts:
        if state.hosts.get(host.name) is host:
            state.tell(host, command)


def _placements(plan: Plan) -> list[Placement]:
    """Every one once: those of arguments, of launches and of moves."""
    found: dict[Placement, None] = {placed.placement: None for placed in plan.arguments}
    found.update({executable.placement: None for executable in plan.executables})
    found.update({placed.placement: None for placed in plan.specs})
    return list(found)


def _bound(state: State, plan: Plan, placements: list[Placement], epochs: tuple[int, ...]) -> Bound:
    taking_part = {host: None for placement in placements for host in placement.hosts}
    hosts = tuple(host for island in plan.islands for host in island.members if host in taking_part)
    position = {host: index for index, host in enumerate(hosts)}
    members = {placement: tuple(position[host] for host in placement.hosts) for placement in placements}
    steps: list[PlanLaunch | PlanMove | PlanFree] = []
    launches: dict[str, list[int]] = {island.name: [] for island in plan.islands}
    launched: dict[Placement, list[int]] = {}
    for index, step in enumerate(plan.steps):
        match step:
            case Launch():
                placement = step.executable.placement
                launches[placement.island.name].append(index)
                launched.setdefault(placement, []).append(index)
                identifier = step.executable.id
                steps.append(
                    PlanLaunch(step.node, identifier, step.arguments, step.results, step.non_donatable, members[placement])
                )
            case Move():
                steps.append(PlanMove(step.source, step.destination, step.source_spec, step.destination_spec))
            case Free():
                steps.append(PlanFree(step.slots))
            case _:
                assert_never(step)
    command = LoadPlan(
        plan_id=state.number(),
        hosts=tuple(PlanHost(host.name, host.island.name, host.island.epoch) for host in hosts),
        specs=tuple(_plan_spec(placed, position) for placed in plan.specs),
        steps=tuple(steps),
        argument_count=len(plan.arguments),
        slot_count=plan.slot_count,
        results=plan.results,
        name=plan.name,
    )
    named = {name: tuple(found) for name, found in launches.items()}
    return Bound(command, hosts, epochs, named, _own(hosts, launched))


def _plan_spec(placed: PlacedSpec, position: dict[Host, int]) -> PlanSpec:
    shards = placed.placement.shards
    hosts = tuple(position[shard.host] for shard in shards)
    return PlanSpec(placed.spec, hosts, tuple(shard.local_device for shard in shards))


def _own(hosts: tuple[Host, ...], launched: dict[Placement, list[int]]) -> tuple[tuple[int, ...], ...]:
    """Per host, the steps that launch on it. Hosts of the same placements share one tuple."""
    taken: dict[Host, list[int]] = {host: [] for host in hosts}
    groups = list(launched.values())
    for group, placement in enumerate(launched):
        for host in placement.hosts:
            taken[host].append(group)
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    own: list[tuple[int, ...]] = []
    for host in hosts:
        key = tuple(taken[host])
        if key not in known:
            known[key] = tuple(sorted(step for group in key for step in groups[group]))
        own.append(known[key])
    return tuple(own)


# ---- who depends on what --------------------------------------------------------------------------------------------


def affected_by_step(plan: Plan, step: int) -> frozenset[int]:
    """Positions of the results that need a value made by this step, itself or what is computed from it."""
    known = plan.known.get(step)
    if known is None:
        found = plan.steps[step]
        match found:
            case Launch():
                made = found.results
            case Move():
                made = (found.destination,)
            case Free():
                made = ()
            case _:
                assert_never(found)
        known = _remember(plan, step, _affected(plan, made, step + 1))
    return known


def affected_by_group(plan: Plan, group: Group) -> frozenset[int]:
    """Positions of the results that need a value made by a group, itself or what is computed from it."""
    return _affected(plan, group.launch.results, group.end_step)


def group_needs(plan: Plan, group: Group, argument: int) -> bool:
    """Whether a group takes this argument of the plan, or what is computed from it."""
    reached = _reached(plan, (argument,), 0, group.first_step)
    return any(reached[slot] for slot in group.launch.arguments)


def affected_by_argument(plan: Plan, index: int) -> frozenset[int]:
    """Positions of the results that need this argument, itself or what is computed from it."""
    key = -1 - index
    known = plan.known.get(key)
    if known is None:
        known = _remember(plan, key, _affected(plan, (index,), 0))
    return known


def _affected(plan: Plan, slots: tuple[int, ...], first_step: int) -> frozenset[int]:
    reached = _reached(plan, slots, first_step, len(plan.steps))
    return frozenset(position for position, slot in enumerate(plan.results) if reached[slot])


def _reached(plan: Plan, slots: tuple[int, ...], first_step: int, end_step: int) -> bytearray:
    """Per slot, whether it is one of these or was computed from them by one of the steps."""
    reached = bytearray(plan.slot_count)
    for slot in slots:
        reached[slot] = 1
    for index in range(first_step, end_step):
        step = plan.steps[index]
        if isinstance(step, Launch):
            if any(reached[slot] for slot in step.arguments):
                for slot in step.results:
                    reached[slot] = 1
        elif isinstance(step, Move):
            reached[step.destination] |= reached[step.source]
    return reached


def _remember(plan: Plan, key: int, found: frozenset[int]) -> frozenset[int]:
    if len(plan.known) >= _KNOWN_MAX:
        plan.known.clear()
    plan.known[key] = found
    return found
