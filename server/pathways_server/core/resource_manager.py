"""Hosts and islands: who is there, in which epoch, and when an island is ACTIVE.

An island forms by itself once as many hosts are there as it waits for: rank 0's daemon starts the coordination service
(with several ranks), every member enters the epoch, and the last answer makes it ACTIVE. A failed try ends its epoch
number for good and is repeated after a growing pause. Ranks follow the coordinates of hosts, without such their names.
"""

from __future__ import annotations

from pathways_common.model.cells import tenant_in
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import Epoch, HostName, Sequence

from . import (
    accounts,
    cells,
    copies,
    drains,
    endings,
    images,
    listening,
    losses,
    programs,
    quarantine,
    rescues,
    scheduler,
    sessions,
    slices,
    spills,
    topology,
    transfers,
)
from .effects import DropHost, EpochBegin, EpochEnd, SendToHost, Shutdown, StartCoordinator
from .events import CoordinatorStarted, EpochEntered, EpochRefused, ExecutorLost, HostJoined, HostLost
from .natural_order import natural
from .placements import IN_EPOCH
from .read_records import Copy
from .records import Host, Island
from .state import State
from .suspicions import AbortedMember, Suspicion
from .transitions import BufferState, HostState, IslandState

_FORMING = (IslandState.COORDINATING, IslandState.ENTERING)
_MISSING_MAX = 64
# Executors that die one after another shortly after forming are given pauses from here on.
_SHORT_EPOCHS_MAX = 3
# What a host reports of an executor that the coordination service took along.
_ABORT = "signal 6"


def on_host_joined(state: State, event: HostJoined) -> None:
    old = state.hosts.get(event.host)
    if old is not None:
        if event.incarnation <= old.incarnation:
            state.ignore(event, f"incarnation {old.incarnation} has joined already")
            return
        _lose(state, old, "it joined again")
    island = state.islands.get(event.island)
    text = cells.misfit(island, event.host) if tenant_in(event.island) else ""
    if text:
        state.log("host refused", host=event.host, reason=text)
        state.effects.append(SendToHost(event.host, Shutdown(text)))
        return
    if island is None:
        island = cells.make_island(state, event.island)
    host = Host(
        event.host, island, event.incarnation, event.device_count, event.data_address, event.pid, event.device_memory_bytes,
        event.topology, event.coordinates, event.device_kind,
    )  # fmt: skip
    state.hosts[host.name] = host
    text = topology.misfit(host, list(island.hosts.values()), state.config.island_shapes.get(island.ground.name, ()))
    if text:
        state.log("host refused", host=host.name, reason=text)
        state.tell(host, Shutdown(text, refused=True))
        del state.hosts[host.name]
        return
    island.hosts[host.name] = host
    if island.topology != host.topology:
        island.topology, island.places = host.topology, ()
    island.missing.pop(host.name, None)
    state.log("host joined", host=host.name, island=island.name, incarnation=host.incarnation, devices=host.device_count)
    if island.state is IslandState.EMPTY:
        state.move(island, IslandState.WAITING)
    island.retry_at_ns = 0
    consider(state, island)
    if island.tenant is None:
        cells.on_host_joined(state, host)


def on_host_lost(state: State, event: HostLost) -> None:
    host = state.hosts.get(event.host)
    if host is None or host.incarnation != event.incarnation:
        state.ignore(event, "older incarnation")
        return
    give_up(state, host, event.reason)


def give_up(state: State, host: Host, reason: str) -> None:
    """The host is lost; what is left of its island may form anew."""
    island = host.island
    _lose(state, host, reason)
    consider(state, island)


