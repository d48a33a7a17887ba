"""Threads of an executor that is told so take no core from others when they wake: all of them, by what the kernel says."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.executor.test_thread_placement import add_up, group_of


def policies(pid: int) -> list[int]:
    """How each thread of a process is scheduled. One may end while they are listed."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            found.append(os.sched_getscheduler(int(task.name)))
    return found


@pytest.mark.parametrize(("words", "policy"), [(["--batch-scheduling"], os.SCHED_BATCH), ([], os.SCHED_OTHER)])
def test_every_thread_is_scheduled_as_the_executor_was_told(words: list[str], policy: int) -> None:
    with group_of(words) as group:
        assert add_up(group, 1) == [3, 3]
        for executor in group.ranks:
            found = policies(executor.process.pid)
            assert len(found) > 3
            assert set(found) == {policy}
