"""Segments: memory is used again when the last view is gone, within a bound, and a fork makes two memories of one."""

from __future__ import annotations

import gc
import os
import resource

import numpy as np
import pytest
from pathways._segments import Segments
from pathways_common.model.failure import PathwaysError
from pathways_common.process.segments import check_segment, read_at, write_at

KIB = 1024


def test_memory_is_used_again_once_no_view_of_it_is_left() -> None:
    segments = Segments()
    segment = segments.take(64 * KIB)
    array = segments.array(segment, 60 * KIB)
    view = array.view(np.float32).reshape(3, -1)[1]
    address = array.ctypes.data
    del array
    gc.collect()
    assert segments.kept_bytes == 0
    assert segments.take(64 * KIB) is not segment
    del view
    gc.collect()
    assert segments.kept_bytes == 64 * KIB
    again = segments.take(62 * KIB)
    assert again is segment
    assert segments.array(again, 62 * KIB).ctypes.data == address


def test_no_more_is_kept_than_the_bound_and_nothing_after_the_end() -> None:
    segments = Segments(kept_bytes_max=100 * KIB)
    taken = [segments.take(size * KIB) for size in (40, 40, 40, 200)]
    for segment in taken:
        segments.give_back(segment)
    assert segments.kept_bytes == 0, "the last one is larger than the bound"
    assert all(segment.descriptor < 0 for segment in taken)
    taken = [segments.take(40 * KIB) for _ in range(3)]
    for segment in taken:
        segments.give_back(segment)
    assert segments.kept_bytes == 80 * KIB
    array = segments.array(segments.take(40 * KIB), 40 * KIB)
    segments.close()
    assert segments.kept_bytes == 0
    array[:] = 3
    assert array.sum() == 3 * 40 * KIB
    del array
    gc.collect()
    assert segments.kept_bytes == 0


def test_much_larger_memory_is_not_taken_for_a_small_array() -> None:
    segments = Segments()
    segments.give_back(segments.take(400 * KIB))
    assert segments.take(100 * KIB).size_bytes == 100 * KIB
    assert segments.kept_bytes == 400 * KIB


def test_a_forked_child_has_memory_of_its_own() -> None:
    segments = Segments()
    segment = segments.take(16 * KIB)
    array = segments.array(segment, 16 * KIB)
    array[:] = 1
    to_child, to_parent = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        array[0] = 2
        os.write(to_parent[1], b"x")
        os.read(to_child[0], 1)  # the parent has written meanwhile
        os._exit(0 if array[0] == 2 and array[1:].min() == array[1:].max() == 1 else 1)
    os.read(to_parent[0], 1)
    assert array[0] == 1
    array[:] = 7
    os.write(to_child[1], b"x")
    assert os.waitpid(child, 0)[1] == 0
    del array
    gc.collect()
    assert segments.kept_bytes == 0, "what a child may see is not used again"
    assert segment.descriptor < 0


def test_memory_that_is_not_there_is_an_error_and_no_signal() -> None:
    segments = Segments()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (KIB, limit[1]))
    try:
        with pytest.raises(OSError):  # noqa: PT011 - which one is the kernel's affair
            segments.take(64 * KIB)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def test_only_memory_that_cannot_shrink_is_taken_from_others(tmp_path: object) -> None:
    segment = Segments().take(8 * KIB)
    check_segment(segment.descriptor, 8 * KIB)
    with pytest.raises(OSError):  # noqa: PT011
        os.ftruncate(segment.descriptor, 0)
    write_at(segment.descriptor, memoryview(b"abc"), 5)
    assert bytes(segment.memory[4:9]) == b"\0abc\0"
    read = bytearray(3)
    read_at(segment.descriptor, memoryview(read), 5)
    assert read == b"abc"
    with pytest.raises(OSError, match="ended early"):
        read_at(segment.descriptor, memoryview(bytearray(4)), 8 * KIB - 3)
    with pytest.raises(PathwaysError, match="at least 8193 bytes"):
        check_segment(segment.descriptor, 8 * KIB + 1)
    unsealed = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    os.ftruncate(unsealed, 8 * KIB)
    reading, writing = os.pipe()
    with open(f"{tmp_path}/file", "w+b") as file:
        file.truncate(8 * KIB)
        for descriptor in (unsealed, reading, file.fileno()):
            with pytest.raises(PathwaysError, match="sealed against shrinking"):
                check_segment(descriptor, KIB)
    for descriptor in (unsealed, reading, writing):
        os.close(descriptor)
