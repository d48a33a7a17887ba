"""What must hold between the accounts of memory and the tables after every step; part of invariants.py."""

from __future__ import annotations

from collections.abc import Callable

from . import accounts
from .memory_records import Account, IslandMemory
from .placements import IN_EPOCH
from .read_records import Copy
from .records import Buffer, HeldArray, Host, Island, Placement
from .state import State
from .transitions import BufferState, IslandState

_MOVING = (BufferState.SPILLING, BufferState.RESTORING)
_AWAY = (BufferState.SPILLED, *_MOVING)


def _charged(state: State) -> list[Buffer]:
    """All that take memory, also those that outlive their session until their hosts have answered."""
    found = [buffer for session in state.sessions.values() for buffer in session.buffers.values() if buffer.charged]
    for identifier, moving in state.moving.items():
        session = state.sessions.get(moving.buffer.session.number)
        if moving.buffer.charged and (session is None or identifier not in session.buffers):
            found.append(moving.buffer)
    return found


def placing(island: Island) -> list[HeldArray | Copy]:
    """What waits for a place on the devices of an island."""
    if island.memory is None or not island.memory.placing:
        return []
    return [item for queue in island.memory.placing.values() for item in queue]


def memory_is_counted(state: State) -> None:
    """What a device holds is what buffers, runs, and frees that are not over take of it; never more than its budget."""
    assert not state.leaving, "memory is freed and was not counted"
    assert not state.relieved, "freed memory was not looked at"
    held: dict[tuple[str, int], int] = {}  # on hosts, of which each is of one island
    by_placement: dict[Placement, int] = {}  # many arrays lie on the same devices
    for buffer in _charged(state):
        placement = buffer.placement
        if placement is not None and buffer.epoch == placement.island.epoch:
            by_placement[placement] = by_placement.get(placement, 0) + buffer.charged
    for placement, charged in by_placement.items():
        for host, _, local_device in placement.shards:
            held[host.name, local_device] = held.get((host.name, local_device), 0) + charged
    for island in state.islands.values():
        if island.memory is None or island.state is not IslandState.ACTIVE:
            continue
        for run in island.runs.values():
            for reserved in run.reserved:
                for host, local_device, size in reserved.needs if reserved.island is island else ():
                    held[host.name, local_device] = held.get((host.name, local_device), 0) + size
        for host in island.members:
            if host.account is not None:
                _check_account(host, host.account, held, _aside(island.memory, host))


def _check_account(host: Host, account: Account, held: dict[tuple[str, int], int], aside: dict[int, int]) -> None:
    beside = accounts.on_devices_of(host)
    for local_device, size in enumerate(account.held):
        letting = sum([release.size_bytes for release in account.letting if release.local_device == local_device])
        found = held.get((host.name, local_device), 0) + letting
        assert size == found, f"host {host.name} device {local_device}: {size} bytes counted, {found} found"
        used = sum([other.held[local_device] for other in beside])
        assert account.used[local_device] == used, (
            f"host {host.name} device {local_device}: {account.used} bytes counted, {used} held"
        )
        assert used <= account.budget_bytes, f"host {host.name} device {local_device}: {used} of {account.budget_bytes} bytes"
        assert account.aside[local_device] == aside.get(local_device, 0), f"host {host.name}: bytes set aside"
    sequences = [release.sequence for release in account.letting]
    assert sequences == sorted(sequences), f"host {host.name}: frees out of order"
    assert not sequences or host.finished_through < sequences[0] <= host.last_sequence, f"host {host.name}: frees are over"


def _aside(memory: IslandMemory, host: Host) -> dict[int, int]:
    found: dict[int, int] = {}
    if memory.aside_for is not None:
        for need in memory.aside_for.needs:
            if need.host is host:
                found[need.local_device] = found.get(need.local_device, 0) + need.size_bytes
    return found


def claims_are_of_what_waits(state: State) -> None:
    """Who has memory set aside waits; of each session's arrays and copies the first one in line has the claim."""
    for island in state.islands.values():
        memory = island.memory
        if memory is None:
            continue
        assert island.state in IN_EPOCH or not memory.placing, f"island {island.name}: arrays wait for its memory"
        assert memory.aside_for is None or memory.aside_for in memory.claims.values(), (
            f"island {island.name}: set aside for nobody"
        )
        for number, queue in memory.placing.items():
            assert queue, f"session {number} waits for memory with nothing"
            assert queue[0] in memory.claims, f"session {number}: its first array has no claim to memory"


def spilled_buffers_are_kept(state: State) -> None:
    """What is spilled takes no memory and its hosts are there; what is under way is due from somebody."""
    for session in state.sessions.values():
        for identifier, buffer in session.buffers.items():
            if not buffer.kept and buffer.state not in _AWAY:
                assert identifier not in state.moving, f"buffer {identifier} is {buffer.state.name}"
                continue
            spilled, moves = buffer.state is BufferState.SPILLED, buffer.state in _MOVING
            kept = bool(buffer.kept)
            assert (spilled or moves) == kept, f"buffer {buffer.id} is {buffer.state.name} with {len(buffer.kept)} shards kept"
            assert moves == (buffer.id in state.moving), f"buffer {buffer.id} is {buffer.state.name}"
            assert not spilled or not buffer.charged, f"spilled buffer {buffer.id} takes memory"
            for place in buffer.kept:
                assert state.hosts.get(place.host.name) is place.host, f"buffer {buffer.id} is kept on {place.host.name}, gone"
    for identifier, moving in state.moving.items():
        assert moving.due, f"nobody moves buffer {identifier}"
        assert moving.buffer.state in _MOVING, f"buffer {identifier} moves and is {moving.buffer.state.name}"


ALL: tuple[Callable[[State], None], ...] = (memory_is_counted, claims_are_of_what_waits, spilled_buffers_are_kept)
