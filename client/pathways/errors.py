"""What went wrong, as exceptions: one class per way of reacting, and `of` for what stock JAX raised.

Errors of a cluster reach JAX as text whose last line is `[pathways reason=... host=... id=...]`. `of` reads that line and nothing
else of the text. A user's own words come back as they were raised: the zero-width breaks put into status words are undone.
"""

from __future__ import annotations

import re
import sys
from typing import ClassVar

from pathways_common.model import failure as model
from pathways_common.model.failure import Failure, Reason

__all__ = [
    "BufferLostError",
    "CancelledError",
    "CompileError",
    "DeletedError",
    "ExecutionError",
    "InternalError",
    "InvalidArgumentError",
    "PathwaysError",
    "ProgramRefusedError",
    "ResourceExhaustedError",
    "SliceLostError",
    "TimedOutError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnsupportedError",
    "UserError",
    "VersionMismatchError",
    "from_failure",
    "of",
]


class PathwaysError(model.PathwaysError, RuntimeError):
    """Any error of a cluster. `str(error)` is the message; the properties say what, where, and whether to try again."""

    REASON: ClassVar[Reason] = Reason.EXECUTION_ERROR

    def __init__(self, failure: Failure | str, *, at_start: bool = False) -> None:
        super().__init__(Failure(self.REASON, failure) if isinstance(failure, str) else failure)
        # True if the program never got as far as running: `pathways run` then shows the message and no traceback.
        self.at_start = at_start

    @property
    def reason(self) -> Reason:
        """Why, as an enum."""
        return self.failure.reason

    @property
    def host(self) -> str:
        """The host where the first cause happened; empty when no host is involved."""
        return self.failure.host

    @property
    def id(self) -> str:
        """Names this failure in the logs of the cluster; may be empty."""
        return self.failure.id

    @property
    def retryable(self) -> bool:
        """Whether doing the same again may succeed."""
        return self.failure.retryable


class InvalidArgumentError(PathwaysError):
    """The request makes no sense; fix it."""

    REASON = Reason.INVALID_ARGUMENT


class UnsupportedError(PathwaysError):
    """This cluster cannot do that."""

    REASON = Reason.UNSUPPORTED


class CompileError(PathwaysError):
    """XLA refused the program."""

    REASON = Reason.COMPILE_ERROR


class ProgramRefusedError(PathwaysError):
    """Refused before it ran: it spans islands, holds a custom call off the allow-list, or hosts disagree about it."""

    REASON = Reason.PROGRAM_REFUSED


class UserError(PathwaysError):
    """Raised by the user's own code (a callback); the message holds its type, text and line."""

    REASON = Reason.USER_ERROR


class ExecutionError(PathwaysError):
    """The runtime reported an error for this computation."""

    REASON = Reason.EXECUTION_ERROR


class DeletedError(PathwaysError):
    """The value was deleted or donated."""

    REASON = Reason.DELETED


class ResourceExhaustedError(PathwaysError):
    """It can never fit, or a limit was reached."""

    REASON = Reason.RESOURCE_EXHAUSTED


class TimedOutError(PathwaysError):
    """A named wait reached its deadline."""

    REASON = Reason.TIMED_OUT


class SliceLostError(PathwaysError):
    """A host or executor that ran this is gone; run it again."""

    REASON = Reason.SLICE_LOST


class BufferLostError(PathwaysError):
    """The value lived on a lost host; make it again."""

    REASON = Reason.BUFFER_LOST


class UnavailableError(PathwaysError):
    """Not there now; try again."""

    REASON = Reason.UNAVAILABLE


class UnauthenticatedError(PathwaysError):
    """The token is missing or wrong."""

    REASON = Reason.UNAUTHENTICATED


class VersionMismatchError(PathwaysError):
    """The two ends do not fit together."""

    REASON = Reason.VERSION_MISMATCH


class CancelledError(PathwaysError):
    """The session ended, or asked for it."""

    REASON = Reason.CANCELLED


class InternalError(PathwaysError):
    """A defect of ours."""

    REASON = Reason.INTERNAL


