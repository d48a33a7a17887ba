"""`pw.fetch`: arrays of the cluster as NumPy arrays, by the fast way.

On one machine the executors write the bytes into memory of this process; from others they come as streams. Small arrays take JAX's
own way, and so do all others where there is no door beside this process.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any

from pathways import _jax, _plugin, errors
from pathways import _jax_nodes as jn

if TYPE_CHECKING:
    import numpy as np
    from pathways_proto.v1 import door_pb2

    from pathways._segments import Segment, Segments

# Below it the call costs more than the bytes.
LARGE_BYTES = 1 << 20
# Arrays of one call, each with a descriptor that is open meanwhile.
_CALL_MAX = 32


def fetch(tree: Any) -> Any:
    """The same tree with NumPy arrays in place of arrays: `weights = pw.fetch(state)`, then `weights["w"]` is an ndarray.

    Waits until everything is computed and here. Shardings do not matter: every distinct part is read once, and a replicated array
    from one device. What is fetched belongs to the caller and may be written to. Leaves that are NumPy arrays already stay as they
    are; arrays that are not of a cluster, and scalars, are given to NumPy. May be called from several threads.

    Raises what reading with JAX raises of a deleted array, and errors.PathwaysError with the first cause if an array was never
    computed or was lost: errors.SliceLostError, BufferLostError, UserError and so on.
    """
    leaves, rebuild = _jax.flatten(tree)
    results: list[Any] = [None] * len(leaves)
    large = [at for at, leaf in enumerate(leaves) if _is_large(leaf)]
    bulk = _plugin.bulk_reads() if large else None
    rest = sorted(set(range(len(leaves))) - set(large if bulk is not None else ()))
    for at in rest:
        if _jax.is_on_cluster(leaves[at]) and not leaves[at].is_deleted():
            _jax.start_read(leaves[at])
    waiting = iter(large if bulk is not None else ())
    while bulk is not None and (some := list(islice(waiting, _CALL_MAX))):
        for at, array in zip(some, bulk.read([leaves[at] for at in some]), strict=True):
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


class BulkReads:
    """Reads of one connection through shared memory."""

    def __init__(self, bulk_socket: str, secret: str) -> None:
        from pathways._segments import Segments

        self._socket = bulk_socket
        self._secret = secret
        self._segments = Segments()
        # Arrays that came through shared memory.
        self.count = 0
        self._lock = threading.Lock()

    def close(self) -> None:
        """Gives memory back that is not in use."""
        self._segments.close()

    def read(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any] | None]:
        """NumPy arrays, or None for each for which there is no memory. Raises errors.PathwaysError."""
        from pathways_common.rpc.convert import failure_from_proto

        from pathways._bulk_call import BulkCall

        results: list[np.ndarray[Any, Any] | None] = [None] * len(arrays)
        with BulkCall(self._socket, self._secret) as call:
            order = _execute(call.number, arrays)
            brought: dict[int, Segment] = {}
            try:
                for position, at in enumerate(order):
                    try:
                        segment = brought[position] = self._segments.take(arrays[at].nbytes)
                    except OSError:
                        continue
                    call.read(position, segment.descriptor, arrays[at].nbytes)
                for answer in call.answers():
                    if answer.HasField("failure"):
                        raise errors.from_failure(failure_from_proto(answer.failure))
                    at = order[answer.position]
                    results[at] = self._array(arrays[at], brought.pop(answer.position), answer.shards)
            finally:
                # What was not answered well may be written yet: it is not used again.
                for segment in brought.values():
                    segment.close()
        return results

    def _array(self, array: Any, segment: Segment, shards: Sequence[door_pb2.BulkShard]) -> np.ndarray[Any, Any]:
        segment.populate()
        with self._lock:
            self.count += 1
        if not shards:
            whole: Any = self._segments.array(segment, array.nbytes).view(array.dtype)
            return whole.reshape(array.shape)
        import numpy as np

        # Bytes are bytes: a type that NumPy does not know by itself is copied element by element.
        item = np.dtype((np.void, array.dtype.itemsize)) if array.dtype.itemsize not in (1, 2, 4, 8) else f"u{array.dtype.itemsize}"
        out = _fresh(self._segments, array.nbytes).view(item).reshape(array.shape)
        parts: Any = np.frombuffer(segment.memory, np.uint8)
        for shard in shards:
            first = int(shard.offset)
            part = parts[first : first + prod(shard.shape) * array.dtype.itemsize].view(item).reshape(tuple(shard.shape))
            out[tuple(slice(start, start + size) for start, size in zip(shard.start, shard.shape, strict=True))] = part
        del parts, part
        self._segments.give_back(segment)
        return out.view(array.dtype)


def _fresh(segments: Segments, size_bytes: int) -> Any:
    import numpy as np

    try:
        segment = segments.take(size_bytes)
    except OSError:
        return np.empty(size_bytes, np.uint8)
    segment.populate()
    return segments.array(segment, size_bytes)


def _execute(number: int, arrays: Sequence[Any]) -> list[int]:
    """Names the arrays to the door, behind what this thread dispatched before; the position of each among those named."""
    groups: dict[tuple[Any, int], list[int]] = {}
    for at, array in enumerate(arrays):
        devices = jn.device_order(array.sharding)
        groups.setdefault((devices[0].client, len(devices)), []).append(at)
    for (client, shard_count), members in groups.items():
        try:
            _jax.execute_plugin_program(client, f"pathways-fetch {number} {shard_count}", [arrays[at] for at in members])
        except Exception as error:
            raise errors.of(error) from None
    return [at for members in groups.values() for at in members]
