"""What went wrong, as data. A failure is made once, where the first cause happened, and travels unchanged.

A reason exists because the caller acts differently. `Reason.code` is the absl status code under which stock JAX sees it:
lost devices carry DATA_LOSS; a user's error never carries DATA_LOSS, INTERNAL, NOT_FOUND or DEADLINE_EXCEEDED.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

# In the metadata of a read's failure: the array outlives what ended the read, which may be asked for again.
KEPT = "kept"


class Reason(Enum):
    """Why something failed; the value is its name on the wire."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"  # the request makes no sense; fix it
    UNSUPPORTED = "UNSUPPORTED"  # this cluster cannot do that
    COMPILE_ERROR = "COMPILE_ERROR"  # XLA refused the program
    PROGRAM_REFUSED = "PROGRAM_REFUSED"  # refused before it ran: spans islands, custom call off the allow-list, members disagree
    USER_ERROR = "USER_ERROR"  # raised by the user's own code (a callback)
    EXECUTION_ERROR = "EXECUTION_ERROR"  # the runtime reported an error for this computation
    DELETED = "DELETED"  # the value was deleted or donated
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"  # can never fit, or a limit was reached
    TIMED_OUT = "TIMED_OUT"  # a named wait reached its deadline
    SLICE_LOST = "SLICE_LOST"  # a host or executor that ran this is gone
    BUFFER_LOST = "BUFFER_LOST"  # the value lived on a lost host
    UNAVAILABLE = "UNAVAILABLE"  # not there now; try again
    UNAUTHENTICATED = "UNAUTHENTICATED"  # token missing or wrong
    VERSION_MISMATCH = "VERSION_MISMATCH"  # the two ends do not fit
    CANCELLED = "CANCELLED"  # the session ended or asked for it
    INTERNAL = "INTERNAL"  # a defect of ours

    @property
    def code(self) -> int:
        """The absl status code under which stock JAX sees it, 1..16."""
        return _CODES[self]


_CODES = {
    Reason.CANCELLED: 1,
    Reason.USER_ERROR: 2,
    Reason.EXECUTION_ERROR: 2,
    Reason.TIMED_OUT: 2,
    Reason.INVALID_ARGUMENT: 3,
    Reason.COMPILE_ERROR: 3,
    Reason.RESOURCE_EXHAUSTED: 8,
    Reason.PROGRAM_REFUSED: 9,
    Reason.DELETED: 9,
    Reason.VERSION_MISMATCH: 9,
    Reason.UNSUPPORTED: 12,
    Reason.INTERNAL: 13,
    Reason.UNAVAILABLE: 14,
    Reason.SLICE_LOST: 15,
    Reason.BUFFER_LOST: 15,
    Reason.UNAUTHENTICATED: 16,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure. `metadata` holds every value that appears in the message."""

    reason: Reason
    message: str
    host: str = ""
    id: str = ""
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    retryable: bool = False


class PathwaysError(Exception):
    """Carries a Failure inside one process; never crosses a wire as an exception."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def fail(reason: Reason, message: str, *, host: str = "", retryable: bool = False, **metadata: object) -> PathwaysError:
    """An exception that carries a failure; write `raise fail(...)`."""
    values = MappingProxyType({name: str(value) for name, value in metadata.items()})
    return PathwaysError(Failure(reason, message, host=host, metadata=values, retryable=retryable))
