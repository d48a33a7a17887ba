"""The numbering of answers: the client frees its memory per request only if they follow this rule.

Every request gets exactly one answer. Numbers 0, 1, 2, ... go to answers that
have a response member, in the order they are made; except the answer to init (the client holds it for the whole session, so a
number on it would never complete), and those to array deletes, destructs and the check_future after a delete, which the
client handles outside the counting path. Failures are not numbered either: the user context of such a request rides on the
next numbered answer. A context the client does not hold aborts the client, so each is reported once and zero never.
"""

from __future__ import annotations

import struct
from typing import Any

from pathways_proto.ifrt import session_pb2, status_pb2

# What an answer outside the counting path carries: far above any number, it never stands in the way of one.
UNCOUNTED = 1 << 62


def varint(value: int) -> bytes:
    """Protobuf's base-128 encoding of a number >= 0."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def serialized(message: Any) -> bytes:
    """The bytes of a protobuf message, as a typed value."""
    data: bytes = message.SerializeToString()
    return data


_UNCOUNTED_FIELD = b"\x18" + varint(UNCOUNTED)


def empty_member(name: str) -> bytes:
    """The bytes of an answer's member `name` without content, to be set explicitly."""
    response = session_pb2.IfrtResponse()
    getattr(response, name).SetInParent()
    return serialized(response)


class Envelope:
    """Makes the answers of one IFRT session as bytes. `member` is a serialized IfrtResponse without metadata."""

    __slots__ = ("_next", "_owed")

    def __init__(self) -> None:
        self._next = 0
        self._owed: list[int] = []

    def answer(self, op_id: int, user_context_id: int, member: bytes, counted: bool = True) -> bytes:
        """A success. `counted=False` for init, array deletes and destructs, and the check_future of a delete."""
        if user_context_id:
            self._owed.append(user_context_id)
        if counted:
            owed = self._owed
            metadata = b"\x09" + op_id.to_bytes(8, "little") + b"\x18" + varint(self._next)
            self._next += 1
            if owed:
                metadata += b"\x22" + varint(8 * len(owed)) + struct.pack(f"<{len(owed)}Q", *owed)
                owed.clear()
        else:
            metadata = b"\x09" + op_id.to_bytes(8, "little") + _UNCOUNTED_FIELD
        return b"\x0a" + varint(len(metadata)) + metadata + member

    def refuse(self, op_id: int, user_context_id: int, status: status_pb2.StatusProto) -> bytes:
        """A failure: no member, no number."""
        if user_context_id:
            self._owed.append(user_context_id)
        metadata = session_pb2.ResponseMetadata(op_id=op_id, status=status, seq_num=UNCOUNTED)
        return serialized(session_pb2.IfrtResponse(response_metadata=metadata))
