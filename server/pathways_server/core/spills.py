"""Idle arrays leave the devices when older work waits for memory, and come back before anything needs them.

Spilled is what nobody reads or takes now: not an argument of work that is granted or at the head of its lanes, not named by other
handles on hosts, whole, of the present epoch, made by a gang that has ended; the least recently used first. Its hosts keep it in
their stores, so it outlives an epoch if its hosts and their devices are in the next one. A host that has no room says so; then
the array stays and others are tried. While an array is under way it counts as used, so nothing overtakes its hosts' answers.
"""

from __future__ import annotations

from itertools import islice
from typing import TypeAlias

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId, local_id

from . import accounts, buffers, claims, rescues
from .effects import DropSpilled, RestoreArray, SpillArray
from .events import ArrayRestored, ArraySpilled
from .lost_values import LostValues
from .memory_records import IslandMemory, Moving, Need
from .placements import bind
from .records import Buffer, Execution, Host, Island, View
from .run_records import Run
from .state import State
from .transitions import BufferState, IslandState

_MOVING = (BufferState.SPILLING, BufferState.RESTORING)
Device: TypeAlias = tuple[str, int]  # a machine, and which of its devices

# ---- which --------------------------------------------------------------------------------------------------------------


def make_room(state: State, island: Island, memory: IslandMemory) -> None:
    """Spills for whoever waits longest for a device, if that helps it."""
    if memory.looked_ns and memory.looked_ns + state.config.spill_look_ns > state.now_ns:
        return
    idle: list[Buffer] | None = None
    taken: set[Device] = set()
    found = False
    for claim in list(islice(memory.claims.values(), claims.LOOKED_AT_MAX)):
        lack = _lack(state, claim.needs, claims.is_aside_for(memory, claim))
        mine = {key: size for key, size in lack.items() if size > 0}
        if mine and not any(key in taken for key in lack):
            idle = _idle(state, island) if idle is None else idle
            chosen = _choose(idle, mine)
            for buffer in chosen:
                found = True
                idle.remove(buffer)
                spill(state, buffer)
        taken.update(lack)
    memory.looked_ns = 0 if found else state.now_ns


def _lack(state: State, needs: tuple[Need, ...], aside: bool) -> dict[Device, int]:
    """What is missing per device, less what is on its way out; only devices that lack anything now."""
    found: dict[Device, int] = {}
    for host, local_device, size in needs:
        account = host.account
        if account is None:
            continue
        missing = account.used[local_device] + size - account.budget_bytes
        if not aside:
            missing += account.aside[local_device]
        if missing > 0:
            found[host.machine, local_device] = missing - _going(state, host, local_device)
    return found


def _going(state: State, host: Host, local_device: int) -> int:
    """Bytes of a device that will be free without anybody's doing."""
    device = (host.machine, local_device)
    letting = [release for account in accounts.on_devices_of(host) for release in account.letting]
    going = sum(release.size_bytes for release in letting if release.local_device == local_device)
    for moving in state.moving.values():
        if moving.buffer.state is BufferState.SPILLING and moving.buffer.placement is not None:
            places = moving.buffer.placement.shards
            going += sum(moving.buffer.charged for place in places if (place.host.machine, place.local_device) == device)
    return going


def _choose(idle: list[Buffer], lack: dict[Device, int]) -> list[Buffer]:
    """The least recently used that make enough room everywhere; none if all of them would not."""
    chosen: list[Buffer] = []
    for buffer in idle:
        assert buffer.placement is not None
        places = [(place.host.machine, place.local_device) for place in buffer.placement.shards]
        if not any(lack.get(key, 0) > 0 for key in places):
            continue
        chosen.append(buffer)
        for key in places:
            if key in lack:
                lack[key] -= buffer.charged
        if all(size <= 0 for size in lack.values()):
            return chosen
    return []


