"""The moment for which something that nobody waits for may be held back: it leaves with what somebody does, or when this is over.

Every send costs both ends a system call and a wake-up, so an acknowledgement of its own is worth waiting for company.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pathways_common.model.bounds import RIDE_DELAY_NS


class Moment:
    """One timer of the loop that runs when it first begins: `over` is called when it has passed and was not ended before."""

    __slots__ = ("_delay_s", "_loop", "_over", "_timer")

    def __init__(self, over: Callable[[], None], delay_ns: int = RIDE_DELAY_NS) -> None:
        self._over = over
        self._delay_s = delay_ns / 1e9
        self._timer: asyncio.TimerHandle | None = None
        # Kept: to ask which loop runs is a system call.
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """It runs from the first call on; further calls do not make it longer."""
        if self._timer is None:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            self._timer = self._loop.call_later(self._delay_s, self._pass)

    def end(self) -> None:
        """What was held back has left."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pass(self) -> None:
        self._timer = None
        self._over()
