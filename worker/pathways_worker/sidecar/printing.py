"""What users' Python prints goes to the executor line by line, and from there to the client.

A line belongs to the thread that wrote it. What it did not end is sent when its call ends.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

# A longer line is sent in pieces.
_LINE_MAX = 8192


class LineWriter(io.TextIOBase):
    """Stands for sys.stdout and sys.stderr."""

    def __init__(self, send: Callable[[str], None]) -> None:
        self._send = send
        self._local = threading.local()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, rest = (getattr(self._local, "rest", "") + text).split("\n")
        for line in lines:
            self._emit(line)
        while len(rest) > _LINE_MAX:
            self._emit(rest[:_LINE_MAX])
            rest = rest[_LINE_MAX:]
        self._local.rest = rest
        return len(text)

    def end(self) -> None:
        """The call of this thread is over."""
        rest, self._local.rest = getattr(self._local, "rest", ""), ""
        if rest:
            self._emit(rest)

    def _emit(self, line: str) -> None:
        for start in range(0, max(1, len(line)), _LINE_MAX):
            self._send(line[start : start + _LINE_MAX])
