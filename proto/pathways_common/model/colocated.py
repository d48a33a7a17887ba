"""What door, worker and client agree on about colocated Python.

An array of strings has no fixed size. Everywhere between the two ends it is an array of bytes: every shard is a block that begins
with the length of its contents, a serialized StringArrayContents.
"""

from __future__ import annotations

import struct

from pathways_common.model.failure import Reason, fail

# A program that begins so is a ColocatedProgram.
MAGIC = b"pathways-colocated-python\n"
# Element types of IFRT: strings, and the bytes that stand for them.
STRING, BYTE = 99, 6
# A shard of strings. It rides inline, and what JAX says of a function's results fits many times.
STRING_SHARD_BYTES = 65536
# The callback of every client that prints what its colocated Python printed; others count from 1 and never get so far.
PRINT_CALLBACK_ID = 0xFFFFFFFF
# How a door begins such a line on its stderr, which the client that started it reads.
PRINTED = "pathways-printed "
# How long a call may take, those before it in its thread included: a checkpoint is written, a shard of a data set read.
CALL_TIMEOUT_NS = 300 * 10**9
# By which a daemon tells its executors of less, in seconds.
PYTHON_TIMEOUT_S = "PATHWAYS_PYTHON_TIMEOUT_S"
# The name of metadata in a failure: its host did not do this in time, and others that were asked the same may be as late.
LATE = "late"
# How long arrays may be written or read once that has begun: less, so that its own answer comes first.
STORAGE_TIMEOUT_NS = CALL_TIMEOUT_NS - 60 * 10**9

_LENGTH = struct.Struct("<I")
_ROOM = STRING_SHARD_BYTES - _LENGTH.size
# In place of the length: there were too many strings, which whoever reads them is told.
_TOO_LONG = 0xFFFFFFFF


def string_block(contents: bytes) -> bytes:
    """The block of one shard. What does not fit is left out, and the block says so."""
    if len(contents) > _ROOM:
        return _LENGTH.pack(_TOO_LONG) + bytes(_ROOM)
    return _LENGTH.pack(len(contents)) + contents + bytes(_ROOM - len(contents))


def string_contents(block: bytes | bytearray | memoryview) -> bytes:
    """What a block holds; raises PathwaysError if its strings were too many, or it is no block."""
    length = int(_LENGTH.unpack_from(block)[0]) if len(block) == STRING_SHARD_BYTES else STRING_SHARD_BYTES
    if length == _TOO_LONG:
        sentence = f"the strings of one shard take more than {_ROOM} bytes, the most there is; use an array of bytes"
        raise fail(Reason.RESOURCE_EXHAUSTED, sentence, size_bytes_max=_ROOM)
    if length > _ROOM:
        raise fail(Reason.INTERNAL, f"{len(block)} bytes are no shard of strings")
    return bytes(block[_LENGTH.size : _LENGTH.size + length])
