"""Whether what a simulated client is told failed can have failed for that reason."""

from __future__ import annotations

from typing import Any

from pathways_common.model.failure import Failure, Reason

from tests.simulation.sim_records import Array


def judge(client: Any, kind: str, arrays: list[Array], failure: Failure) -> None:
    """Could this failure have happened to these arrays?"""
    client.world.look("failures")
    lost = client.cluster.lost_islands
    homes = {client.home_of(device.island) for device in client.devices} | {*client.also}
    hurt = any(map(client.cluster.other_copies.is_hurt, arrays)) if arrays else any(name in lost for name in homes)
    match failure.reason:
        case Reason.SLICE_LOST | Reason.BUFFER_LOST:
            possible = hurt and bool(failure.host)
        case Reason.UNAVAILABLE:
            possible = hurt or any(failure.reason in array.may_fail for array in arrays)
            possible = possible or kind == "session"
        case Reason.INVALID_ARGUMENT if kind == "session":
            possible = "nowhere" in client.wanted
        case Reason.DELETED:
            possible = any(buffer in client.ended for array in arrays for buffer in array.buffers)
            possible = possible or any(failure.reason in array.may_fail for array in arrays)
        case _:
            possible = any(failure.reason in array.may_fail or failure.reason is array.must_fail for array in arrays)
            possible = possible or (kind == "inspect" and failure.reason is Reason.INVALID_ARGUMENT)  # released meanwhile
    possible = possible or client.cluster.stuck_hosts.may_cause(failure) or client.cluster.migrations.may_refuse(failure)
    if not (possible or client.cluster.short_of_memory(failure) or client.cluster.quotas.may_refuse(failure)):
        client.world.violate("failures", f"client {client.number}: {kind} of {arrays} failed with {failure}")
