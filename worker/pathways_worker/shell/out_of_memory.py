"""Whether the kernel killed somebody here for want of memory: only a counter of the control group tells that from any SIGKILL."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def kills(root: Path = _ROOT, own: Path = Path("/proc/self/cgroup")) -> int:
    """Processes of this control group, and those below it, that were killed so far; 0 where nothing says."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return 0
    for _, controllers, path in lines:
        if not controllers:
            file = root / path.lstrip("/") / "memory.events"
        elif "memory" in controllers.split(","):
            file = root / "memory" / path.lstrip("/") / "memory.oom_control"
        else:
            continue
        try:
            words = dict(line.split() for line in file.read_text().splitlines())
            return int(words.get("oom_kill", 0))
        except (OSError, ValueError):
            continue
    return 0
