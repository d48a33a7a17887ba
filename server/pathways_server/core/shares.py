"""Shares of an island: who has work there, and how much device time each was given, as virtual time.

A grant is charged as it is estimated, and corrected when the gang was measured. Whoever gets work after having had none starts
where those are who have work, so that it neither owes nor is owed for the time in which it was away. Who is alone is charged
nothing; a moment after the last of the others had work, what those had used too much is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .share_records import Peers, Policy, SessionShare, Share, TenantShare
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
    share = island.shares.get(session.number)
    if share is None:
        tenant = island.tenants.get(session.tenant.name)
        if tenant is None:
            priority = _class_of(island, session.tenant.declared.priority)
            tenant = TenantShare(island.classes[priority], tenant=session.tenant, priority=priority, since_ns=state.now_ns)
            island.tenants[session.tenant.name] = tenant
        share = SessionShare(tenant.sessions, session=session, tenant=tenant)
        island.shares[session.number] = share
    return share


def on_session_closed(state: State, session: Session) -> None:
    """Forgets its shares; where gangs of it are in flight, when the last of them ends."""
    for island in state.islands.values():
        share = island.shares.get(session.number)
        if share is not None and not share.busy:
            _forget(island, share)


def _forget(island: Island, share: SessionShare) -> None:
    island.shares.pop(share.session.number, None)
    island.departed = tuple(entry for entry in island.departed if entry[0] is not share)


# ---- having work ------------------------------------------------------------------------------------------------------


def contended(state: State, island: Island, share: SessionShare) -> bool:
    """Whether a session other than this one has work on the island, or had some a moment ago."""
    alone = island.alone
    if alone is share:
        if not island.departed:
            return False
        if state.now_ns - island.departed[0][1] < state.config.company_ns:
            return True
        _forget_others(island, share)
        return False
    if alone is not None:
        return alone.busy > 0 or state.now_ns - alone.idle_ns < state.config.company_ns
    if len(island.active) > (1 if share.busy else 0):
        return True
    recent = next((departed_ns for other, departed_ns in island.departed if other is not share), None)
    return recent is not None and state.now_ns - recent < state.config.company_ns


def hold(island: Island, share: SessionShare) -> None:
    """One thing more that it has on the island."""
    if share.busy:
        share.busy += 1
        return
    share.busy = 1
    if island.alone is not share:
        _come(island, share)


def release(state: State, island: Island, share: SessionShare) -> None:
    share.busy -= 1
    if not share.busy:
        share.idle_ns = state.now_ns
        if island.alone is not share or share.session.state is _CLOSED:
            _go(island, share)


def _come(island: Island, share: SessionShare) -> None:
    alone, island.alone = island.alone, None
    if alone is not None and not alone.busy:
        _go(island, alone)
    island.departed = tuple(entry for entry in island.departed if entry[0] is not share)
    island.active[share] = None
    tenant = share.tenant
    tenant.busy += 1
    if tenant.busy == 1:
        align(island, tenant)
        _enter(tenant)
    _enter(share)
    if len(island.active) == 1:
        island.alone = share


def _go(island: Island, share: SessionShare) -> None:
    """It has no work, and somebody else has or it has closed. The last one that stays is not alone: others left just now."""
    del island.active[share]
    if island.alone is share:
        island.alone = None
    _leave(share)
    tenant = share.tenant
    tenant.busy -= 1
    if not tenant.busy:
        _leave(tenant)
    if share.session.state is _CLOSED:
        _forget(island, share)
        return
    island.departed = ((share, share.idle_ns), *island.departed[:1])
    if len(island.active) == 1:
        island.alone = next(iter(island.active))


def _forget_others(island: Island, share: SessionShare) -> None:
    """It has been alone for long: nobody owes it anything for what was before."""
    island.departed = ()
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
    """Where one begins that comes: with those who are there, else behind all who were."""
    return min((other.virtual_time for other in peers.active), default=peers.floor)


def _class_of(island: Island, declared: Priority) -> Priority:
    return declared if island.policy is Policy.PRIORITY else Priority.NORMAL


def align(island: Island, tenant: TenantShare) -> None:
    """Puts a tenant among its peers, if its class or the policy has changed: virtual times of two classes do not compare."""
    priority = _class_of(island, tenant.tenant.declared.priority)
    if priority is tenant.priority:
        return
    if tenant in tenant.peers.active:
        _leave(tenant)
    tenant.priority = priority
    tenant.peers = island.classes[priority]
    tenant.virtual_time = _start(tenant.peers)
    if tenant.busy:
        tenant.peers.active[tenant] = None


def level(island: Island) -> None:
    """Nobody is ahead of anybody any more: what one policy gave beyond shares is not paid back under the next."""
    for tenant in island.tenants.values():
        align(island, tenant)
    for share in (*island.tenants.values(), *island.shares.values()):
        peers = share.peers
        peers.floor = max(peers.floor, share.virtual_time)
    for share in (*island.tenants.values(), *island.shares.values()):
        share.virtual_time = share.peers.floor


# ---- being served -----------------------------------------------------------------------------------------------------


def granted(state: State, island: Island, gang: Gang, share: SessionShare, device_ns: int) -> None:
    """A gang, or a span of gangs, enters the window. It is charged, as estimated, if others compete."""
    hold(island, share)
    if len(island.inflight) == 1:
        island.moved_ns = state.now_ns
    island.inflight_ns += gang.duration_ns
    share.tenant.since_ns = state.now_ns
    if gang.timed:
        gang.charged_ns = device_ns
        _advance(share, device_ns)


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
    island.moved_ns = state.now_ns
    if gang.timed and island.measures:
        _advance(share, gang.booked_ns - gang.charged_ns)
    release(state, island, share)


def on_epoch_ended(state: State, island: Island) -> None:
    """What is in flight ends; nobody will say how long it took."""
    for gang in island.inflight:
        release(state, island, gang.share)
    island.inflight_ns = 0
    island.measures = False


def _advance(share: SessionShare, device_ns: int) -> None:
    tenant = share.tenant
    share.virtual_time += device_ns * _UNIT
    tenant.virtual_time += device_ns * _UNIT // max(tenant.tenant.declared.weight, 1)
