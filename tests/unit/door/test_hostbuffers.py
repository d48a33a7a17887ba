"""Bytes between strided client views and dense shards, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from pathways_common.model.failure import PathwaysError
from pathways_door.hostbuffers import HostBuffers, cut, to_dense, to_strided

DATA = np.arange(24, dtype=np.int32).reshape(4, 6)


def _minimal_range(view: np.ndarray) -> bytes:
    """The bytes from the first to the last element of a view, as the client sends them."""
    offset = view.__array_interface__["data"][0] - DATA.__array_interface__["data"][0]
    extent = sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True)) + view.itemsize
    return DATA.tobytes()[offset : offset + extent]


@pytest.mark.parametrize("view", [DATA[:, 1:3], DATA.T, DATA[::2], DATA[1:, ::3], DATA[:, 5:], DATA[2:3]], ids=range(6))
def test_strided_views_become_row_major_and_back(view: np.ndarray) -> None:
    raw = _minimal_range(view)
    dense = to_dense(raw, view.shape, 4, view.strides)
    assert bytes(dense) == view.tobytes()
    again = np.ndarray(view.shape, np.int32, bytearray(to_strided(dense, view.shape, 4, view.strides)), strides=view.strides)
    np.testing.assert_array_equal(again, view)


def test_column_slice_of_the_facts_arrives_as_80_bytes() -> None:
    assert len(_minimal_range(DATA[:, 1:3])) == 80
    assert DATA[:, 1:3].strides == (24, 4)


def test_scalars_and_sizes_of_one_ignore_strides() -> None:
    assert to_dense(b"abcd", (), 4, ()) == b"abcd"
    assert to_dense(b"abcd", (1, 1), 4, (999, 999)) == b"abcd"


def test_strides_that_reach_outside_are_refused() -> None:
    with pytest.raises(PathwaysError, match="reach outside"):
        to_dense(b"\0" * 16, (4, 4), 1, (8, 1))
    with pytest.raises(PathwaysError, match="the array needs 64"):
        to_dense(b"\0" * 16, (4, 4), 4, None)


def test_parts_are_cut_out() -> None:
    assert cut(DATA.tobytes(), (4, 6), 4, ((1, 3), (2, 4))) == DATA[1:3, 2:4].tobytes()
    whole = DATA.tobytes()
    assert cut(whole, (4, 6), 4, ((0, 4), (0, 6))) is whole


def test_buffers_meet_their_consumer_in_either_order() -> None:
    store = HostBuffers()
    seen: list[bytes] = []
    store.put(1, b"first")
    assert store.consume(1, lambda data: seen.append(bytes(data)))
    assert not store.consume(2, lambda data: seen.append(bytes(data)))
    store.put(2, b"second")
    assert seen == [b"first", b"second"]
    assert store.read(1) is None
    assert store.read(2) is None
    store.put(3, b"kept")
    assert store.read(3) == b"kept"
    store.delete(3)
    assert store.read(3) is None
