"""What the core remembers of a tenant: what was declared for it, and what it has used.

A session belongs to one tenant for its life. Device time is booked in nanoseconds of one device: a gang of two devices that runs
for a second books two seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, NewType

if TYPE_CHECKING:
    from pathways_common.model.ids import SessionNumber

    from .read_records import Copy
    from .records import Execution, HeldArray, Session
    from .run_records import Run

    Line = dict[Execution | Run | Copy | HeldArray, "Waiting"]

TenantName = NewType("TenantName", str)

DEFAULT_TENANT = TenantName("default")


class Priority(IntEnum):
    """Classes: work of a higher one goes first; inside a class tenants share by weight."""

    LOW = 0
    NORMAL = 1
    HIGH = 2


@dataclass(frozen=True, slots=True)
class Declared:
    """What an administrator set. `weight` is the share beside other tenants of the class; a limit of 0 is none.

    `waits`: work beyond a limit waits for room; else it fails at once. `isolated`: new sessions have executors of their tenant's
    own.
    """

    weight: int = 1
    priority: Priority = Priority.NORMAL
    devices_max: int = 0
    memory_bytes_max: int = 0
    sessions_max: int = 0
    programs_max: int = 0
    waits: bool = True
    isolated: bool = False


class Waiting(NamedTuple):
    """A place in line: what is waited for, in words, until when, and how many bytes are needed."""

    text: str
    deadline_ns: int
    needed_bytes: int


@dataclass(slots=True, eq=False)
class Tenant:
    """One tenant, from its first session or setting on. `sessions` are those that are open or wait to be.

    The lines hold, oldest first, what waits for room in a limit.
    """

    name: TenantName
    declared: Declared = field(default_factory=Declared)
    sessions: dict[SessionNumber, Session] = field(default_factory=dict)
    device_ns: int = 0
    running: int = 0  # programs granted and not over
    queued: int = 0  # programs of which nothing is granted
    held_bytes: int = 0  # of its arrays, over all devices
    byte_ns: int = 0  # the same times nanoseconds, up to the last tick
    program_line: Line = field(default_factory=dict)
    memory_line: Line = field(default_factory=dict)
    limits_work: bool = False  # has a limit that a program may meet
    woken: bool = False  # its lines are looked at before the step ends
