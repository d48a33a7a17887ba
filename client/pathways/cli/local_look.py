"""What can be seen of a cluster on this machine without its help: its processes as the kernel describes them.

For when the controller or a daemon is silent. Daemons that keep stacks write them to their logs on SIGUSR1, also while their
event loops are stuck; a stopped process is not sent anything.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pathways_common.process import condition
from pathways_common.process.state import StateDir

from pathways.cli.cluster import living_processes
from pathways.cli.executors import executors

# A dump takes a millisecond.
_DUMP_S = 0.3
_LINES_MAX = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """One process. `name` is as in cluster.json, such as a1; of its executors "executor of a1"."""

    name: str
    pid: int
    condition: condition.Condition
    stacks: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """How it is."""
        return f"{self.name} (pid {self.pid}): state {self.condition.words}, {self.condition.cpu_s:.1f} s of CPU"


def look(state: StateDir, stacks_of: frozenset[str] = frozenset()) -> list[Seen]:
    """The processes of the cluster that was started from this state directory; empty if it was started elsewhere.

    Those named in `stacks_of` are asked for their stacks.
    """
    found = []
    for entry in living_processes(state.read_cluster() or {}):
        name, pid = str(entry.get("name")), int(entry["pid"])
        now = condition.look(pid)
        if now is None:
            continue
        asked = name in stacks_of and now.keeps_stacks and not now.stopped
        found.append(Seen(name, pid, now, _stacks(pid, state.log_path(name)) if asked else ()))
        for executor in executors(pid):
            there = condition.look(executor.pid)
            if there is not None:
                found.append(Seen(f"executor of {name}", executor.pid, there))
    return found


def _stacks(pid: int, log: Path) -> tuple[str, ...]:
    before = log.stat().st_size if log.exists() else 0
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, condition.STACKS_SIGNAL)
    time.sleep(_DUMP_S)
    try:
        with log.open("rb") as stream:
            stream.seek(before)
            return tuple(stream.read().decode(errors="replace").splitlines()[:_LINES_MAX])
    except OSError:
        return ()
