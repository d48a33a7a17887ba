"""Values of walks: held by those who still need them, moved where a graph wants them, and given to the client as results.

A result is the client's name for bytes that the walk made or was given: hosts place it like a view, and it fails with them.
"""

from __future__ import annotations

from pathways_common.model.ids import GlobalId, made_by_core
from pathways_common.model.sharding import layout_of

from . import buffers, copies, spills
from .effects import LocalShard, PlaceView
from .placements import bind
from .program_form import Laid
from .records import Buffer, Handle, Session, View
from .state import State
from .transitions import BufferState
from .walk_records import Value, Walk


def new_ids(session: Session, count: int) -> GlobalId:
    """The first of some ids that the client does not know."""
    first = made_by_core(session.number, session.values)
    session.values += count
    return first


def hold_argument(handle: Handle) -> None:
    """The client may let go of it or donate it elsewhere; the walk has it to its end."""
    if isinstance(handle, View):
        handle.uses += 1
    for part in buffers.parts_of(handle):
        part.buffer.uses += 1
        part.buffer.held += 1


def release_argument(state: State, handle: Handle) -> None:
    if isinstance(handle, View):
        handle.uses -= 1
        buffers.settle_view(state, handle)
    for part in buffers.parts_of(handle):
        part.buffer.uses -= 1
        part.buffer.held -= 1
        buffers.settle(state, part.buffer)


def take(value: Value) -> Value:
    """One more holder."""
    value.holders += 1
    return value


def give(state: State, value: Value) -> None:
    """One holder less."""
    value.holders -= 1
    if not value.holders and value.made:
        assert isinstance(value.handle, Buffer), "the core makes no views"
        buffers.drop_handle(state, value.handle.session, value.handle.id)


def moved(state: State, walk: Walk, value: Value, wanted: Laid) -> Value:
    """The value as it is wanted, for one more holder: itself, or a copy on its way."""
    if value.laid.number == wanted.number:
        return take(value)
    have, want = value.laid.spec, wanted.spec
    layouts = (
        layout_of(have.sharding, have.shape, len(have.devices)),
        layout_of(want.sharding, want.shape, len(want.devices)),
    )
    session = walk.session
    identifier = new_ids(session, 1)
    copies.begin(state, session, identifier, value.handle, want, wanted.placed.placement, layouts, asked=walk.order)
    return Value(session.buffers[identifier], wanted, made=True)


def publish(state: State, walk: Walk) -> bool:
    """Gives the client the results whose values are there; True if none is missing any more."""
    complete = True
    for value_number, result in zip(walk.composite.bodies[0].results, walk.results, strict=True):
        if result.state is not BufferState.PENDING:
            continue  # there, failed, or released by the client
        value = walk.root.values[value_number]
        if value is None:
            complete = False
            continue
        parts = buffers.parts_of(value.handle)
        failure = next((part.buffer.failure for part in parts if part.buffer.failure is not None), None)
        missing = next((part.buffer for part in parts if part.buffer.state is not BufferState.PRESENT), None)
        if failure is not None:
            buffers.poison(state, result, failure, tell_hosts=False)
        elif missing is not None:
            buffers.wait_for(missing, walk)
            complete = False
            if missing.state is BufferState.SPILLED:
                spills.want(state, missing)
        else:
            _name(state, result, value.handle)
    return complete


def _name(state: State, result: Buffer, handle: Handle) -> None:
    placement = result.placement
    assert placement is not None
    assert bind(placement), "a present buffer lives on an ACTIVE island"
    shards: dict[int, list[LocalShard]] = {}
    for part in buffers.parts_of(handle):
        source = part.buffer.placement
        assert source is not None
        assert bind(source), "a present buffer lives on an ACTIVE island"
        for place in source.shards[part.start : part.start + part.length]:
            shards.setdefault(place.host.rank, []).append(LocalShard(part.buffer.id, place.local_index))
        result.sequence = max(result.sequence, part.buffer.sequence)
    for host in placement.hosts:
        state.tell(host, PlaceView(result.id, tuple(shards[host.rank])))
    result.epoch = placement.island.epoch
    result.pending = 0
    buffers.link(result, handle)
    buffers.present(state, result)