def _idle(state: State, island: Island) -> list[Buffer]:
    """What may be spilled off the island's devices, whichever cell it belongs to, the least recently used first."""
    found = [buffer for each in island.ground.islands if each.memory is not None for buffer in _idle_of(state, each)]
    found.sort(key=lambda buffer: (buffer.used_ns, buffer.id))
    return found


def _idle_of(state: State, island: Island) -> list[Buffer]:
    busy = _busy(state, island)
    again_ns = state.now_ns - state.config.spill_again_ns
    oldest = island.inflight[0].sequence if island.inflight else island.sequence + 1
    found: list[Buffer] = []
    for session in state.sessions.values():
        if island.name not in session.used:
            continue
        for buffer in session.buffers.values():
            placement = buffer.placement
            if buffer.state is not BufferState.PRESENT or not buffer.charged:
                continue
            if placement is None or placement.island is not island or buffer.epoch != island.epoch:
                continue
            if buffer.readers or buffer.aliases or buffer.origins or buffer.held:
                continue
            if buffer.sequence >= oldest or buffer.id in busy or (buffer.refused_ns and buffer.refused_ns > again_ns):
                continue
            found.append(buffer)
    return found


def _busy(state: State, island: Island) -> set[GlobalId]:
    """Arguments of what is granted or at the head of a lane, and arrays of which hosts know parts under other names."""
    busy: set[GlobalId] = set()
    works: list[Execution | Run] = []
    for other in state.islands.values():
        for gang in other.inflight:
            works.append(gang if isinstance(gang, Execution) else gang.run)
        for lane in other.lanes.values():
            works += [work for index, work in enumerate(lane.queue) if not index or _names_parts(work)]
    for session in state.sessions.values():
        if island.name in session.used:
            for handle in session.handles.values():
                if isinstance(handle, View):
                    _mark_parts(handle, island, busy)
    for work in works:
        for handle in work.arguments:
            busy.update(part.buffer.id for part in buffers.parts_of(handle))
    return busy


def _names_parts(work: Execution | Run) -> bool:
    return any(isinstance(handle, View) and handle.whole is None for handle in work.arguments)


def _mark_parts(view: View, island: Island, busy: set[GlobalId]) -> None:
    if view.whole is None and view.placement is not None and view.placement.island is island and view.epoch == island.epoch:
        busy.update(part.buffer.id for part in view.parts)


# ---- out and back -------------------------------------------------------------------------------------------------------


def spill(state: State, buffer: Buffer) -> None:
    """Its hosts are told to take it off their devices."""
    placement = buffer.placement
    assert placement is not None
    state.move(buffer, BufferState.SPILLING)
    buffer.kept = placement.shards
    moving = _begin(state, buffer, placement.hosts)
    for host in placement.hosts:
        state.tell(host, SpillArray(buffer.id, moving.number))


def restore(state: State, buffer: Buffer) -> None:
    """Its place was found to be free: it is taken now."""
    placement = buffer.placement
    assert placement is not None
    assert bind(placement), "a spilled buffer is restored on an ACTIVE island"
    state.move(buffer, BufferState.RESTORING)
    if placement.island.memory is not None:
        claims.settle(placement.island.memory, buffer)
    _book(buffer, -1)
    if placement.island.memory is not None:
        accounts.hold(state, buffer)
    buffer.epoch = placement.island.epoch
    buffer.sequence = 0
    moving = _begin(state, buffer, placement.hosts)
    for host in placement.hosts:
        state.tell(host, RestoreArray(buffer.id, moving.number))


def _begin(state: State, buffer: Buffer, hosts: tuple[Host, ...]) -> Moving:
    buffer.uses += 1
    moving = state.moving[buffer.id] = Moving(state.number(), buffer, {host.name: host for host in hosts})
    return moving


def _book(buffer: Buffer, sign: int) -> None:
    """Notes on its hosts what lies in their stores."""
    for host, _, _ in buffer.kept:
        if host.account is not None:
            host.account.spilled_bytes += sign * buffer.shard_bytes


