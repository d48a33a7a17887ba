"""Arrays in TensorStore: a host writes its shards as chunks of one `zarr` array per name, or reads what its shards are made of.

The directory is the same for all hosts, and whoever comes first makes the array. TensorStore is loaded at the first call and need
not be installed otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from pathways_common.model.failure import PathwaysError, Reason, fail

from pathways_worker.executor.element_types import DTYPES

Slices = tuple[slice, ...]


class StorageFunction:
    """One host's part of a request; called like a user's function."""

    def __init__(self, program: Any) -> None:
        self.name = str(program.name)
        self._storage = program.storage
        self._tensorstore = _tensorstore()

    def call(self, arguments: Sequence[Any], asked_s: float | None = None) -> list[list[bytes]]:
        """Writes the arguments and returns nothing, or returns the shards that it reads. Raises PathwaysError.

        Its time counts from `asked_s`, by `time.monotonic`; by default from now.
        """
        deadline_s = (time.monotonic() if asked_s is None else asked_s) + self._storage.timeout_ns / 1e9
        if self._storage.write:
            under_way = [
                future
                for stored, argument in zip(self._storage.arrays, arguments, strict=True)
                for future in self._write(stored, argument.shards, deadline_s)
            ]
            for path, future in under_way:
                self._wait(future, path, deadline_s)
            return []
        opened = [self._read(stored, deadline_s) for stored in self._storage.arrays]
        return [
            [self._whole(stored, box, part, deadline_s) for box, part in found]
            for stored, found in zip(self._storage.arrays, opened, strict=True)
        ]

    def _write(self, stored: Any, shards: Sequence[bytes], deadline_s: float) -> list[tuple[str, Any]]:
        """Begins to write; the futures, with their path."""
        dtype, shape, part = DTYPES[stored.dtype], tuple(stored.shape), tuple(stored.shard_shape)
        chunks = [max(1, size) for size in part]
        layout = self._tensorstore.ChunkLayout(chunk_shape=chunks)
        options = {"create": True, "open": True, "dtype": dtype, "shape": shape, "chunk_layout": layout}
        array = self._open(stored.path, deadline_s, {"store_data_equal_to_fill_value": True}, **options)
        futures: list[tuple[str, Any]] = []
        for shard, data in zip(stored.shards, shards, strict=True):
            into, out = _box(shard.start, shape, part)
            if not shard.skip and len(data) and all(piece.stop > piece.start for piece in into):
                value = np.frombuffer(data, dtype).reshape(part)[out]
                futures.append((stored.path, array[into].write(value).commit))
        return futures

    def _read(self, stored: Any, deadline_s: float) -> list[tuple[Slices, Any]]:
        """Begins to read; for every shard its place in the chunk that it fills, and the future of the values."""
        shape, part = tuple(stored.shape), tuple(stored.shard_shape)
        # Whatever is missing was not written, or not into this directory.
        array = self._open(stored.path, deadline_s, {"fill_missing_data_reads": False}, open=True)
        if tuple(array.shape) != shape or array.dtype.numpy_dtype != DTYPES[stored.dtype]:
            found = f"{array.dtype.name}{list(array.shape)}"
            sentence = f"{stored.path} holds {found}, asked for was {DTYPES[stored.dtype]}{list(shape)}; ask for what it is"
            raise fail(Reason.INVALID_ARGUMENT, sentence, path=stored.path)
        once: dict[tuple[int, ...], tuple[Slices, Any]] = {}
        found_boxes: list[tuple[Slices, Any]] = []
        for shard in stored.shards:
            start = tuple(shard.start)
            if start not in once:
                from_, into = _box(start, shape, part)
                once[start] = (into, array[from_].read())
            found_boxes.append(once[start])
        return found_boxes

    def _whole(self, stored: Any, box: Slices, future: Any, deadline_s: float) -> bytes:
        values = self._wait(future, stored.path, deadline_s)
        whole = np.zeros(tuple(stored.shard_shape), DTYPES[stored.dtype])
        whole[box] = values
        return whole.tobytes()

    def _open(self, path: str, deadline_s: float, more: dict[str, bool], **options: Any) -> Any:
        specification = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{path}/"}, **more}
        try:
            future = self._tensorstore.open(specification, **options)
        except Exception as error:  # of many kinds, and its words are not ours
            raise _refused(path, error) from error
        return self._wait(future, path, deadline_s)

    def _wait(self, future: Any, path: str, deadline_s: float) -> Any:
        try:
            return future.result(timeout=max(0.0, deadline_s - time.monotonic()))
        except TimeoutError:
            allowed_s = self._storage.timeout_ns / 1e9
            sentence = f"{path} was not done within {allowed_s:g} s on this host"
            raise fail(Reason.TIMED_OUT, sentence, path=path, late=self.name) from None
        except Exception as error:  # of many kinds, and its words are not ours
            raise _refused(path, error) from error


def _box(start: Sequence[int], shape: tuple[int, ...], part: tuple[int, ...]) -> tuple[Slices, Slices]:
    """What a shard covers of its array, and where that is in the shard, which may reach past the array's end."""
    ends = [min(first + size, whole) for first, size, whole in zip(start, part, shape, strict=True)]
    within = tuple(slice(0, max(0, end - first)) for first, end in zip(start, ends, strict=True))
    return tuple(slice(first, max(first, end)) for first, end in zip(start, ends, strict=True)), within


def _refused(path: str, error: Exception) -> PathwaysError:
    return fail(Reason.USER_ERROR, f"TensorStore refused {path} on this host: {_first_line(error)}", path=path)


def _first_line(error: Exception) -> str:
    # Behind the sentence stands the whole specification.
    return (str(error).partition(" [tensorstore_spec=")[0].splitlines() or [type(error).__name__])[0][:500]


def _tensorstore() -> Any:
    try:
        import tensorstore
    except ImportError:
        sentence = (
            "arrays are written and read by TensorStore, which is not installed on this host; `pip install tensorstore` there"
        )
        raise fail(Reason.UNSUPPORTED, sentence) from None
    return tensorstore