def _lose(state: State, host: Host, reason: str, text: str = "") -> None:
    """`text` says what happened to it, if its connection did not just end for this reason."""
    island = host.island
    del state.hosts[host.name]
    images.on_host_lost(state, host)
    del island.hosts[host.name]
    state.log("host lost", host=host.name, island=island.name, incarnation=host.incarnation, reason=reason)
    island.missing[host.name] = reason
    if len(island.missing) > _MISSING_MAX:
        del island.missing[next(iter(island.missing))]
    if host in island.members:
        losses.end_epoch(state, island, host, text or f"its connection ended ({reason})", reason, "")
    rescues.on_host_lost(state, host, reason)
    if state.budgets or spills.has_store(state, host):
        spills.on_host_lost(state, host, losses.store_lost(state, island, host, reason))
    if not island.hosts and island.state is IslandState.WAITING:
        state.move(island, IslandState.EMPTY)
    cells.forget_if_empty(state, island)


def end_stuck(state: State, host: Host, text: str, drop: bool) -> None:
    """A member that is stuck ends its epoch, by name. Its daemon kills the executor; `drop`: that does not answer either."""
    island = host.island
    if drop:
        _lose(state, host, text, text)
        state.effects.append(DropHost(host.name))
    else:
        endings.end_stuck(state, island, host, text)
    consider(state, island)


def on_executor_lost(state: State, event: ExecutorLost) -> None:
    host = state.hosts.get(event.host)
    if host is None or host.rank < 0 or host.island.epoch != event.epoch:
        state.ignore(event, "older epoch")
        return
    if event.exit == _ABORT and host.rank > 0 and host.island.state is IslandState.ACTIVE:
        # It goes with rank 0's host; if that one is gone, its end is heard of in a moment.
        failure = Failure(Reason.SLICE_LOST, _ended(event), host=host.name)
        state.suspicions.append(Suspicion(state.now_ns + state.config.cause_wait_ns, AbortedMember(host, event), failure))
        return
    _lose_executor(state, host, event)


def _lose_executor(state: State, host: Host, event: ExecutorLost) -> None:
    if host.island.state in IN_EPOCH:
        quarantine.on_executor_lost(state, host, event)
    endings.begin(state, host.island, host, _ended(event), event.exit, event.stderr_tail, event.finished_through)
    consider(state, host.island)


def _ended(event: ExecutorLost) -> str:
    return f"its executor ended ({event.exit})"


def confirm(state: State, aborted: AbortedMember) -> None:
    """Nothing better came: the executor aborted for a reason of its own."""
    host, event = aborted
    if state.hosts.get(event.host) is host and host.rank > 0 and host.island.epoch == event.epoch:
        _lose_executor(state, host, event)


def wanted_hosts(state: State, island: Island) -> int:
    """How many hosts the next epoch needs; 0 = whoever is there."""
    known = island.size_bound or state.config.hosts_of(island.ground.name) or topology.host_count(island)
    if known and state.drains and not island.size_bound:
        known = max(known - drains.count(state, island), 0)
    return known or (cells.host_count(island) if island.tenant is not None else 0)


def consider(state: State, island: Island) -> None:
    """Starts a new epoch if everything for it is there; while nobody uses it, also when a host came or is to go.

    A host that comes waits for that: until then it takes part in nothing.
    """
    if island.closing or island.state is IslandState.ENDING or island.rescue is not None:
        return
    wanted = wanted_hosts(state, island)
    hosts = topology.by_rank(cells.fitting(state, island))
    if island.size_bound:  # what is in the stores of those who were there comes back only to them
        hosts.sort(key=lambda host: host.name not in island.seated)
        hosts = _in_their_seats(island, hosts[: wanted or None])
    else:
        hosts = hosts[: wanted or None]
    if island.state is not IslandState.WAITING and island.members and _is_quiet(state, island):
        comes = len(hosts) > len(island.members) and len(hosts) >= wanted
        goes = drains.is_leaving(state, island)
        if comes or goes:
            state.flush_frees()  # what this step frees is of this epoch, and the next may begin in it
            for member in island.members:
                state.tell(member, EpochEnd(island.epoch), urgent=island.state is IslandState.ACTIVE)
            losses.dissolve(state, island, "a host is to go" if goes else "a host joined")
    if island.state is not IslandState.WAITING or island.retry_at_ns > state.now_ns:
        return
    if not hosts or len(hosts) < wanted:
        return
    _form(state, island, hosts)


