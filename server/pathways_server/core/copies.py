"""The mover: shards of the source, or boxes of them, go to the result, on the same host, another host or another island.

A copy waits in the core until its source is present and its destination ACTIVE. What is on the same host is copied there;
the rest is pulled by the destination from the source under single-use tickets, once per host even if several devices want
it. Bulk bytes never pass the core. A plain copy takes shard i to shard i; what a reshard takes is planned in reshard_plan.py.
"""

from __future__ import annotations

from dataclasses import replace

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import FetchId, GlobalId, HostName, TransferId, local_id
from pathways_common.model.sharding import Layout

from . import buffers, fences, other_copies, placing, quotas, reads, transfers
from .effects import FetchShard, LocalBox, LocalPiece, LocalShard, PullShard
from .events import CopyRequested
from .placements import bind, resolve, slices_of
from .read_records import Copy
from .records import Handle, Host, Placement, Session, ShardPlace
from .reshard_plan import Move, moves_of
from .state import State
from .transitions import BufferState, IslandState


def on_copy_requested(state: State, event: CopyRequested, session: Session) -> None:
    """Results exist at once; a copy that cannot be made makes a poisoned one."""
    if not len(event.result_ids) == len(event.views) == len(event.specs):
        failure = state.failure(Reason.INVALID_ARGUMENT, "a copy needs as many results and specs as arrays")
        buffers.make_all_poisoned(state, session, event.result_ids, failure)
        return
    for result_id, view_id, spec in zip(event.result_ids, event.views, event.specs, strict=True):
        request(state, session, result_id, view_id, spec)


def request(
    state: State,
    session: Session,
    result_id: GlobalId,
    view_id: GlobalId,
    spec: ArraySpec,
    layouts: tuple[Layout, Layout] | None = None,
) -> None:
    """Makes one result and starts or registers its copy."""
    if refused := buffers.refusal(state, session, result_id):
        state.log("copy ignored", session=session.number, reason=refused.message)
        return
    named = session.handles.get(view_id)
    handle = named if named is None else other_copies.standing_for(named)
    failure = buffers.unknown(state, view_id) if handle is None else buffers.defect(handle)
    failure = failure or reads.full(state, session)
    placement = resolve(state, session, spec.devices, "the copy")
    if failure is not None or handle is None or isinstance(placement, Failure):
        cause = failure if failure is not None else placement
        assert isinstance(cause, Failure)
        buffers.make_poisoned(session, result_id, cause)
        return
    begin(state, session, result_id, handle, spec, placement, layouts)


def begin(
    state: State,
    session: Session,
    result_id: GlobalId,
    handle: Handle,
    spec: ArraySpec,
    placement: Placement,
    layouts: tuple[Layout, Layout] | None,
    asked: int | None = None,
) -> None:
    """Makes the result of a copy of something that can be copied. `asked`: as `Copy` says; without it, the client asks now."""
    parts = buffers.parts_of(handle)
    count = sum(part.length for part in parts)
    named = len(placement.positions if layouts is None else layouts[0].order)
    if count != named:
        message = f"array {local_id(handle.id)} has {count} shards and the copy names {named} devices; name as many"
        buffers.make_poisoned(session, result_id, state.failure(Reason.INVALID_ARGUMENT, message, shards=count))
        return
    size = max([spec.shard_bytes, *(part.buffer.shard_bytes for part in parts)]) if layouts is None else spec.shard_bytes
    result = buffers.make(session, result_id, placement, size, BufferState.PENDING)
    result.spec = spec
    result.pending = 1  # the start of the copy
    distinct = tuple({part.buffer.id: part.buffer for part in parts}.values())
    deadline = state.now_ns + state.config.read_ns
    order = fences.enter(session, slices_of([placement, *(buffer.placement for buffer in distinct)]))
    copy = Copy(
        state.number(),
        session,
        distinct,
        parts,
        result,
        spec,
        deadline,
        order,
        order if asked is None else asked,
        layouts=layouts,
    )
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
        quotas.leave(state, copy, copy.session.tenant)
        copy.held_until_ns = state.now_ns + state.config.island_wait_ns
        island.held.append(copy)
        return
    if not bind(placement):
        message = f"island {island.name} has fewer hosts than when this session was opened; connect again"
        reads.fail(state, copy, state.failure(Reason.UNAVAILABLE, message, island=island.name))
        return
    if failure := transfers.too_large(state, placement, copy.result.shard_bytes) or _misstated(state, copy):
        reads.fail(state, copy, failure)
        return
    tenant = copy.session.tenant
    held_up = quotas.memory_obstacle(state, copy, quotas.missing_bytes(copy.result), tenant)
    if isinstance(held_up, Failure):
        reads.fail(state, copy, held_up)
    elif not held_up:
        quotas.leave(state, copy, tenant)
        quotas.book(copy.result)
        if island.memory is None or placing.admitted(state, copy):
            start(state, copy)