def want(state: State, buffer: Buffer) -> None:
    """Somebody reads it: it comes back as soon as there is room, in its turn."""
    placement = buffer.placement
    assert placement is not None
    island = placement.island
    if buffer.state is not BufferState.SPILLED or island.state is not IslandState.ACTIVE:
        return
    memory = island.memory
    assert bind(placement), "what is spilled has its hosts in the epoch"
    if memory is None:  # a slice was suspended: there is room
        restore(state, buffer)
        return
    needs = [Need(place.host, place.local_device, buffer.shard_bytes) for place in placement.shards]
    if claims.room(memory, needs, buffer):
        restore(state, buffer)
    else:
        claims.wait(state, island, buffer.session, buffer, f"a read of array {local_id(buffer.id)}, which is spilled,", needs)


def _under_way(
    state: State, event: ArraySpilled | ArrayRestored, expected: BufferState
) -> tuple[Host, Moving] | tuple[None, None]:
    """The host and what it was asked to move, if its answer is due and is not one to an earlier command."""
    host = state.hosts.get(event.host)
    moving = state.moving.get(event.buffer_id)
    if host is None or moving is None or moving.number != event.spill_number:
        return None, None
    if moving.due.get(event.host) is not host or moving.buffer.state is not expected:
        return None, None
    return host, moving


def _keeps(state: State, event: ArraySpilled) -> bool:
    """Whether the host is to keep the array in its store, or is moving it, and an old answer was told again."""
    if event.buffer_id in state.moving:  # maybe for nobody any more; its own answer ends that
        return True
    found = (session.buffers.get(event.buffer_id) for session in state.sessions.values())
    return any(buffer is not None and any(place.host.name == event.host for place in buffer.kept) for buffer in found)


def on_array_spilled(state: State, event: ArraySpilled) -> None:
    host, moving = _under_way(state, event, BufferState.SPILLING)
    if host is None or moving is None:
        state.ignore(event, "no such array is being spilled")
        if event.host in state.hosts and event.failure is None and not _keeps(state, event):
            state.tell(state.hosts[event.host], DropSpilled((event.buffer_id,)))
        return
    del moving.due[event.host]
    if event.failure is None:
        moving.done.append(host)
    moving.failure = moving.failure or event.failure
    if moving.due:
        return
    buffer = moving.buffer
    if moving.failure is not None and moving.lost is not None:
        rescues.lose(
            state, buffer, moving.lost, f"host {moving.failure.host or event.host} did not keep it: {moving.failure.message}"
        )
        return
    del state.moving[buffer.id]
    if moving.failure is None:
        _spilled(state, buffer)
    else:
        _refused(state, moving, moving.failure)


def _spilled(state: State, buffer: Buffer) -> None:
    """The executors have forgotten it: its memory is free."""
    placement = buffer.placement
    assert placement is not None
    size, buffer.charged = buffer.charged, 0
    accounts.give_back(Need(place.host, place.local_device, size) for place in placement.shards)
    accounts.moved(state, placement.island)
    _book(buffer, 1)
    state.move(buffer, BufferState.SPILLED)
    _end(state, buffer)


def _refused(state: State, moving: Moving, failure: Failure) -> None:
    """A host kept it on its devices: the others put it back, whose memory was not given away yet."""
    buffer = moving.buffer
    buffer.refused_ns = state.now_ns
    state.log("array not spilled", host=failure.host, array=local_id(buffer.id), reason=failure.message)
    if moving.done:
        state.move(buffer, BufferState.RESTORING)
        back = state.moving[buffer.id] = Moving(state.number(), buffer, {host.name: host for host in moving.done})
        for host in moving.done:
            state.tell(host, RestoreArray(buffer.id, back.number))
        return
    state.move(buffer, BufferState.PRESENT)
    buffer.kept = ()
    if buffer.placement is not None:
        for island in buffer.placement.island.ground.islands:
            if island.memory is not None:
                state.relieved[island.name] = island
                island.memory.looked_ns = 0
    _end(state, buffer)


