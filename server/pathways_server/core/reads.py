"""Reads: fetches and waits. A read is held until the hosts were told to make the value, then sent; poison ends it at once.

A value is in doubt while a gang before it may still fail on one member alone (D9): its other members computed with zeros,
so a read of it waits until that gang has ended everywhere. Only fallible programs over several hosts cost this wait.
"""

from __future__ import annotations

from pathways_common.model.failure import KEPT, Failure, Reason
from pathways_common.model.ids import FetchId, GlobalId, HostName, WaitId, local_id

from . import buffers, copies, follow_on, other_copies, rescue_copies, rescues, spills
from .effects import AwaitReady, Fetched, FetchFailed, FetchShard, FetchTicket, LocalShard, Ready
from .events import BecameReady, FetchRequested, ShardFetched, WaitRequested
from .lost_values import LostValues
from .placements import bind
from .read_records import Copy, Fetch, Wait
from .records import Buffer, Handle, Host, Island, Part, Reader, Session
from .state import State
from .transitions import BufferState
from .unfinished import is_alive_since
from .walk_records import Look

_UNRESOLVED = (
    BufferState.EXPECTED, BufferState.PENDING, BufferState.SPILLING, BufferState.SPILLED, BufferState.RESTORING,
)  # fmt: skip


def register(state: State, reader: Reader) -> None:
    """Enters a read into the tables; it counts as a use of its buffers until it was sent."""
    state.readers[reader.number] = reader
    state.reading.enter(reader.session.number, reader.session.tenant.name)
    for buffer in reader.buffers:
        buffer.uses += 1
        if buffer.readers is None:
            buffer.readers = {}
        buffer.readers[reader.number] = reader
    for other in reader.others if isinstance(reader, Fetch) else ():
        other.buffer.uses += 1


def mark_sent(state: State, reader: Reader) -> None:
    """The hosts know of it: frees sent from now on are ordered behind it."""
    reader.sent = True
    for buffer in reader.buffers:
        buffer.uses -= 1
        buffers.settle(state, buffer)


def finish(state: State, reader: Reader) -> None:
    """Takes a read out of the tables, answered or not."""
    if state.readers.pop(reader.number, None) is None:
        return
    state.reading.leave(reader.session.number, reader.session.tenant.name)
    state.pulls.pop(reader.number, None)
    for buffer in reader.buffers:
        if buffer.readers is not None:
            buffer.readers.pop(reader.number, None)
    if not reader.sent:
        mark_sent(state, reader)
    for other in reader.others if isinstance(reader, Fetch) else ():
        other.buffer.uses -= 1
        buffers.settle(state, other.buffer)


def fail(state: State, reader: Reader, failure: Failure) -> None:
    """Ends a read with its cause."""
    elsewhere = other_copies.elsewhere(state, reader, failure) if isinstance(reader, Fetch) else None
    finish(state, reader)
    match reader:
        case Fetch():
            if elsewhere is not None:
                try_fetch(state, elsewhere)
                return
            state.reply(reader.session, FetchFailed(reader.fetch_id, failure))
        case Wait():
            state.reply(reader.session, Ready(reader.wait_id, failure))
        case Copy():
            copies.end(state, reader)
            buffers.poison(state, reader.result, failure, tell_hosts=False)
        case Look():
            walk = reader.walk
            walk.failure = walk.failure or failure
            state.woken.append(walk)


def fail_all(state: State, buffer: Buffer, failure: Failure) -> None:
    """Ends every read of a poisoned buffer."""
    readers = buffer.readers
    if not readers:
        return
    for reader in list(readers.values()):
        fail(state, reader, failure)


def on_epoch_ended(state: State, island: Island, lost: LostValues) -> None:
    """Ends what hosts of the lost epoch were asked for, also of buffers that were freed or donated since; or asks again."""
    for reader in [reader for reader in state.readers.values() if reader.sent]:
        touched = [buffer for buffer in reader.buffers if buffer.placement is not None and buffer.placement.island is island]
        if not touched or reader.number not in state.readers:
            continue
        if not all(rescues.is_kept(buffer, state) for buffer in touched):
            fail(state, reader, lost.failure_of(touched[0]))
        elif not _read_again(state, reader):
            fail(state, reader, _interrupted(state, island, touched[0]))


def _read_again(state: State, reader: Reader) -> bool:
    """Asks anew for what outlives its epoch, under another number: old answers are nobody's. A ticket that is out stays."""
    number, session, deadline = state.number(), reader.session, state.now_ns + state.config.read_ns
    again: Fetch | Wait
    match reader:
        case Fetch() if reader.number not in state.pulls:
            again = Fetch(
                number, session, reader.fetch_id, reader.buffers, reader.shard, reader.size_bytes, deadline, others=reader.others
            )
        case Wait():
            again = Wait(number, session, reader.wait_id, reader.buffers, reader.parts, deadline)
        case _:
            return False
    register(state, again)
    finish(state, reader)
    if isinstance(again, Fetch):
        try_fetch(state, again)
    else:
        try_wait(state, again)
    return True


