"""Whose load is next where an executor carries out one at a time: sessions take turns, and a session's own go in their order.

So a session waits for one load of each other session at most before each of its own, however many they have in line. Loads that
members of a gang tune together have to be met by all of them in one order, and hosts hear of other sessions at other moments:
those go in the order in which they came, whosever they are. The session of the oldest of them is never passed over for it, since
what that session has before it can always begin; so every member comes to it, and no two wait for one another.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from pathways_common.model.ids import SessionNumber

JobT = TypeVar("JobT")


class Turns(Generic[JobT]):
    """What waits for its turn."""

    def __init__(self) -> None:
        # By session, the next to have its turn first; whether a job is one that hosts tune together.
        self._lines: dict[SessionNumber, deque[tuple[JobT, bool]]] = {}
        # Of those, whose they are, the oldest first.
        self._together: deque[SessionNumber] = deque()

    def put(self, session: SessionNumber, job: JobT, together: bool) -> None:
        """Behind what the session has in line. `together`: the other hosts of a gang are at it at the same time."""
        self._lines.setdefault(session, deque()).append((job, together))
        if together:
            self._together.append(session)

    def take(self) -> JobT:
        """The next one; there has to be one."""
        session = next(session for session in self._lines if self._may_begin(session))
        line = self._lines.pop(session)
        job, together = line.popleft()
        if together:
            self._together.popleft()
        if line:
            self._lines[session] = line
        return job

    def _may_begin(self, session: SessionNumber) -> bool:
        _, together = self._lines[session][0]
        return not together or self._together[0] == session
