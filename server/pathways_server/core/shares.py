"""Shares of an island and its cells: who has work there, and how much device time each was given, as virtual time.

A grant is charged as it is estimated, and corrected when the gang was measured. Whoever gets work after having had none starts
where those are who have work, so that it neither owes nor is owed for the time in which it was away. Who is alone is charged
nothing; a moment after the last of the others had work, what those had used too much is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .share_records import Ground, Peers, Policy, SessionShare, Share, TenantShare
from .tenant_records import Priority
from .transitions import SessionState

if TYPE_CHECKING:
    from .records import Gang, Island, Session
    from .run_records import Span
    from .state import State

# Virtual time per nanosecond at weight 1: fine enough for the quotient by any weight.
_UNIT = 1 << 20
_CLOSED = SessionState.CLOSED


def of(state: State, session: Session, island: Island) -> SessionShare:
    """The share of a session on an island, made when first asked for."""
    ground = island.ground
    share = ground.shares.get(session.number)
    if share is None:
        tenant = ground.tenants.get(session.tenant.name)
        if tenant is None:
            priority = _class_of(ground, session.tenant.declared.priority)
            tenant = TenantShare(ground.classes[priority], tenant=session.tenant, priority=priority, since_ns=state.now_ns)
            ground.tenants[session.tenant.name] = tenant
        share = SessionShare(tenant.sessions, session=session, tenant=tenant)
        ground.shares[session.number] = share
    return share


def on_session_closed(state: State, session: Session) -> None:
    """Forgets its shares; where gangs of it are in flight, when the last of them ends."""
    for island in state.islands.values():
        share = island.ground.shares.get(session.number)
        if share is not None and not share.busy:
            _forget(island.ground, share)


def _forget(ground: Ground, share: SessionShare) -> None:
    ground.shares.pop(share.session.number, None)
    ground.departed = tuple(entry for entry in ground.departed if entry[0] is not share)


# ---- having work ------------------------------------------------------------------------------------------------------


def contended(state: State, island: Island, share: SessionShare) -> bool:
    """Whether a session other than this one has work on the island, or had some a moment ago."""
    ground = island.ground
    alone = ground.alone
    if alone is share:
        if not ground.departed:
            return False
        if state.now_ns - ground.departed[0][1] < state.config.company_ns:
            return True
        _forget_others(ground, share)
        return False
    if alone is not None:
        return alone.busy > 0 or state.now_ns - alone.idle_ns < state.config.company_ns
    if len(ground.active) > (1 if share.busy else 0):
        return True
    recent = next((departed_ns for other, departed_ns in ground.departed if other is not share), None)
    return recent is not None and state.now_ns - recent < state.config.company_ns


def hold(island: Island, share: SessionShare) -> None:
    """One thing more that it has on the island."""
    if share.busy:
        share.busy += 1
        return
    share.busy = 1
    if island.ground.alone is not share:
        _come(island.ground, share)


def release(state: State, island: Island, share: SessionShare) -> None:
    share.busy -= 1
    if not share.busy:
        share.idle_ns = state.now_ns
        if island.ground.alone is not share or share.session.state is _CLOSED:
            _go(island.ground, share)


def _come(ground: Ground, share: SessionShare) -> None:
    alone, ground.alone = ground.alone, None
    if alone is not None and not alone.busy:
        _go(ground, alone)
    ground.departed = tuple(entry for entry in ground.departed if entry[0] is not share)
    ground.active[share] = None
    tenant = share.tenant
    tenant.busy += 1
    if tenant.busy == 1:
        align(ground, tenant)
        _enter(tenant)
    _enter(share)
    if len(ground.active) == 1:
        ground.alone = share


def _go(ground: Ground, share: SessionShare) -> None:
    """It has no work, and somebody else has or it has closed. The last one that stays is not alone: others left just now."""
    del ground.active[share]
    if ground.alone is share:
        ground.alone = None
    _leave(share)
    tenant = share.tenant
    tenant.busy -= 1
    if not tenant.busy:
        _leave(tenant)
    if share.session.state is _CLOSED:
        _forget(ground, share)
        return
    ground.departed = ((share, share.idle_ns), *ground.departed[:1])
    if len(ground.active) == 1:
        ground.alone = next(iter(ground.active))


def _forget_others(ground: Ground, share: SessionShare) -> None:
    """It has been alone for long: nobody owes it anything for what was before."""
    ground.departed = ()
    share.virtual_time = max(share.virtual_time, share.peers.floor)
    share.tenant.virtual_time = max(share.tenant.virtual_time, share.tenant.peers.floor)


def _enter(share: Share) -> None:
    peers = share.peers
    share.virtual_time = max(share.virtual_time, _start(peers))
    peers.active[share] = None


def _leave(share: Share) -> None:
    peers = share.peers
    del peers.active[share]
    peers.floor = max(peers.floor, share.virtual_time)


def _start(peers: Peers) -> int:
    """Where one begins that comes: with those who are there, without what they were granted and have not had yet; so it is
    served before more of them is. If nobody is there, behind all who were (start-time fair queueing, Goyal et al. 1996)."""
    return min((other.virtual_time - _flying(other) for other in peers.active), default=peers.floor)


def _flying(share: Share) -> int:
    weight = share.tenant.declared.weight if isinstance(share, TenantShare) else 1
    return share.flying_ns * _UNIT // max(weight, 1)


def _class_of(ground: Ground, declared: Priority) -> Priority:
    return declared if ground.policy is Policy.PRIORITY else Priority.NORMAL


def align(ground: Ground, tenant: TenantShare) -> None:
    """Puts a tenant among its peers, if its class or the policy has changed: virtual times of two classes do not compare."""
    priority = _class_of(ground, tenant.tenant.declared.priority)
    if priority is tenant.priority:
        return
    if tenant in tenant.peers.active:
        _leave(tenant)
    tenant.priority = priority
    tenant.peers = ground.classes[priority]
    tenant.virtual_time = _start(tenant.peers)
    if tenant.busy:
        tenant.peers.active[tenant] = None


def level(ground: Ground) -> None:
    """Nobody is ahead of anybody any more: what one policy gave beyond shares is not paid back under the next."""
    for tenant in ground.tenants.values():
        align(ground, tenant)
    for share in (*ground.tenants.values(), *ground.shares.values()):
        peers = share.peers
        peers.floor = max(peers.floor, share.virtual_time)
    for share in (*ground.tenants.values(), *ground.shares.values()):
        share.virtual_time = share.peers.floor


# ---- being served -----------------------------------------------------------------------------------------------------


def granted(state: State, island: Island, gang: Gang, share: SessionShare, device_ns: int) -> None:
    """A gang, or a span of gangs, enters the window. It is charged, as estimated, if others compete."""
    hold(island, share)
    if len(island.inflight) == 1:
        island.moved_ns = state.now_ns
    if len(island.ground.islands) > 1:
        config = state.config
        _keep_turn(island, max(gang.duration_ns, config.quantum_ns // config.quantum_gangs))
    island.inflight_ns += gang.duration_ns
    island.inflight_joint += gang.joint
    share.tenant.since_ns = state.now_ns
    if gang.timed:
        gang.charged_ns = device_ns
        _advance(share, device_ns)
        _fly(share, device_ns)


def _keep_turn(island: Island, duration_ns: int) -> None:
    ground = island.ground
    if ground.turn is not island:
        ground.turn, ground.turn_ns = island, 0
    ground.turn_ns += duration_ns


def went_on(state: State, gang: Span, last: int, before: int, finished: int) -> None:
    """A member of a range has finished some of its launches, of which `last` is its own last one: room for others comes free."""
    done = finished - max(before, gang.sequence - 1)
    done_ns = gang.duration_ns * done // ((last - gang.sequence + 1) * len(gang.members))
    gang.done_ns += done_ns
    gang.island.inflight_ns -= done_ns
    gang.island.moved_ns = state.now_ns


def retired(state: State, island: Island, gang: Gang, share: SessionShare) -> None:
    """It has left the window."""
    island.inflight_ns -= gang.duration_ns - gang.done_ns
    island.inflight_joint -= gang.joint
    island.moved_ns = state.now_ns
    if gang.timed:
        _fly(share, -gang.charged_ns)
        if island.measures:
            _advance(share, gang.booked_ns - gang.charged_ns)
    release(state, island, share)


def on_epoch_ended(state: State, island: Island) -> None:
    """What is in flight ends; nobody will say how long it took."""
    for gang in island.inflight:
        if gang.timed:
            _fly(gang.share, -gang.charged_ns)
        release(state, island, gang.share)
    island.inflight_ns = island.inflight_joint = 0
    island.measures = False


def _advance(share: SessionShare, device_ns: int) -> None:
    tenant = share.tenant
    share.virtual_time += device_ns * _UNIT
    tenant.virtual_time += device_ns * _UNIT // max(tenant.tenant.declared.weight, 1)


def _fly(share: SessionShare, device_ns: int) -> None:
    share.flying_ns += device_ns
    share.tenant.flying_ns += device_ns