def _interrupted(state: State, island: Island, buffer: Buffer) -> Failure:
    array = local_id(buffer.id)
    message = f"array {array} was being read when its epoch ended ({island.last_failure}); it is kept, so read it again"
    host = island.rescue.cause.host if island.rescue is not None else ""
    return state.failure(Reason.UNAVAILABLE, message, host=host, retryable=True, array=array, **{KEPT: True})


def unready(state: State, reader: Reader) -> bool:
    """True if it has to go on waiting (and is registered for that) or has just failed."""
    for buffer in reader.buffers:
        if buffer.state in _UNRESOLVED:
            if buffer.state is BufferState.SPILLED and isinstance(reader, Wait):
                continue  # it was computed
            buffers.wait_for(buffer, reader)
            if buffer.state is BufferState.SPILLED:
                spills.want(state, buffer)
            return True
        failure = buffer.failure
        if failure is None and buffer.state is not BufferState.PRESENT:
            failure = buffer.ended
        if failure is not None:
            fail(state, reader, failure)
            return True
    return False


def in_doubt(reader: Fetch | Copy | Look) -> bool:
    """True if a gang that may fail on one member alone has not ended; the read is registered to be looked at then."""
    for buffer in reader.buffers:
        placement = buffer.placement
        if placement is None:
            continue
        island = placement.island
        if island.fallible and island.fallible[0].sequence <= buffer.sequence and buffer.epoch == island.epoch:
            island.doubted.append(reader)
            return True
    return False


def full(state: State, session: Session) -> Failure | None:
    message = state.reading.refusal(session.number, session.tenant.name, "reads")
    return state.failure(Reason.RESOURCE_EXHAUSTED, message) if message else None


def locate(handle: Handle, shard: int) -> Part | None:
    """The one-shard part behind shard `shard` of a view."""
    for part in buffers.parts_of(handle):
        if shard < part.length:
            return Part(part.buffer, part.start + shard, 1)
        shard -= part.length
    return None


def on_fetch_requested(state: State, event: FetchRequested, session: Session) -> None:
    handle = session.handles.get(event.view_id)
    failure = full(state, session)
    part = None
    if failure is None and handle is None:
        failure = buffers.unknown(state, event.view_id)
    elif failure is None and handle is not None:
        handle = other_copies.standing_for(handle)
        part = locate(handle, event.shard) if event.shard >= 0 else None
        failure = part.buffer.ended or part.buffer.failure if part else buffers.defect(handle)
        if failure is None and part is None:
            message = f"shard {event.shard} was asked of array {local_id(event.view_id)}, which has no such shard"
            failure = state.failure(Reason.INVALID_ARGUMENT, message, shard=event.shard)
    if failure is not None or part is None:
        assert failure is not None
        state.reply(session, FetchFailed(event.fetch_id, failure))
        return
    size = max(event.size_bytes, part.buffer.shard_bytes)
    deadline = state.now_ns + state.config.read_ns
    others = other_copies.others_of(session.handles[event.view_id], part)
    fetch = Fetch(
        state.number(), session, event.fetch_id, (part.buffer,), part.start, size, deadline, others=others, held=event.held
    )
    register(state, fetch)
    try_fetch(state, fetch)


def try_fetch(state: State, fetch: Fetch) -> None:
    if fetch.sent or fetch.number not in state.readers or unready(state, fetch) or in_doubt(fetch):
        return
    buffer = fetch.buffers[0]
    placement = buffer.placement
    assert placement is not None
    assert bind(placement), "a present buffer lives on an ACTIVE island"
    buffer.used_ns = state.now_ns
    place = placement.shards[fetch.shard]
    pull = fetch.size_bytes > state.config.inline_bytes_max
    number = FetchId(fetch.number)
    shard = LocalShard(buffer.id, place.local_index)
    state.tell(place.host, FetchShard(number, shard, pull, state.config.pull_ns, held=pull and fetch.held))
    if pull:
        fetch.session.serving[place.host.name] = place.host
        state.pulls[fetch.number] = fetch
        state.reply(fetch.session, FetchTicket(fetch.fetch_id, place.host.name, number, fetch.size_bytes))
    mark_sent(state, fetch)


def try_look(state: State, look: Look) -> None:
    """Asks the first host of a value that a walk needs to see for its few bytes."""
    if look.sent or look.number not in state.readers or unready(state, look) or in_doubt(look):
        return
    buffer = look.buffers[0]
    placement = buffer.placement
    assert placement is not None
    assert bind(placement), "a present buffer lives on an ACTIVE island"
    place = placement.shards[look.shard]
    shard = LocalShard(buffer.id, place.local_index)
    state.tell(place.host, FetchShard(FetchId(look.number), shard, False, state.config.pull_ns))
    mark_sent(state, look)