def _in_their_seats(island: Island, hosts: list[Host]) -> list[Host]:
    """In the ranks that sessions know; a newcomer takes that of one that is missing. By topology if there never was an epoch."""
    there = {host.name: host for host in hosts}
    others = [host for host in hosts if host.name not in island.seated]
    seated = [there[name] if name in there else others.pop(0) for name in island.seated if name in there or others]
    return seated + others if island.seated else others


def _is_quiet(state: State, island: Island) -> bool:
    """No session uses it, and it rests."""
    return not island.size_bound and rests(state, island)


def rests(state: State, island: Island) -> bool:
    """Nothing that was granted there goes on, nor is anything on its way to stores, also of sessions that are over."""
    if island.inflight or island.runs:
        return False
    return not any(
        moving.buffer.placement is not None and moving.buffer.placement.island is island for moving in state.moving.values()
    )


def _form(state: State, island: Island, members: list[Host]) -> None:
    island.epoch = Epoch(island.epoch + 1)
    island.members = tuple(members)
    island.devices_per_host = members[0].device_count
    island.places = topology.places(island.topology, members)
    island.entered = 0
    island.sequence = Sequence(0)
    island.deadline_ns = listening.now_ns(state) + state.config.epoch_step_ns
    for rank, host in enumerate(members):
        host.rank = rank
    state.log("epoch begins", island=island.name, epoch=island.epoch, hosts=",".join(host.name for host in members))
    if len(members) > 1:
        state.move(island, IslandState.COORDINATING)
        state.tell(members[0], StartCoordinator(island.epoch, len(members)))
    else:
        _enter(state, island, "")


def _enter(state: State, island: Island, coordinator_address: str) -> None:
    state.move(island, IslandState.ENTERING)
    island.deadline_ns = listening.now_ns(state) + state.config.epoch_step_ns
    for host in island.members:
        state.move(host, HostState.ENTERING)
        state.tell(host, EpochBegin(island.epoch, host.rank, len(island.members), coordinator_address, island.devices_per_host))


def on_coordinator_started(state: State, event: CoordinatorStarted) -> None:
    host = state.hosts.get(event.host)
    if host is None or host.rank != 0 or host.island.epoch != event.epoch or host.island.state is not IslandState.COORDINATING:
        state.ignore(event, "older epoch")
        return
    if event.failure is not None or not event.address:
        text = event.failure.message if event.failure is not None else "it gave no address"
        _retry(state, host, f"the coordination service did not start ({text})")
        return
    _enter(state, host.island, event.address)


def on_epoch_entered(state: State, event: EpochEntered) -> None:
    host = state.hosts.get(event.host)
    if host is None or host.rank < 0 or host.island.epoch != event.epoch or host.state is not HostState.ENTERING:
        state.ignore(event, "older epoch")
        return
    island = host.island
    state.move(host, HostState.ACTIVE)
    host.compiler = event.compiler
    island.entered += 1
    if island.entered == 1:
        island.platform = event.platform
        island.platform_version = event.platform_version
        island.device_kind = host.device_kind or event.device_kind
        island.memory_kinds = event.memory_kinds
    elif island.platform != event.platform:
        _retry(state, host, f"its platform is {event.platform} and the others have {island.platform}")
        return
    if island.entered == len(island.members):
        _become_active(state, island)


def _become_active(state: State, island: Island) -> None:
    state.move(island, IslandState.ACTIVE)
    island.active_since_ns = state.now_ns
    island.seated = tuple(host.name for host in island.members)
    island.last_failure = ""
    island.deadline_ns = 0
    state.log("island active", island=island.name, epoch=island.epoch, hosts=len(island.members))
    accounts.begin_epoch(state, island)
    spills.on_island_active(state, island)
    programs.on_island_active(state, island)
    held = list(island.held)
    island.held.clear()
    for item in held:
        if isinstance(item, Copy):
            copies.try_copy(state, item)
            continue
        transfers.forget_inline(item)
        if item.buffer.state is BufferState.PENDING:
            transfers.place_or_hold(state, item.buffer, item.spec, item.pieces, item)
    scheduler.resume(state, island)
    sessions.try_pending(state)
    slices.retry_waiting(state)


