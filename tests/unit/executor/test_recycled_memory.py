"""Memory that is used again: by whom, how much of it, and for how long."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from pathways_worker.executor import recycled_memory
from pathways_worker.executor.recycled_memory import RecycledMemory

from tests.cluster import wait_until

KIB = 1024
FOR_EVER_S = 1e6


def test_memory_comes_back_with_the_last_view_and_is_found_again_by_about_the_same_size() -> None:
    memory = RecycledMemory(kept_s=FOR_EVER_S)
    whole = memory.take(100 * KIB)
    address = whole.ctypes.data
    assert address % 4096 == 0
    part = whole[64:].view(np.float32)
    del whole
    gc.collect()
    assert memory.kept_bytes == 0
    del part
    gc.collect()
    assert memory.kept_bytes == 100 * KIB
    assert len(memory.take(50 * KIB)) == 50 * KIB, "half would be wasted"
    again = memory.take(90 * KIB)
    assert (again.ctypes.data, len(again), memory.kept_bytes) == (address, 90 * KIB, 50 * KIB)


def test_no_more_is_kept_than_the_bound_and_what_was_kept_longest_goes() -> None:
    memory = RecycledMemory(kept_bytes_max=100 * KIB, kept_s=FOR_EVER_S)
    taken = [memory.take(size * KIB) for size in (40, 44, 48)]
    addresses = [each.ctypes.data for each in taken]
    while taken:
        del taken[0]
    gc.collect()
    assert memory.kept_bytes == 92 * KIB
    assert memory.take(44 * KIB).ctypes.data == addresses[1]
    memory.take(200 * KIB)
    gc.collect()
    assert memory.kept_bytes <= 100 * KIB


def test_what_nobody_wants_is_given_back() -> None:
    memory = RecycledMemory(kept_s=0.01)
    for _ in range(2):
        memory.take(64 * KIB)
        gc.collect()
        wait_until(lambda: memory.kept_bytes == 0, "the memory to be given back")


def test_a_kernel_without_huge_pages_gives_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recycled_memory, "_HUGE_PAGES", 9999)  # EINVAL, as there
    assert len(RecycledMemory(kept_s=FOR_EVER_S).take(100 * KIB)) == 100 * KIB
