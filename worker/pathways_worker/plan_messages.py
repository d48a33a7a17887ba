"""LoadPlan messages as plain values, for the daemon and for the executor alike."""

from __future__ import annotations

from typing import Any

from pathways_common.model.array import ArraySpec
from pathways_common.model.ids import Epoch, GlobalId, HostName, IslandName

from pathways_worker.core.loaded_plan import LoadedPlan, PlanFree, PlanGroup, PlanHost, PlanLaunch, PlanMove, PlanSpec, PlanStep


def read_plan(message: Any) -> LoadedPlan:
    """A LoadPlan message; raises ValueError for a step of an unknown kind."""
    return LoadedPlan(
        plan_id=message.plan_id,
        hosts=tuple(
            PlanHost(HostName(host.name), IslandName(host.island), Epoch(host.epoch), host.data_address) for host in message.hosts
        ),
        specs=tuple(PlanSpec(_spec(spec.spec), tuple(spec.hosts), tuple(spec.local_devices)) for spec in message.specs),
        steps=tuple(_step(step) for step in message.steps),
        argument_count=message.argument_count,
        slot_count=message.slot_count,
        results=tuple(message.results),
        name=message.name,
    )


def read_groups(message: Any) -> tuple[PlanGroup, ...]:
    """The groups of a GroupPlan message."""
    return tuple(PlanGroup(each.first_step, each.end_step, each.last_node, _launch(each.launch)) for each in message.groups)


def _spec(spec: Any) -> ArraySpec:
    return ArraySpec(spec.dtype, tuple(spec.shape), spec.sharding, tuple(spec.shard_shape), tuple(spec.devices), spec.memory_kind)


def _step(message: Any) -> PlanStep:
    kind = message.WhichOneof("step")
    if kind == "launch":
        return _launch(message.launch)
    if kind == "move":
        move = message.move
        return PlanMove(move.source, move.destination, move.source_spec, move.destination_spec)
    if kind == "free":
        return PlanFree(tuple(message.free.slots))
    raise ValueError(f"a plan holds a step of kind {kind}, which this host does not know; update it")


def _launch(launch: Any) -> PlanLaunch:
    return PlanLaunch(
        launch.node,
        GlobalId(launch.executable_id),
        tuple(launch.arguments),
        tuple(launch.results),
        tuple(launch.non_donatable),
        tuple(launch.hosts),
    )
