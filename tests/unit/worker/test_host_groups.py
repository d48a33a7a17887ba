"""Groups of a host's share: what stands in place of their nodes, what is freed, and what only members know."""

from __future__ import annotations

from pathways_worker.core.groups import group_launches, with_groups
from pathways_worker.core.loaded_plan import LoadedPlan, PlanFree, PlanGroup, PlanHost, PlanLaunch, PlanStep
from pathways_worker.core.plans import FreeStep, HostPlan, LaunchStep, host_plan

BOTH, FIRST = (0, 1), (0,)


def launch(node: int, arguments: tuple[int, ...], results: tuple[int, ...], hosts: tuple[int, ...]) -> PlanLaunch:
    return PlanLaunch(node, node, arguments, results, (), hosts)  # type: ignore[arg-type]


def share(host: str) -> HostPlan:
    """Node 1 on h0 and h1; nodes 2 to 4 on h0, a group; node 5 on both."""
    steps: list[PlanStep] = [
        launch(1, (0,), (1,), BOTH),
        launch(2, (1,), (2, 3), FIRST),
        PlanFree((1,)),
        launch(3, (2,), (4,), FIRST),
        PlanFree((2, 3)),
        launch(4, (4, 0), (5,), FIRST),
        PlanFree((4,)),
        launch(5, (0,), (6,), BOTH),
    ]
    hosts = tuple(PlanHost(name, "a", 5, f"{name}:1") for name in ("h0", "h1"))  # type: ignore[arg-type]
    return host_plan(LoadedPlan(3, hosts, (), tuple(steps), 1, 7, (5, 6), "train"), host)


GROUP = PlanGroup(1, 6, 4, PlanLaunch(2, 9, (1, 0), (5,), (1,), FIRST))  # type: ignore[arg-type]


def test_a_group_stands_where_its_first_node_stood_with_the_offset_of_its_last() -> None:
    plan = share("h0")
    (group,) = group_launches(plan, (GROUP,))
    assert group == LaunchStep(1, 2, 9, (1, 0), (5,), (1,), 3, ((1, 0),), (1, 3, 5), 4)  # type: ignore[arg-type]
    steps = with_groups(plan, (group,), 0, 8)
    assert [step.step for step in steps] == [0, 1, 2, 7]
    assert steps[1] is group
    # Slots 2, 3 and 4 are never made; slot 1 goes behind the group.
    assert [step.slots for step in steps if isinstance(step, FreeStep)] == [(1,)]
    assert plan.sequence_of(group, 0, 11) == 14
    assert plan.own_sequences(0, 8, 11) == (11, 15)


def test_a_range_that_cuts_a_group_keeps_its_nodes() -> None:
    plan = share("h0")
    groups = group_launches(plan, (GROUP,))
    for first, end in ((0, 5), (2, 8)):
        assert with_groups(plan, groups, first, end) == tuple(step for step in plan.steps if first <= step.step < end)


def test_a_host_that_is_no_member_counts_the_groups_nodes() -> None:
    plan = share("h1")
    assert group_launches(plan, (GROUP,)) == ()
    assert plan.own_sequences(0, 8, 11) == (11, 15)
