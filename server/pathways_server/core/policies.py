"""Policies: which of the lanes that nothing blocks is served next on an island. Every lane in line has work.

A policy only chooses; that a grant waits for nothing but earlier grants (D7) holds whatever it chooses. It may be changed while
work waits: the next choice follows the new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from . import shares
from .share_records import Policy

if TYPE_CHECKING:
    from .events import PolicySet
    from .records import Island, Lane
    from .share_records import Ground, Share, TenantShare
    from .state import State


def choose(state: State, island: Island) -> Lane:
    """The lane that goes next. There is one."""
    ground = island.ground
    lanes = ground.line.lanes
    if len(lanes) == 1:
        return next(iter(lanes))
    chosen = _CHOOSERS[ground.policy](state, ground)
    return chosen if len(ground.islands) == 1 else _in_its_turn(state, ground, chosen)


def _in_its_turn(state: State, ground: Ground, chosen: Lane) -> Lane:
    """The island that has its turn keeps it for a quantum while it has work in line; under fifo nobody goes before the first."""
    turn = ground.turn
    if turn is None or chosen.island is turn or not turn.inflight_gangs or ground.policy is Policy.FIFO:
        return chosen
    if ground.turn_ns >= state.config.quantum_ns:
        return chosen
    return min((lane for lane in ground.line.lanes if lane.island is turn), key=_behind, default=chosen)


def _behind(lane: Lane) -> tuple[int, int, int]:
    tenant = lane.share.tenant
    return -tenant.priority, tenant.virtual_time, lane.share.virtual_time


def _first_come(_state: State, ground: Ground) -> Lane:
    """Whose head was asked for first; of several, who came into line first."""
    return min(ground.line.lanes, key=_asked_for)


def _asked_for(lane: Lane) -> int:
    return lane.queue[0].requested_ns


def _by_share(_state: State, ground: Ground) -> Lane:
    """The tenant that is furthest behind, and of its sessions the one that is."""
    for tenant in ground.line.tenants:
        shares.align(ground, tenant)
    return _of_tenant(min(ground.line.tenants, key=_virtual_time))


def _by_priority(state: State, ground: Ground) -> Lane:
    """Who has waited for too long, the longest first; else the highest class, and in it by share."""
    overdue = state.now_ns - state.config.ageing_ns
    oldest: TenantShare | None = None
    best: TenantShare | None = None
    for tenant in ground.line.tenants:
        shares.align(ground, tenant)
        if tenant.since_ns <= overdue and (oldest is None or tenant.since_ns < oldest.since_ns):
            oldest = tenant
        if best is None or (-tenant.priority, tenant.virtual_time) < (-best.priority, best.virtual_time):
            best = tenant
    chosen = oldest or best
    assert chosen is not None, "somebody is in line"
    return _of_tenant(chosen)


def _of_tenant(tenant: TenantShare) -> Lane:
    return next(iter(min(tenant.waiting, key=_virtual_time).lanes))


def _virtual_time(share: Share) -> int:
    return share.virtual_time


_CHOOSERS: dict[Policy, Callable[[State, Ground], Lane]] = {
    Policy.FIFO: _first_come,
    Policy.PROPORTIONAL_SHARE: _by_share,
    Policy.PRIORITY: _by_priority,
}

# ---- the line ---------------------------------------------------------------------------------------------------------


def join(state: State, lane: Lane) -> None:
    """Behind the others."""
    island, share = lane.island, lane.share
    line, tenant = island.line, share.tenant
    if tenant not in line.tenants:
        line.tenants[tenant] = None
        # Out of line for its turn, or while a program was loaded, it has waited on.
        tenant.since_ns = max(tenant.since_ns, lane.queue[0].requested_ns)
    tenant.waiting[share] = None
    share.lanes[lane] = None
    line.lanes[lane] = None
    shares.hold(island, share)


def leave(state: State, lane: Lane) -> None:
    """It is in line."""
    island, share = lane.island, lane.share
    line, tenant = island.line, share.tenant
    del line.lanes[lane]
    del share.lanes[lane]
    if not share.lanes:
        del tenant.waiting[share]
        if not tenant.waiting:
            del line.tenants[tenant]
    shares.release(state, island, share)


def dissolve(state: State, island: Island) -> None:
    """Nobody of the island is in line."""
    for lane in [lane for lane in island.line.lanes if lane.island is island]:
        leave(state, lane)


def on_policy_set(state: State, event: PolicySet) -> None:
    island = state.islands.get(event.island)
    if island is None:
        state.ignore(event, "there is no such island")
        return
    island.ground.policy = event.policy
    shares.level(island.ground)
    state.log("policy set", island=island.name, policy=event.policy.value)
