"""`pw.fetch`: arrays of the cluster as NumPy arrays, by the fast way.

On one machine the executors write the bytes into memory of this process; from others they come as streams. Small arrays take
JAX's own way, and so do all others where there is no door beside this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from pathways import _jax, _plugin, errors
from pathways import _jax_nodes as jn
from pathways._bulk_sizes import CALL_MAX, LARGE_BYTES

if TYPE_CHECKING:
    import numpy as np
    from pathways_proto.v1 import door_pb2

    from pathways._bulk import Bulk
    from pathways._segments import Segment


def fetch(tree: Any) -> Any:
    """The same tree with NumPy arrays in place of arrays: `weights = pw.fetch(state)`, then `weights["w"]` is an ndarray.

    Waits until everything is computed and here. Shardings do not matter: every distinct part is read once, and a replicated
    array from one device. What is fetched belongs to the caller and may be written to. Leaves that are NumPy arrays already
    stay as they are; arrays that are not of a cluster, and scalars, are given to NumPy. May be called from several threads.

    Raises what reading with JAX raises of a deleted array, and errors.PathwaysError with the first cause if an array was never
    computed or was lost: errors.SliceLostError, BufferLostError, UserError and so on.
    """
    leaves, rebuild = _jax.flatten(tree)
    results: list[Any] = [None] * len(leaves)
    bulk = _plugin.bulk()
    large = [at for at, leaf in enumerate(leaves) if bulk is not None and _is_large(leaf)]
    rest = sorted(set(range(len(leaves))) - set(large))
    for at in rest:
        if _jax.is_on_cluster(leaves[at]) and not leaves[at].is_deleted():
            _jax.start_read(leaves[at])
    for first in range(0, len(large), CALL_MAX):
        assert bulk is not None
        some = large[first : first + CALL_MAX]
        for at, array in zip(some, _read(bulk, [leaves[at] for at in some]), strict=True):
            results[at] = array
            rest += [at] if array is None else []
    for at in rest:
        results[at] = _plain(leaves[at])
    return rebuild(results)


def _is_large(leaf: Any) -> bool:
    return _jax.is_on_cluster(leaf) and not leaf.is_deleted() and not _jax.is_key(leaf) and leaf.nbytes >= LARGE_BYTES


def _plain(leaf: Any) -> Any:
    """By JAX's own way; a copy of what is no ndarray yet, as JAX keeps its own."""
    import numpy as np

    if isinstance(leaf, np.ndarray):
        return leaf
    try:
        return np.array(leaf)
    except Exception as error:
        typed = _jax.typed_error(error)
        if typed is None:
            raise
        raise typed from error


def _read(bulk: Bulk, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any] | None]:
    """NumPy arrays, or None for each for which there is no memory. Raises errors.PathwaysError."""
    from pathways_common.rpc.convert import failure_from_proto

    results: list[np.ndarray[Any, Any] | None] = [None] * len(arrays)
    segments = {at: segment for at, array in enumerate(arrays) if (segment := bulk.take(array.nbytes)) is not None}
    try:
        if segments:
            with bulk.call() as call:
                order = _execute(call.number, arrays, list(segments))
                for position, at in enumerate(order):
                    call.bring(position, segments[at].descriptor, arrays[at].nbytes)
                for answer in call.answers():
                    if answer.HasField("failure"):
                        raise errors.from_failure(failure_from_proto(answer.failure))
                    at = order[answer.position]
                    results[at] = _array(bulk, arrays[at], segments.pop(at), answer.shards)
    finally:
        # What was not answered well may be written yet: it is not used again.
        for segment in segments.values():
            segment.close()
    return results


def _array(bulk: Bulk, array: Any, segment: Segment, shards: Sequence[door_pb2.BulkShard]) -> np.ndarray[Any, Any]:
    import numpy as np

    from pathways._segments import plain_type

    segment.populate()
    if not shards:
        whole: np.ndarray[Any, Any] = bulk.array(segment, array.nbytes).view(array.dtype)
        return whole.reshape(array.shape)
    size, item = array.dtype.itemsize, plain_type(array.dtype)
    out: np.ndarray[Any, Any] = _fresh(bulk, array.nbytes).view(item).reshape(array.shape)
    parts = np.frombuffer(segment.memory, np.uint8)
    for shard in shards:
        first, shape = int(shard.offset), tuple(shard.shape)
        part = parts[first : first + prod(shape) * size].view(item).reshape(shape)
        out[tuple(slice(start, start + count) for start, count in zip(shard.start, shape, strict=True))] = part
    bulk.give_back(segment)
    return out.view(array.dtype)


def _fresh(bulk: Bulk, size_bytes: int) -> np.ndarray[Any, Any]:
    import numpy as np

    segment = bulk.take(size_bytes)
    if segment is None:
        return np.empty(size_bytes, np.uint8)
    segment.populate()
    return bulk.array(segment, size_bytes)


def _execute(number: int, arrays: Sequence[Any], wanted: Sequence[int]) -> list[int]:
    """Names these of the arrays to the door, behind what this thread dispatched before; gives them in the order of naming."""
    groups: dict[tuple[Any, int], list[int]] = {}
    for at in wanted:
        devices = jn.device_order(arrays[at].sharding)
        groups.setdefault((devices[0].client, len(devices)), []).append(at)
    for (client, shard_count), members in groups.items():
        try:
            _jax.execute_plugin_program(client, f"pathways-fetch {number} {shard_count}", [arrays[at] for at in members])
        except Exception as error:
            raise errors.of(error) from None
    return [at for members in groups.values() for at in members]
