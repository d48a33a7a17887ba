"""Every state a record of the core can be in and every move that is allowed; `State.move` asserts them.

One dimension per enum: that a buffer was deleted, or an executable released, is a field of its record and not a state.
The diagrams in the documents are made from `TABLE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class IslandState(Enum):
    EMPTY = "EMPTY"  # no host has joined
    WAITING = "WAITING"  # hosts are missing, or a failed try is to be repeated
    COORDINATING = "COORDINATING"  # the coordination service is being started
    ENTERING = "ENTERING"  # members enter the epoch
    ACTIVE = "ACTIVE"
    ENDING = "ENDING"  # an executor is gone; what others run comes to its end, and nothing new begins


class HostState(Enum):
    JOINED = "JOINED"
    ENTERING = "ENTERING"
    ACTIVE = "ACTIVE"


class SessionState(Enum):
    PENDING = "PENDING"  # no island of its wish is ACTIVE yet
    OPEN = "OPEN"
    CLOSED = "CLOSED"


class SliceState(Enum):
    WAITING = "WAITING"  # asked for; what it needs is not free
    BOUND = "BOUND"
    SUSPENDED = "SUSPENDED"  # its arrays are in stores, its devices are free for others
    RELEASING = "RELEASING"  # given back; work that was asked for before is not granted yet
    ENDED = "ENDED"


class MigrationState(Enum):
    GATHERING = "GATHERING"  # what the session asked for before comes to its end
    MOVING = "MOVING"  # its arrays are copied
    ENDED = "ENDED"


class ExecutableState(Enum):
    IDLE = "IDLE"  # not in the executors of the current epoch
    LOADING = "LOADING"
    LOADED = "LOADED"
    FAILED = "FAILED"


class ExecutionState(Enum):
    QUEUED = "QUEUED"
    GRANTED = "GRANTED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"


class BufferState(Enum):
    EXPECTED = "EXPECTED"  # result of an execution that is not granted
    PENDING = "PENDING"  # bytes or a copy are on their way
    PRESENT = "PRESENT"  # its hosts hold it, as a value or as a future
    SPILLING = "SPILLING"  # on its way from the devices into the stores of its hosts
    SPILLED = "SPILLED"  # in the stores of its hosts, and on no device
    RESTORING = "RESTORING"  # on its way back
    POISONED = "POISONED"  # will never hold a value
    CONSUMED = "CONSUMED"  # donated to a granted execution
    FREED = "FREED"  # the hosts were told to forget it


_I, _H, _S, _E, _X, _B = IslandState, HostState, SessionState, ExecutableState, ExecutionState, BufferState
_V, _M = SliceState, MigrationState

TABLE: Mapping[Enum, tuple[Enum, ...]] = MappingProxyType({
    _I.EMPTY: (_I.WAITING,),
    _I.WAITING: (_I.EMPTY, _I.COORDINATING, _I.ENTERING),
    _I.COORDINATING: (_I.ENTERING, _I.WAITING),
    _I.ENTERING: (_I.ACTIVE, _I.WAITING),
    _I.ACTIVE: (_I.WAITING, _I.ENDING),
    _I.ENDING: (_I.WAITING,),
    _H.JOINED: (_H.ENTERING,),
    _H.ENTERING: (_H.ACTIVE, _H.JOINED),
    _H.ACTIVE: (_H.JOINED,),
    _S.PENDING: (_S.OPEN, _S.CLOSED),
    _S.OPEN: (_S.CLOSED,),
    _S.CLOSED: (),
    _V.WAITING: (_V.BOUND, _V.ENDED),
    _V.BOUND: (_V.RELEASING, _V.SUSPENDED, _V.ENDED),
    _V.SUSPENDED: (_V.BOUND, _V.RELEASING, _V.ENDED),
    _V.RELEASING: (_V.ENDED,),
    _V.ENDED: (),
    _M.GATHERING: (_M.MOVING, _M.ENDED),
    _M.MOVING: (_M.ENDED,),
    _M.ENDED: (),
    _E.IDLE: (_E.LOADING, _E.FAILED),
    _E.LOADING: (_E.LOADED, _E.FAILED, _E.IDLE),
    _E.LOADED: (_E.IDLE,),
    _E.FAILED: (),
    _X.QUEUED: (_X.GRANTED, _X.FAILED),
    _X.GRANTED: (_X.FINISHED, _X.FAILED),
    _X.FINISHED: (),
    _X.FAILED: (),
    _B.EXPECTED: (_B.PRESENT, _B.POISONED, _B.FREED),
    _B.PENDING: (_B.PRESENT, _B.POISONED, _B.FREED),
    _B.PRESENT: (_B.POISONED, _B.CONSUMED, _B.FREED, _B.SPILLING, _B.PENDING),
    _B.SPILLING: (_B.SPILLED, _B.PRESENT, _B.RESTORING, _B.POISONED),
    _B.SPILLED: (_B.RESTORING, _B.FREED, _B.POISONED),
    _B.RESTORING: (_B.PRESENT, _B.POISONED),
    _B.POISONED: (_B.FREED,),
    _B.CONSUMED: (_B.FREED,),
    _B.FREED: (),
})  # fmt: skip
