"""What the core remembers of runs of programs: the run, its gangs in the windows of islands, and what its trace needs.

Islands, lanes and everything else that runs refer to are in records.py.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pathways_common.model.failure import Failure
from pathways_common.model.ids import Epoch, GlobalId, HostName, IslandName, SessionNumber

from .effects import SendToHost
from .transitions import ExecutionState

if TYPE_CHECKING:
    from .memory_records import Reserved
    from .plan import Bound, Group, Plan
    from .records import Buffer, Definition, Executable, Handle, Host, Island, Lane
    from .share_records import SessionShare
    from .tenant_records import TenantName
    from .walk_records import Walk


@dataclass(slots=True, eq=False)
class Run:
    """One run of a plan. `next_step` is where the next grant begins; `spans` what is granted and not finished.

    It stands in one lane of every island of its plan and is granted on all of them in one step, at the head of all lanes.
    """

    id: GlobalId
    number: int
    definition: Definition
    plan: Plan
    argument_ids: tuple[GlobalId, ...]
    arguments: list[Handle]
    first_result_id: GlobalId
    first_value_id: GlobalId
    donated: tuple[int, ...]
    launch_id: int
    lanes: tuple[Lane, ...]  # in the order of the plan's shape
    requested_ns: int
    bound: Bound | None = None
    state: ExecutionState = ExecutionState.QUEUED
    results: list[Buffer] = field(default_factory=list)
    next_step: int = 0
    spans: list[Span] = field(default_factory=list)
    order: int = 0
    queued: bool = False
    # Hosts that got the RunPlan: all of them at the first grant, or one by one if the dispatch is sequential.
    told: dict[HostName, None] = field(default_factory=dict)
    granted_ns: int = 0
    failure: Failure | None = None
    # The next grant: where it ends, how many gangs it needs on which islands, and on how many of those it has room.
    end_step: int = 0
    needs: tuple[tuple[int, int], ...] = ()
    acquired: int = 0
    walk: Walk | None = None  # it is a piece of this walk
    # Who has to report which launch before the next grant (sequential dispatch).
    due: dict[Host, int] = field(default_factory=dict)
    counted: bool = False  # among the programs that its tenant has running
    label: str = ""  # where in its walk it is, for people
    device_ns: int = 0
    reserved: tuple[Reserved, ...] = ()  # until it is over, on islands with budgets
    passed_on: set[GlobalId] = field(default_factory=set)  # results that other runs have consumed and reserved since

    def made(self, identifier: GlobalId) -> bool:
        """Whether this is the id of one of its results."""
        return self.first_result_id <= identifier < self.first_result_id + len(self.results)


@dataclass(slots=True, eq=False)
class Span:
    """Gangs of one run on one island from one grant: sequences `sequence` to `last`, steps `first_step` to `end_step`.

    `remaining` counts the members that have not finished their own last gang of it.
    """

    run: Run
    island: Island
    share: SessionShare
    first_step: int
    end_step: int
    sequence: int
    last: int
    duration_ns: int  # as estimated
    timed: bool  # others had work here: hosts tell when it ran, and the charge is corrected by what was booked
    groups: tuple[Group, ...] = ()  # those that lie in it whole are launched as one
    members: tuple[Host, ...] = ()
    remaining: int = 0
    done_ns: int = 0  # of the estimated time, what members have told to be done
    charged_ns: int = 0  # estimated time of all devices of its gangs
    booked_ns: int = 0
    times: dict[int, list[MemberTime]] | None = None  # by sequence, until all members of the launch have told
    sent: list[SendToHost] = field(default_factory=list)
    launched: tuple[Executable, ...] = ()  # by sequence, from when the first time is told

    @property
    def joint(self) -> bool:
        """No: its gangs go in a row, a quantum of them at most."""
        return False


class MemberTime(NamedTuple):
    """When one member began and ended its part of a gang, by its own clock."""

    host: Host
    started_ns: int
    ended_ns: int


class TracedRun(NamedTuple):
    """A run that was granted, as far as its trace needs it; of a walk one of its pieces, and where in it that is.

    Without a plan it stands for everything that a session launched.
    """

    run_id: GlobalId
    plan: Plan | None
    hosts: tuple[Host, ...]
    label: str


@dataclass(slots=True, eq=False)
class Traced:
    """What a client asked for under one id: one run, or the pieces of a walk, of which the last ones are remembered."""

    run_id: GlobalId
    program: str
    requested_ns: int
    granted_ns: int
    runs: deque[TracedRun]
    walk: bool
    tenant: TenantName
    count: int = 1


@dataclass(slots=True, eq=False)
class Collection:
    """One question for a trace: (host, number of the question about one run) without an answer, and what came, in any order.

    An answer is the position of its run and of its host there, and what the host said.
    """

    request_id: int
    session: SessionNumber
    traced: Traced
    runs: tuple[TracedRun, ...]
    deadline_ns: int
    due: dict[tuple[HostName, int], tuple[int, int]] = field(default_factory=dict)
    lost: dict[HostName, None] = field(default_factory=dict)
    answers: list[tuple[int, int, HostName, IslandName, bytes]] = field(default_factory=list)


class SessionQuestion(NamedTuple):
    """A question for what a session launched, and who is still to answer it, with its epoch. It may outlive its collection."""

    trace_id: int
    due: dict[HostName, Epoch]
