"""An island forms again without a host that is to go, while sessions use the others: to these it is a pause.

Nothing of theirs is on the host any more (`evacuations.py`). All of them come to a quiet moment together, and what they have on
the island goes to the stores of its hosts, as if everything were suspended. Then, in one step, the epoch ends, all that sessions
have is renumbered to the ranks of the hosts that stay, and the island forms of these; arrays come back when they are needed.
Until that step everything can stay as it was, and whatever goes wrong gives it up until later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pathways_common.model.array import TOKEN, ArraySpec
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import moved_by_core

from . import buffers, drains, loaded_sets, losses, migrations, rebinding, resource_manager, scheduler, suspensions, transfers
from .effects import EpochEnd
from .events import Piece
from .migration_records import Purpose
from .transitions import BufferState, IslandState, MigrationState

if TYPE_CHECKING:
    from .migration_records import Migration
    from .records import Buffer, Host, Island, Session
    from .state import State

_DOUBLINGS_MAX = 5


@dataclass(slots=True, eq=False)
class Regrouping:
    """Of one island with hosts that are to go. `migrations`: of all its sessions, while it is tried; `text`: what it waits for.

    Each try is a pause for all of them, so the next one comes later than the one before.
    """

    island: Island
    deadline_ns: int = 0
    again_ns: int = 0
    tries: int = 0
    text: str = ""
    migrations: list[Migration] = field(default_factory=list)


def expire(state: State) -> None:
    """Begins, goes on with, or gives up, at each tick."""
    if not state.drains and not state.regroupings:
        return
    for name, known in list(state.regroupings.items()):
        if state.islands.get(name) is not known.island:  # a cell that was closed
            del state.regroupings[name]
    for island in list(state.islands.values()):
        going = drains.cleared(state, island)
        regrouping = state.regroupings.get(island.name)
        if regrouping is not None and regrouping.migrations:
            _look(state, regrouping, going)
        elif going and island.size_bound and island.state is IslandState.ACTIVE and not island.closing:
            if regrouping is None:
                regrouping = state.regroupings[island.name] = Regrouping(island)
            if regrouping.again_ns <= state.now_ns:
                _begin(state, regrouping)
        elif regrouping is not None and not drains.is_leaving(state, island):
            del state.regroupings[island.name]


def text_of(state: State, island: Island) -> str:
    """What it waits for, in words; empty if it is not being tried."""
    regrouping = state.regroupings.get(island.name)
    return regrouping.text if regrouping is not None else ""


def _users(state: State, island: Island) -> list[Session]:
    return [session for session in state.sessions.values() if island.name in session.used]


def _begin(state: State, regrouping: Regrouping) -> None:
    """Every session is to be quiet."""
    island = regrouping.island
    if any(island in (other.origin, other.target) for other in state.migrations.values()):
        regrouping.text = "something that is being moved there"
        return
    regrouping.deadline_ns = state.now_ns + state.config.migration_ns
    places = {position: position for position in range(len(island.members) * island.devices_per_host)}
    for session in _users(state, island):
        if session.migration is not None:
            found: Migration | Failure = state.failure(Reason.UNAVAILABLE, f"session {session.number} is being moved")
        else:
            found = migrations.start(state, session, None, island, island, places, Purpose.REGROUP)
        if isinstance(found, Failure):
            _give_up(state, regrouping, found.message)
            return
        regrouping.migrations.append(found)
    regrouping.text = "its sessions to be quiet"


def _look(state: State, regrouping: Regrouping, going: list[Host]) -> None:
    alive = [each for each in regrouping.migrations if state.sessions.get(each.session.number) is each.session]
    ended = next((each.failure for each in alive if each.failure is not None), None)
    known = [each.session for each in alive]
    island = regrouping.island
    if ended is not None or not going or any(session not in known for session in _users(state, island)):
        _give_up(state, regrouping, ended.message if ended is not None else "the host was taken back, or is needed")
        return
    busy = [(each, each.obstacle) for each in alive if not each.closed or each.obstacle]
    if all(each.state is MigrationState.MOVING for each in alive):
        busy = [(each, found) for each in alive if (found := migrations.obstacle(state, each.session))]
        if not busy and resource_manager.rests(state, island):
            if all(suspensions.is_put_away(each) for each in alive):
                _part(state, regrouping, alive, going)
            else:
                _give_up(state, regrouping, "a host has no room for its arrays (spill_memory, spill_disk of its worker)")
            return
    elif not busy:
        if any(suspensions.shares_bytes(each) for each in alive):
            _give_up(state, regrouping, "an array shares its bytes with another")
            return
        if any(not _is_empty(buffer) for each in alive for buffer in _without_bytes(each)):
            _give_up(state, regrouping, "an array is of a type whose size is not known")
            return
        for each in alive:
            state.move(each, MigrationState.MOVING)
            suspensions.put_away(state, each)
        return
    words = [f"session {each.session.number} has {what or 'work'}" for each, what in busy[:4]]
    regrouping.text = "; ".join(words) or "work of a session that is over"
    if regrouping.deadline_ns <= state.now_ns:
        _give_up(state, regrouping, f"after {state.config.migration_ns // 10**9} s {regrouping.text}")


def _give_up(state: State, regrouping: Regrouping, text: str) -> None:
    """Everything is where it was, or comes back there when it is needed."""
    message = f"island {regrouping.island.name} was not formed without a host: {text}"
    failure = state.failure(Reason.UNAVAILABLE, message, retryable=True)
    begun, regrouping.migrations = regrouping.migrations, []
    for migration in begun:
        if migration.state is not MigrationState.ENDED:
            migrations.finish(state, migration, failure)
    regrouping.text = message
    regrouping.again_ns = state.now_ns + (state.config.drain_again_ns << min(regrouping.tries, _DOUBLINGS_MAX))
    regrouping.tries += 1


# ---- the step -----------------------------------------------------------------------------------------------------------


def _part(state: State, regrouping: Regrouping, alive: list[Migration], going: list[Host]) -> None:
    """Everything that sessions have there is in the stores of hosts that stay."""
    island = regrouping.island
    del state.regroupings[island.name]
    staying = [member for member in island.members if member not in going]
    per_host = island.devices_per_host
    places = {
        host.rank * per_host + index: rank * per_host + index for rank, host in enumerate(staying) for index in range(per_host)
    }
    for migration in alive:
        rebinding.unload_all(state, migration)
    state.flush_frees()
    for member in island.members:
        state.tell(member, EpochEnd(island.epoch), urgent=True)
    loaded_sets.on_epoch_ended(island)
    losses.dissolve(state, island, f"host {going[0].name} is to go", "what its sessions have there is in stores")
    scheduler.block_all(state, island)
    island.size_bound = len(staying)
    island.seated = tuple(host.name for host in staying)
    for migration in alive:
        migration.places = places
        rebinding.renumber(state, migration)
        _make_empty_ones(state, migration)
    resource_manager.consider(state, island)
    for migration in alive:
        migrations.finish(state, migration, None)


def _make_empty_ones(state: State, migration: Migration) -> None:
    """Arrays without bytes, which nobody stores, are made anew where the others come back."""
    for buffer in _without_bytes(migration):
        _make_again(state, migration, buffer)
    rebinding.rename(state, migration)


def _without_bytes(migration: Migration) -> list[Buffer]:
    return [
        buffer
        for buffer in migration.session.buffers.values()
        if buffer.state is BufferState.PRESENT and not buffer.shard_bytes and rebinding.concerns(migration, buffer.placement)
    ]


def _is_empty(buffer: Buffer) -> bool:
    return buffer.spec is None or buffer.spec.dtype == TOKEN or 0 in buffer.spec.shard_shape


def _make_again(state: State, migration: Migration, buffer: Buffer) -> None:
    session = migration.session
    assert buffer.placement is not None
    spec = buffer.spec or ArraySpec(TOKEN, (), b"", (), ())
    identifier = moved_by_core(session.number, session.values)
    session.values += 1
    copy = buffers.make(session, identifier, buffer.placement, 0, BufferState.PENDING)
    copy.spec, copy.pending = spec, 1
    migration.copies[buffer] = copy
    inline = b"\0" if spec.dtype == TOKEN else b""  # of a token hosts hold a stand-in
    shards = tuple(range(len(buffer.placement.positions)))
    transfers.place_or_hold(state, copy, spec, (Piece(shards, 0, inline, 0),), asked=0)
