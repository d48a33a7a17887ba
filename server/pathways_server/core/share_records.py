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
    from pathways_common.model.ids import Epoch, IslandName, SessionNumber

    from .records import Island, Lane
    from .session_records import Session
    from .tenant_records import Tenant, TenantName


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
    """`busy` counts what it has on the island: lanes in line, gangs in flight, room taken for a grant elsewhere.

    `flying_ns`: what it was charged for gangs that have not ended.
    """

    peers: Peers
    virtual_time: int = 0
    busy: int = 0
    flying_ns: int = 0


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
class Ground:
    """Who competes for the devices of an island: its sessions and those of its cells, which take turns there.

    `islands`: the island itself first, then its cells. `turn` is the one that was last granted something, `turn_ns` how much
    since it got its turn, in estimated time; both are kept where there are cells.
    """

    name: IslandName
    policy: Policy = Policy.PROPORTIONAL_SHARE
    islands: list[Island] = field(default_factory=list)
    line: Line = field(default_factory=Line)  # lanes with work that nothing blocks
    shares: dict[SessionNumber, SessionShare] = field(default_factory=dict)
    tenants: dict[TenantName, TenantShare] = field(default_factory=dict)
    classes: dict[Priority, Peers] = field(default_factory=lambda: {priority: Peers() for priority in Priority})
    active: dict[SessionShare, None] = field(default_factory=dict)  # those with work; one that is alone stays without
    alone: SessionShare | None = None  # the only one that is active
    departed: tuple[tuple[SessionShare, int], ...] = ()  # the last two that left the active ones, and when, the last first
    turn: Island | None = None
    turn_ns: int = 0
    dry_ns: int = 0  # when somebody was last granted all that it had asked for
    epochs: dict[TenantName, Epoch] = field(default_factory=dict)  # the last ones of cells that were closed


@dataclass(slots=True, eq=False, repr=False)
class Estimate:
    """How long one gang of a program takes, by what its gangs took. `told_ns` is what sums of it were last made with.

    `stay_ns`: how long a gang keeps what is behind it waiting, its members' wait for each other included; 0 = not measured.
    `content`: of an executable, the estimate of its program's content, which other sessions begin with. `loaded`, `ended`: of
    content, whether hosts have loaded it, and whether a gang of it has come to its end.
    """

    duration_ns: int
    told_ns: int
    stay_ns: int = 0
    measured: bool = False
    content: Estimate | None = None
    loaded: bool = False
    ended: bool = False