def _misstated(state: State, copy: Copy) -> Failure | None:
    """Hosts make room for what a copy says of its source: a client that says more than there is would take their memory."""
    said = copy.spec if copy.layouts is None else replace(copy.spec, shard_shape=copy.layouts[0].shard_shape)
    for part in copy.parts:
        have = part.buffer.shard_bytes
        if have != said.shard_bytes:
            message = f"the copy says that a shard of its source has {said.shard_bytes} bytes and it has {have}; correct its spec"
            return state.failure(Reason.INVALID_ARGUMENT, message, said_bytes=said.shard_bytes, shard_bytes=have)
    return None


def _sources(copy: Copy) -> list[tuple[GlobalId, ShardPlace]]:
    """Every source shard in view order: the buffer's id and where the shard lives."""
    found: list[tuple[GlobalId, ShardPlace]] = []
    for part in copy.parts:
        placement = part.buffer.placement
        assert placement is not None
        assert bind(placement), "a present buffer lives on an ACTIVE island"
        found.extend((part.buffer.id, place) for place in placement.shards[part.start : part.start + part.length])
    return found


class _Sending:
    """The commands of one copy that starts: fetches are sent as they are found, pulls behind the arrays that they fill."""

    def __init__(self, state: State, copy: Copy) -> None:
        self.pulls: list[tuple[Host, PullShard]] = []
        self.reports: dict[HostName, TransferId] = {}
        self._state = state
        self._copy = copy
        self._sources = _sources(copy)
        self._shared: dict[tuple[HostName, int, tuple[int, ...], tuple[int, ...]], TransferId] = {}

    def piece(self, place: ShardPlace, moves: tuple[Move, ...]) -> LocalPiece:
        """How one shard of the result is filled."""
        if len(moves) == 1 and moves[0].whole:
            identifier, source = self._sources[moves[0].source]
            if source.host is not place.host:
                return LocalPiece(place.local_device, transfer_id=self._transfer(place.host, moves[0]))
            if not moves[0].start:
                return LocalPiece(place.local_device, local=LocalShard(identifier, source.local_index))
        return LocalPiece(place.local_device, boxes=tuple(self._box(place.host, move) for move in moves))

    def _box(self, host: Host, move: Move) -> LocalBox:
        identifier, source = self._sources[move.source]
        if source.host is host:
            start = move.start or (0,) * len(move.shape)
            if host.name not in self.reports:
                # Boxes are cut when the source is computed; until then the result must not hold up the host's launches.
                state, copy = self._state, self._copy
                self.reports[host.name] = transfers.expect(state, copy.result, host, copy.result.shard_bytes, None, copy).id
            return LocalBox(move.into, move.shape, local=LocalShard(identifier, source.local_index), local_start=start)
        return LocalBox(move.into, move.shape, transfer_id=self._transfer(host, move))

    def _transfer(self, host: Host, move: Move) -> TransferId:
        """The transfer that brings a move's bytes to a host; the same for every device there."""
        key = (host.name, move.source, move.start, move.limit)
        known = self._shared.get(key)
        if known is not None:
            return known
        state, copy = self._state, self._copy
        identifier, source = self._sources[move.source]
        fetch_id = FetchId(state.number())
        state.source_fetches[fetch_id] = copy
        copy.fetches.append(fetch_id)
        transfer = transfers.expect(state, copy.result, host, move.size_bytes, None, copy)
        shard = LocalShard(identifier, source.local_index)
        copy.session.serving[source.host.name] = source.host
        state.tell(source.host, FetchShard(fetch_id, shard, True, state.config.pull_ns, move.start, move.limit))
        timeout = transfer.deadline_ns - state.now_ns
        self.pulls.append((host, PullShard(transfer.id, source.host.name, fetch_id, move.size_bytes, timeout)))
        self._shared[key] = transfer.id
        return transfer.id


def start(state: State, copy: Copy) -> None:
    """Tells source and destination hosts, with the source present and room at the destination."""
    result = copy.result
    placement = result.placement
    assert placement is not None
    moves = moves_of(copy, [place for _, place in _sources(copy)], placement)
    session = copy.session
    if message := state.transferring.refusal(session.number, session.tenant.name, "transfers", sum(map(len, moves))):
        reads.fail(state, copy, state.failure(Reason.RESOURCE_EXHAUSTED, message, transfers=len(state.transfers)))
        return
    quotas.book(result)
    sending = _Sending(state, copy)
    feeds: list[LocalPiece | None] = [sending.piece(place, wanted) for place, wanted in zip(placement.shards, moves, strict=True)]
    copy.remaining = len(sending.pulls) + len(sending.reports)
    placed = replace(copy.spec, devices=placement.positions)
    transfers.send_array(state, result, placement, placed, feeds, sending.reports)
    for host, pull in sending.pulls:
        state.tell(host, pull)
    reads.mark_sent(state, copy)
    fences.leave(state, copy.session, copy.order)
    if not copy.remaining:
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
    quotas.leave(state, copy, copy.session.tenant)
    fences.leave(state, copy.session, copy.order)
