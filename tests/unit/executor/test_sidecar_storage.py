"""One host's part of a request for storage, with NumPy in the place of TensorStore: what it writes, reads and refuses."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pathways_common.model.failure import PathwaysError, Reason
from pathways_proto.v1 import colocated_pb2
from pathways_worker.sidecar.storage import StorageFunction

FLOAT, SHORT = 11, 3
VALUES = np.arange(35, dtype=np.float32).reshape(5, 7)


class Done:
    """A future that has its value, or never gets it."""

    def __init__(self, value: Any = None, late: bool = False) -> None:
        self._value, self._late = value, late
        self.commit = self

    def result(self, timeout: float) -> Any:
        if self._late:
            raise TimeoutError
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


class Store:
    """Arrays by path, as zarr keeps them: as large as they are, whatever the chunks."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.chunks: dict[str, list[int]] = {}
        self.written: list[tuple[slice, ...]] = []
        self.late = False

    def ChunkLayout(self, chunk_shape: list[int]) -> list[int]:  # noqa: N802
        return chunk_shape

    def open(self, specification: Any, open: bool, create: bool = False, **options: Any) -> Done:
        assert specification["driver"] == "zarr"
        path = specification["kvstore"]["path"]
        if path not in self.arrays:
            if not create:
                return Done(ValueError("NOT_FOUND: it does not exist [tensorstore_spec='{...}']"))
            self.arrays[path] = np.zeros(options["shape"], options["dtype"])
            self.chunks[path] = options["chunk_layout"]
        return Done(Array(self, self.arrays[path]), self.late)


class Array:
    """What `open` gives."""

    def __init__(self, store: Store, values: np.ndarray) -> None:
        self._store, self._values = store, values
        self.shape = values.shape
        self.dtype = SimpleNamespace(numpy_dtype=values.dtype, name=str(values.dtype))

    def __getitem__(self, box: tuple[slice, ...]) -> Any:
        def write(part: np.ndarray) -> Done:
            self._store.written.append(box)
            self._values[box] = part
            return Done()

        return SimpleNamespace(write=write, read=lambda: Done(self._values[box].copy()))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()
    monkeypatch.setitem(sys.modules, "tensorstore", made)
    return made


def request(write: bool, starts: list[tuple[int, ...]], skip: tuple[int, ...] = (), **changed: Any) -> StorageFunction:
    """Of VALUES in shards of three by four."""
    message = colocated_pb2.ColocatedProgram(name="a request")
    message.storage.write = write
    message.storage.timeout_ns = 5 * 10**9
    what = {"path": "/data/x", "dtype": FLOAT, "shape": [5, 7], "shard_shape": [3, 4]} | changed
    stored = message.storage.arrays.add(**what)
    for position, start in enumerate(starts):
        stored.shards.add(start=start, skip=position in skip)
    return StorageFunction(message)


def shard(row: int, column: int) -> bytes:
    whole = np.full((3, 4), -1, np.float32)  # what lies past the array's end is nobody's
    part = VALUES[row : row + 3, column : column + 4]
    whole[: part.shape[0], : part.shape[1]] = part
    return whole.tobytes()


CORNERS = [(0, 0), (0, 4), (3, 0), (3, 4)]


def test_shards_become_the_chunks_of_one_array_and_are_cut_at_its_end(store: Store) -> None:
    shards = [shard(*corner) for corner in CORNERS]
    assert request(True, CORNERS).call([SimpleNamespace(shards=shards)]) == []
    assert np.array_equal(store.arrays["/data/x/"], VALUES)
    assert store.chunks["/data/x/"] == [3, 4]


def test_what_another_device_writes_is_left_to_it(store: Store) -> None:
    request(True, [(0, 0), (0, 0)], skip=(1,)).call([SimpleNamespace(shards=[shard(0, 0)] * 2)])
    assert store.written == [(slice(0, 3), slice(0, 4))]


def test_shards_are_read_in_the_order_of_devices_with_zeros_past_the_end(store: Store) -> None:
    store.arrays["/data/x/"] = VALUES
    [found] = request(False, [(3, 4), (0, 0), (3, 4)]).call([])
    first, second, third = (np.frombuffer(data, np.float32).reshape(3, 4) for data in found)
    assert np.array_equal(first[:2, :3], VALUES[3:, 4:])
    assert not first[2:].any()
    assert not first[:, 3:].any()
    assert np.array_equal(second, VALUES[:3, :4])
    assert np.array_equal(third, first)


def test_arrays_without_elements_and_scalars_are_written_and_read(store: Store) -> None:
    empty: dict[str, Any] = {"shape": [0, 7], "shard_shape": [0, 4]}
    request(True, [(0, 0), (0, 4)], **empty).call([SimpleNamespace(shards=[b"", b""])])
    assert store.chunks["/data/x/"] == [1, 4]
    assert request(False, [(0, 0)], **empty).call([]) == [[b""]]
    scalar: dict[str, Any] = {"path": "/data/y", "shape": [], "shard_shape": []}
    request(True, [()], **scalar).call([SimpleNamespace(shards=[np.float32(7).tobytes()])])
    assert request(False, [()], **scalar).call([]) == [[np.float32(7).tobytes()]]


@pytest.mark.parametrize(
    ("changed", "reason", "words"),
    [
        ({"path": "/data/none"}, Reason.USER_ERROR, "refused /data/none on this host: NOT_FOUND: it does not exist"),
        ({"dtype": SHORT}, Reason.INVALID_ARGUMENT, "holds float32[5, 7], asked for was int16[5, 7]; ask for what it is"),
        ({"shape": [5, 8]}, Reason.INVALID_ARGUMENT, "holds float32[5, 7], asked for was float32[5, 8]"),
    ],
)
def test_what_is_not_as_asked_for_is_said(store: Store, changed: dict[str, Any], reason: Reason, words: str) -> None:
    store.arrays["/data/x/"] = VALUES
    with pytest.raises(PathwaysError) as caught:
        request(False, [(0, 0)], **changed).call([])
    assert caught.value.failure.reason is reason
    assert caught.value.failure.message.endswith(words) or words in caught.value.failure.message
    assert "tensorstore_spec" not in caught.value.failure.message


def test_what_takes_too_long_is_given_up_with_the_time_that_was_allowed(store: Store) -> None:
    store.arrays["/data/x/"], store.late = VALUES, True
    with pytest.raises(PathwaysError, match=r"/data/x was not done within 5 s on this host") as caught:
        request(False, [(0, 0)]).call([])
    assert caught.value.failure.reason is Reason.TIMED_OUT


def test_a_host_without_tensorstore_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorstore", None)
    with pytest.raises(PathwaysError, match=r"`pip install tensorstore`") as caught:
        request(False, [(0, 0)])
    assert caught.value.failure.reason is Reason.UNSUPPORTED
