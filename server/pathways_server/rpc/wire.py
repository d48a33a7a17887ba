"""Frames are joined from items that were encoded once: one command for four hosts is serialized once and copied four times.

Only the outermost framing is written by hand here (keys and lengths of the protobuf encoding); messages are protobuf's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

# sequence, received and durable (or term) are fixed64 fields 1, 2 and 3 of both frame messages.
_HEAD = struct.Struct("<BQBQBQ")
_URGENT = b"\x28\x01"  # field 5, varint, true
_LENGTH_DELIMITED = 2


def varint(value: int) -> bytes:
    """The base-128 encoding of a non-negative number."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def key(field_number: int) -> bytes:
    """The key of a length-delimited field."""
    return varint(field_number << 3 | _LENGTH_DELIMITED)


_ITEM = key(4)  # operations of a ServerFrame, commands of a ControllerFrame


def delimited(field_key: bytes, payload: bytes) -> bytes:
    """A field that holds a serialized message or bytes."""
    return field_key + varint(len(payload)) + payload


def item(field_key: bytes, payload: bytes) -> bytes:
    """One element of a frame's list: a message whose one-of holds `payload` under `field_key`."""
    inner = delimited(field_key, payload)
    return b"".join((_ITEM, varint(len(inner)), inner))


def frame(sequence: int, received: int, third: int, items: Iterable[bytes] = (), urgent: bool = False) -> bytes:
    """A ServerFrame (`third` = durable) or a ControllerFrame (`third` = term)."""
    head = _HEAD.pack(0x09, sequence, 0x11, received, 0x19, third)
    return b"".join((head, _URGENT if urgent else b"", *items))