_CLASSES: dict[Reason, type[PathwaysError]] = {
    kind.REASON: kind
    for kind in (
        InvalidArgumentError,
        UnsupportedError,
        CompileError,
        ProgramRefusedError,
        UserError,
        ExecutionError,
        DeletedError,
        ResourceExhaustedError,
        TimedOutError,
        SliceLostError,
        BufferLostError,
        UnavailableError,
        UnauthenticatedError,
        VersionMismatchError,
        CancelledError,
        InternalError,
    )
}

_TRAILER = re.compile(r"\n?^\[pathways reason=(?P<reason>[A-Z_]+)(?P<rest>(?: [a-z_]+=[^\s\]]*)*)\].*", re.MULTILINE)
_PAIR = re.compile(r" ([a-z_]+)=([^\s\]]*)")
_STATUS = re.compile(
    r"^(CANCELLED|UNKNOWN|INVALID_ARGUMENT|DEADLINE_EXCEEDED|NOT_FOUND|ALREADY_EXISTS|PERMISSION_DENIED|RESOURCE_EXHAUSTED|"
    r"FAILED_PRECONDITION|ABORTED|OUT_OF_RANGE|UNIMPLEMENTED|INTERNAL|UNAVAILABLE|DATA_LOSS|UNAUTHENTICATED): "
)
_BREAK = "\u200b"
_BROKEN_WORDS = ("DATA_LOSS", "INTERNAL", "NOT_FOUND", "DEADLINE_EXCEEDED")
_RETRYABLE = frozenset({Reason.SLICE_LOST, Reason.BUFFER_LOST, Reason.UNAVAILABLE})
# For errors that the cluster could not label, because the way to it is what broke.
_BY_STATUS = {"UNAVAILABLE": Reason.UNAVAILABLE, "CANCELLED": Reason.CANCELLED}


def from_failure(failure: Failure, *, at_start: bool = False) -> PathwaysError:
    """The typed error of a failure."""
    return _CLASSES[failure.reason](failure, at_start=at_start)


def of(exception: BaseException) -> PathwaysError:
    """The typed error behind an exception that JAX raised: `errors.of(e)`, and then `isinstance` or `.reason`.

    Looks at the exception and at what it was raised from. An exception that no cluster labelled becomes an UnavailableError if
    its status says that the connection broke, which names the door if that has ended; else a plain ExecutionError with its text.
    """
    for link in _chain(exception):
        if isinstance(link, PathwaysError):
            return link
        if isinstance(link, model.PathwaysError):
            return from_failure(link.failure)
        found = _parse(str(link))
        if found is not None:
            return from_failure(found)
    text = str(exception)
    status = _STATUS.match(text)
    reason = _BY_STATUS.get(status.group(1), Reason.EXECUTION_ERROR) if status else Reason.EXECUTION_ERROR
    if reason in _BY_STATUS.values() and (ended := door_that_ended()):
        return UnavailableError(Failure(Reason.UNAVAILABLE, ended, retryable=True))
    return from_failure(Failure(reason, text, retryable=reason in _RETRYABLE))


def door_that_ended() -> str:
    """How the door of this process ended, in one sentence, if it did so before it was closed; else empty."""
    plugin = sys.modules.get("pathways._plugin")
    door = plugin.current_door() if plugin is not None else None
    return door.obituary() if door is not None else ""


def _chain(exception: BaseException) -> list[BaseException]:
    links: list[BaseException] = []
    link: BaseException | None = exception
    while link is not None and link not in links:
        links.append(link)
        link = link.__cause__ or link.__context__
    return links


def _parse(text: str) -> Failure | None:
    found = None
    for found in _TRAILER.finditer(text):  # noqa: B007 - the last one counts: a user's text may quote another
        pass
    if found is None or found.group("reason") not in Reason.__members__:
        return None
    reason = Reason[found.group("reason")]
    message = _STATUS.sub("", text[: found.start()], count=1)
    if reason is Reason.USER_ERROR:
        for word in _BROKEN_WORDS:
            message = message.replace(f"{word[0]}{_BREAK}{word[1:]}", word)
    values = {name: value for name, value in _PAIR.findall(found.group("rest")) if value not in ("", "-")}
    return Failure(
        reason, message, host=values.get("host", ""), id=values.get("id", ""), metadata=values, retryable=reason in _RETRYABLE
    )
