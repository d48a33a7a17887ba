"""What the core remembers of the order in which lanes of an island are served: policies, shares and the line.

Virtual time: whoever is given device time moves on by it, divided by its weight, and the one that is furthest behind goes next.
It has a meaning only among peers: the tenants of a class on one island, or the sessions of a tenant there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from .tenant_records import Priority

if TYPE_CHECKING:
    from .records import Lane
    from .session_records import Session
    from .tenant_records import Tenant


class Policy(Enum):
    """How an island chooses among lanes that nothing blocks; the rules are in policies.py."""

    FIFO = "fifo"
    PROPORTIONAL_SHARE = "proportional_share"
    PRIORITY = "priority"


@dataclass(slots=True, eq=False, repr=False)
class Peers:
    """Shares that compete with one another. `active` have work; `floor` is the highest virtual time of one that had."""

    active: dict[Share, None] = field(default_factory=dict)
    floor: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Share:
    """`busy` counts what it has on the island: lanes in line, gangs in flight, room taken for a grant elsewhere."""

    peers: Peers
    virtual_time: int = 0
    busy: int = 0


@dataclass(slots=True, eq=False, repr=False)
class TenantShare(Share):
    """A tenant on one island. `waiting` are its sessions in line; `since_ns` is when it was last served, or
    asked for what it has in line."""

    tenant: Tenant = field(kw_only=True)
    priority: Priority = field(kw_only=True)  # the class of its peers
    sessions: Peers = field(default_factory=Peers)
    waiting: dict[SessionShare, None] = field(default_factory=dict)
    since_ns: int = 0


@dataclass(slots=True, eq=False, repr=False)
class SessionShare(Share):
    """A session on one island. `lanes` are those of its lanes that are in line: its own, and those of its walks."""

    session: Session = field(kw_only=True)
    tenant: TenantShare = field(kw_only=True)
    lanes: dict[Lane, None] = field(default_factory=dict)
    idle_ns: int = 0  # when it had no work any more


class Line:
    """Lanes of an island with work that nothing blocks, in the order in which they came, and their tenants."""

    __slots__ = ("lanes", "tenants")

    def __init__(self) -> None:
        self.lanes: dict[Lane, None] = {}
        self.tenants: dict[TenantShare, None] = {}

    def __len__(self) -> int:
        return len(self.lanes)

    def __iter__(self) -> Iterator[Lane]:
        return iter(self.lanes)

    def __contains__(self, lane: object) -> bool:
        return lane in self.lanes


@dataclass(slots=True, eq=False, repr=False)
class Estimate:
    """How long one gang of a program takes, by what its gangs took. `told_ns` is what sums of it were last made with.

    `content`: of an executable, the estimate of its program's content, which other sessions begin with.
    """

    duration_ns: int
    told_ns: int
    measured: bool = False
    content: Estimate | None = None
