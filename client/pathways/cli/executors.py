"""The processes of a cluster on this machine, found through /proc and pinned, so that a signal never reaches another one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pathways_common.process.child import alive, start_time

_EXECUTOR = "pathways_worker.executor"


@dataclass(frozen=True, slots=True)
class Process:
    """One process, by its pid and the moment when it started (in clock ticks since boot)."""

    pid: int
    started: int

    @property
    def lives(self) -> bool:
        """Whether it is there and no zombie."""
        return alive(self.pid, self.started)

    def signal(self, number: signal.Signals) -> bool:
        """Sends a signal; False if it is gone."""
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:
                # The descriptor pins the process: looked at after it was opened, it is the right one for good.
                if self.lives:
                    signal.pidfd_send_signal(descriptor, number)
                    return True
            finally:
                os.close(descriptor)
        return False


def process(pid: int) -> Process | None:
    """The process that has this pid now."""
    started = start_time(pid)
    return None if started is None else Process(pid, started)


def executors(daemon_pid: int) -> list[Process]:
    """The executors of a worker, the oldest first: that is the one at work, a later one is the spare."""
    found = [there for pid in _children(daemon_pid) if _EXECUTOR in _command(pid) and (there := process(pid)) is not None]
    return sorted(found, key=lambda each: (each.started, each.pid))


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, task.read_text().split())


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
