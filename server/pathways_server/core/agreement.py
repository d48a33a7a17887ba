"""Hosts say how they understood a plan before anything of it is granted; one that understood it differently is named.

Every host works out its own share of a plan. Should one count launches otherwise than the core, gangs would meet that do not
belong together. So each answers a LoadPlan with digests of what it understood, once per plan and set of epochs; runs wait for the
answers, and afterwards there is nothing to compare.
"""

from __future__ import annotations

from pathways_common.model.agreement import FieldDigest, first_difference, launches_field, plan_fields
from pathways_common.model.failure import Failure, Reason

from . import plans
from .effects import PlanLaunch
from .events import PlanLoaded
from .plan import Bound, Plan
from .records import Host
from .run_records import Run
from .state import State


def expected(bound: Bound, host: Host) -> tuple[FieldDigest, ...]:
    """What a host has to answer; what concerns all of them is worked out once."""
    command = bound.command
    if not bound.understood:
        hosts = ((host.name, host.island, host.epoch) for host in command.hosts)
        slots = (command.argument_count, command.slot_count, command.results)
        bound.understood = plan_fields(hosts, command.specs, command.steps, slots)
    offsets = {step: offset for offset, step in enumerate(bound.launches[host.island.name])}
    launches = []
    for step in bound.own[bound.hosts.index(host)]:
        launch = command.steps[step]
        assert isinstance(launch, PlanLaunch)
        launches.append((step, launch.node, launch.executable_id, offsets[step]))
    return (*bound.understood, launches_field(launches))


def waits_for(state: State, plan: Plan, run: Run) -> str | Failure:
    """What a run of a plan that was told to its hosts still waits for; empty if they agree."""
    bound = plan.bound
    assert bound is not None
    if bound.disagreement is not None:
        if bound.disagreement.retryable:
            plans.unload(state, plan)  # the next run asks again
        return bound.disagreement
    if not bound.asked:
        bound.asked = True
        bound.due = {host.name: host for host in bound.hosts}
        bound.deadline_ns = state.now_ns + state.config.agreement_ns
        state.agreements[bound.command.plan_id] = plan
    if not bound.due:
        return ""
    if run not in bound.waiters:
        bound.waiters.append(run)
    return _words(plan, bound)


def _words(plan: Plan, bound: Bound) -> str:
    return f"host {next(iter(bound.due))} to say how it understood program {plan.name}"


def on_plan_loaded(state: State, event: PlanLoaded) -> None:
    """A host has worked out its share of a plan."""
    plan = state.agreements.get(event.plan_id)
    bound = plan.bound if plan is not None else None
    host = bound.due.get(event.host) if bound is not None else None
    if plan is None or bound is None or host is None or host.island.epoch != event.epoch:
        state.ignore(event, "no such plan in this epoch")
        return
    del bound.due[event.host]
    if event.failure is not None:
        bound.disagreement = event.failure
    else:
        field = first_difference(expected(bound, host), event.fields)
        if field:
            message = (
                f"host {event.host} understood program {plan.name} otherwise than the controller: they differ in its {field};"
                " install the same version of pathways on every host"
            )
            bound.disagreement = state.failure(Reason.PROGRAM_REFUSED, message, host=event.host, field=field, program=plan.name)
    if bound.disagreement is not None or not bound.due:
        _settle(state, bound)
        return
    for run in bound.waiters:
        for lane in run.lanes:
            if lane.queue and lane.queue[0] is run:
                lane.blocked_on = _words(plan, bound)


def _settle(state: State, bound: Bound) -> None:
    bound.due.clear()
    state.agreements.pop(bound.command.plan_id, None)
    state.woken.extend(bound.waiters)
    bound.waiters.clear()


def expire(state: State) -> None:
    """Plans whose hosts said nothing in time: their runs fail with who is late, and the next one asks again."""
    for plan in list(state.agreements.values()):
        bound = plan.bound
        if bound is None or bound.deadline_ns > state.now_ns:
            continue
        seconds = state.config.agreement_ns // 1_000_000_000
        late = ", ".join(bound.due)
        message = f"program {plan.name} was not understood by all hosts within {seconds} s; still out: {late}; run it again"
        bound.disagreement = state.failure(Reason.TIMED_OUT, message, retryable=True, late=late, seconds=seconds)
        _settle(state, bound)
