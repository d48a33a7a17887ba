"""Uploads and the landing of bytes: an array exists at once and is PENDING until all of its bytes are in the executors.

Small pieces ride inline in PlaceArray. Larger ones get one transfer per host and shard that they feed; the door is told
where to push. What is refused or too late poisons the array; the bytes are thrown away by whoever receives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, TransferId

from . import accounts, buffers, copies, follow_on, placing, quotas, reads
from .effects import NO_TRANSFER, CancelTransfer, ExpectUpload, LocalPiece, PlaceArray, UploadGrant, UploadWithdrawn
from .events import ArrayMade, Piece, TransferLanded
from .placements import bind, device_memory, resolve
from .read_records import Copy
from .records import Buffer, HeldArray, Host, Placement, Session, ShardPlace, Transfer, Upload
from .state import State
from .transitions import BufferState, IslandState


def on_array_made(state: State, event: ArrayMade, session: Session) -> None:
    if refused := buffers.refusal(state, session, event.buffer_id):
        _withdraw_all(state, session, event.pieces, refused)
        return
    placement = resolve(state, session, event.spec.devices, "the array")
    if isinstance(placement, Failure):
        _refuse(state, session, event, placement)
        return
    if failure := _defect(state, session, event, placement):
        _refuse(state, session, event, failure)
        return
    buffer = buffers.make(session, event.buffer_id, placement, event.spec.shard_bytes, BufferState.PENDING)
    buffer.spec = event.spec
    buffer.pending = 1  # the placement itself
    for piece in event.pieces:
        if piece.inline is None:
            session.uploads[piece.upload_id] = Upload(session, piece.upload_id, buffer, 0)
    place_or_hold(state, buffer, event.spec, event.pieces)


def _refuse(state: State, session: Session, event: ArrayMade, failure: Failure) -> None:
    buffers.make_poisoned(session, event.buffer_id, failure)
    _withdraw_all(state, session, event.pieces, failure)


def _withdraw_all(state: State, session: Session, pieces: tuple[Piece, ...], failure: Failure) -> None:
    for piece in pieces:
        if piece.inline is None:
            state.reply(session, UploadWithdrawn(piece.upload_id, failure))


def _defect(state: State, session: Session, event: ArrayMade, placement: Placement) -> Failure | None:
    """What is wrong with the pieces: every shard is fed once, with the bytes of one shard."""
    fed = sorted(shard for piece in event.pieces for shard in piece.shards)
    count = len(placement.positions)
    if fed != list(range(count)):
        message = f"the pieces feed shards {_some(fed)} of an array of {count} shards; feed every shard exactly once"
        return state.failure(Reason.INVALID_ARGUMENT, message, shards=count)
    expected = event.spec.shard_bytes
    for piece in event.pieces:
        size = piece.size_bytes if piece.inline is None else len(piece.inline)
        if size != expected:
            message = f"a piece holds {size} bytes; one shard of this array takes {expected}"
            return state.failure(Reason.INVALID_ARGUMENT, message, piece_bytes=size, shard_bytes=expected)
        if piece.inline is None and piece.upload_id in session.uploads:
            return state.failure(Reason.INVALID_ARGUMENT, f"upload {piece.upload_id} is under way already; use a new number")
    if message := state.transferring.refusal(session.number, session.tenant.name, "transfers", count):
        return state.failure(Reason.RESOURCE_EXHAUSTED, message, transfers=len(state.transfers))
    return None


def _some(shards: list[int]) -> str:
    return ", ".join(map(str, shards[:8])) + (", ..." if len(shards) > 8 else "")


def place_or_hold(
    state: State,
    buffer: Buffer,
    spec: ArraySpec,
    pieces: tuple[Piece, ...],
    known: HeldArray | None = None,
    asked: int | None = None,
) -> None:
    """Sends the array to its hosts, or keeps it for an island that is forming or for room in its tenant's quota.

    `known`: it was kept before. `asked`: 0 if it is the core's own; without it, the client makes it now.
    """
    placement = buffer.placement
    assert placement is not None
    island, tenant = placement.island, buffer.session.tenant
    inline_bytes = sum(len(piece.inline) for piece in pieces if piece.inline is not None)
    held = known or HeldArray(buffer, spec, pieces, inline_bytes, 0, buffer.session.order if asked is None else asked)
    if island.state is not IslandState.ACTIVE:
        quotas.leave(state, held, tenant)
        held.deadline_ns = state.now_ns + state.config.island_wait_ns
        if _keep(state, held, f"island {island.name} is forming", "until it is ACTIVE"):
            island.held.append(held)
        return
    found: Failure | str | None = too_large(state, placement, buffer.shard_bytes) if bind(placement) else None
    if not bind(placement):
        message = f"island {island.name} has fewer hosts than when this session was opened; connect again"
        found = state.failure(Reason.UNAVAILABLE, message, island=island.name)
    found = found or quotas.memory_obstacle(state, held, quotas.missing_bytes(buffer), tenant)
    if isinstance(found, str) and found:
        _keep(state, held, f"{found} is needed", "for room")
        return
    quotas.leave(state, held, tenant)
    if isinstance(found, Failure):
        buffers.poison(state, buffer, found, False)
        return
    quotas.book(buffer)
    if island.memory is None or placing.admitted(state, held):
        place(state, held)


def _keep(state: State, held: HeldArray, why: str, until: str) -> bool:
    """Takes room for its inline bytes; False if there is none, which fails the array."""
    assert held.buffer.placement is not None
    kept, session = held.buffer.placement.island.keeping, held.buffer.session
    if full := kept.refusal(session.number, session.tenant.name, "bytes", held.inline_bytes):
        quotas.leave(state, held, session.tenant)
        message = f"{why} and {kept.total} bytes wait for it; wait {until}: {full}"
        failure = state.failure(Reason.RESOURCE_EXHAUSTED, message, held_bytes=kept.total)
        buffers.poison(state, held.buffer, failure, False)
        return False
    kept.enter(session.number, session.tenant.name, held.inline_bytes)
    return True


def too_large(state: State, placement: Placement, shard_bytes: int) -> Failure | None:
    """One shard that can never fit its device."""
    limit = device_memory(placement)
    if not limit or shard_bytes <= limit:
        return None
    island = placement.island.name
    message = f"one shard takes {shard_bytes} bytes and a device of island {island} has {limit}; use smaller shards"
    return state.failure(Reason.RESOURCE_EXHAUSTED, message, shard_bytes=shard_bytes, device_memory_bytes=limit)


def place(state: State, item: HeldArray) -> None:
    """Tells its hosts to place it, and the door where to push, on an ACTIVE island with room for it."""
    buffer, spec, pieces = item.buffer, item.spec, item.pieces
    placement = buffer.placement
    assert placement is not None
    session = buffer.session
    feeds: list[LocalPiece | None] = [None] * len(placement.shards)
    for piece in pieces:
        upload = session.uploads.get(piece.upload_id) if piece.inline is None else None
        # Once to each host, however many of its devices have the piece.
        targets: dict[HostName, TransferId] = {}
        for shard in piece.shards:
            place = placement.shards[shard]
            if upload is None:
                feeds[shard] = LocalPiece(place.local_device, inline=piece.inline)
                continue
            if place.host.name not in targets:
                transfer = expect(state, buffer, place.host, piece.size_bytes, upload, None)
                upload.remaining += 1
                state.tell(place.host, ExpectUpload(transfer.id, piece.size_bytes, transfer.deadline_ns - state.now_ns))
                targets[place.host.name] = transfer.id
            feeds[shard] = LocalPiece(place.local_device, transfer_id=targets[place.host.name])
        if upload is not None:
            state.reply(session, UploadGrant(piece.upload_id, tuple(targets.items())))
    send_array(state, buffer, placement, spec, feeds)
    arrived(state, buffer)


def expect(
    state: State,
    buffer: Buffer,
    host: Host,
    size_bytes: int,
    upload: Upload | None,
    copy: Copy | None,
    least_ns: int | None = None,
) -> Transfer:
    """Registers bytes that will land on `host`; the deadline grows with the size, from `least_ns` on where that is given.

    A copy's source may be far back in the queue: it is waited for as long as any read.
    """
    config = state.config
    if least_ns is None:
        least_ns = config.upload_ns if copy is None else config.read_ns
    allowed_ns = least_ns + size_bytes * 1_000_000_000 // config.upload_bytes_per_second_min
    transfer = Transfer(TransferId(state.number()), buffer, host, upload, copy, state.now_ns + allowed_ns, state.now_ns)
    state.transfers[transfer.id] = transfer
    state.transferring.enter(buffer.session.number, buffer.session.tenant.name)
    if buffer.transfers is None:
        buffer.transfers = {}
    buffer.transfers[transfer.id] = transfer
    buffer.pending += 1
    return transfer


def send_array(
    state: State,
    buffer: Buffer,
    placement: Placement,
    spec: ArraySpec,
    feeds: list[LocalPiece | None],
    reports: Mapping[HostName, TransferId] = MappingProxyType({}),
) -> None:
    """One PlaceArray per host, with its own pieces only; hosts in `reports` say when all of them are in their place."""
    per_host: dict[HostName, tuple[Host, list[LocalPiece]]] = {}
    place: ShardPlace
    for place, feed in zip(placement.shards, feeds, strict=True):
        assert feed is not None
        per_host.setdefault(place.host.name, (place.host, []))[1].append(feed)
    placed = replace(spec, devices=placement.positions)
    buffer.epoch = placement.island.epoch
    if placement.island.memory is not None:
        accounts.hold(state, buffer)
    for host, local in per_host.values():
        state.tell(host, PlaceArray(buffer.id, placed, tuple(local), reports.get(host.name, NO_TRANSFER)))


def arrived(state: State, buffer: Buffer) -> None:
    """One of the things a buffer waited for has come."""
    buffer.pending -= 1
    if buffer.pending == 0:
        buffers.present(state, buffer)


def on_transfer_landed(state: State, event: TransferLanded) -> None:
    transfer = state.transfers.get(event.transfer_id)
    if transfer is None or transfer.host.name != event.host:
        state.ignore(event, "no such transfer")
        return
    buffer = transfer.buffer
    if event.failure is not None:
        if not follow_on.defer(state, transfer, event.failure):
            lost(state, transfer, event.failure)
        return
    _forget(state, transfer)
    if transfer.upload is not None:
        transfer.upload.remaining -= 1
        if not transfer.upload.remaining:
            buffer.session.uploads.pop(transfer.upload.upload_id, None)
    if transfer.copy is not None:
        copies.landed(state, transfer.copy)
    arrived(state, buffer)


def lost(state: State, transfer: Transfer, failure: Failure) -> None:
    """The bytes will never come; a copy's source knows the first cause if there is one."""
    if transfer.copy is not None:
        reads.fail(state, transfer.copy, next((b.failure for b in transfer.copy.buffers if b.failure), failure))
        return
    buffers.poison(state, transfer.buffer, failure, tell_hosts=False)


