"""What the core remembers of device memory: an account per host, and who waits for room on an island.

A host without a budget has no account, and an island without such hosts no `IslandMemory`: then nothing of this costs anything.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pathways_common.model.failure import Failure
from pathways_common.model.ids import HostName, SessionNumber

if TYPE_CHECKING:
    from .read_records import Copy
    from .records import Buffer, Execution, HeldArray, Host, Island, Session
    from .run_records import Run

Claimant: TypeAlias = "Execution | Run | HeldArray | Copy | Buffer"


class Release(NamedTuple):
    """Bytes of a device that count as free once the host has finished the gang `sequence`."""

    sequence: int
    local_device: int
    size_bytes: int


@dataclass(slots=True, eq=False)
class Account:
    """Memory of the devices of one host, in bytes. `held`: values, and what is reserved for granted work; per device.

    `used`: the same of all executors on the devices; one list for their accounts.
    `aside`: what the oldest work waits for, which nobody else may take. `letting`: freed, but perhaps still in use by launches.
    """

    budget_bytes: int
    held: list[int]
    aside: list[int]
    used: list[int]
    letting: deque[Release] = field(default_factory=deque)
    spilled_bytes: int = 0

    def add(self, local_device: int, size_bytes: int) -> None:
        """Takes bytes of a device, or gives some back."""
        self.held[local_device] += size_bytes
        self.used[local_device] += size_bytes


class Need(NamedTuple):
    host: Host
    local_device: int
    size_bytes: int


class Reserved(NamedTuple):
    """What a run holds on one island, in one epoch of it."""

    island: Island
    epoch: int
    needs: tuple[Need, ...]


class Leaving(NamedTuple):
    host: Host
    epoch: int
    local_device: int
    size_bytes: int


@dataclass(slots=True, eq=False)
class Claim:
    """Work that waits for memory on one island. `needs` are of devices of that island; `least`: once nobody else reads what it
    takes as a donation.
    """

    number: int
    session: Session
    work: Claimant
    what: str
    since_ns: int
    needs: tuple[Need, ...] = ()
    least: tuple[Need, ...] = ()
    behind: bool = False  # it fits, and leaves room for the work before it: it waits for that, and memory is not set aside for it


@dataclass(slots=True, eq=False)
class IslandMemory:
    """Who waits for memory of an island, the oldest first. `placing`: arrays and copies of a session, in the order asked for.

    `moved_ns`: when memory was last taken or freed. `aside_for`: the claim for whose needs memory is set aside.
    """

    claims: dict[Claimant, Claim] = field(default_factory=dict)
    placing: dict[SessionNumber, deque[HeldArray | Copy]] = field(default_factory=dict)
    aside_for: Claim | None = None
    lifted_until_ns: int = 0  # setting aside helped nobody: until then whoever fits may go
    moved_ns: int = 0
    looked_ns: int = 0  # when no idle arrays were last found
    failed: SessionNumber | None = None  # whose work was the last to fail for want of memory
    explained_ns: int = 0


@dataclass(slots=True, eq=False)
class Moving:
    """A buffer on its way to or from the stores of its hosts. `due` have not answered; `done` have it in their store.

    `number` goes with the commands and comes back in the answers; no two ways of an array have the same. `lost`: what ended the
    epoch that it is to outlive, and itself if a host does not keep its part; None: it was spilled to make room.
    """

    number: int
    buffer: Buffer
    due: dict[HostName, Host]
    done: list[Host] = field(default_factory=list)
    failure: Failure | None = None
    lost: Failure | None = None
