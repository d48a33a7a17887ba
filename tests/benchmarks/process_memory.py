"""What the processes of a session hold: memory of their own, descriptors, threads and maps, summed by role.

Memory is anonymous and shared memory by proportion (PSS), so what a fork or a segment shares counts once, and libraries do not
count. Processes of one role are one figure, since readers are replaced by others again and again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.benchmarks.sides import role_of

ROLES = ("client", "door", "controller", "daemon", "executor", "reader")
_READER = "pathways-reader"


@dataclass(frozen=True)
class Held:
    """By one role at one moment."""

    memory_bytes: int = 0
    descriptors: int = 0
    threads: int = 0
    maps: int = 0

    def __add__(self, other: Held) -> Held:
        return Held(
            self.memory_bytes + other.memory_bytes,
            self.descriptors + other.descriptors,
            self.threads + other.threads,
            self.maps + other.maps,
        )


def held(processes: Iterable[psutil.Process]) -> dict[str, Held]:
    """By role; processes that end meanwhile are left out."""
    found: dict[str, Held] = {}
    for process in processes:
        try:
            role = "reader" if process.name() == _READER else role_of(process)
            folder = Path("/proc") / str(process.pid)
            one = Held(
                own_bytes((folder / "smaps_rollup").read_text()),
                process.num_fds(),
                process.num_threads(),
                (folder / "maps").read_text().count("\n"),
            )
        except (psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError):
            continue
        found[role] = found.get(role, Held()) + one
    return found


def own_bytes(rollup: str) -> int:
    """Of the text of a smaps_rollup: anonymous and shared memory, and what of them is paged out."""
    sizes = dict(line.split(":", 1) for line in rollup.splitlines()[1:])
    return sum(int(sizes[name].split()[0]) for name in ("Pss_Anon", "Pss_Shmem", "SwapPss")) * 1024
