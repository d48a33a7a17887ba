"""What the kernel says of a process, and Python stacks without the help of its interpreter.

A process that called `keep_stacks` writes the stacks of all its threads when it gets SIGUSR1. faulthandler does so in the
signal's handler itself, so it works while Python code keeps the interpreter to itself and while native code runs; it does not in
a process that is stopped, or that waits in the kernel for a device. Then the kernel's word is all there is.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

STACKS_SIGNAL = signal.SIGUSR1
THREADS_MAX = 64
_TICKS = os.sysconf("SC_CLK_TCK")
_WORDS = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a device",
    "T": "stopped",
    "t": "held by a debugger",
    "Z": "dead",
    "X": "dead",
    "I": "idle",
}


@dataclass(frozen=True, slots=True)
class Thread:
    """`waits_in`: the kernel function it waits in, empty if that cannot be seen."""

    id: int
    name: str
    state: str
    waits_in: str
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Condition:
    """`state` is the kernel's letter. `keeps_stacks`: SIGUSR1 makes it write them instead of ending it."""

    state: str
    resident_bytes: int
    cpu_s: float
    keeps_stacks: bool
    thread_count: int
    threads: tuple[Thread, ...] = field(default=())

    @property
    def words(self) -> str:
        """The state as a person reads it, such as "T (stopped)"."""
        return f"{self.state} ({_WORDS.get(self.state, 'unknown')})"

    @property
    def stopped(self) -> bool:
        """Whether it takes no signal but SIGCONT and SIGKILL."""
        return self.state in "Tt"


def keep_stacks(output: IO[str] | int) -> None:
    """From now on SIGUSR1 makes this process write the stacks of all threads there, and nothing else."""
    faulthandler.register(STACKS_SIGNAL, file=output, all_threads=True, chain=False)


def look(pid: int) -> Condition | None:
    """The condition of a process; None: there is none with this pid."""
    status = _status(Path(f"/proc/{pid}/status"))
    if not status:
        return None
    threads = _threads(pid)
    return Condition(
        status.get("State", "?")[:1],
        int(status.get("VmRSS", "0 kB").split()[0]) * 1024,
        _cpu_s(Path(f"/proc/{pid}/stat")),
        bool(int(status.get("SigCgt", "0"), 16) >> (STACKS_SIGNAL - 1) & 1),
        int(status.get("Threads", "0")),
        tuple(sorted(threads, key=lambda thread: (-thread.cpu_s, thread.id))[:THREADS_MAX]),
    )


def why_silent(condition: Condition | None, waited_s: float) -> str:
    """In words, why a process wrote no stacks although it was waited for."""
    if condition is None:
        return "is gone"
    if condition.stopped:
        return f"cannot answer: state {condition.words}" + ("; SIGCONT lets it go on" if condition.state == "T" else "")
    if not condition.keeps_stacks:
        return f"keeps no stacks: it is starting, or ends; state {condition.words}"
    held = next((thread for thread in condition.threads if thread.state == "D"), None)
    where = f", in {held.waits_in}" if held is not None and held.waits_in else ""
    return f"did not answer within {waited_s:g} s: state {condition.words}{where}"


def memory_of_machine() -> tuple[int, int]:
    """Bytes in all, and bytes that are available."""
    values = _status(Path("/proc/meminfo"))
    total, available = (int(values.get(name, "0 kB").split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    return total, available


def _status(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def _threads(pid: int) -> list[Thread]:
    found = []
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    for name in names:
        folder = Path(f"/proc/{pid}/task/{name}")
        status = _status(folder / "status")
        if status:
            found.append(
                Thread(
                    int(name), status.get("Name", ""), status.get("State", "?")[:1], _waits_in(folder), _cpu_s(folder / "stat")
                )
            )
    return found


def _waits_in(folder: Path) -> str:
    try:
        text = (folder / "wchan").read_text().strip()
    except OSError:
        return ""
    return "" if text == "0" else text


def cpu_ns(pid: int) -> int:
    """What a process has used of CPUs since it was started; 0: there is none with this pid."""
    return round(_cpu_s(Path(f"/proc/{pid}/stat")) * 1e9)


def _cpu_s(path: Path) -> float:
    try:
        fields = path.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
