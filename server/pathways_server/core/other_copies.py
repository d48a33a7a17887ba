"""A shard that also lies on other islands: when its island is lost, reads and copies of it take another.

A client says so when it makes the view: its one shard, and shards elsewhere that hold the same. All of them are held as long as
the view. Nothing is moved: work on devices still needs the copy that lies there, and a copy to its devices makes it anew.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason

from . import buffers, reads
from .read_records import Fetch
from .records import Buffer, Handle, Part, View
from .state import State

_LOST = (Reason.SLICE_LOST, Reason.BUFFER_LOST, Reason.UNAVAILABLE)


def kept(first: Part, others: list[Part]) -> tuple[Part, ...]:
    """One shard for each further island: what lies beside another is lost with it."""
    found: dict[str, Part] = {}
    for part in (first, *others):
        assert part.buffer.placement is not None
        found.setdefault(part.buffer.placement.island.name, part)
    return tuple(part for part in found.values() if part is not first)


def standing_for(handle: Handle) -> Handle:
    """What is read in place of a handle: itself, or a copy if what it names is lost and a copy is not."""
    if isinstance(handle, View) and handle.copies and _is_lost(handle.parts[0].buffer):
        for part in handle.copies:
            if buffers.defect(part.buffer) is None:
                return View(handle.id, None, (part,), None)
    return handle


def others_of(handle: Handle, taken: Part) -> tuple[Part, ...]:
    """Where a read that takes this part may go if it is lost meanwhile."""
    return tuple(part for part in handle.copies if part.buffer is not taken.buffer) if isinstance(handle, View) else ()


def elsewhere(state: State, fetch: Fetch, failure: Failure) -> Fetch | None:
    """The read of another copy with which one that fails for this reason goes on; a ticket that is out cannot be changed."""
    if failure.reason not in _LOST or fetch.number in state.pulls or fetch.number not in state.readers:
        return None
    left = [part for part in fetch.others if buffers.defect(part.buffer) is None]
    if not left:
        return None
    part, *others = left
    size = max(fetch.size_bytes, part.buffer.shard_bytes)
    deadline = state.now_ns + state.config.read_ns
    number, session, rest = state.number(), fetch.session, tuple(others)
    again = Fetch(number, session, fetch.fetch_id, (part.buffer,), part.start, size, deadline, others=rest, held=fetch.held)
    reads.register(state, again)
    return again


def _is_lost(buffer: Buffer) -> bool:
    return buffer.ended is None and buffer.failure is not None and buffer.failure.reason in _LOST
