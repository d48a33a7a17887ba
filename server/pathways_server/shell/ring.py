"""The last events before a defect, bounded in number and without the bytes of arrays, written when the core stops."""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pathways_server.core import events

_LENGTH_MAX = 2048


def _without(*names: str) -> Callable[[Any], str]:
    def describe(event: Any) -> str:
        shown = (f"{name}={getattr(event, name)!r}" for name in event.__slots__ if name not in names)
        return f"{type(event).__name__}({', '.join(shown)})"

    return describe


# Events that may hold many bytes, and what of them is left out.
_HEAVY: dict[type, Callable[[Any], str]] = {
    events.ArrayMade: _without("pieces"),
    events.ShardFetched: _without("data"),
    events.CallbackCalled: _without("operands"),
    events.CallbackReturned: _without("results"),
    events.ExecutableInspected: _without("inspection"),
    events.ExecutableLoaded: _without("facts"),
    events.ExecutorLost: _without("stderr_tail"),
    events.DefinitionRequested: _without("program"),
    events.FusionRequested: _without("groups"),
    events.TraceCollected: _without("payload"),
    events.HoldingsReported: _without("objects"),
    events.ProgramsRestored: _without("programs"),
}


class Ring:
    """Recent (time, event) pairs."""

    def __init__(self) -> None:
        self._entries: deque[tuple[int, object]] = deque(maxlen=_LENGTH_MAX)

    def add(self, now_ns: int, event: events.Event) -> None:
        """Remembers an event about to be stepped. Ticks are left out: they would push out everything else."""
        kind = type(event)
        if kind is events.TimePassed:
            return
        describe = _HEAVY.get(kind)
        self._entries.append((now_ns, event if describe is None else describe(event)))

    def write(self, directory: Path, error: BaseException) -> Path:
        """Writes the error and all entries, oldest first, to a new file; returns its path."""
        path = directory / f"defect-{time.time_ns()}.txt"
        with path.open("x") as stream:
            stream.writelines(traceback.format_exception(error))
            stream.write("\nrecent events, oldest first (monotonic nanoseconds, event):\n")
            for now_ns, entry in self._entries:
                stream.write(f"{now_ns} {entry}\n")
        return path
