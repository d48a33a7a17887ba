"""What survivors hold outlives an epoch: it goes into the stores of their daemons before the old executors end.

Kept is an array of which every shard lies on a member that is left, or has an equal one there (rescue_copies.py), if its gang has
ended everywhere and it was not computed from one that has not. It is SPILLING until its hosts have answered, then SPILLED, and
comes back on its first use in a later epoch. A host that cannot keep its part, or does not say so in time, loses it by name.
The island forms again when all have left.
"""

from __future__ import annotations

from collections.abc import Mapping

from pathways_common.model.failure import Failure
from pathways_common.model.ids import GlobalId, local_id

from . import accounts, buffers, listening, lost_values, rescue_copies, resource_manager, run_losses
from .effects import EpochEnd, Keep
from .events import EpochLeft
from .lost_values import LostValues
from .memory_records import Account, Moving
from .placements import bind_to_members
from .records import Buffer, Execution, Host, Island, ShardPlace
from .rescue_records import Rescue
from .state import State
from .transitions import BufferState

# A host gives up a little before it is given up, so that its own words are heard.
_EARLIER_NS = 200_000_000

# ---- which --------------------------------------------------------------------------------------------------------------


def doubtful(island: Island) -> set[GlobalId]:
    """Results of gangs that have not ended on all members, and what was computed from them."""
    found: set[GlobalId] = set()
    runs: set[int] = set()
    for gang in island.inflight:
        work = gang if isinstance(gang, Execution) else gang.run
        follows = work.id in runs or any(buffer.id in found for buffer in run_losses.inputs(work))
        if gang.remaining > 0 or follows:
            runs.add(work.id)
            found.update(result.id for result in work.results if result.sequence >= gang.sequence or not result.sequence)
    return found


def _may_be_kept(buffer: Buffer, island: Island) -> bool:
    """What shares its bytes is lost, and so is what has none."""
    placement = buffer.placement
    if buffer.state is not BufferState.PRESENT or placement is None or placement.island is not island:
        return False
    if buffer.epoch != island.epoch or not bind_to_members(placement) or not buffer.shard_bytes:
        return False
    return not buffer.origins and not buffer.aliases


def _kept(state: State, buffer: Buffer, gone: list[Host]) -> tuple[Buffer, list[ShardPlace]] | None:
    """What of it is kept, and of which shards: itself, with no word about shards, if all of it lies on members that are left."""
    placement = buffer.placement
    assert placement is not None
    if all(host not in gone and state.hosts.get(host.name) is host for host in placement.hosts):
        return buffer, []
    return rescue_copies.split(state, buffer, gone)


# ---- out ----------------------------------------------------------------------------------------------------------------


def begin(
    state: State, island: Island, gone: list[Host], cause: Failure, doubted: set[GlobalId], ended: Mapping[Host, Account]
) -> dict[Host, list[Keep]]:
    """Takes what is kept out of the ending epoch; what its hosts are to be told.

    `gone`: members without an executor; `ended`: the accounts that members had.
    """
    keep: dict[Host, list[Keep]] = {}
    if not state.config.rescue_ns:
        return keep
    for session in state.sessions.values():
        if island.name not in session.used:
            continue
        for buffer in list(session.buffers.values()):
            if buffer.id in doubted or not _may_be_kept(buffer, island):
                continue
            found = _kept(state, buffer, gone)
            if found is not None:
                stored, chosen = found
                number = _set_out(state, stored, cause)
                for host in dict.fromkeys(place.host for place in stored.kept):
                    shards = tuple(place.local_index for place in chosen if place.host is host)
                    keep.setdefault(host, []).append(Keep(buffer.id, stored.id, number, shards))
    if keep:
        deadline_ns = listening.now_ns(state) + state.config.rescue_ns
        island.rescue = rescue = Rescue(island.epoch, cause, deadline_ns, {host.name: host for host in keep})
        for host in keep:
            if host in ended and len(island.ground.islands) > 1:
                accounts.linger(rescue, host, ended[host])
        state.log("arrays kept", island=island.name, epoch=island.epoch, hosts=",".join(host.name for host in keep))
    return keep


