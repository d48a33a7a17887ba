"""A controller's frame is acknowledged when everything in it was handled, and never before an earlier one.

Frames that held commands for the executor wait for its report; frames for the daemon alone are handled at once but wait their
turn. The controller sends at most a window of frames that are not acknowledged, so this is its clock.
"""

from __future__ import annotations

from collections import deque


class FrameClock:
    """The acknowledgement of one link, gap-free from 1."""

    __slots__ = ("_received", "_waiting")

    def __init__(self) -> None:
        self._received = 0
        self._waiting: deque[int] = deque()

    @property
    def acknowledged(self) -> int:
        """The highest frame handled together with all before it."""
        return self._waiting[0] - 1 if self._waiting else self._received

    @property
    def idle(self) -> bool:
        """Whether the executor has handled everything that it was sent."""
        return not self._waiting

    def forwarded(self, frame: int) -> None:
        """The frame came, and the executor has to handle some of it."""
        self._waiting.append(frame)
        self._received = frame

    def handled(self, frame: int) -> None:
        """The frame came, and nothing of it is with the executor."""
        self._received = frame

    def reported(self, frame: int) -> None:
        """The executor handled every frame up to this one."""
        while self._waiting and self._waiting[0] <= frame:
            self._waiting.popleft()

    def abandoned(self) -> None:
        """The executor is gone: what it had is as good as handled, its death is reported apart."""
        self._waiting.clear()
