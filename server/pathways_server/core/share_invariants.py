"""What must hold of the shares of every ground; see invariants.py."""

from __future__ import annotations

from .share_records import Share
from .state import State


def charges_under_way_are_those_of_gangs_in_flight(state: State) -> None:
    """Sessions and tenants know what they were charged for gangs that have not ended."""
    for ground in {island.ground.name: island.ground for island in state.islands.values()}.values():
        charged: dict[Share, int] = {}
        for gang in (gang for island in ground.islands for gang in island.inflight if gang.timed):
            of_gang: tuple[Share, ...] = (gang.share, gang.share.tenant)
            for share in of_gang:
                charged[share] = charged.get(share, 0) + gang.charged_ns
        known: tuple[Share, ...] = (*ground.shares.values(), *ground.tenants.values())
        for share in known:
            assert share.flying_ns == charged.get(share, 0), f"ground {ground.name}: {share.flying_ns} ns are charged under way"


ALL = (charges_under_way_are_those_of_gangs_in_flight,)
