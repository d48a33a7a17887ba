"""Drains: a host is emptied, so that its daemon may be stopped and nothing fails.

Nothing new is put on its island, and what lies there goes to other islands as soon as there is room for it. What finds none stays
on the island: it leaves the host for others beside it (`evacuations.py`). The island forms again without the host when nobody
uses it any more, or under the sessions that do (`regroupings.py`): it computes together, so that is a pause for all of them. Then
the host is DRAINED and takes part in no epoch, also when it joins anew, until it is taken back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, IslandName, SessionNumber

from . import cells, evacuations, migrations, regroupings, resource_manager, sessions, slices
from .events import DrainSet
from .migration_records import Purpose
from .transitions import SliceState

if TYPE_CHECKING:
    from .migration_records import Migration
    from .records import Host, Island, Session, Slice
    from .state import State

_WORDS_MAX = 8


@dataclass(slots=True, eq=False)
class Drain:
    """One host that is to be empty. `obstacles` say per session what keeps it there, `again_ns` when that is tried again.

    `begun` is what was tried last; all three are of sessions with something there. `refused`: by session and slice (0: primary
    devices), why other islands, which had the devices for it, had no memory. `clear`: nothing of any session lies on it.
    `waits`: for what its island does to form without it.
    """

    host: HostName
    island: IslandName
    since_ns: int
    obstacles: dict[SessionNumber, str] = field(default_factory=dict)
    again_ns: dict[SessionNumber, int] = field(default_factory=dict)
    begun: dict[SessionNumber, Migration] = field(default_factory=dict)
    refused: dict[tuple[SessionNumber, int], Failure] = field(default_factory=dict)
    drained: bool = False
    clear: bool = False
    waits: str = ""

    @property
    def text(self) -> str:
        """What it waits for; empty if it is empty."""
        if self.drained:
            return ""
        found = list(self.obstacles.values())
        more = f" and {len(found) - _WORDS_MAX} more" if len(found) > _WORDS_MAX else ""
        return "; ".join(found[:_WORDS_MAX]) + more or self.waits or f"island {self.island} to form without it"


def on_drain_set(state: State, event: DrainSet) -> None:
    if event.on:
        host = state.hosts.get(event.host)
        name = event.island or (host.island.name if host is not None and host.island.tenant is None else None)
        if name is None or event.host in state.drains:
            state.ignore(event, "no such host, or it is being drained already")
            return
        state.drains[event.host] = Drain(event.host, name, state.now_ns)
        state.log("drain begins", host=event.host, island=name)
        _look(state, state.drains[event.host])
        return
    drain = state.drains.pop(event.host, None)
    if drain is None:
        state.ignore(event, "the host is not being drained")
        return
    state.log("drain undone", host=event.host, island=drain.island)
    for island in _islands(state, drain):
        resource_manager.consider(state, island)
    slices.retry_waiting(state)
    sessions.try_pending(state)


def is_leaving(state: State, island: Island) -> bool:
    """Whether a member of it is to go, so that nothing new is put there."""
    return bool(state.drains) and any(is_drained(state, member) for member in island.members)


def is_drained(state: State, host: Host) -> bool:
    """Whether it is to take part in nothing."""
    return HostName(host.machine) in state.drains


def is_out(state: State, host: Host) -> bool:
    """Whether the next epoch of its island is to be without it. Sessions that were shown it need it while they use the island."""
    return is_drained(state, host) and not (host.island.size_bound and host.name in host.island.seated)


def cleared(state: State, island: Island) -> list[Host]:
    """Its members that are to go and on which nothing lies; none if nobody would be left."""
    found = [member for member in island.members if (drain := state.drains.get(HostName(member.machine))) and drain.clear]
    return found if len(found) < len(island.members) else []


def shown(state: State, host: Host) -> str:
    """The state of a host for people."""
    drain = state.drains.get(HostName(host.machine))
    return host.state.value if drain is None else "DRAINED" if drain.drained else "DRAINING"


def count(state: State, island: Island) -> int:
    """Hosts of an island that are not to be in it."""
    return sum(drain.island == island.ground.name for drain in state.drains.values())


def _islands(state: State, drain: Drain) -> list[Island]:
    """The island and its cells."""
    return [island for island in state.islands.values() if island.ground.name == drain.island]


def expire(state: State) -> None:
    """Tries to empty what is to be empty, at each tick."""
    for drain in state.drains.values():
        _look(state, drain)
    regroupings.expire(state)


def _look(state: State, drain: Drain) -> None:
    occupied = [island for island in _islands(state, drain) if _has(island, drain)]
    was, drain.drained = drain.drained, not occupied
    if drain.drained:
        drain.clear, drain.waits = False, ""
        _forget(state, drain, {})
        drain.refused = {}
        if not was:
            state.log("host drained", host=drain.host, island=drain.island)
        return
    found: dict[SessionNumber, str] = {}
    for island in occupied:
        for session in list(state.sessions.values()):
            if island.name in session.used:
                text = _move_away(state, drain, session, island)
                if text:
                    found[session.number] = text
        if not island.size_bound:
            resource_manager.consider(state, island)
    _forget(state, drain, found)
    drain.clear = not found
    drain.waits = next((text for island in occupied if (text := regroupings.text_of(state, island))), "")


def _forget(state: State, drain: Drain, found: dict[SessionNumber, str]) -> None:
    """What is remembered of sessions that have nothing there any more, or are over."""
    drain.obstacles = found
    drain.again_ns = {number: again_ns for number, again_ns in drain.again_ns.items() if number in found}
    drain.begun = {number: begun for number, begun in drain.begun.items() if number in found}
    drain.refused = {key: failure for key, failure in drain.refused.items() if key[0] in state.sessions}


def _has(island: Island, drain: Drain) -> bool:
    return any(member.machine == drain.host for member in island.members)


def named(session: Session) -> str:
    """A session for people: its number, and what its client calls itself."""
    return f"session {session.number}" + (f" ({session.client[:60]})" if session.client else "")


def _move_away(state: State, drain: Drain, session: Session, island: Island) -> str:
    """Has what a session has there moved, one thing after the other; what keeps it on the host, empty if nothing does."""
    name = named(session)
    if session.migration is not None and session.migration.purpose is Purpose.REGROUP:
        return "" if drain.clear and session.migration.origin is island else f"{name} waits for island {island.name}"
    if session.migration is not None:
        waits = f", which waits for {session.migration.obstacle}" if session.migration.obstacle else ""
        return f"{name} is being moved{waits}"
    begun = drain.begun.pop(session.number, None)
    if begun is not None and begun.failure is not None:
        key = (session.number, begun.owner or 0)
        elsewhere = drain.refused.pop(key, None)
        if not _lacked_memory(begun, begun.failure):
            return _later(state, drain, session, "; ".join(each.message for each in (elsewhere, begun.failure) if each))
        drain.refused[key] = begun.failure  # the hosts beside it may have room, and are asked at once
    if drain.again_ns.get(session.number, 0) > state.now_ns and (was := drain.obstacles.get(session.number)):
        return was
    found = _begin(state, drain, session, island) or evacuations.left(state, session, island)
    if found is None:
        stays = any(device is not None and device.island is island for device in session.devices)
        stays = stays or any(held.island is island for held in session.slices.values())
        return "" if stays else f"{name} has work on island {island.name} that is not over"
    if isinstance(found, Failure):
        return _later(state, drain, session, found.message)
    drain.begun[session.number] = found
    return f"{name} is being moved"


def _lacked_memory(begun: Migration, failure: Failure) -> bool:
    """Whether another island had the devices, and its copies found no room there or none in time."""
    return (
        begun.target is not begun.origin
        and not begun.obstacle
        and failure.reason in (Reason.RESOURCE_EXHAUSTED, Reason.TIMED_OUT)
    )


def _later(state: State, drain: Drain, session: Session, text: str) -> str:
    """It is tried again after a while: each try is a pause for the client."""
    drain.again_ns[session.number] = state.now_ns + state.config.drain_again_ns
    return text


def _begin(state: State, drain: Drain, session: Session, island: Island) -> Migration | Failure | None:
    """Moves one thing away, to another island or else to hosts that stay; None if what is left there may stay."""
    if session.islands and session.islands[0].tenant is not None:
        for other in list(state.islands.values()):
            if other.tenant is None and other is not cells.island_of(island) and not is_leaving(state, other):
                cells.want(state, other, session.tenant)
    there: list[Slice | None] = []
    if any(device is not None and device.island is island and not device.owner for device in session.devices):
        there.append(None)  # its primary devices
    there += [held for held in session.slices.values() if held.island is island and held.state is SliceState.BOUND]
    for held in there:
        key = (session.number, held.number if held else 0)
        found: Migration | Failure | None = drain.refused.get(key)
        if found is None:
            found = migrations.begin(state, session, held, "") if held else migrations.begin_view(state, session, island)
        if isinstance(found, Failure):
            found = evacuations.begin(state, session, held, island, found)
            if isinstance(found, Failure):
                drain.refused.pop(key, None)  # neither had room: next time the other islands are asked again
        if found is not None:
            return found
    return None
