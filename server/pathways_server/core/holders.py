"""Who holds the memory of a device, for sentences to people and for figures. Goes through all buffers: not for the hot path."""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.ids import SessionNumber

from .audience import Audience, Part, shares
from .memory_records import Claim, IslandMemory, Need
from .records import Execution, Host, Island, Session
from .run_records import Run
from .state import State
from .tenant_records import TenantName
from .transitions import BufferState

_SHOWN_MAX = 4


@dataclass(frozen=True, slots=True)
class Holder:
    tenant: TenantName
    session_number: int
    size_bytes: int


def of_device(state: State, island: Island, host: Host, local_device: int) -> tuple[Holder, ...]:
    """Sessions with values or granted work on the device, the largest first."""
    held: dict[SessionNumber, int] = {}
    sessions: dict[SessionNumber, Session] = {}
    for each in island.ground.islands:
        there = each.host_on(host.machine)
        if there is not None:
            _add(state, each, there, local_device, held, sessions)
    ordered = sorted(held.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Holder(sessions[number].tenant.name, number, size) for number, size in ordered)


def _add(
    state: State,
    island: Island,
    host: Host,
    local_device: int,
    held: dict[SessionNumber, int],
    sessions: dict[SessionNumber, Session],
) -> None:
    for session in state.sessions.values():
        if island.name not in session.used:
            continue
        for buffer in session.buffers.values():
            placement = buffer.placement
            if not buffer.charged or placement is None or placement.island is not island or buffer.epoch != island.epoch:
                continue
            if any(place.host is host and place.local_device == local_device for place in placement.shards):
                held[session.number] = held.get(session.number, 0) + buffer.charged
                sessions[session.number] = session
    for run in island.runs.values():
        session = run.definition.session
        for reserved in run.reserved:
            for need in reserved.needs:
                if need.host is host and need.local_device == local_device:
                    held[session.number] = held.get(session.number, 0) + need.size_bytes
                    sessions[session.number] = session


def words(state: State, island: Island, host: Host, local_device: int, audience: Audience) -> str:
    """`held by` them, in words for the audience."""
    holders = of_device(state, island, host, local_device)
    if not holders:
        return "nobody holds arrays there"
    parts = [Part(each.tenant, f"tenant {each.tenant} session {each.session_number}", each.size_bytes) for each in holders]
    found = shares(audience, parts)
    shown = [f"{name} ({size} bytes)" for name, size in found[:_SHOWN_MAX]]
    more = [f"{len(found) - _SHOWN_MAX} more"] if len(found) > _SHOWN_MAX else []
    return f"held by {', '.join(shown + more)}"


def explain(state: State, island: Island, memory: IslandMemory) -> None:
    """Lanes whose heads wait say who holds what they need."""
    known: dict[tuple[Host, int, Audience], str] = {}
    for claim in memory.claims.values():
        lanes = [claim.work.lane] if isinstance(claim.work, Execution) else []
        lanes = list(claim.work.lanes) if isinstance(claim.work, Run) else lanes
        if not lanes:
            continue
        text = sentence(state, island, claim, known)
        for lane in lanes:
            if lane.blocked and lane.queue and lane.queue[0] is claim.work:
                lane.blocked_on = text


def sentence(state: State, island: Island, claim: Claim, known: dict[tuple[Host, int, Audience], str]) -> str:
    """What a claim waits for and who holds it, for its own tenant."""
    need = most_lacking(claim)
    key = (need.host, need.local_device, claim.session.tenant.name)
    if key not in known:
        known[key] = words(state, island, *key)
    account = need.host.account
    free = max(account.budget_bytes - account.used[need.local_device], 0) if account is not None else 0
    where = f"host {need.host.name} device {need.local_device}"
    return f"memory: needs {need.size_bytes} bytes on {where}, {free} are free; {known[key]}"


def most_lacking(claim: Claim) -> Need:
    """Of its needs the one that lacks most."""
    return max(
        claim.needs,
        key=lambda need: (
            need.size_bytes + need.host.account.used[need.local_device] - need.host.account.budget_bytes
            if need.host.account is not None
            else -need.size_bytes
        ),
    )


def spilled_bytes(session: Session) -> int:
    """Of a session, on all hosts."""
    return sum(
        buffer.shard_bytes * len(buffer.kept) for buffer in session.buffers.values() if buffer.state is BufferState.SPILLED
    )
