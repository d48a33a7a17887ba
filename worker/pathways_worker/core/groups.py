"""Groups of a plan on one host: one launch in place of those of several neighbouring nodes, in ranges that are granted fused.

It stands where the first of them stood and takes the sequence of the last one, so that whoever counts launches counts all. What
the nodes handed to one another and to nobody else is never made, and so never freed.
"""

from __future__ import annotations

from collections.abc import Sequence

from .loaded_plan import PlanGroup
from .plans import FreeStep, HostPlan, HostStep, LaunchStep, within


def group_launches(plan: HostPlan, groups: Sequence[PlanGroup]) -> tuple[LaunchStep, ...]:
    """The launches of groups of which this host is a member, in order."""
    found: list[LaunchStep] = []
    for group in groups:
        own = within(plan.launches, group.first_step, group.end_step)
        if not own:
            continue
        launch = group.launch
        given = tuple((place, slot) for place, slot in enumerate(launch.arguments) if slot < plan.argument_count)
        found.append(
            LaunchStep(
                own[0].step, launch.node, launch.executable_id, launch.arguments, launch.results, launch.non_donatable,
                own[-1].offset, given, tuple(step.step for step in own), group.last_node,
            )
        )  # fmt: skip
    return tuple(found)


def with_groups(plan: HostPlan, groups: Sequence[LaunchStep], first_step: int, end_step: int) -> tuple[HostStep, ...]:
    """The steps of a range, with a group in place of its nodes where all of them are in the range."""
    steps = within(plan.steps, first_step, end_step)
    whole = {group.step: group for group in groups if first_step <= group.step and group.covers[-1] < end_step}
    covered = dict.fromkeys(step for group in whole.values() for step in group.covers)
    made = dict.fromkeys(slot for group in whole.values() for slot in group.results)
    unmade = dict.fromkeys(
        slot
        for step in steps
        if isinstance(step, LaunchStep) and step.step in covered
        for slot in step.results
        if slot not in made
    )
    found: list[HostStep] = []
    for step in steps:
        if step.step in whole:
            found.append(whole[step.step])
        elif isinstance(step, FreeStep):
            left = tuple(slot for slot in step.slots if slot not in unmade)
            if left:
                found.append(FreeStep(step.step, left))
        elif step.step not in covered:
            found.append(step)
    return tuple(found)
