"""The form of what peers send is checked here, before the core sees it; each breach is INVALID_ARGUMENT with a sentence.

Protobuf already bounds the types; left are zero and oversized ids, negative sizes, and lists and texts without end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pathways_common.model.array import ArraySpec
from pathways_common.model.bounds import (
    DIMENSIONS_MAX,
    FAILURE_MESSAGE_BYTES_MAX,
    FAILURE_METADATA_BYTES_MAX,
    LIST_ITEMS_MAX,
    SHARDING_BYTES_MAX,
    WORDS_BYTES_MAX,
)
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.model.ids import LOCAL_MASK, SESSION_SHIFT, GlobalId, SessionNumber
from pathways_common.rpc.convert import failure_from_proto, optional_failure, spec_from_proto
from pathways_proto.v1 import types_pb2

# The upper half of a session's ids belongs to the controller: values inside runs of programs.
_CLIENT_MASK = LOCAL_MASK >> 1


def bad(what: str, value: object) -> PathwaysError:
    """The exception for a malformed field."""
    return fail(Reason.INVALID_ARGUMENT, f"malformed message: {what} ({value})", what=what, value=value)


def checked_id(session: SessionNumber, local: int, what: str) -> GlobalId:
    """The global id of a session's own id."""
    if not 0 < local <= _CLIENT_MASK:
        raise bad(f"{what} is outside 1..2^39-1", local)
    return GlobalId(session << SESSION_SHIFT | local)


def checked_first_result(session: SessionNumber, local: int) -> GlobalId:
    """As `checked_id`, but 0 is allowed (no results) and the results cannot run into ids that are not the client's."""
    if local > _CLIENT_MASK - LIST_ITEMS_MAX:
        raise bad("first_result_id is too large", local)
    return GlobalId(session << SESSION_SHIFT | local)


def checked_ids(session: SessionNumber, locals_: Sequence[int], what: str) -> tuple[GlobalId, ...]:
    """The global ids of a list."""
    if not locals_:
        return ()
    checked_length(locals_, what)
    if min(locals_) < 1 or max(locals_) > _CLIENT_MASK:
        raise bad(f"{what} holds an id outside 1..2^39-1", f"{min(locals_)}..{max(locals_)}")
    start = session << SESSION_SHIFT
    return cast("tuple[GlobalId, ...]", tuple([start | local for local in locals_]))


def checked_length(items: Sequence[Any], what: str) -> None:
    """Refuses a list above the bound of lists."""
    if len(items) > LIST_ITEMS_MAX:
        raise bad(f"{what} has more than {LIST_ITEMS_MAX} entries", len(items))


def checked_slice(number: int, what: str) -> int:
    """A door's own number of a slice."""
    if not 0 < number <= LOCAL_MASK:
        raise bad(f"{what} is outside 1..2^40-1", number)
    return number


def checked_natural(value: int, what: str) -> int:
    """Refuses a negative number."""
    if value < 0:
        raise bad(f"{what} is negative", value)
    return value


def checked_naturals(values: Sequence[int], what: str) -> tuple[int, ...]:
    """Refuses a long list and negative numbers."""
    checked_length(values, what)
    if values and min(values) < 0:
        raise bad(f"{what} holds a negative number", min(values))
    return tuple(values)


def checked_words(text: str, what: str) -> str:
    """Refuses a long or unprintable text."""
    if len(text) > WORDS_BYTES_MAX:
        raise bad(f"{what} is longer than {WORDS_BYTES_MAX} characters", len(text))
    if not text.isprintable():
        raise bad(f"{what} holds control characters", repr(text))
    return text


def checked_spec(message: types_pb2.ArraySpec, what: str) -> ArraySpec:
    """An array spec whose numbers make sense one by one; whether they fit together is the core's question."""
    checked_naturals((message.dtype,), f"{what}.dtype")
    if len(message.shape) > DIMENSIONS_MAX or len(message.shard_shape) > DIMENSIONS_MAX:
        raise bad(f"{what} has more than {DIMENSIONS_MAX} dimensions", max(len(message.shape), len(message.shard_shape)))
    checked_naturals(message.shape, f"{what}.shape")
    checked_naturals(message.shard_shape, f"{what}.shard_shape")
    checked_naturals(message.devices, f"{what}.devices")
    checked_words(message.memory_kind, f"{what}.memory_kind")
    if len(message.sharding) > SHARDING_BYTES_MAX:
        raise bad(f"{what}.sharding is larger than {SHARDING_BYTES_MAX} bytes", len(message.sharding))
    return spec_from_proto(message)


def checked_failure(message: types_pb2.Failure, what: str) -> Failure:
    """A failure that may be stored and sent on."""
    if len(message.message) > FAILURE_MESSAGE_BYTES_MAX:
        raise bad(f"{what} has a message of more than {FAILURE_MESSAGE_BYTES_MAX} characters", len(message.message))
    size = sum(len(name) + len(value) for name, value in message.metadata.items())
    if size > FAILURE_METADATA_BYTES_MAX:
        raise bad(f"{what} has more than {FAILURE_METADATA_BYTES_MAX} bytes of metadata", size)
    checked_words(message.host, f"{what}.host")
    checked_words(message.id, f"{what}.id")
    return failure_from_proto(message)


def checked_optional_failure(message: Any, what: str) -> Failure | None:
    """The failure of a message that has one; None if it is not set."""
    failure = optional_failure(message)
    return None if failure is None else checked_failure(message.failure, what)
