"""Bytes on their way between the client and arrays, by the client's handle.

A buffer may arrive before or after the request that uses it. What leaves the store towards the cluster is dense and
row-major; what the client reads has the strides it asked for. Sub-byte types travel one byte per element on this side too,
so item sizes are those of `ITEM_BYTES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from pathways_common.model.failure import Reason, fail

Data = bytes | bytearray | memoryview
# Times its own size that an array may be spread over by strides, and what is spread as one takes no harm from.
_SPREAD_MAX = 16
_SMALL_BYTES = 4096


class HostBuffers:
    """The store of one IFRT session."""

    def __init__(self) -> None:
        self._buffers: dict[int, Data] = {}
        self._waiting: dict[int, Callable[[Data], None]] = {}

    def put(self, handle: int, data: Data) -> None:
        """Bytes have arrived (or were fetched); goes straight to whoever waits for them."""
        consumer = self._waiting.pop(handle, None)
        if consumer is None:
            self._buffers[handle] = data
        else:
            consumer(data)

    def consume(self, handle: int, consumer: Callable[[Data], None]) -> bool:
        """Gives the bytes to `consumer` now (True) or when they arrive (False). A buffer is consumed once."""
        data = self._buffers.pop(handle, None)
        if data is None:
            self._waiting[handle] = consumer
            return False
        consumer(data)
        return True

    def read(self, handle: int) -> Data | None:
        """The bytes of a buffer that stays in the store."""
        return self._buffers.get(handle)

    def delete(self, handle: int) -> None:
        """Forgets a buffer; nothing happens if there is none."""
        self._buffers.pop(handle, None)


def dense_strides(shape: Sequence[int], item_bytes: int) -> tuple[int, ...]:
    """Row-major byte strides."""
    strides = []
    step = item_bytes
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def is_dense(shape: Sequence[int], item_bytes: int, strides: Sequence[int] | None) -> bool:
    """Whether strided bytes are the row-major ones already; strides of dimensions of size 1 mean nothing."""
    if strides is None or prod(shape) <= 1:
        return True
    wanted = dense_strides(shape, item_bytes)
    return all(size == 1 or have == want for size, have, want in zip(shape, strides, wanted, strict=True))


def to_dense(data: Data, shape: Sequence[int], item_bytes: int, strides: Sequence[int] | None) -> Data:
    """Row-major bytes of an array that arrived as the minimal byte range of a strided view (strides >= 0)."""
    size_bytes = prod(shape) * item_bytes
    if strides is not None and len(strides) != len(shape):
        raise fail(Reason.INVALID_ARGUMENT, f"{len(strides)} byte strides do not fit an array of rank {len(shape)}")
    if is_dense(shape, item_bytes, strides):
        if len(data) < size_bytes:
            raise fail(Reason.INVALID_ARGUMENT, f"a host buffer holds {len(data)} bytes; the array needs {size_bytes}")
        return data if len(data) == size_bytes else memoryview(data)[:size_bytes]
    assert strides is not None
    try:
        view = np.ndarray((*shape, item_bytes), np.uint8, data, strides=(*strides, 1))
    except (ValueError, TypeError) as error:
        raise fail(
            Reason.INVALID_ARGUMENT, f"byte strides {tuple(strides)} reach outside a host buffer of {len(data)} bytes"
        ) from error
    return view.tobytes()


def to_strided(data: Data, shape: Sequence[int], item_bytes: int, strides: Sequence[int] | None) -> Data:
    """The minimal byte range in which row-major `data` lies with these strides (>= 0)."""
    if is_dense(shape, item_bytes, strides):
        return data
    assert strides is not None
    if len(strides) != len(shape) or any(stride < 0 for stride in strides):
        raise fail(Reason.INVALID_ARGUMENT, f"byte strides {tuple(strides)} do not fit an array of rank {len(shape)}")
    extent = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + item_bytes
    if extent > _SPREAD_MAX * max(len(data), _SMALL_BYTES):
        sentence = f"byte strides {tuple(strides)} spread {len(data)} bytes over {extent}; ask for them closer together"
        raise fail(Reason.INVALID_ARGUMENT, sentence)
    out = bytearray(extent)
    view = np.ndarray((*shape, item_bytes), np.uint8, out, strides=(*strides, 1))
    view[...] = np.frombuffer(data, np.uint8).reshape(*shape, item_bytes)
    return out


def cut(data: Data, shape: Sequence[int], item_bytes: int, slices: Sequence[tuple[int, int]]) -> Data:
    """Row-major bytes of a part of a row-major array; the whole array is not copied."""
    if all((start, stop) == (0, size) for (start, stop), size in zip(slices, shape, strict=True)):
        return data
    whole = np.frombuffer(data, np.uint8).reshape(*shape, item_bytes)
    return whole[tuple(slice(start, stop) for start, stop in slices)].tobytes()
