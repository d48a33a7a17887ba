"""Reshards: the same array in another layout, on other hosts or islands. Checked here, moved by copies.py.

A donated source ends at once for its user; hosts let go of it behind what was sent to read it.
"""

from __future__ import annotations

from pathways_common.model.array import ITEM_BYTES, ArraySpec
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.model.ids import GlobalId, local_id
from pathways_common.model.sharding import Layout, layout_of

from . import buffers, copies
from .events import ReshardRequested
from .records import Session
from .state import State


def on_reshard_requested(state: State, event: ReshardRequested, session: Session) -> None:
    """Results exist at once; a reshard that cannot be made makes a poisoned one."""
    if not len(event.result_ids) == len(event.views) == len(event.sources) == len(event.destinations):
        failure = state.failure(Reason.INVALID_ARGUMENT, "a reshard needs as many results and specs as arrays")
        for identifier in event.result_ids:
            _poisoned(state, session, identifier, failure)
        return
    for result_id, view_id, source, wanted in zip(event.result_ids, event.views, event.sources, event.destinations, strict=True):
        layouts = _layouts(state, source, wanted)
        if isinstance(layouts, Failure):
            _poisoned(state, session, result_id, layouts)
        else:
            copies.request(state, session, result_id, view_id, wanted, layouts)
    if event.donate:
        for view_id in event.views:
            _donated(state, session, view_id)


def _poisoned(state: State, session: Session, identifier: GlobalId, failure: Failure) -> None:
    if refused := buffers.refusal(state, session, identifier):
        state.log("reshard ignored", session=session.number, reason=refused.message)
        return
    buffers.make_poisoned(session, identifier, failure)


def _donated(state: State, session: Session, view_id: GlobalId) -> None:
    """Ends the buffers that the view covers from end to end; of others, parts live on under other names."""
    handle = session.handles.get(view_id)
    if handle is None:
        return
    covered: dict[GlobalId, int] = {}
    for part in buffers.parts_of(handle):
        covered[part.buffer.id] = covered.get(part.buffer.id, 0) + part.length
    for part in buffers.parts_of(handle):
        buffer = part.buffer
        whole = buffer.placement is not None and covered[buffer.id] == len(buffer.placement.positions)
        if whole and buffer.ended is None:
            number = local_id(view_id)
            message = f"array {number} was donated to a reshard; use the result instead"
            buffer.ended = state.failure(Reason.DELETED, message, array=number)
            buffers.settle(state, buffer)


def _layouts(state: State, source: ArraySpec, wanted: ArraySpec) -> tuple[Layout, Layout] | Failure:
    """How the array lies and shall lie, or why that cannot be."""
    if (source.dtype, source.shape) != (wanted.dtype, wanted.shape):
        message = "a reshard changes neither element type nor shape; give both specs the same"
        return state.failure(Reason.INVALID_ARGUMENT, message)
    if not ITEM_BYTES.get(source.dtype):
        message = f"arrays of element type {source.dtype} have no bytes to move; leave them where they are"
        return state.failure(Reason.UNSUPPORTED, message, dtype=source.dtype)
    found: list[Layout] = []
    for spec in (source, wanted):
        if not spec.devices:
            return state.failure(Reason.INVALID_ARGUMENT, "a spec of the reshard names no devices; give it at least one")
        try:
            layout = layout_of(spec.sharding, spec.shape, len(spec.devices))
        except PathwaysError as error:
            return state.failure(error.failure.reason, error.failure.message)
        if layout.shard_shape != spec.shard_shape:
            message = f"a shard of the reshard is {list(spec.shard_shape)}; its sharding makes it {list(layout.shard_shape)}"
            return state.failure(Reason.INVALID_ARGUMENT, message)
        found.append(layout)
    return found[0], found[1]
