"""Arrays and copies that wait for memory: those of a session in the order in which they were asked for, session beside session.

An upload is given its tickets only when there is room for it, so its bytes stay with the door until then; inline bytes are kept
here, within the bound for islands that form. The record takes its memory when its hosts are told to place it.
"""

from __future__ import annotations

from collections import deque

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import local_id

from . import buffers, claims, copies, reads, run_ahead, transfers
from .memory_records import IslandMemory, Need
from .placements import bind
from .read_records import Copy
from .records import Buffer, HeldArray, Host, Island, Placement, Session
from .state import State
from .transitions import BufferState

_Item = HeldArray | Copy


def admitted(state: State, item: _Item) -> bool:
    """Whether a new array or copy goes at once; else it waits here, or has failed."""
    buffer = _result(item)
    placement = buffer.placement
    assert placement is not None
    island = placement.island
    memory = island.memory
    if memory is None:
        return True
    if failure := _never(state, island, item, placement):
        refuse(state, item, failure)
        return False
    queue = memory.placing.get(buffer.session.number)
    first = not queue or item.asked < queue[0].asked
    # What only leaves room for work before it keeps no array waiting.
    ahead = first or (isinstance(item, HeldArray) and queue is not None and claims.is_behind(memory, queue[0]))
    if ahead and _fits(state, island, item, placement):
        return True
    if isinstance(item, HeldArray):
        number, tenant, kept = buffer.session.number, buffer.session.tenant.name, island.keeping
        if full := kept.refusal(number, tenant, "bytes", item.inline_bytes):
            message = f"{kept.total} bytes wait for memory of island {island.name}; {full}"
            refuse(state, item, state.failure(Reason.RESOURCE_EXHAUSTED, message, held_bytes=kept.total))
            return False
        kept.enter(number, tenant, item.inline_bytes)
    queue = memory.placing.setdefault(buffer.session.number, deque())
    if first and queue:
        claims.settle(memory, queue[0])
    # A copy comes here when its sources are computed, which may be later than for some that were asked for after it.
    queue.insert(next((at for at in range(len(queue), 0, -1) if queue[at - 1].asked <= item.asked), 0), item)
    if first:
        _claim(state, island, item, placement)
    return False


def _result(item: _Item) -> Buffer:
    return item.result if isinstance(item, Copy) else item.buffer


def _needs(placement: Placement, buffer: Buffer) -> list[Need]:
    return [Need(place.host, place.local_device, buffer.shard_bytes) for place in placement.shards]


def _what(item: _Item) -> str:
    return f"{'a copy into' if isinstance(item, Copy) else 'array'} {local_id(_result(item).id)}"


def _fits(state: State, island: Island, item: _Item, placement: Placement) -> bool:
    memory, needs = island.memory, _needs(placement, _result(item))
    assert memory is not None
    if not claims.room(memory, needs, item):
        return False
    return isinstance(item, HeldArray) or run_ahead.leaves_room(state, island, memory, item.session, item, needs)


def _claim(state: State, island: Island, item: _Item, placement: Placement) -> None:
    buffer, memory = _result(item), island.memory
    assert memory is not None
    needs = _needs(placement, buffer)
    claims.wait(state, island, buffer.session, item, _what(item), needs)
    claims.set_behind(memory, item, claims.room(memory, needs, item))


def _never(state: State, island: Island, item: _Item, placement: Placement) -> Failure | None:
    buffer = _result(item)
    own: dict[tuple[Host, int], int] = {}
    for source in item.buffers if isinstance(item, Copy) else ():
        if source.placement is not None and source.placement.island is island and not source.origins and bind(source.placement):
            for place in source.placement.shards:
                key = (place.host, place.local_device)
                own[key] = own.get(key, 0) + source.shard_bytes
    return claims.never(state, island, buffer.session, _what(item), _needs(placement, buffer), own)


def waits(state: State, item: _Item) -> bool:
    """Whether it still waits for its place."""
    if isinstance(item, Copy):
        return item.number in state.readers and not item.sent
    return item.buffer.state is BufferState.PENDING and not item.buffer.epoch


def go_all(state: State, island: Island, memory: IslandMemory) -> None:
    """Whoever fits, session by session."""
    for number, queue in list(memory.placing.items()):
        if queue:
            go(state, island, _result(queue[0]).session)
        if not queue:
            memory.placing.pop(number, None)


def go(state: State, island: Island, session: Session) -> None:
    """Places what fits of a session, up to the first that does not."""
    memory = island.memory
    assert memory is not None
    queue = memory.placing.get(session.number)
    while queue:
        item = queue[0]
        if not waits(state, item):
            _take_out(island, memory, queue)
            continue
        placement = _result(item).placement
        assert placement is not None
        if not _fits(state, island, item, placement):
            _claim(state, island, item, placement)
            return
        _take_out(island, memory, queue)
        if isinstance(item, Copy) and any(source.state is not BufferState.PRESENT for source in item.buffers):
            copies.try_copy(state, item)  # an epoch has ended meanwhile, and its source outlives it
        elif isinstance(item, Copy):
            copies.start(state, item)
        else:
            transfers.place(state, item)
    memory.placing.pop(session.number, None)


def _take_out(island: Island, memory: IslandMemory, queue: deque[_Item]) -> None:
    item = queue.popleft()
    claims.settle(memory, item)
    if isinstance(item, HeldArray):
        transfers.forget_inline(item)


def refuse(state: State, item: _Item, failure: Failure) -> None:
    """It will not be placed: its bytes are not wanted, and the array says why."""
    if isinstance(item, Copy):
        reads.fail(state, item, failure)
    else:
        buffers.poison(state, item.buffer, failure, tell_hosts=False)


def on_epoch_ended(state: State, island: Island, memory: IslandMemory) -> None:
    """What waits for room waits for the island now, as long as anything does."""
    until_ns = state.now_ns + state.config.island_wait_ns
    for queue in memory.placing.values():
        for item in queue:
            if not waits(state, item):
                if isinstance(item, HeldArray):
                    transfers.forget_inline(item)
                continue
            if isinstance(item, Copy):
                item.held_until_ns = until_ns
            else:
                item.deadline_ns = until_ns
            island.held.append(item)
    memory.placing.clear()
