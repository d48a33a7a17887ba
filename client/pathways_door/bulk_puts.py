"""What `pw.put` makes: an array whose bytes the client brings in shared memory, and which workers take from there as it fills.

It exists at once, pending, and leaves with the client's own order. A shard that does not get through poisons the array by itself:
the controller's deadline for the ticket passes.
"""

from __future__ import annotations

import asyncio
import logging

from pathways_common.model.failure import PathwaysError, Reason, fail
from pathways_common.model.sharding import distinct_shards
from pathways_common.process.logs import fields
from pathways_proto.v1 import door_pb2, sessions_pb2

from pathways_door.arrays import make_value
from pathways_door.context import Context
from pathways_door.handles import Form
from pathways_door.near import Memory, NearWorkers, all_of

_LOG = logging.getLogger(__name__)
# Of one shard: where it is wanted, or None if its array was poisoned.
_Grant = asyncio.Future[sessions_pb2.UploadGrant | None]


class PutArray:
    """One array; its distinct shards lie in the segment one behind the other."""

    def __init__(self, context: Context, form: Form, handle: int) -> None:
        self._shard_bytes = form.shard_bytes
        self._uploads = context.uploads
        if form.is_string or not self._shard_bytes:
            raise fail(Reason.UNSUPPORTED, "arrays without bytes, and of strings, are not put through shared memory")
        made = sessions_pb2.ClientOperation()
        made.make_array.spec.CopyFrom(form.to_spec())
        self._grants: list[_Grant] = []
        for _, positions in distinct_shards(form.placement.sharding, form.shape, len(form.placement.devices)):
            piece = made.make_array.pieces.add(shards=positions, size_bytes=self._shard_bytes)
            grant: _Grant = asyncio.get_running_loop().create_future()
            context.uploads.expect(piece, grant)
            self._grants.append(grant)
        value = make_value(context, form)
        made.make_array.buffer_id = value.value_id
        context.upstream.push(made)
        context.arrays.add(handle, form, ((value, 0, value.shard_count),))

    def close(self) -> None:
        """Its array ends by itself; nothing more is to be heard of its bytes."""
        for grant in self._grants:
            if not grant.cancel() and not grant.cancelled() and (granted := grant.result()) is not None:
                self._uploads.forget(granted.upload_id)

    async def carry_out(self, near: NearWorkers, memory: Memory) -> list[door_pb2.BulkShard]:
        """Brings every shard to where it is wanted; returns when the segment is not needed any more."""
        needed = self._shard_bytes * len(self._grants)
        if needed > memory.size_bytes:
            raise fail(Reason.INVALID_ARGUMENT, f"the shards of an array take {needed} bytes; {memory.size_bytes} were brought")
        await all_of(self._shard(near, memory, number) for number in range(len(self._grants)))
        return []

    async def _shard(self, near: NearWorkers, memory: Memory, number: int) -> None:
        grant = await self._grants[number]
        if grant is not None:
            await self._uploads.while_wanted(grant.upload_id, self._write(near, memory, grant, number * self._shard_bytes))

    async def _write(self, near: NearWorkers, memory: Memory, grant: sessions_pb2.UploadGrant, offset: int) -> None:
        for target in grant.targets:
            try:
                await near.write_from(target, self._shard_bytes, memory, offset)
            except PathwaysError as error:
                _LOG.warning("put failed", extra=fields(host=target.host, cause=error.failure.message))
