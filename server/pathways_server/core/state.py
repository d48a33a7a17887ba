"""The tables of the core and the one place where effects are collected.

Modules of the core are functions over a `State`. Whatever becomes possible during a step (a value arrived, a program
was loaded) is put into `woken` and looked at before the step ends, in that order; frees are gathered per host and leave
last, behind everything that may still use the value.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import CallId, FetchId, GlobalId, HostName, IslandName, SessionNumber, TransferId
from pathways_common.model.image import KeptImage
from pathways_common.model.registered import RegisteredProgram

from .config import CoreConfig
from .effects import Effect, Free, HostCommand, Log, SendToHost, SendToSession, SessionReply
from .history import NOTED, History
from .leak_records import Census
from .memory_records import Leaving, Moving
from .migration_records import HeldBack, Migration
from .occupancy import Occupancy
from .placer import Chosen
from .read_records import Copy, Fetch
from .records import Call, Host, Inspect, Island, Reader, Session, Slice, Transfer, Woken
from .run_records import Collection, SessionQuestion, Traced
from .share_records import Estimate
from .suspicions import Suspicion
from .tenant_events import Death
from .tenant_records import Tenant, TenantName
from .transitions import TABLE

if TYPE_CHECKING:
    from .drains import Drain
    from .plan import Plan
    from .regroupings import Regrouping

StateT = TypeVar("StateT", bound=Enum)

# Pauses of the controller that are remembered; what is older than the first of several counts as if it had listened.
_PAUSES = 8


class Stateful(Protocol[StateT]):
    state: StateT


class State:
    """All tables. Every one is bounded by `config`."""

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self.now_ns = 0
        self.effects: list[Effect] = []
        self.hosts: dict[HostName, Host] = {}
        self.islands: dict[IslandName, Island] = {}
        self.sessions: dict[SessionNumber, Session] = {}
        self.pending: dict[SessionNumber, Session] = {}
        self.slices: dict[int, Slice] = {}
        # Of each session the oldest request that waits for devices of others, as last looked at, and which: the oldest first.
        self.kept_for: dict[SessionNumber, tuple[Slice, Chosen]] = {}
        self.readers: dict[int, Reader] = {}
        self.pulls: dict[int, Fetch] = {}
        self.suspicions: deque[Suspicion] = deque()
        self.source_fetches: dict[FetchId, Copy] = {}
        self.transfers: dict[TransferId, Transfer] = {}
        self.calls: dict[CallId, Call] = {}
        self.inspects: dict[int, Inspect] = {}
        # Who fills those tables in which one could be in the way of others.
        self.reading = Occupancy(config.readers_max)
        self.transferring = Occupancy(config.transfers_max)
        self.inspecting = Occupancy(config.calls_max)
        self.collecting = Occupancy(config.calls_max)
        self.traced: deque[Traced] = deque(maxlen=config.traced_max)
        self.collections: dict[int, Collection] = {}
        self.asked: dict[SessionNumber, SessionQuestion] = {}  # for what a session launched; not answered by all hosts
        self.censuses: dict[int, Census] = {}
        self.programs: dict[str, int] = {}
        self.agreements: dict[int, Plan] = {}  # by plan id, those that not all hosts have answered
        self.images: dict[str, dict[HostName, KeptImage]] = {}  # by key, the last used last
        self.tenants: dict[TenantName, Tenant] = {}
        self.estimates: dict[str, Estimate] = {}  # by program, the last made last
        self.estimates_moved = 0
        self.registry: dict[str, dict[str, dict[int, RegisteredProgram]]] = {}  # tenant, name, version
        self.deaths: dict[str, list[Death]] = {}  # by the content of a program
        self.away: dict[Session | Host, None] = {}  # who has no connection
        self.ticked_ns = self.listened_ns = 0  # the last timer tick; how long the controller was listening up to it
        self.pauses: deque[tuple[int, int]] = deque(maxlen=_PAUSES)  # the last ones: from when to when it was not
        self.heard_from_ns = 0  # when it has listened for so long, every executor that lives was heard since the last pause
        self.integrated_ns = 0  # up to when what tenants hold is added up
        self.frees: dict[HostName, list[GlobalId]] = {}
        self.budgets = False  # whether any host has, or had, a limited memory
        self.leaving: list[Leaving] = []  # of the frees of this step, what counts as free once they are sent
        self.relieved: dict[IslandName, Island] = {}  # where work that waits for memory is to be looked at
        self.moving: dict[GlobalId, Moving] = {}  # what is being spilled or restored
        self.drains: dict[HostName, Drain] = {}  # by the names of machines
        self.regroupings: dict[IslandName, Regrouping] = {}  # islands that form again under their sessions
        self.migrations: dict[int, Migration] = {}
        self.caught_up: list[tuple[Session, list[HeldBack]]] = []  # held back by a migration, to be handled in this step
        self.vacated: list[tuple[Session, Island]] = []  # what a migration has moved away from, until nothing is left there
        self.woken: deque[Woken] = deque()
        self.failing: dict[SessionNumber, Session] = {}  # whose work that waits is to be looked at: a value of theirs has failed
        self.rows: dict[tuple[str, str, str], int] = {}
        self.history = History(config.work_notes_max, config.event_notes_max)
        self._number = 0
        self._failures = 0

    def number(self) -> int:
        """The next number for transfers, reads, calls and inspections; never used twice."""
        self._number += 1
        return self._number

    def tell(self, host: Host, command: HostCommand, urgent: bool = False) -> None:
        self.effects.append(SendToHost(host.name, command, urgent))

    def reply(self, session: Session, reply: SessionReply) -> None:
        self.effects.append(SendToSession(session.number, reply))

    def log(self, phrase: str, **fields: object) -> None:
        values = tuple((name, str(value)) for name, value in fields.items())
        self.effects.append(Log(phrase, values))
        self.history.logged(self.now_ns, phrase, values)

    def ignore(self, event: object, reason: str) -> None:
        """A late, duplicate or foreign report: normal, and worth one line, but no part of a story."""
        self.effects.append(Log("report ignored", (("event", type(event).__name__), ("reason", reason))))

    def failure(self, reason: Reason, message: str, *, host: str = "", retryable: bool = False, **metadata: object) -> Failure:
        """A new failure with a number of its own; made where the first cause is seen."""
        self._failures += 1
        values = MappingProxyType({name: str(value) for name, value in metadata.items()})
        return Failure(reason, message, host=host, id=f"f{self._failures}", metadata=values, retryable=retryable)

    def move(self, record: Stateful[StateT], target: StateT) -> None:
        """The only way in which a record changes its state; an undeclared move is a defect of ours."""
        source = record.state
        assert target in TABLE[source], f"{type(record).__name__}: no move from {source.name} to {target.name}"
        row = (type(source).__name__, source.name, target.name)
        self.rows[row] = self.rows.get(row, 0) + 1
        record.state = target
        noted = NOTED.get(type(record))
        if noted is not None:
            noted(self.history, self.now_ns, record, target)

    def free(self, host: Host, identifier: GlobalId) -> None:
        """Tells a host to forget a value, at the end of this step."""
        ids = self.frees.get(host.name)
        if ids is None:
            self.frees[host.name] = [identifier]
        else:
            ids.append(identifier)

    def flush_frees(self) -> None:
        shared = Free(())  # members of an island mostly free the same: one object for them
        for name, ids in self.frees.items():
            if name in self.hosts:
                freed = tuple(ids)
                if freed != shared.ids:
                    shared = Free(freed)
                self.effects.append(SendToHost(name, shared))
        self.frees.clear()
