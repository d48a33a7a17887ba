"""Loads that nobody wants any more, and that hosts owe an answer to all the same: a session may have so many and no more of them.

Each lies in its executors with its program until its turn comes, though its session does not hold it any more.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason

from .records import Executable, Host, Session
from .state import State


def note(executable: Executable) -> None:
    """It is dropped; an answer of each of these is still to come, or the end of the epoch."""
    count = sum(host.loads.get(executable.id) is executable for host in executable.members)
    if count:
        executable.session.dropped_loads[executable.id] = count


def answered(executable: Executable) -> None:
    """By one host, or not to be answered by it any more."""
    dropped = executable.session.dropped_loads
    left = dropped.pop(executable.id, 0) - 1
    if left > 0:
        dropped[executable.id] = left


def forget(host: Host) -> None:
    """Its epoch is over."""
    for executable in host.loads.values():
        answered(executable)
    host.loads = {}


def refusal(state: State, session: Session) -> Failure | None:
    """Why the session may compile nothing more; None if it may."""
    count = len(session.dropped_loads)
    if count < state.config.dropped_loads_max:
        return None
    message = (
        f"hosts are still loading {count} executables that the session dropped, the most allowed; try again when some are"
        " through, and drop executables after they were compiled"
    )
    return state.failure(Reason.RESOURCE_EXHAUSTED, message, retryable=True, executables=count)
