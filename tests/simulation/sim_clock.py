"""How long simulated hosts compute, as they tell it and as it was; a seed's tenants, weights, classes and policies; the books.

A member's part of a gang begins when the gang is next in its order and its inputs are there, and ends with its results. The
check works from these times alone: of gangs that were granted as timed, the devices times the time from the last start to the
last end; of others, what each member took.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from pathways_server.core.events import GangTime
from pathways_server.core.share_records import Policy
from pathways_server.core.tenant_records import Declared, Priority, TenantName

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

_TENANTS = ("ads", "maps", "search")


@dataclass
class Clock:
    """Of one executor."""

    books: Books
    place: tuple[str, int]  # island and epoch
    begun_ns: int = 0
    busy_ns: int = 0
    rows: list[GangTime] = field(default_factory=list)

    def begin(self, now_ns: int) -> None:
        self.begun_ns = now_ns

    def end(self, sequence: int, timed: bool, now_ns: int) -> None:
        self.busy_ns += now_ns - self.begun_ns
        if timed:
            self.rows.append(GangTime(sequence, self.begun_ns, now_ns))
        self.books.note((*self.place, sequence), timed, self.begun_ns, now_ns)

    def tell(self) -> tuple[int, tuple[GangTime, ...]]:
        """What a report says: busy so far, and rows that were not told before."""
        rows, self.rows = tuple(self.rows), []
        return self.busy_ns, rows


@dataclass
class Books:
    """What every gang took, by island, epoch and sequence: whether it was timed, and its members' starts and ends."""

    gangs: dict[tuple[str, int, int], tuple[bool, list[tuple[int, int]]]] = field(default_factory=dict)

    def note(self, gang: tuple[str, int, int], timed: bool, begun_ns: int, ended_ns: int) -> None:
        self.gangs.setdefault(gang, (timed, []))[1].append((begun_ns, ended_ns))

    def expected(self) -> tuple[int, int]:
        """Device time and skew of all gangs, with one device per host."""
        total = skew = 0
        for timed, members in self.gangs.values():
            own = [end - begin for begin, end in members]
            if not timed:
                total += sum(own)
                continue
            duration = max(end for _, end in members) - max(begin for begin, _ in members)
            total += duration * len(members)
            skew += sum(max(each - duration, 0) for each in own)
        return total, skew

    def check(self, cluster: Cluster) -> None:
        """Everything is booked once, to tenants or as skew. What an epoch took with it is not known to anybody."""
        state = cluster.core.state
        booked = sum(tenant.device_ns for tenant in state.tenants.values())
        skew = sum(island.skew_ns for island in state.islands.values())
        if cluster.devices > 1 or cluster.lost_islands:
            return
        cluster.accounted += 1
        if (booked, skew) != self.expected():
            cluster.world.violate("device time", f"booked {booked} and skew {skew}, the hosts spent {self.expected()}")


def tenant_of(number: int) -> TenantName:
    return TenantName(_TENANTS[number % len(_TENANTS)])


def declare(cluster: Cluster, seed: int) -> None:
    """Weights and classes of this seed."""
    draw = Random(seed)
    for name in _TENANTS:
        tenant = cluster.core.state.tenants.get(TenantName(name))
        if tenant is not None:
            tenant.declared = Declared(
                weight=draw.choice([1, 2, 4, 8]), priority=draw.choice(list(Priority)), isolated=cluster.isolation.isolates(name)
            )


def policies(seed: int) -> dict[str, Any]:
    """Settings of the core: how the islands of this seed choose."""
    draw = Random(seed)
    return {
        "island_policies": {name: draw.choice(list(Policy)) for name in ("a", "b")},
        "ageing_ns": draw.choice([2_000_000, 50_000_000]),
        "guess_ns": draw.choice([100_000, 2_000_000]),
        "quantum_ns": draw.choice([500_000, 2_000_000]),
    }
