"""`pw.put`: host data onto devices, by the fast way.

The bytes are copied once, into shared memory, from where the executors of this machine read them as it fills; to others they
go as streams. Small arrays take JAX's own way, and so do all others where there is no door beside this process.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from pathways import _jax, _plugin, errors
from pathways import _jax_nodes as jn
from pathways._bulk_sizes import LARGE_BYTES, calls_of
from pathways._reshard import reshard

if TYPE_CHECKING:
    import numpy as np
    from pathways_proto.v1 import types_pb2

    from pathways._bulk import Bulk
    from pathways._bulk_call import BulkCall
    from pathways._segments import Segment

# Workers begin to read when so much has been copied.
_PART_BYTES = 32 << 20


def put(tree: Any, shardings: Any) -> Any:
    """The arrays of `tree` on devices: `params = pw.put(loaded, sharding)`; one sharding or device for all, or a tree of them.

    A tree of shardings may be a prefix of the tree. NumPy arrays are copied before this returns, so they may be changed at once;
    the results are ordinary arrays, and their bytes are on their way; what is more than a few GiB waits for the bytes
    before it. Arrays of the cluster are moved on the cluster, as by `pw.reshard`; everything else is put as `jax.device_put` puts
    it. May be called from several threads.

    Raises what `jax.device_put` raises of a sharding that does not fit, and errors.PathwaysError if the connection is gone.
    """
    leaves, wanted, rebuild = _jax.flatten_with_prefix(tree, shardings)
    bulk = _plugin.bulk()
    large = [at for at, leaf in enumerate(leaves) if bulk is not None and _is_large(leaf, wanted[at])]
    results: list[Any] = [None] * len(leaves)
    for part in calls_of([leaves[at].nbytes for at in large]):
        assert bulk is not None
        some = [large[number] for number in part]
        made = _put_some(bulk, [_canonical(leaves[at]) for at in some], [wanted[at] for at in some])
        for at, array in zip(some, made, strict=True):
            results[at] = array
    rest = [at for at, result in enumerate(results) if result is None]
    for at, array in zip(rest, reshard([_own(leaves[at]) for at in rest], [wanted[at] for at in rest]), strict=True):
        results[at] = array
    return rebuild(results)


def _is_large(leaf: Any, sharding: Any) -> bool:
    import numpy as np

    # Other kinds of arrays may mean something else by their bytes: of a masked one JAX decides.
    if type(leaf) not in (np.ndarray, np.memmap) or leaf.nbytes < LARGE_BYTES or not leaf.dtype.isnative:
        return False
    return _jax.fits(leaf, sharding)


def _own(leaf: Any) -> Any:
    """A copy of what the caller may change."""
    import numpy as np

    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def _canonical(leaf: Any) -> Any:
    """As JAX would have it: without 64 bits, unless they are enabled."""
    dtype = _jax.canonical_dtype(leaf.dtype)
    return leaf if leaf.dtype == dtype else leaf.astype(dtype)


class _Put(NamedTuple):
    """One array on its way: where it came from among those of the call, and what is brought."""

    at: int
    value: np.ndarray[Any, Any]
    sharding: Any
    spec: types_pb2.ArraySpec
    shards: list[Any]
    segment: Segment


def _put_some(bulk: Bulk, values: Sequence[np.ndarray[Any, Any]], shardings: Sequence[Any]) -> list[Any]:
    """Arrays, or None for those for which there is no memory; the others are put in one call."""
    results: list[Any] = [None] * len(values)
    size_bytes = sum(value.nbytes for value in values)
    if not bulk.begin_put(size_bytes):
        return results
    puts: list[_Put] = []
    call = None
    try:
        for at, (value, sharding) in enumerate(zip(values, shardings, strict=True)):
            if (found := _brought(bulk, at, value, sharding)) is not None:
                puts.append(found)
        if puts:
            call = bulk.call()
            made = _made(call, puts)
            for position, one in enumerate(puts):
                results[one.at] = made[position]
                _fill(call, position, one)
    except BaseException:
        # Others may read from them yet: they are not used again.
        for one in puts:
            one.segment.close()
        if call is not None:
            call.close()
        bulk.end_put(size_bytes)
        raise
    if call is None:
        bulk.end_put(size_bytes)
    else:
        bulk.await_put(call, [one.segment for one in puts], size_bytes)
    return results


def _brought(bulk: Bulk, at: int, value: np.ndarray[Any, Any], sharding: Any) -> _Put | None:
    from pathways_common.model.sharding import distinct_shards

    from pathways._program_message import spec_of

    spec = spec_of(_jax.shape_of(value), sharding)
    shards = [slices for slices, _ in distinct_shards(spec.sharding, tuple(spec.shape), len(spec.devices))]
    segment = bulk.take(len(shards) * prod(spec.shard_shape) * value.dtype.itemsize)
    return None if segment is None else _Put(at, value, sharding, spec, shards, segment)


def _made(call: BulkCall, puts: Sequence[_Put]) -> list[Any]:
    """The arrays, behind what this thread dispatched before."""
    from pathways_proto.v1 import door_pb2

    text = base64.b64encode(door_pb2.PluginPut(specs=[one.spec for one in puts]).SerializeToString()).decode()
    makers = jn.result_makers([_jax.shape_of(one.value) for one in puts], [one.sharding for one in puts])
    try:
        loaded = jn.load_plugin_program(jn.device_order(puts[0].sharding)[0].client, f"pathways-put {call.number} {text}")
        return jn.launch(loaded, [], makers)
    except Exception as error:
        raise errors.of(error) from None


def _fill(call: BulkCall, position: int, put: _Put) -> None:
    """Copies the shards of an array one behind the other, and says so part by part."""
    import numpy as np
    from pathways_common.process.segments import write_at

    from pathways._segments import plain_type

    put.segment.populate()
    item = plain_type(put.value.dtype)
    memory, source, filled = np.frombuffer(put.segment.memory, np.uint8), put.value.view(item), 0
    call.bring(position, put.segment.descriptor, put.segment.size_bytes)
    for slices in put.shards:
        shard = source[tuple(slice(*pair) for pair in slices)]
        rows = max(1, _PART_BYTES * len(shard) // shard.nbytes)
        for first in range(0, len(shard), rows):
            part = shard[first : first + rows]
            start, filled = filled, filled + part.nbytes
            np.copyto(memory[start:filled].view(item).reshape(part.shape), part)
            if put.segment.is_private:
                # Another thread has forked: what we copied since, only we see.
                write_at(put.segment.descriptor, memory[start:filled].data, start)
            call.filled(position, filled)
