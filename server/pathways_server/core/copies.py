"""Copies: shard i of the source goes to shard i of the result, on the same host, another host or another island.

A copy waits in the core until its source is present and its destination ACTIVE. Shards on the same host are copied
there; others are pulled by the destination from the source under a single-use ticket. Bulk bytes never pass the core.
"""

from __future__ import annotations

from dataclasses import replace

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import FetchId, GlobalId, local_id

from . import buffers, fences, reads, transfers
from .effects import FetchShard, LocalPiece, LocalShard, PullShard
from .events import CopyRequested
from .placements import bind, resolve
from .records import Copy, Part, Placement, Session, ShardPlace
from .state import State
from .transitions import BufferState, IslandState


def on_copy_requested(state: State, event: CopyRequested, session: Session) -> None:
    """Results exist at once; a copy that cannot be made makes a poisoned one."""
    if not len(event.result_ids) == len(event.views) == len(event.specs):
        failure = state.failure(Reason.INVALID_ARGUMENT, "a copy needs as many results and specs as arrays")
        for identifier in event.result_ids:
            if buffers.refusal(state, session, identifier) is None:
                buffers.make_poisoned(session, identifier, failure)
        return
    for result_id, view_id, spec in zip(event.result_ids, event.views, event.specs, strict=True):
        _request(state, session, result_id, view_id, spec)


def _request(state: State, session: Session, result_id: GlobalId, view_id: GlobalId, spec: ArraySpec) -> None:
    if refused := buffers.refusal(state, session, result_id):
        state.log("copy ignored", session=session.number, reason=refused.message)
        return
    handle = session.handles.get(view_id)
    failure = buffers.unknown(state, view_id) if handle is None else buffers.defect(handle)
    failure = failure or reads.full(state, session)
    placement = resolve(state, session, spec.devices, "the copy")
    if failure is not None or handle is None or isinstance(placement, Failure):
        cause = failure if failure is not None else placement
        assert isinstance(cause, Failure)
        buffers.make_poisoned(session, result_id, cause)
        return
    parts = buffers.parts_of(handle)
    count = sum(part.length for part in parts)
    if count != len(placement.positions):
        named = len(placement.positions)
        message = f"array {local_id(view_id)} has {count} shards and the copy names {named} devices; name as many"
        buffers.make_poisoned(session, result_id, state.failure(Reason.INVALID_ARGUMENT, message, shards=count))
        return
    _enter(state, session, result_id, parts, placement, spec)


def _enter(
    state: State, session: Session, result_id: GlobalId, parts: tuple[Part, ...], placement: Placement, spec: ArraySpec
) -> None:
    size = max([spec.shard_bytes, *(part.buffer.shard_bytes for part in parts)])
    result = buffers.make(session, result_id, placement, size, BufferState.PENDING)
    result.pending = 1  # the start of the copy
    distinct = tuple({part.buffer.id: part.buffer for part in parts}.values())
    deadline = state.now_ns + state.config.read_ns
    copy = Copy(state.number(), session, distinct, parts, result, spec, deadline, fences.enter(session))
    result.maker = copy
    reads.register(state, copy)
    try_copy(state, copy)


def try_copy(state: State, copy: Copy) -> None:
    """Starts a copy whose source is present and whose destination is ACTIVE; else it stays registered where it waits."""
    if copy.sent or copy.number not in state.readers or reads.unready(state, copy) or reads.in_doubt(copy):
        return
    placement = copy.result.placement
    assert placement is not None
    island = placement.island
    if island.state is not IslandState.ACTIVE:
        copy.held_until_ns = state.now_ns + state.config.island_wait_ns
        island.held.append(copy)
        return
    if not bind(placement):
        message = f"island {island.name} has fewer hosts than when this session was opened; connect again"
        reads.fail(state, copy, state.failure(Reason.UNAVAILABLE, message, island=island.name))
        return
    if failure := transfers.too_large(state, placement, copy.result.shard_bytes):
        reads.fail(state, copy, failure)
        return
    _start(state, copy, placement)


def _sources(copy: Copy) -> list[tuple[GlobalId, ShardPlace]]:
    """Every source shard in view order: the buffer's id and where the shard lives."""
    found: list[tuple[GlobalId, ShardPlace]] = []
    for part in copy.parts:
        placement = part.buffer.placement
        assert placement is not None
        assert bind(placement), "a present buffer lives on an ACTIVE island"
        found.extend((part.buffer.id, place) for place in placement.shards[part.start : part.start + part.length])
    return found


def _start(state: State, copy: Copy, placement: Placement) -> None:
    result = copy.result
    feeds: list[LocalPiece | None] = []
    pulls: list[tuple[ShardPlace, PullShard]] = []
    for (source_id, source), place in zip(_sources(copy), placement.shards, strict=True):
        shard = LocalShard(source_id, source.local_index)
        if source.host is place.host:
            feeds.append(LocalPiece(place.local_device, local=shard))
            continue
        fetch_id = FetchId(state.number())
        state.source_fetches[fetch_id] = copy
        copy.fetches.append(fetch_id)
        transfer = transfers.expect(state, result, place.host, result.shard_bytes, None, copy)
        timeout = transfer.deadline_ns - state.now_ns
        state.tell(source.host, FetchShard(fetch_id, shard, True, state.config.pull_ns))
        pulls.append((place, PullShard(transfer.id, source.host.name, fetch_id, result.shard_bytes, timeout)))
        feeds.append(LocalPiece(place.local_device, transfer_id=transfer.id))
    copy.remaining = len(pulls)
    transfers.send_array(state, result, placement, replace(copy.spec, devices=placement.positions), feeds)
    for place, pull in pulls:
        state.tell(place.host, pull)
    reads.mark_sent(state, copy)
    fences.leave(state, copy.session, copy.order)
    if not pulls:
        reads.finish(state, copy)
        end(state, copy)
    transfers.arrived(state, result)


def landed(state: State, copy: Copy) -> None:
    """One shard has arrived; after the last one the source is no longer read."""
    copy.remaining -= 1
    if copy.remaining == 0:
        reads.finish(state, copy)
        end(state, copy)


def end(state: State, copy: Copy) -> None:
    """Forgets the tickets of a copy that has ended, well or not."""
    for fetch_id in copy.fetches:
        state.source_fetches.pop(fetch_id, None)
    copy.fetches.clear()
    copy.result.maker = None
    fences.leave(state, copy.session, copy.order)
