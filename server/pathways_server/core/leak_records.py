"""What hosts say that they hold, what the core takes them to hold, and the difference: leaks, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pathways_common.model.ids import Epoch, HostName, SessionNumber

if TYPE_CHECKING:
    from .records import Host
    from .tenant_records import TenantName


class HeldKind(Enum):
    """As in holdings.proto, and LOCAL for what the controller itself keeps."""

    VALUE = 1
    FAILED = 2
    PENDING = 3
    EXECUTABLE = 4
    PLAN = 5
    RUN = 6
    EXECUTION = 7
    TRANSFER = 8
    TICKET = 9
    SPILLED = 10
    LOCAL = 0


class HeldObjects(NamedTuple):
    """Objects of one kind. `sizes_bytes` and `sessions` are one per id, or empty."""

    kind: HeldKind
    ids: tuple[int, ...]
    sizes_bytes: tuple[int, ...] = ()
    sessions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportHoldings:
    """Both the daemon and its executor answer with HoldingsReported."""

    request_id: int


class Leak(NamedTuple):
    """`missing`: the core takes the host to hold it, and it does not. `session` 0: nobody knows whose it was."""

    host: str
    kind: str
    id: int
    size_bytes: int
    session: SessionNumber
    session_open: bool
    tenant: str
    missing: bool = False


@dataclass(frozen=True, slots=True)
class LeaksFound:
    """The answer to LeaksRequested. `late_hosts` did not answer in time, `lost_hosts` changed executors or went away."""

    request_id: int
    leaks: tuple[Leak, ...]
    hosts: tuple[HostName, ...]
    late_hosts: tuple[HostName, ...]
    lost_hosts: tuple[HostName, ...]
    objects: int
    left_out: int


@dataclass(slots=True)
class Group:
    """Values that live on the same hosts: those that must be there, with the sequence that makes them, and those that may."""

    must: dict[int, int] = field(default_factory=dict)
    may: dict[int, None] = field(default_factory=dict)


@dataclass(slots=True)
class HostBelief:
    """One host at the moment of the question. `epoch` 0: it has no executor that matters."""

    host: Host
    epoch: Epoch
    groups: list[Group] = field(default_factory=list)
    loaded: dict[int, None] = field(default_factory=dict)
    loading: dict[int, None] = field(default_factory=dict)
    plans: dict[int, None] = field(default_factory=dict)
    transfers: dict[int, None] = field(default_factory=dict)
    spilled: dict[int, None] = field(default_factory=dict)


@dataclass(slots=True)
class Belief:
    """All hosts at the moment of the question. Numbers above `last_number` were given out later.

    `values` are the ids of values inside runs that are not over: (first, count).
    """

    last_number: int
    sessions: dict[SessionNumber, TenantName]
    hosts: dict[HostName, HostBelief]
    runs: dict[int, None]
    run_numbers: dict[int, None]
    executions: dict[int, None]
    values: list[tuple[int, int]]


@dataclass(slots=True)
class Census:
    """One question for leaks: who has still to answer as what (`daemon` or not), and what came."""

    request_id: int
    number: int
    belief: Belief
    deadline_ns: int
    due: dict[tuple[HostName, bool], None] = field(default_factory=dict)
    told: dict[tuple[HostName, bool], list[HeldObjects]] = field(default_factory=dict)
    leaks: list[Leak] = field(default_factory=list)
    lost: dict[HostName, None] = field(default_factory=dict)
    objects: int = 0
    left_out: int = 0
