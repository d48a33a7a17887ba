"""Accounts of device memory: what is taken when a host is told to make it, and when it counts as free again.

What is freed counts as free once the host has finished every gang that it had been given before the Free: executors carry
frees out behind those launches, and a launch keeps its arguments to its end. On an idle host that is as soon as the Free is
sent, since whatever is granted next comes behind it on the same link.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .memory_records import Account, IslandMemory, Leaving, Need, Release
from .placements import IN_EPOCH
from .records import Buffer, Host, Island
from .state import State

if TYPE_CHECKING:
    from .rescue_records import Rescue


def begin_epoch(state: State, island: Island) -> None:
    """Nothing of an island that has just become ACTIVE is on its devices; its cells may have something there."""
    for host in island.members:
        empty = [0] * island.devices_per_host
        used = next((account.used for account in on_devices_of(host)), list(empty))
        host.account = Account(host.device_memory_bytes, empty, list(empty), used) if host.device_memory_bytes > 0 else None
    if any(host.account is not None for host in island.members):
        state.budgets = True
        island.memory = IslandMemory(moved_ns=state.now_ns)
    else:
        island.memory = None


def on_devices_of(host: Host) -> list[Account]:
    """Of everybody with executors on the devices of a host: itself, the same host in other cells, and those that leave."""
    if len(host.island.ground.islands) == 1:
        return [host.account] if host.account is not None else []
    there = [island.host_on(host.machine) for island in host.island.ground.islands]
    leaving = [island.rescue.accounts for island in host.island.ground.islands if island.rescue is not None]
    return [other.account for other in there if other is not None and other.account is not None] + [
        account for each in leaving for other, account in each.items() if other.machine == host.machine
    ]


def hold(state: State, buffer: Buffer) -> None:
    """A buffer takes its place: its hosts are being told to put it on its devices."""
    placement = buffer.placement
    assert placement is not None
    buffer.charged = buffer.shard_bytes
    buffer.used_ns = state.now_ns
    for place in placement.shards:
        account = place.host.account
        if account is not None:
            account.add(place.local_device, buffer.shard_bytes)
    if placement.island.memory is not None:
        placement.island.memory.moved_ns = state.now_ns


def take(needs: Iterable[Need]) -> None:
    for host, local_device, size_bytes in needs:
        if host.account is not None:
            host.account.add(local_device, size_bytes)


def give_back(needs: Iterable[Need]) -> None:
    """At once: the hosts have let go of it."""
    for host, local_device, size_bytes in needs:
        if host.account is not None:
            host.account.add(local_device, -size_bytes)


def release(state: State, buffer: Buffer) -> None:
    """Its hosts are told to free it, at the end of this step."""
    size_bytes, buffer.charged = buffer.charged, 0
    placement = buffer.placement
    assert placement is not None
    island = placement.island
    if buffer.epoch != island.epoch or island.state not in IN_EPOCH:
        return
    for place in placement.shards:
        leave(state, place.host, place.local_device, size_bytes)


def leave(state: State, host: Host, local_device: int, size_bytes: int) -> None:
    """Bytes that a host was told to free, or will be told in this step."""
    account = host.account
    if account is None:
        return
    if host.last_sequence > host.finished_through:
        account.letting.append(Release(host.last_sequence, local_device, size_bytes))
    else:
        state.leaving.append(Leaving(host, host.island.epoch, local_device, size_bytes))


def on_finished(state: State, host: Host) -> None:
    """The host has finished gangs: what was freed behind them is free."""
    account = host.account
    assert account is not None
    letting = account.letting
    if not letting or letting[0].sequence > host.finished_through:
        return
    while letting and letting[0].sequence <= host.finished_through:
        _, local_device, size_bytes = letting.popleft()
        account.add(local_device, -size_bytes)
    moved(state, host.island)


def on_frees_sent(state: State) -> None:
    """What idle hosts were told to free in this step is free for whatever is sent from now on."""
    leaving, state.leaving = state.leaving, []
    for host, epoch, local_device, size_bytes in leaving:
        if host.account is not None and host.island.epoch == epoch and host.island.state in IN_EPOCH:
            host.account.add(local_device, -size_bytes)
            moved(state, host.island)


def moved(state: State, island: Island) -> None:
    """Memory of the island's devices was taken or freed: what waits for it is looked at before the step ends."""
    for each in island.ground.islands:
        memory = each.memory
        if memory is None:
            continue
        memory.moved_ns = state.now_ns
        memory.failed = None
        if memory.claims or memory.placing:
            state.relieved[each.name] = each


def end_epoch(island: Island) -> dict[Host, Account]:
    """Nothing of it is on devices any more. The accounts that its hosts had."""
    ended: dict[Host, Account] = {}
    for host in (*island.hosts.values(), *island.members):
        account, host.account = host.account, None
        if account is not None:
            ended[host] = account
            _count(account, -1)
    return ended


def _count(account: Account, sign: int) -> None:
    """All that it holds, among what its devices have in use, or no more."""
    for local_device, held in enumerate(account.held):
        account.used[local_device] += sign * held


def linger(rescue: Rescue, host: Host, account: Account) -> None:
    """An executor holds what it held until it has put away what is kept of it; others on its devices do not get that before."""
    account.letting.clear()
    rescue.accounts[host] = account
    _count(account, 1)


def left(state: State, rescue: Rescue, host: Host) -> None:
    """The executor is gone, or is being ended."""
    account = rescue.accounts.pop(host, None)
    if account is not None:
        _count(account, -1)
        moved(state, host.island)