def on_array_restored(state: State, event: ArrayRestored) -> None:
    host, moving = _under_way(state, event, BufferState.RESTORING)
    if host is None or moving is None:
        state.ignore(event, "no such array is being restored")
        return
    del moving.due[event.host]
    if event.failure is None:
        moving.done.append(host)
    moving.failure = moving.failure or event.failure
    if moving.due:
        return
    buffer = moving.buffer
    if moving.failure is not None:
        _not_restored(state, moving, moving.failure)
        return
    del state.moving[buffer.id]
    state.move(buffer, BufferState.PRESENT)
    buffer.kept = ()
    if buffer.placement is not None and buffer.placement.island.memory is not None:
        state.relieved[buffer.placement.island.name] = buffer.placement.island
    _end(state, buffer)


def _not_restored(state: State, moving: Moving, failure: Failure) -> None:
    """A part of it is lost: those who have theirs on devices free it."""
    buffer = moving.buffer
    for host in moving.done:
        state.free(host, buffer.id)
    accounts.release(state, buffer)
    buffer.epoch = 0
    buffers.poison(state, buffer, failure, tell_hosts=False)


def _end(state: State, buffer: Buffer) -> None:
    buffers.wake_waiters(state, buffer)
    buffer.uses -= 1
    buffers.settle(state, buffer)


# ---- ends ---------------------------------------------------------------------------------------------------------------


def forget(state: State, buffer: Buffer) -> None:
    """It is freed or poisoned: hosts drop what lies in their stores."""
    hosts = {place.host.name: place.host for place in buffer.kept}
    if buffer.state is BufferState.SPILLED:
        _book(buffer, -1)
    buffer.kept = ()
    for name, host in hosts.items():
        if state.hosts.get(name) is host:
            state.tell(host, DropSpilled((buffer.id,)))


def interrupted(state: State, buffer: Buffer) -> None:
    """It was under way and has been poisoned: later answers are nobody's."""
    if state.moving.pop(buffer.id, None) is not None:
        buffer.uses -= 1
        buffers.settle(state, buffer)


def has_store(state: State, host: Host) -> bool:
    """Whether a host keeps anything; where there are no budgets, only of slices that are or were suspended."""
    return any(
        place.host is host for session in state.sessions.values() for buffer in session.buffers.values() for place in buffer.kept
    )


def on_host_lost(state: State, host: Host, lost: Failure) -> None:
    """The store of a host has gone with its daemon."""
    for session in state.sessions.values():
        for buffer in list(session.buffers.values()):
            if buffer.state is BufferState.SPILLED and any(place.host is host for place in buffer.kept):
                buffers.poison(state, buffer, lost, tell_hosts=False)


def on_epoch_ended(state: State, island: Island, lost: LostValues) -> None:
    """What was between devices and store is lost, as everything on devices is."""
    for moving in list(state.moving.values()):
        placement = moving.buffer.placement
        if placement is not None and placement.island is island and moving.buffer.state in _MOVING:
            buffers.poison(state, moving.buffer, lost.failure_of(moving.buffer), tell_hosts=False)


def on_island_active(state: State, island: Island) -> None:
    """Of what is spilled stays what lies on the hosts and devices where it belongs in the new epoch."""
    for session in state.sessions.values():
        if island.name not in session.used:
            continue
        for buffer in list(session.buffers.values()):
            placement = buffer.placement
            if buffer.state is not BufferState.SPILLED or placement is None or placement.island is not island:
                continue
            if bind(placement) and placement.shards == buffer.kept:
                _book(buffer, 1)
                if buffer.waiters:
                    buffers.wake_waiters(state, buffer)
                continue
            message = f"array {local_id(buffer.id)} was spilled on devices of island {island.name} that are somewhere else now"
            failure = state.failure(Reason.BUFFER_LOST, message, host=buffer.kept[0].host.name, island=island.name)
            state.history.caused(state.now_ns, failure)
            buffers.poison(state, buffer, failure, tell_hosts=False)
