"""What a process of this host holds, as messages that answer one question: a few large ones, and no more objects than a bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pathways_proto.v1 import workers_pb2

# Ids in one message: about 300 KB, which neither a link nor the controller's turn notices.
MESSAGE_IDS_MAX = 1 << 14
# Ids in one answer; a session may have two million buffers, and who has more leaks than this knows enough.
ANSWER_IDS_MAX = 1 << 20


class Held(NamedTuple):
    """Objects of one kind (a HeldKind). `sizes_bytes` and `sessions` are one per id, or empty."""

    kind: int
    ids: Sequence[int]
    sizes_bytes: Sequence[int] = ()
    sessions: Sequence[int] = ()


def answers(
    held: Iterable[Held], request_id: int, daemon: bool, epoch: int, launched_through: int = 0
) -> list[workers_pb2.Holdings]:
    """The Holdings that answer a ReportHoldings, at least one; all but the last say that more follow."""
    found: list[workers_pb2.Holdings] = []
    room, left, left_out = 0, ANSWER_IDS_MAX, 0
    for kind, ids, sizes, sessions in held:
        taken = min(len(ids), left)
        left -= taken
        left_out += len(ids) - taken
        position = 0
        while position < taken:
            if not room:
                found.append(workers_pb2.Holdings(more=True))
                room = MESSAGE_IDS_MAX
            end = min(taken, position + room)
            part = slice(position, end)
            found[-1].objects.add(kind=kind, ids=ids[part], size_bytes=sizes[part], sessions=sessions[part])
            room -= end - position
            position = end
    if not found:
        found.append(workers_pb2.Holdings())
    for message in found:
        message.request_id, message.daemon = request_id, daemon
        message.epoch, message.launched_through = epoch, launched_through
    found[-1].more = False
    found[-1].left_out = left_out
    return found
