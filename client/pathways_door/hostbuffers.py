"""Bytes on their way between the client and arrays, by the client's handle.

A buffer may arrive before or after the request that uses it. What leaves the store towards the cluster is dense and
row-major; what the client reads has the strides it asked for. Sub-byte types travel one byte per element on this side too,
so item sizes are those of `ITEM_BYTES`.

What a client keeps here is bounded where the memory is not its own: a buffer beyond the bound is dropped, and what is made of it
fails with one sentence.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod

import numpy as np
from pathways_common.model.bounds import HOST_BUFFERS_REFUSED_MAX
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail

Data = bytes | bytearray | memoryview
# Times its own size that an array may be spread over by strides, and what is spread as one takes no harm from.
_SPREAD_MAX = 16
_SMALL_BYTES = 4096


# What a buffer, or somebody who waits for one, takes beside its bytes.
_ENTRY_BYTES = 1024


class HeldBytes:
    """Memory that one session's client takes in this process, and how much that may be; 0: as much as it likes."""

    def __init__(self, bytes_max: int = 0) -> None:
        self.bytes_max = bytes_max
        self.now_bytes = 0

    def hold(self, size_bytes: int) -> bool:
        """Whether there was room for so much more, which is then taken."""
        if self.bytes_max and self.now_bytes + size_bytes > self.bytes_max:
            return False
        self.now_bytes += size_bytes
        return True

    def add(self, size_bytes: int) -> None:
        """Takes room for what is here anyway."""
        self.now_bytes += size_bytes

    def let_go(self, size_bytes: int) -> None:
        """Gives room back."""
        self.now_bytes -= size_bytes

    def failure(self) -> Failure:
        """Says that there was none."""
        sentence = (
            f"the door keeps at most {self.bytes_max} bytes of a session that no array has taken yet, and this would be more;"
            " wait for arrays before you send others, or send smaller ones"
        )
        return Failure(Reason.RESOURCE_EXHAUSTED, sentence)


class HostBuffers:
    """The store of one IFRT session."""

    def __init__(self, held: HeldBytes | None = None) -> None:
        self.held = held or HeldBytes()
        self._buffers: dict[int, Data] = {}
        self._waiting: dict[int, Callable[[Data], None]] = {}
        # Handles whose bytes were dropped; who asks for an older one waits for what does not come.
        self._refused: OrderedDict[int, Failure] = OrderedDict()

    def put(self, handle: int, data: Data) -> Failure | None:
        """Bytes have arrived (or were fetched); goes straight to whoever waits for them. Or why they were dropped."""
        consumer = self._waiting.pop(handle, None)
        if consumer is not None:
            self.held.let_go(_ENTRY_BYTES)
            consumer(data)
            return None
        self.delete(handle)
        if not self.held.hold(_ENTRY_BYTES + len(data)):
            return self.refuse(handle)
        self._buffers[handle] = data
        return None

    def refuse(self, handle: int) -> Failure:
        """There was no room for the bytes of this buffer: whoever asks for it is told."""
        failure = self._refused[handle] = self.held.failure()
        if len(self._refused) > HOST_BUFFERS_REFUSED_MAX:
            self._refused.popitem(last=False)
        return failure

    def consume(self, handle: int, consumer: Callable[[Data], None]) -> bool:
        """Gives the bytes to `consumer` now (True) or when they arrive (False). A buffer is consumed once.

        Raises PathwaysError if they were dropped.
        """
        data = self._buffers.pop(handle, None)
        if data is not None:
            self.held.let_go(_ENTRY_BYTES + len(data))
            consumer(data)
            return True
        failure = self._refused.pop(handle, None)
        if failure is None and handle not in self._waiting and not self.held.hold(_ENTRY_BYTES):
            failure = self.held.failure()
        if failure is not None:
            raise PathwaysError(failure)
        self._waiting[handle] = consumer
        return False

    def drop(self, handle: int) -> None:
        """Nobody wants the bytes of a buffer, whether they are here or come later."""
        with suppress(PathwaysError):
            self.consume(handle, _forget)

    def read(self, handle: int) -> Data | None:
        """The bytes of a buffer that stays in the store."""
        return self._buffers.get(handle)

    def delete(self, handle: int) -> None:
        """Forgets a buffer; nothing happens if there is none."""
        data = self._buffers.pop(handle, None)
        if data is not None:
            self.held.let_go(_ENTRY_BYTES + len(data))


def _forget(_data: Data) -> None:
    """The bytes of an array that was refused: read to the end and thrown away."""


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