def _set_out(state: State, buffer: Buffer, cause: Failure) -> int:
    assert buffer.placement is not None
    state.move(buffer, BufferState.SPILLING)
    buffer.kept = places = buffer.placement.shards
    buffer.charged = 0  # accounts end with the epoch
    buffer.uses += 1
    number = state.number()
    hosts = {place.host.name: place.host for place in places}
    state.moving[buffer.id] = Moving(number, buffer, hosts, lost=cause)
    return number


def end_command(state: State, island: Island, keep: list[Keep] | None) -> EpochEnd:
    """What a member of an ended epoch is told. Also one that keeps nothing: with its coordination service others would end."""
    if island.rescue is None:
        return EpochEnd(island.epoch)
    return EpochEnd(island.epoch, tuple(keep or ()), max(state.config.rescue_ns - _EARLIER_NS, state.config.rescue_ns // 2))


def is_kept(buffer: Buffer, state: State) -> bool:
    """Whether it, or what it is made of again, is on its way out of an ended epoch; asked of what hosts were asked for."""
    if buffer.state in (BufferState.PENDING, BufferState.SPILLED):
        return True
    moving = state.moving.get(buffer.id)
    return buffer.state is BufferState.SPILLING and moving is not None and moving.lost is not None


# ---- answers ------------------------------------------------------------------------------------------------------------


def on_epoch_left(state: State, event: EpochLeft) -> None:
    host = state.hosts.get(event.host)
    rescue = host.island.rescue if host is not None else None
    if host is not None and rescue is None:
        return  # it had nothing to keep, or its time was up
    if host is None or rescue is None or rescue.epoch != event.epoch or rescue.due.get(host.name) is not host:
        state.ignore(event, "nobody waits for it")
        return
    _lose_unanswered(state, host, f"host {host.name} ended its executor and did not say whether it kept its part")
    del rescue.due[host.name]
    accounts.left(state, rescue, host)
    if not rescue.due:
        _end(state, host.island)


def _lose_unanswered(state: State, host: Host, why: str) -> None:
    for moving in list(state.moving.values()):
        if moving.lost is not None and moving.buffer.state is BufferState.SPILLING and moving.due.get(host.name) is host:
            lose(state, moving.buffer, moving.lost, why)


def lose(state: State, buffer: Buffer, cause: Failure, why: str) -> None:
    """A part of it was not kept after all."""
    assert buffer.placement is not None
    whole = rescue_copies.subject_of(buffer)
    failure = lost_values.not_kept(LostValues(buffer.placement.island, cause).failure_of(whole), why)
    state.log("array not kept", array=local_id(whole.id), session=buffer.session.number, reason=why)
    buffers.poison(state, buffer, failure, tell_hosts=False)


def _end(state: State, island: Island) -> None:
    island.rescue = None
    resource_manager.consider(state, island)


def on_host_lost(state: State, host: Host, reason: str) -> None:
    """Its store has gone with its daemon, whether it had answered or not. Whoever calls looks at the island afterwards."""
    rescue = host.island.rescue
    if rescue is None:
        return
    rescue.due.pop(host.name, None)
    accounts.left(state, rescue, host)
    if not rescue.due:
        host.island.rescue = None
    for moving in list(state.moving.values()):
        mine = any(place.host is host for place in moving.buffer.kept)
        if mine and moving.lost is not None and moving.buffer.state is BufferState.SPILLING:
            lose(state, moving.buffer, moving.lost, f"host {host.name}, which was to keep a part of it, was lost: {reason}")


def expire(state: State) -> None:
    """Who has not left an ended epoch in time is told to end its executor at once, and what it did not answer for is lost."""
    for island in state.islands.values():
        rescue = island.rescue
        if rescue is None or rescue.deadline_ns > state.listened_ns:
            continue
        seconds = state.config.rescue_ns / 1e9
        for host in rescue.due.values():
            state.log("rescue ended", island=island.name, epoch=rescue.epoch, host=host.name)
            _lose_unanswered(state, host, f"host {host.name} did not say within {seconds:.1f} s that it kept its part")
            state.tell(host, EpochEnd(rescue.epoch), urgent=True)
            accounts.left(state, rescue, host)
        rescue.due.clear()
        _end(state, island)


def words(island: Island) -> str:
    """What keeps an island from forming again, for people; empty if nothing does."""
    if island.rescue is None:
        return ""
    hosts = ", ".join(sorted(island.rescue.due))
    return f"island {island.name} waits until what outlives epoch {island.rescue.epoch} is in the stores of {hosts}"
