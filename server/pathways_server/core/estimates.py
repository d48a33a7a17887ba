"""Estimates: how long a gang takes, per executable. A new one begins with what gangs of the same content took in other sessions.

The same program may take one session much longer than another, if its arguments say for how long it goes on. So from its first
gang on only what an executable itself took counts: a measured run for a quarter and all earlier ones for the rest. What was never
measured anywhere is taken for a whole quantum, so that nobody gets more than one gang of it before it is known. Sums over a plan
are kept until an estimate has moved by an eighth.

What is never run is never measured again: a fused group whose nodes go one by one comes to be taken for what these take.
"""

from __future__ import annotations

from . import spans
from .plan import Costs, Launch, Plan
from .share_records import Estimate
from .state import State

_NEW_SHARE = 4
_NEW_STAY_SHARE = 16
_MOVED_SHARE = 8
_APART_SHARE = 8


def of(state: State, program: str) -> Estimate:
    """A new executable's, by its program's content; the least recently used content is forgotten when there are too many."""
    estimates = state.estimates
    content = estimates.pop(program, None)
    if content is None:
        content = Estimate(state.config.guess_ns, state.config.guess_ns)
        if len(estimates) >= state.config.estimates_max:
            del estimates[next(iter(estimates))]
    estimates[program] = content
    return Estimate(content.duration_ns, content.duration_ns, content.stay_ns, content=content)


def observe(state: State, estimate: Estimate, duration_ns: int) -> None:
    """A gang of the executable took so long."""
    _move(estimate, duration_ns)
    if estimate.content is not None:
        _move(estimate.content, duration_ns)
    _tell(state, estimate)


def observe_apart(state: State, estimate: Estimate, nodes_ns: int) -> None:
    """The nodes of the group that it is the estimate of are launched one by one, and are taken for so long together."""
    if estimate.measured and nodes_ns < estimate.duration_ns:
        estimate.duration_ns += (nodes_ns - estimate.duration_ns) // _APART_SHARE
        _tell(state, estimate)


def _tell(state: State, estimate: Estimate) -> None:
    if abs(estimate.duration_ns - estimate.told_ns) * _MOVED_SHARE > estimate.told_ns:
        estimate.told_ns = estimate.duration_ns
        state.estimates_moved += 1


def observe_stay(state: State, estimate: Estimate, longest_ns: int) -> None:
    """The member of a gang that began first had it for so long. Few are much longer than the others and make up much of the sum,
    so a new one counts little; and beyond a window not at all, since no more than one gang is granted ahead then."""
    longest_ns = min(longest_ns, max(state.config.settled_window_ns, estimate.duration_ns))
    for each in (estimate, estimate.content):
        if each is not None:
            each.stay_ns += (longest_ns - each.stay_ns) // (_NEW_STAY_SHARE if each.stay_ns else 1)


def _move(estimate: Estimate, duration_ns: int) -> None:
    if estimate.measured:
        estimate.duration_ns += (duration_ns - estimate.duration_ns) // _NEW_SHARE
    else:
        estimate.measured = True
        estimate.duration_ns = duration_ns


def costs_of(state: State, plan: Plan) -> Costs:
    """Sums of estimates over the launches of a plan, per island of its shape; one entry more than it has launches.

    How long a launch keeps others waiting is never less than it takes to launch it. Nodes that go as one take what that took.
    """
    costs = plan.costs
    if costs is not None and costs.moved == state.estimates_moved:
        return costs
    fused: dict[int, int] = {}
    for group in plan.groups if plan.bound is not None and plan.bound.grouped else ():
        if group.launch.executable.estimate.measured:
            steps = range(group.first_step, group.end_step)
            nodes = [number for number in steps if isinstance(plan.steps[number], Launch)]
            fused.update(dict.fromkeys(nodes, group.launch.executable.estimate.duration_ns // len(nodes)))
    durations: list[tuple[int, ...]] = []
    device_times: list[tuple[int, ...]] = []
    for launches in spans.shape_of(plan).launches:
        duration, device_time = [0], [0]
        for number in launches:
            step = plan.steps[number]
            assert isinstance(step, Launch)
            estimate = fused.get(number) or step.executable.estimate.duration_ns
            duration.append(duration[-1] + max(estimate, state.config.launch_ns))
            device_time.append(device_time[-1] + estimate * len(step.executable.placement.positions))
        durations.append(tuple(duration))
        device_times.append(tuple(device_time))
    plan.costs = costs = Costs(state.estimates_moved, tuple(durations), tuple(device_times))
    return costs
