"""What goes the fast way. Kept apart from it, as importing `pathways` loads neither NumPy nor messages."""

from __future__ import annotations

from collections.abc import Sequence

# Below it a call costs more than the bytes.
LARGE_BYTES = 1 << 20
# Arrays of one call, each with a descriptor that is open meanwhile.
CALL_MAX = 32
# Of a put, unless one array is larger: the deadlines of all run while the first are copied.
CALL_BYTES_MAX = 1 << 30


def calls_of(sizes_bytes: Sequence[int]) -> list[list[int]]:
    """The numbers of arrays that are put by one call, call by call, in their order."""
    calls: list[list[int]] = []
    room_bytes = 0
    for number, size_bytes in enumerate(sizes_bytes):
        if not calls or len(calls[-1]) == CALL_MAX or size_bytes > room_bytes:
            calls.append([])
            room_bytes = CALL_BYTES_MAX
        calls[-1].append(number)
        room_bytes -= size_bytes
    return calls