def on_shard_fetched(state: State, event: ShardFetched) -> None:
    """An inline answer, or the end of a pull (without data), or a failure of either."""
    copy = state.source_fetches.get(event.fetch_id)
    if copy is not None:
        if event.failure is not None:
            fail(state, copy, _cause(copy.buffers, event.failure))
        return
    fetch = state.readers.get(event.fetch_id)
    if not isinstance(fetch, Fetch | Look) or not fetch.sent:
        state.ignore(event, "no such fetch")
        return
    if event.failure is not None:
        cause = _cause(fetch.buffers, event.failure)
        if not follow_on.defer(state, fetch, cause):
            fail(state, fetch, cause)
        return
    finish(state, fetch)
    if isinstance(fetch, Look):
        fetch.data = event.data
        state.woken.append(fetch.walk)
    elif fetch.size_bytes <= state.config.inline_bytes_max:
        state.reply(fetch.session, Fetched(fetch.fetch_id, event.data))


def _cause(read: tuple[Buffer, ...], reported: Failure) -> Failure:
    """The failure that the core knows of one of the buffers, which came first, else what the host reports."""
    return next((buffer.failure for buffer in read if buffer.failure is not None), reported)


def on_wait_requested(state: State, event: WaitRequested, session: Session) -> None:
    failure = full(state, session)
    parts: list[Part] = []
    for identifier in event.views:
        handle = session.handles.get(identifier)
        failure = failure or (buffers.unknown(state, identifier) if handle is None else buffers.defect(handle))
        if failure is not None or handle is None:
            state.reply(session, Ready(event.wait_id, failure))
            return
        parts.extend(buffers.parts_of(handle))
    if failure is not None or not parts:
        state.reply(session, Ready(event.wait_id, failure))
        return
    distinct = tuple({part.buffer.id: part.buffer for part in parts}.values())
    wait = Wait(state.number(), session, event.wait_id, distinct, tuple(parts), state.now_ns + state.config.read_ns)
    register(state, wait)
    try_wait(state, wait)


def try_wait(state: State, wait: Wait) -> None:
    if wait.sent or wait.number not in state.readers or unready(state, wait):
        return
    ids: dict[HostName, dict[GlobalId, None]] = {}
    hosts: dict[HostName, Host] = {}
    for part in wait.parts:
        placement = part.buffer.placement
        assert placement is not None
        if part.buffer.state is BufferState.SPILLED:
            continue
        assert bind(placement), "a present buffer lives on an ACTIVE island"
        whole = part.length == len(placement.positions)
        involved = placement.hosts if whole else [place.host for place in placement.shards[part.start : part.start + part.length]]
        for host in involved:
            hosts[host.name] = host
            ids.setdefault(host.name, {})[part.buffer.id] = None
    wait.hosts_due = dict.fromkeys(hosts)
    for name, host in hosts.items():
        state.tell(host, AwaitReady(WaitId(wait.number), tuple(ids[name])))
    mark_sent(state, wait)
    if not hosts:
        finish(state, wait)
        state.reply(wait.session, Ready(wait.wait_id, None))


def on_became_ready(state: State, event: BecameReady) -> None:
    wait = state.readers.get(event.wait_id)
    if not isinstance(wait, Wait) or not wait.sent:
        state.ignore(event, "no such wait")
        return
    if event.failure is not None:
        cause = _cause(wait.buffers, event.failure)
        if not follow_on.defer(state, wait, cause):
            fail(state, wait, cause)
        return
    wait.hosts_due.pop(event.host, None)
    if not wait.hosts_due:
        finish(state, wait)
        state.reply(wait.session, Ready(wait.wait_id, None))


def _end_pull(state: State, fetch: Fetch) -> None:
    """Hosts copy a value as soon as it is computed, so a pull that ended unreported stops being a reader soon after; one that is
    held is copied when somebody comes for it, which its host awaits for so long.

    If its executor has shown no life since, it may not have begun; whether it is stuck is found out while it owes this.
    """
    buffer = fetch.buffers[0]
    placement = buffer.placement
    assert placement is not None
    island = placement.island
    if island.inflight and island.inflight[0].sequence <= buffer.sequence and buffer.epoch == island.epoch:
        return
    if not fetch.linger_until_ns:  # of time in which the controller listened: the report may be waiting for it
        held_ns = state.config.pull_ns if fetch.held else 0
        fetch.linger_until_ns = state.listened_ns + state.config.pull_linger_ns + held_ns
        fetch.lingers_since_ns = state.listened_ns
    elif fetch.linger_until_ns <= state.listened_ns and is_alive_since(
        placement.shards[fetch.shard].host, fetch.lingers_since_ns
    ):
        finish(state, fetch)


def expire(state: State) -> None:
    """Fails the reads whose deadline has passed. All have the same length, so the oldest are first."""
    for fetch in list(state.pulls.values()):
        _end_pull(state, fetch)
    while state.readers:
        reader = next(iter(state.readers.values()))
        if reader.deadline_ns > state.now_ns:
            return
        if isinstance(reader, Copy) and rescue_copies.waits_for_its_island(reader):
            del state.readers[reader.number]
            reader.deadline_ns = state.now_ns + state.config.read_ns
            state.readers[reader.number] = reader
            continue
        what = type(reader).__name__.lower()
        seconds = state.config.read_ns // 1_000_000_000
        message = f"the {what} was not answered within {seconds} s; look at pathways status"
        fail(state, reader, state.failure(Reason.TIMED_OUT, message, wait=what, seconds=seconds))
