"""A failure becomes an IFRT status: its text, then one last line by which our client library finds the reason again.

A user's own words never carry the status words that recovery tools match (DATA_LOSS and the like): a zero-width space breaks
them.
"""

from __future__ import annotations

import re

from pathways_common.model.failure import Failure, Reason
from pathways_proto.ifrt import status_pb2

_STATUS_WORDS = re.compile(r"DATA_LOSS|INTERNAL|NOT_FOUND|DEADLINE_EXCEEDED")
_ZERO_WIDTH_SPACE = "\u200b"


def text_of(failure: Failure) -> str:
    """The message as stock JAX shows it, with the last line `[pathways reason=... host=... id=...]`."""
    message = failure.message
    if failure.reason is Reason.USER_ERROR:
        message = _STATUS_WORDS.sub(lambda match: match[0][0] + _ZERO_WIDTH_SPACE + match[0][1:], message)
    return f"{message}\n[pathways reason={failure.reason.value} host={failure.host or '-'} id={failure.id or '-'}]"


def status_of(failure: Failure) -> status_pb2.StatusProto:
    """The status that carries a failure."""
    return status_pb2.StatusProto(code=failure.reason.code, message=text_of(failure))


def internal(sentence: str) -> Failure:
    """A defect of the door."""
    return Failure(Reason.INTERNAL, sentence)
