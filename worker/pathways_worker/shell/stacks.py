"""The pipe through which a child writes its Python stacks when it is sent a signal; see condition.py.

The child never waits for us: its end does not block, and what does not fit is lost.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress

from pathways_common.process.condition import STACKS_SIGNAL

_PIPE_BYTES = 1 << 18
_LOOK_S = 0.01
# A dump has no end mark; one of a hundred threads takes a millisecond.
_QUIET_S = 0.05
LINES_MAX = 600


class Stacks:
    """`descriptor` is what the child inherits; `handed_over` when it has."""

    def __init__(self) -> None:
        self._reading, self.descriptor = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        with suppress(OSError):  # a machine may allow no more than the default
            fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._open = True
        self._asking = asyncio.Lock()

    def handed_over(self) -> None:
        """The child has its own descriptor now, or will not come to be."""
        if self._open:
            self._open = False
            os.close(self.descriptor)

    def close(self) -> None:
        """The child is gone."""
        self.handed_over()
        reading, self._reading = self._reading, -1
        if reading >= 0:
            os.close(reading)

    async def ask(self, pid: int, lives: Callable[[], bool], timeout_s: float) -> list[str]:
        """The stacks of the child, which has to keep them; empty if it writes none in time."""
        async with self._asking:
            self._read()  # of an earlier question that was given up
            if not lives():
                return []
            os.kill(pid, STACKS_SIGNAL)
            clock = asyncio.get_running_loop().time
            deadline_s, quiet_since_s = clock() + timeout_s, clock()
            text = b""
            while clock() < deadline_s:
                await asyncio.sleep(_LOOK_S)
                if more := self._read():
                    text += more
                    quiet_since_s = clock()
                elif text and clock() - quiet_since_s >= _QUIET_S:
                    break
            return text.decode(errors="replace").splitlines()[:LINES_MAX]

    def _read(self) -> bytes:
        found = b""
        while self._reading >= 0:
            try:
                chunk = os.read(self._reading, _PIPE_BYTES)
            except BlockingIOError:
                break
            if not chunk:
                break
            found += chunk
        return found
