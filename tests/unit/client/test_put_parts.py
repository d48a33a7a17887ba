"""What `pw.put` brings at once, what it leaves to JAX, and what a fork in the middle of it does: nothing."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from pathways import _bulk, _jax, _put
from pathways import _jax_nodes as jn
from pathways._bulk import Bulk
from pathways._bulk_call import BulkCall
from pathways._bulk_sizes import CALL_BYTES_MAX, CALL_MAX, calls_of
from pathways._segments import Segment
from pathways_proto.v1 import types_pb2

MIB = 1 << 20
GIB = 1 << 30


def test_a_call_has_no_more_arrays_and_bytes_than_the_bounds_unless_one_is_larger() -> None:
    assert calls_of([]) == []
    assert calls_of([MIB] * 40) == [list(range(CALL_MAX)), list(range(CALL_MAX, 40))]
    assert calls_of([GIB // 2, GIB // 2, MIB, MIB, 3 * GIB, MIB]) == [[0, 1], [2, 3], [4], [5]]
    assert CALL_BYTES_MAX == GIB


class LoadedBefore010:
    """A plugin program as jaxlib 0.8 and 0.9 give it: without `launch_id`."""

    def execute_sharded(self, arguments: list[Any], with_tokens: bool = False) -> Any:
        assert (arguments, with_tokens) == ([], False)
        return SimpleNamespace(consume_with_handlers=list)


def test_a_put_asks_for_nothing_that_clients_before_jaxlib_0_10_do_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    device = SimpleNamespace(client=None)

    def load(_client: Any, text: str) -> LoadedBefore010:
        texts.append(text)
        return LoadedBefore010()

    monkeypatch.setattr(jn, "result_makers", lambda shapes, shardings: shapes)
    monkeypatch.setattr(jn, "device_order", lambda sharding: (device,))
    monkeypatch.setattr(jn, "load_plugin_program", load)
    put = _put._Put(0, np.arange(4, dtype=np.float32), None, types_pb2.ArraySpec(), [], cast(Segment, None))
    (made,) = _put._made(cast(BulkCall, SimpleNamespace(number=7)), [put])
    assert (made.shape, str(made.dtype)) == ((4,), "float32")
    assert texts[0].startswith("pathways-put 7 ")


def test_a_put_waits_for_room_and_takes_the_other_way_if_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    bulk = Bulk("", "")
    assert bulk.begin_put(9 * GIB), "one may be larger than the bound"
    began: list[bool] = []
    waiting = threading.Thread(target=lambda: began.append(bulk.begin_put(3 * GIB)))
    waiting.start()
    bulk.end_put(9 * GIB)
    waiting.join(30)
    assert began == [True]
    assert bulk.begin_put(GIB)
    monkeypatch.setattr(_bulk, "_ROOM_S", 0.0)
    assert not bulk.begin_put(1)
    bulk.end_put(GIB)
    assert bulk.begin_put(1)


class ForkingCall:
    """Another thread forks when the segment is on its way."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self.told: list[int] = []

    def bring(self, _position: int, _descriptor: int, _size_bytes: int) -> None:
        self._segment.make_private()

    def filled(self, _position: int, filled_bytes: int) -> None:
        self.told.append(filled_bytes)


def test_a_fork_while_bytes_are_copied_hides_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_put, "_PART_BYTES", 4096)
    value = np.arange(8192, dtype=np.float32).reshape(8, 1024)
    segment = Segment(value.nbytes)
    call = ForkingCall(segment)
    shards = [((0, 8), (512, 1024)), ((0, 8), (0, 512))]
    _put._fill(cast("Any", call), 0, _put._Put(0, value, None, cast("Any", None), shards, segment))
    expected = value[:, 512:].tobytes() + value[:, :512].tobytes()
    assert os.pread(segment.descriptor, value.nbytes, 0) == expected
    assert call.told == [4096 * (part + 1) for part in range(8)]
    segment.close()


def test_arrays_that_mean_something_else_by_their_bytes_are_left_to_jax(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jax, "fits", lambda _leaf, _sharding: True)
    plain = np.zeros(MIB, np.uint8)
    assert _put._is_large(plain, None)
    assert _put._is_large(np.memmap(tmp_path / "saved", np.uint8, "w+", shape=(MIB,)), None)
    assert not _put._is_large(np.ma.masked_array(plain, mask=plain == 0), None)
