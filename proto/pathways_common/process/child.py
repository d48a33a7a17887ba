"""No process outlives its owner, and a pid is never trusted without the start time of the process it named."""

from __future__ import annotations

import ctypes
import os
import select
import signal
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int | None = None, number: signal.Signals = signal.SIGKILL) -> None:
    """Asks the kernel to send this process a signal when its parent ends; exits at once if that (`parent_pid`) is already gone.

    The kernel's "parent" is the thread that started this process: start children from a thread that lives as long as they.
    """
    before = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    if os.getppid() != (before if parent_pid is None else parent_pid):
        os._exit(1)


def start_time(pid: int) -> int | None:
    """When a living process started, in clock ticks since boot; None if there is no such process or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def alive(pid: int, started: int | None) -> bool:
    """Whether the process that had this pid and start time still lives."""
    return started is not None and start_time(pid) == started


def terminate(pid: int, started: int | None, grace_s: float) -> bool:
    """Ends that very process: SIGTERM, and SIGKILL after `grace_s` seconds. False if it was gone already."""
    if not alive(pid, started):
        return False
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # The descriptor pins the process: checked after it was opened, it is the right one for good.
        if not alive(pid, started):
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            if not _ended(descriptor, grace_s):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                _ended(descriptor, 5.0)
        return True
    finally:
        os.close(descriptor)


def _ended(descriptor: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