def _forget(state: State, transfer: Transfer) -> None:
    if state.transfers.pop(transfer.id, None) is not None:
        session = transfer.buffer.session
        state.transferring.leave(session.number, session.tenant.name)
    if transfer.buffer.transfers is not None:
        transfer.buffer.transfers.pop(transfer.id, None)


def withdraw(state: State, buffer: Buffer, failure: Failure) -> None:
    """Takes back whatever is on its way to a buffer that will not have a value."""
    by_host: dict[HostName, list[TransferId]] = {}
    for transfer in list((buffer.transfers or {}).values()):
        _forget(state, transfer)
        if state.hosts.get(transfer.host.name) is transfer.host and transfer.host.island.epoch == buffer.epoch:
            by_host.setdefault(transfer.host.name, []).append(transfer.id)
    for name, ids in by_host.items():
        state.tell(state.hosts[name], CancelTransfer(tuple(ids)))
    if buffer.session.uploads:
        for upload in [upload for upload in buffer.session.uploads.values() if upload.buffer is buffer]:
            del buffer.session.uploads[upload.upload_id]
            state.reply(buffer.session, UploadWithdrawn(upload.upload_id, failure))
    quotas.forget(state, buffer)
    if buffer.maker is not None:
        maker = buffer.maker
        reads.finish(state, maker)
        copies.end(state, maker)


