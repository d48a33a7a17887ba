"""What the core remembers of sessions: their devices and slices, their fences and calls, and everything that ends with them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .transitions import SessionState, SliceState

if TYPE_CHECKING:
    from pathways_common.model.failure import Failure
    from pathways_common.model.ids import CallId, GlobalId, HostName, IslandName, SessionNumber

    from .events import SliceRequested
    from .migration_records import Migration
    from .records import Buffer, Definition, Executable, Handle, Host, Island, Lane, Upload
    from .tenant_records import Tenant
    from .walk_records import Walk


class VirtualDevice(NamedTuple):
    island: Island
    position: int
    owner: int = 0  # number of its slice; 0 = a primary device


class PoolGroup(NamedTuple):
    """Virtual ids that one slice takes: `size` of them from `first` on."""

    first: int
    size: int


@dataclass(slots=True, eq=False)
class Slice:
    """A virtual slice from its request to its end. `positions` of `island` are behind `devices`, in that order."""

    number: int
    session: Session
    request: SliceRequested
    deadline_ns: int
    state: SliceState = SliceState.WAITING
    island: Island | None = None
    positions: tuple[int, ...] = ()
    group: PoolGroup | None = None
    text: str = ""  # what it was last told to wait for
    asked_ns: int = 0
    turn: int = 0  # the span of its wait; in odd ones what it waits for is kept for it
    suspended: Failure | None = None  # while it is: uses of it fail with this
    ended: Failure | None = None  # it was released: new uses of what lies on it fail with this

    @property
    def devices(self) -> tuple[int, ...]:
        """The virtual ids; none before it is bound."""
        return tuple(range(self.group.first, self.group.first + len(self.positions))) if self.group is not None else ()


@dataclass(slots=True, eq=False)
class Fence:
    fence_id: int
    order: int


@dataclass(slots=True, eq=False)
class Call:
    """One host callback on its way to the client and back."""

    id: CallId
    session: Session
    host: Host
    host_call_id: int
    deadline_ns: int


class Absence(NamedTuple):
    """Of a session or host without a connection. `until_ns` counts the time of listening."""

    reason: str
    since_ns: int
    until_ns: int


@dataclass(slots=True, eq=False)
class Session:
    """`handles` are the views it can name, `buffers` what exists on its account, `ungranted` orders not yet granted,
    with the numbers of the slices that they use.

    `islands` are those of its primary devices, `used` those and the islands of its slices. A pool device in no slice is None.
    """

    number: SessionNumber
    tenant: Tenant
    client: str
    wanted: tuple[str, ...]
    opened_ns: int
    deadline_ns: int
    state: SessionState = SessionState.PENDING
    islands: tuple[Island, ...] = ()
    used: dict[IslandName, Island] = field(default_factory=dict)
    devices: list[VirtualDevice | None] = field(default_factory=list)
    primary_count: int = 0
    pool_size: int = 0  # devices of each of its groups
    pool: deque[PoolGroup] = field(default_factory=deque)  # free groups, the least recently used first
    slices: dict[int, Slice] = field(default_factory=dict)
    releases: dict[Slice, dict[int, None]] = field(default_factory=dict)  # given back, behind these order numbers
    handles: dict[GlobalId, Handle] = field(default_factory=dict)
    buffers: dict[GlobalId, Buffer] = field(default_factory=dict)
    executables: dict[GlobalId, Executable] = field(default_factory=dict)
    dropped_loads: dict[GlobalId, int] = field(default_factory=dict)  # not held any more: hosts that are still to answer the Load
    definitions: dict[GlobalId, Definition] = field(default_factory=dict)
    lanes: dict[IslandName, Lane] = field(default_factory=dict)
    walks: dict[int, Walk] = field(default_factory=dict)
    order: int = 0
    ungranted: dict[int, tuple[int, ...]] = field(default_factory=dict)
    failed_values: int = 0  # since work that waits was last looked at; see failed_inputs.py
    fences: deque[Fence] = field(default_factory=deque)
    uploads: dict[int, Upload] = field(default_factory=dict)
    serving: dict[HostName, Host] = field(default_factory=dict)  # hosts that were asked to keep bytes ready under a ticket
    executions: int = 0
    last_execution: int = 0  # the highest id of an execution or run so far: hosts tell repeated messages by it
    calls: int = 0
    device_ns: int = 0
    blocked_on: str = ""  # the limit of its tenant that it waits for while it is pending
    absence: Absence | None = None  # None: it is connected
    values: int = 0  # ids that the core made for values inside runs, and for arrays that were moved
    migration: Migration | None = None  # of devices of it, one at a time
