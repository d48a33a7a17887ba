"""Arrays that reach over a lost host and have an equal shard on a survivor for each that went: one of each kind is kept, under
an id of the core's, and the array itself is made of that again, by an ordinary copy.

Until then the array is PENDING, as any result of a copy is, and whoever needs it waits. What is kept goes when the copy was sent.
"""

from __future__ import annotations

from pathways_common.model.failure import PathwaysError
from pathways_common.model.ids import moved_by_core
from pathways_common.model.sharding import equal_shards

from . import buffers, fences, quotas, reads
from .placements import bind_to_members, intern, joined_owners, owners_of, slices_of
from .read_records import Copy
from .records import Buffer, Host, Part, ShardPlace
from .state import State
from .transitions import BufferState, IslandState


def sources(buffer: Buffer, survivors: list[bool]) -> list[int] | None:
    """For each shard the one that is kept and holds the same; None if one has none. On few hosts: each of them has to stay."""
    spec, placement = buffer.spec, buffer.placement
    if spec is None or placement is None or spec.shard_bytes != buffer.shard_bytes:
        return None
    try:
        tiles = equal_shards(spec.sharding, spec.shape, spec.shard_shape, len(placement.positions))
    except PathwaysError:
        return None
    holders: dict[Host, dict[int, int]] = {}
    for index, (tile, lives) in enumerate(zip(tiles, survivors, strict=True) if tiles else ()):
        if lives:
            holders.setdefault(placement.shards[index].host, {}).setdefault(tile, index)
    missing = set(tiles or ())
    chosen: dict[int, int] = {}
    while missing:
        best = max(holders.values(), key=lambda held: len(missing.intersection(held)), default={})
        if not missing.intersection(best):
            return None
        chosen.update((tile, index) for tile, index in best.items() if tile in missing)
        missing.difference_update(best)
    return [chosen[tile] for tile in tiles] if tiles else None


def split(state: State, buffer: Buffer, gone: list[Host]) -> tuple[Buffer, list[ShardPlace]] | None:
    """What is kept in place of an array with a part on members that are gone, and which of its shards that is.

    None if a shard or room is missing.
    """
    placement, session = buffer.placement, buffer.session
    assert placement is not None
    survivors = [place.host not in gone and state.hosts.get(place.host.name) is place.host for place in placement.shards]
    found = sources(buffer, survivors)
    if found is None or buffer.ended is not None or reads.full(state, session) is not None:
        return None
    left = sorted(set(found))
    limit = session.tenant.declared.memory_bytes_max
    if limit and session.tenant.held_bytes + buffer.shard_bytes * len(left) > limit:
        return None
    owners = owners_of(placement)
    positions = tuple(placement.positions[index] for index in left)
    smaller = intern(placement.island, positions, joined_owners([owners[index] for index in left]))
    bound = bind_to_members(smaller)
    assert bound, "its devices are some of the array's"
    identifier = moved_by_core(session.number, session.values)
    session.values += 1
    kept = buffers.make(session, identifier, smaller, buffer.shard_bytes, BufferState.PRESENT)
    kept.spec = buffer.spec
    _make_again(state, buffer, kept, [left.index(index) for index in found])
    buffers.drop_handle(state, session, identifier)
    return kept, [placement.shards[index] for index in left]


def _make_again(state: State, buffer: Buffer, kept: Buffer, found: list[int]) -> None:
    """The array waits for a copy of what is kept of it, which waits for its place in a store and for the island."""
    session, spec = buffer.session, buffer.spec
    assert spec is not None
    state.move(buffer, BufferState.PENDING)
    buffer.epoch = buffer.sequence = buffer.charged = 0
    buffer.pending = 1  # the start of the copy
    quotas.book(buffer)
    order = fences.enter(session, slices_of([buffer.placement]))
    parts = tuple(Part(kept, index, 1) for index in found)
    deadline = state.now_ns + state.config.read_ns
    copy = Copy(state.number(), session, (kept,), parts, buffer, spec, deadline, order, asked=0)
    buffer.maker = copy
    reads.register(state, copy)
    buffers.wait_for(kept, copy)


def subject_of(buffer: Buffer) -> Buffer:
    """The array of which this is what was kept; itself if it is one."""
    if buffer.handles:
        return buffer
    return next((reader.result for reader in (buffer.readers or {}).values() if isinstance(reader, Copy)), buffer)


def waits_for_its_island(copy: Copy) -> bool:
    """Whether it makes an array again of what is kept of it and nobody can say when; what is kept whole waits as long."""
    return any(
        not kept.handles and kept.state is BufferState.SPILLED and kept.placement is not None
        and kept.placement.island.state is not IslandState.ACTIVE
        for kept in copy.buffers
    )  # fmt: skip