def forget_inline(held: HeldArray) -> None:
    """Gives back the room of an array that was kept for an island."""
    placement = held.buffer.placement
    assert placement is not None
    session = held.buffer.session
    placement.island.keeping.leave(session.number, session.tenant.name, held.inline_bytes)


def expire(state: State) -> None:
    """Poisons what waits for bytes that did not come in time."""
    for transfer in [transfer for transfer in state.transfers.values() if transfer.deadline_ns <= state.now_ns]:
        if transfer.id not in state.transfers:
            continue
        lost(state, transfer, _late(state, transfer))


def _late(state: State, transfer: Transfer) -> Failure:
    what = "upload" if transfer.upload is not None else "copy" if transfer.copy is not None else "result of colocated Python"
    article = "an" if transfer.upload is not None else "a"
    others = transfer.buffer.transfers or {}
    names = sorted({each.host.name for each in others.values() if each.deadline_ns <= state.now_ns} | {transfer.host.name})
    hosts = f"host{'s' if len(names) > 1 else ''} {', '.join(names)}"
    message = f"the bytes of {article} {what} did not reach {hosts} in time; make the array again"
    if transfer.upload is None and transfer.copy is None:
        message = f"{hosts} did not say in time what colocated Python returned; call it again"
    return state.failure(Reason.TIMED_OUT, message, host=transfer.host.name, retryable=True, transfer=what, hosts=",".join(names))
