"""Ids as types. A global id is session number << 40 | the id that the session's door allocated (1 <= id < 2**40)."""

from __future__ import annotations

from typing import NewType

SessionNumber = NewType("SessionNumber", int)
GlobalId = NewType("GlobalId", int)  # of a buffer, view, executable or execution, anywhere in the cluster
HostName = NewType("HostName", str)
IslandName = NewType("IslandName", str)
TransferId = NewType("TransferId", int)
FetchId = NewType("FetchId", int)
WaitId = NewType("WaitId", int)
CallId = NewType("CallId", int)
Sequence = NewType("Sequence", int)  # position of a gang in its island's order; restarts at 1 each epoch
Epoch = NewType("Epoch", int)

SESSION_SHIFT = 40
LOCAL_MASK = (1 << SESSION_SHIFT) - 1
CORE_HALF = 1 << SESSION_SHIFT - 1
MOVED_QUARTER = 1 << SESSION_SHIFT - 2


def global_id(session: SessionNumber, local: int) -> GlobalId:
    """The cluster-wide id of a session's own id; raises ValueError outside 1 <= local < 2**40."""
    if not 0 < local <= LOCAL_MASK:
        raise ValueError(f"id {local} is outside 1..2**40-1")
    return GlobalId(session << SESSION_SHIFT | local)


def made_by_core(session: SessionNumber, number: int) -> GlobalId:
    """An id of the upper half of a session's ids, which its client never uses."""
    return GlobalId(session << SESSION_SHIFT | CORE_HALF | number)


def is_made_by_core(identifier: GlobalId) -> bool:
    """Whether the client of the session knows nothing of it."""
    return bool(identifier & CORE_HALF)


def moved_by_core(session: SessionNumber, number: int) -> GlobalId:
    """An id for an array of the client under which hosts know it after it was moved; no client counts so far."""
    return GlobalId(session << SESSION_SHIFT | MOVED_QUARTER | number)


def session_of(identifier: GlobalId) -> SessionNumber:
    """The session that allocated an id."""
    return SessionNumber(identifier >> SESSION_SHIFT)


def local_id(identifier: GlobalId) -> int:
    """The id as the session's door knows it."""
    return identifier & LOCAL_MASK


def id_text(identifier: int) -> str:
    """A global id for people: that of its session and its own there, such as 3.17."""
    return f"{session_of(GlobalId(identifier))}.{local_id(GlobalId(identifier))}"
