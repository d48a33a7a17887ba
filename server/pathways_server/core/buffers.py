"""Logical buffers: one record and one count per array, whatever its shard count; the views on it; its poison and its end.

A buffer is forgotten by the hosts once no handle is left (or it was deleted) and nothing that was asked for earlier
still has to be sent to a host (`uses`). A poisoned buffer keeps the first cause and hands it to everything that uses it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId, local_id

from . import accounts, other_copies, quotas, reads, spills, transfers
from .effects import Poison
from .events import ErrorArrayMade, Released, ViewMade, ViewsDeleted
from .placements import bind, intern, joined_owners, owners_of
from .records import Buffer, Handle, Part, Placement, Session, View, Waiter
from .state import State
from .transitions import BufferState, IslandState

_LOSSES = (Reason.BUFFER_LOST, Reason.SLICE_LOST, Reason.UNAVAILABLE)
DEAD = (BufferState.POISONED, BufferState.CONSUMED, BufferState.FREED)


def make(session: Session, identifier: GlobalId, placement: Placement | None, shard_bytes: int, state: BufferState) -> Buffer:
    """A new buffer with its own id as the only handle."""
    buffer = Buffer(identifier, session, placement, shard_bytes, state)
    session.handles[identifier] = buffer
    session.buffers[identifier] = buffer
    if state is BufferState.PRESENT and placement is not None:
        buffer.booked_bytes = held_bytes = shard_bytes * len(placement.positions)
        session.tenant.held_bytes += held_bytes
    return buffer


def make_poisoned(session: Session, identifier: GlobalId, failure: Failure) -> Buffer:
    """A buffer that never existed anywhere and says why."""
    buffer = make(session, identifier, None, 0, BufferState.POISONED)
    buffer.failure = failure
    return buffer


def make_all_poisoned(state: State, session: Session, identifiers: Iterable[GlobalId], failure: Failure) -> None:
    """The results of a refused request: they exist and carry the cause, except under ids that cannot be used."""
    for identifier in identifiers:
        if refusal(state, session, identifier) is None:
            make_poisoned(session, identifier, failure)


def refusal(state: State, session: Session, identifier: GlobalId) -> Failure | None:
    """Why a new id cannot be used; None if it can."""
    if identifier in session.handles or identifier in session.buffers:
        return state.failure(Reason.INVALID_ARGUMENT, f"id {local_id(identifier)} names a buffer already; use a new id")
    if len(session.buffers) >= state.config.buffers_max:
        message = f"the session holds {len(session.buffers)} buffers, the most allowed; delete some first"
        return state.failure(Reason.RESOURCE_EXHAUSTED, message, buffers=len(session.buffers))
    return None


def unknown(state: State, identifier: GlobalId) -> Failure:
    number = local_id(identifier)
    return state.failure(Reason.INVALID_ARGUMENT, f"no array has id {number}; it was released or never made", array=number)


def parts_of(handle: Handle) -> tuple[Part, ...]:
    """The ranges of a handle; a buffer without a placement counts no shards."""
    if isinstance(handle, View):
        return handle.parts
    count = len(handle.placement.positions) if handle.placement is not None else 0
    return (Part(handle, 0, count),)


def defect(handle: Handle) -> Failure | None:
    """Why a handle has no value for a new use: deleted, donated or poisoned."""
    for part in parts_of(handle):
        failure = part.buffer.ended or part.buffer.failure
        if failure is not None:
            return failure
    return None


def present(state: State, buffer: Buffer) -> None:
    """The hosts hold it from here on; whatever waited for it is looked at before the step ends."""
    state.move(buffer, BufferState.PRESENT)
    quotas.book(buffer)
    wake_waiters(state, buffer)


def wake_waiters(state: State, buffer: Buffer) -> None:
    if buffer.waiters:
        state.woken.extend(buffer.waiters)
    buffer.waiters = None


def wait_for(buffer: Buffer, waiter: Waiter) -> None:
    if buffer.waiters is None:
        buffer.waiters = [waiter]
    elif waiter not in buffer.waiters:
        buffer.waiters.append(waiter)


def poison(state: State, buffer: Buffer, failure: Failure, tell_hosts: bool) -> None:
    """It will never hold a value. Reads of it end with the cause now; hosts are told if they may have reads waiting."""
    if buffer.state in DEAD:
        return
    was_present = buffer.state is BufferState.PRESENT
    for alias in list((buffer.aliases or {}).values()):
        if alias.state is BufferState.CONSUMED and alias.failure is None:
            alias.failure = failure  # so that the gang it was donated to inherits the cause
        alive = alias.placement is not None and alias.placement.island.state is IslandState.ACTIVE
        poison(state, alias, failure, tell_hosts=alive)
    away = buffer.kept
    if away:
        spills.forget(state, buffer)
    state.move(buffer, BufferState.POISONED)
    quotas.unbook(state, buffer)
    buffer.failure = failure
    buffer.pending = 0
    if tell_hosts and was_present and buffer.placement is not None and buffer.epoch == buffer.placement.island.epoch:
        for host in buffer.placement.hosts:
            state.tell(host, Poison((buffer.id,), failure))
    transfers.withdraw(state, buffer, failure)
    reads.fail_all(state, buffer, failure)
    wake_waiters(state, buffer)
    if buffer.uses:
        _note_users(state, buffer, failure)
    if away:
        spills.interrupted(state, buffer)


def _note_users(state: State, buffer: Buffer, failure: Failure) -> None:
    """Has failed_inputs look at what waits. What is lost with a host is lost all at once: that is looked for in any case."""
    session = buffer.session
    state.failing[session.number] = session
    session.failed_values += len(session.ungranted) + 1 if failure.reason in _LOSSES else 1


def link(alias: Buffer, handle: Handle) -> None:
    """`alias` names the same bytes: it fails with them, and keeps them until it is forgotten itself."""
    origins = {part.buffer.id: part.buffer for part in parts_of(handle)}
    alias.origins = tuple(origins.values())
    for origin in alias.origins:
        origin.uses += 1
        if origin.aliases is None:
            origin.aliases = {}
        origin.aliases[alias.id] = alias


def _unlink(state: State, alias: Buffer) -> None:
    origins, alias.origins = alias.origins, ()
    for origin in origins:
        assert origin.aliases is not None
        del origin.aliases[alias.id]
        origin.uses -= 1
        settle(state, origin)


def shared(buffer: Buffer) -> bool:
    """Whether somebody else may still read the bytes, so that they cannot be donated."""
    if buffer.handles > 1 or buffer.readers or buffer.held or buffer.aliases:
        return True
    return any(origin.handles or origin.uses > 1 or origin.readers for origin in buffer.origins)


def settle(state: State, buffer: Buffer) -> None:
    """Lets go of the data once nothing can ask for it, and of the record once nothing names it."""
    if buffer.uses or (buffer.handles and buffer.ended is None):
        return
    if buffer.state is not BufferState.FREED:
        drop_data(state, buffer)
    if not buffer.handles:
        buffer.session.buffers.pop(buffer.id, None)


def drop_data(state: State, buffer: Buffer) -> None:
    """Frees behind what was sent before; bytes on their way are refused."""
    if buffer.state is BufferState.PENDING:
        cause = buffer.ended or state.failure(Reason.CANCELLED, "the array was released before its bytes arrived")
        buffer.failure = cause
        transfers.withdraw(state, buffer, cause)
    placement = buffer.placement
    spilled = buffer.state is BufferState.SPILLED
    if spilled:
        spills.forget(state, buffer)
    state.move(buffer, BufferState.FREED)
    if buffer.booked_bytes:
        quotas.unbook(state, buffer)
    buffer.pending = 0
    if placement is not None and buffer.epoch and not spilled and buffer.epoch == placement.island.epoch and bind(placement):
        for host in placement.hosts:
            state.free(host, buffer.id)
    if buffer.handles > 1 or (buffer.handles and buffer.id not in buffer.session.handles):
        _forget_views(state, buffer)
    if buffer.charged:
        accounts.release(state, buffer)
    if buffer.origins:
        _unlink(state, buffer)


def _forget_views(state: State, buffer: Buffer) -> None:
    """It was deleted with views left: nobody may use these any more, and on the hosts they would keep its bytes."""
    for handle in buffer.session.handles.values():
        if isinstance(handle, View) and handle.epoch and any(part.buffer is buffer for part in handle.parts):
            forget_view(state, handle)


def drop_handle(state: State, session: Session, identifier: GlobalId) -> None:
    """Releases one view or buffer id; unknown ids were released before."""
    handle = session.handles.pop(identifier, None)
    if handle is None:
        return
    if handle.__class__ is Buffer:
        handle.handles -= 1
        settle(state, handle)
        return
    assert isinstance(handle, View)
    handle.released = True
    settle_view(state, handle)
    for part in (*handle.parts, *handle.copies):
        part.buffer.handles -= 1
        settle(state, part.buffer)


def settle_view(state: State, view: View) -> None:
    """Frees a released view on the hosts once the last queued execution that names it was granted or failed."""
    if not view.uses and view.released and view.epoch:
        forget_view(state, view)


def forget_view(state: State, view: View) -> None:
    """Hosts forget a view that they know under its own name."""
    placement = view.placement
    if placement is not None and view.epoch == placement.island.epoch and bind(placement):
        for host in placement.hosts:
            state.free(host, view.id)
    view.epoch = 0


def on_views_deleted(state: State, event: ViewsDeleted, session: Session) -> None:
    """Ends the buffers behind the views; what was asked for before still gets the value."""
    for identifier in event.views:
        handle = session.handles.get(identifier)
        if handle is None:
            continue
        for part in parts_of(handle):
            buffer = part.buffer
            if buffer.ended is None:
                number = local_id(identifier)
                message = f"array {number} was deleted; make it again before using it"
                buffer.ended = state.failure(Reason.DELETED, message, array=number)
                settle(state, buffer)


def on_error_array_made(state: State, event: ErrorArrayMade, session: Session) -> None:
    if refused := refusal(state, session, event.buffer_id):
        state.ignore(event, refused.message)
        return
    make_poisoned(session, event.buffer_id, event.failure)


def on_view_made(state: State, event: ViewMade, session: Session) -> None:
    """Resolves ranges down to buffers once; a bad range makes a poisoned array that says so when it is used."""
    if refused := refusal(state, session, event.view_id):
        state.ignore(event, refused.message)
        return
    parts = _resolved(state, session, event.view_id, event.ranges)
    copies = _resolved(state, session, event.view_id, event.copies) if parts is not None else None
    if parts is None or copies is None:
        return
    if not parts or (copies and sum(part.length for part in parts) != 1):
        message = "a view needs at least one range of shards" if not parts else "a view with copies has one shard"
        make_poisoned(session, event.view_id, state.failure(Reason.INVALID_ARGUMENT, message))
        return
    view = session.handles[event.view_id] = view_of(event.view_id, tuple(parts))
    if copies:
        view.copies = other_copies.kept(parts[0], [Part(part.buffer, part.start, 1) for part in copies])
    for part in (*parts, *view.copies):
        part.buffer.handles += 1


def _resolved(
    state: State, session: Session, view_id: GlobalId, ranges: Iterable[tuple[GlobalId, int, int]]
) -> list[Part] | None:
    """The parts behind ranges; None if one is bad, and then the view is poisoned."""
    parts: list[Part] = []
    for source, start, count in ranges:
        handle = session.handles.get(source)
        if handle is None:
            make_poisoned(session, view_id, unknown(state, source))
            return None
        sources = parts_of(handle)
        if any(part.buffer.placement is None for part in sources):
            failure = next(part.buffer.failure for part in sources if part.buffer.placement is None)
            make_poisoned(session, view_id, failure or unknown(state, source))
            return None
        total = sum(part.length for part in sources)
        if start < 0 or count < 1 or start + count > total:
            message = f"shards {start} to {start + count - 1} were asked of array {local_id(source)}, which has {total}"
            make_poisoned(session, view_id, state.failure(Reason.INVALID_ARGUMENT, message, shards=total))
            return None
        _append_range(parts, sources, start, count)
    return parts


def _append_range(parts: list[Part], sources: tuple[Part, ...], start: int, count: int) -> None:
    """Appends `count` shards from `start`, counted over the shards of `sources`, joining neighbours."""
    for source in sources:
        if count <= 0:
            return
        if start >= source.length:
            start -= source.length
            continue
        taken = min(count, source.length - start)
        first = source.start + start
        if parts and parts[-1].buffer is source.buffer and parts[-1].start + parts[-1].length == first:
            parts[-1] = Part(source.buffer, parts[-1].start, parts[-1].length + taken)
        else:
            parts.append(Part(source.buffer, first, taken))
        count -= taken
        start = 0


def view_of(identifier: GlobalId, parts: tuple[Part, ...]) -> View:
    """A name for parts of buffers with placements."""
    first = parts[0].buffer
    assert first.placement is not None
    if len(parts) == 1 and parts[0].length == len(first.placement.positions):
        return View(identifier, first.placement, parts, first)
    island = first.placement.island
    positions: list[int] = []
    owners: list[int] = []
    for part in parts:
        placement = part.buffer.placement
        assert placement is not None
        if placement.island is not island:
            return View(identifier, None, parts, None)  # spans islands: can be read shard by shard, not run on
        positions.extend(placement.positions[part.start : part.start + part.length])
        owners.extend(owners_of(placement)[part.start : part.start + part.length])
    if len(set(positions)) != len(positions):
        return View(identifier, None, parts, None)
    return View(identifier, intern(island, tuple(positions), joined_owners(owners)), parts, None)


def on_released(state: State, event: Released, session: Session) -> None:
    for identifier in event.views:
        drop_handle(state, session, identifier)


def no_room(state: State, session: Session, first_result_id: GlobalId, result_count: int) -> Failure | None:
    """Why a session cannot ask for work with so many results under these ids; None if it can."""
    if len(session.ungranted) >= state.config.queue_max:
        message = f"{len(session.ungranted)} executions wait, the most allowed; wait for some results first"
        return state.failure(Reason.RESOURCE_EXHAUSTED, message, waiting=len(session.ungranted))
    if len(session.buffers) + result_count > state.config.buffers_max:
        message = f"the session holds {len(session.buffers)} buffers, the most allowed; delete some first"
        return state.failure(Reason.RESOURCE_EXHAUSTED, message, buffers=len(session.buffers))
    for index in range(result_count):
        identifier = first_result_id + index
        if identifier in session.handles or identifier in session.buffers:
            message = f"id {local_id(GlobalId(identifier))} names a buffer already; use a new id"
            return state.failure(Reason.INVALID_ARGUMENT, message)
    return None
