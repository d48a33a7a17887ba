"""Failures inside the executor are protobuf messages from the start: they are only made, kept and sent on.

The host is left empty; the daemon fills it in.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from pathways_common.model.bounds import FAILURE_MESSAGE_BYTES_MAX
from pathways_common.model.failure import Reason
from pathways_proto.v1 import types_pb2

FailureMessage: TypeAlias = Any


def make_failure(reason: Reason, message: str, **metadata: object) -> FailureMessage:
    """A failure with its metadata as text."""
    text = message.encode("utf-8", "replace")[:FAILURE_MESSAGE_BYTES_MAX].decode("utf-8", "ignore")
    return types_pb2.Failure(reason=reason.value, message=text, metadata={key: str(value) for key, value in metadata.items()})


def failure_of(error: BaseException, reason: Reason) -> FailureMessage:
    """The failure that an exception of the runtime stands for."""
    return make_failure(reason, str(error) or type(error).__name__)


def execution_failure(error: BaseException) -> FailureMessage:
    """The failure of a launch. A collective that lost its peer says so: the program itself did nothing wrong."""
    if "Gloo" in str(error):
        failure = make_failure(Reason.SLICE_LOST, f"a collective lost its connection to another host of the island ({error})")
        failure.retryable = True
        return failure
    return failure_of(error, Reason.EXECUTION_ERROR)


def read_failure(array: Any, error: BaseException) -> FailureMessage:
    """What a reader of an array gets when reading it raised."""
    if isinstance(error, IndexError | ValueError):
        return failure_of(error, Reason.INVALID_ARGUMENT)
    return failure_of(error, Reason.DELETED) if array.is_deleted() else execution_failure(error)


class Refused(Exception):
    """A request that this executor will not carry out; holds the failure to answer with."""

    def __init__(self, failure: FailureMessage) -> None:
        super().__init__(failure.message)
        self.failure = failure


def refuse(reason: Reason, message: str, **metadata: object) -> Refused:
    """Write `raise refuse(...)`."""
    return Refused(make_failure(reason, message, **metadata))


def missing_buffer(identifier: int) -> FailureMessage:
    """What a reader of an id that is not here gets."""
    text = f"buffer {identifier:#x} is not on this host; it was deleted or donated"
    return make_failure(Reason.DELETED, text, buffer=hex(identifier))


def spilled_buffer(identifier: int) -> FailureMessage:
    """What a reader of an id that rests in the spill store gets."""
    text = f"buffer {identifier:#x} is spilled; it has to be restored before it is used"
    return make_failure(Reason.UNAVAILABLE, text, buffer=hex(identifier))