def on_epoch_refused(state: State, event: EpochRefused) -> None:
    host = state.hosts.get(event.host)
    if host is None or host.rank < 0 or host.island.epoch != event.epoch or host.island.state not in _FORMING:
        state.ignore(event, "older epoch")
        return
    _retry(state, host, f"it could not enter the epoch ({event.failure.message})")


def _retry(state: State, host: Host, text: str) -> None:
    """Ends the try; the next one has a new epoch number."""
    island = host.island
    losses.end_epoch(state, island, host, text, "", "")


def _pause(state: State, island: Island, attempts: int) -> None:
    pause = min(state.config.epoch_backoff_ns << min(attempts - 1, 20), state.config.epoch_backoff_max_ns)
    island.retry_at_ns = state.now_ns + pause


def leave_active(state: State, island: Island) -> None:
    """Granting stops here. A new try may begin at once, unless several epochs in a row were short."""
    state.move(island, IslandState.WAITING)
    if state.now_ns - island.active_since_ns >= state.config.epoch_backoff_max_ns:
        island.attempts = 0
        return
    island.attempts += 1
    if island.attempts > _SHORT_EPOCHS_MAX:
        _pause(state, island, island.attempts - _SHORT_EPOCHS_MAX)


def leave_forming(state: State, island: Island) -> None:
    """The try has failed; the next one comes after a pause that grows."""
    state.move(island, IslandState.WAITING)
    island.attempts += 1
    _pause(state, island, island.attempts)


def expire(state: State) -> None:
    """Tries that take too long, and pauses that are over."""
    for island in state.islands.values():
        if island.state in _FORMING and island.deadline_ns <= state.listened_ns:
            late = [host for host in island.members if host.state is not HostState.ACTIVE]
            step = "start the coordination service" if island.state is IslandState.COORDINATING else "enter the epoch"
            seconds = state.config.epoch_step_ns // 1_000_000_000
            _retry(state, late[0] if late else island.members[0], f"it did not {step} within {seconds} s")
        elif island.state is IslandState.WAITING or (not island.size_bound and len(island.hosts) > len(island.members)):
            consider(state, island)
        while island.held and _held_until(island) <= state.now_ns:
            _drop_held(state, island)


def _held_until(island: Island) -> int:
    item = island.held[0]
    return item.held_until_ns if isinstance(item, Copy) else item.deadline_ns


def _drop_held(state: State, island: Island) -> None:
    item = island.held.popleft()
    message = f"island {island.name} did not become ACTIVE in time ({lacks(state, island)}); try again"
    sessions.drop_held(state, item, island, message)


def lacks(state: State, island: Island) -> str:
    """What keeps an island from being ACTIVE, for people."""
    if drains.is_leaving(state, island):
        going = [member.machine for member in island.members if drains.is_drained(state, member)]
        return f"host {going[0]} of it is being drained"
    if island.state is IslandState.ACTIVE:
        return f"island {island.name} is ACTIVE"
    if island.ending is not None:
        return f"island {island.name} lost host {island.ending.host.name} and lets others end what they run: {island.ending.text}"
    if island.rescue is not None:
        return rescues.words(island)
    wanted = wanted_hosts(state, island)
    missing = max((wanted or 1) - len(island.hosts), 0)
    if missing:
        gone = [f"{name} ({reason})" for name, reason in sorted(island.missing.items(), key=lambda item: natural(item[0]))]
        there = ", ".join(sorted(island.hosts, key=natural)) or "none"
        known = f", last seen: {', '.join(gone[:4])}" if gone else ""
        more = f"{missing} more host{'s' if missing > 1 else ''} of {wanted or 1}"
        return f"island {island.name} waits for {more}; there: {there}{known}"
    why = f"; the last try failed: {island.last_failure}" if island.last_failure else ""
    return f"island {island.name} is forming epoch {island.epoch}{why}"


def host_of(island: Island, position: int) -> HostName:
    """The host behind a position in the current epoch."""
    return island.members[position // island.devices_per_host].name
