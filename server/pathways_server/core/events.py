"""What the core is told. Past participles; frozen; made by the shells from messages that they checked for form.

Ids inside events are global (`ids.global_id`). Whatever a client or worker can get wrong (unknown ids, wrong counts)
is answered by the core with a failure and never with an assertion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pathways_common.model.ids import Epoch, HostName, IslandName, Sequence
from pathways_common.model.registered import RegisteredProgram

from .host_events import ArrayRestored as ArrayRestored
from .host_events import ArraySpilled as ArraySpilled
from .host_events import BecameReady as BecameReady
from .host_events import CallbackCalled as CallbackCalled
from .host_events import CoordinatorStarted as CoordinatorStarted
from .host_events import EpochEntered as EpochEntered
from .host_events import EpochLeft as EpochLeft
from .host_events import EpochRefused as EpochRefused
from .host_events import ExecutableInspected as ExecutableInspected
from .host_events import ExecutableLoaded as ExecutableLoaded
from .host_events import ExecutorLost as ExecutorLost
from .host_events import GangTime as GangTime
from .host_events import HoldingsReported as HoldingsReported
from .host_events import HostJoined as HostJoined
from .host_events import HostLost as HostLost
from .host_events import HostProgressed as HostProgressed
from .host_events import HostPulsed as HostPulsed
from .host_events import NodeFailed as NodeFailed
from .host_events import OrderBroken as OrderBroken
from .host_events import PlanLoaded as PlanLoaded
from .host_events import PrepareRefused as PrepareRefused
from .host_events import SequenceMissed as SequenceMissed
from .host_events import ShardFetched as ShardFetched
from .host_events import TransferLanded as TransferLanded
from .link_events import HostDetached as HostDetached
from .link_events import HostHeard as HostHeard
from .link_events import HostResumed as HostResumed
from .link_events import LinkEvent as LinkEvent
from .link_events import SessionDetached as SessionDetached
from .link_events import SessionResumed as SessionResumed
from .migration_records import DrainSet as DrainSet
from .migration_records import MigrationRequested as MigrationRequested
from .session_events import ArrayMade as ArrayMade
from .session_events import CallbackReturned as CallbackReturned
from .session_events import CancelRequested as CancelRequested
from .session_events import CompileRequested as CompileRequested
from .session_events import CopyRequested as CopyRequested
from .session_events import DefinitionRequested as DefinitionRequested
from .session_events import ErrorArrayMade as ErrorArrayMade
from .session_events import ExecuteRequested as ExecuteRequested
from .session_events import FenceRequested as FenceRequested
from .session_events import FetchRequested as FetchRequested
from .session_events import FusionRequested as FusionRequested
from .session_events import InspectRequested as InspectRequested
from .session_events import OpeningRequested as OpeningRequested
from .session_events import Piece as Piece
from .session_events import RegistrationRequested as RegistrationRequested
from .session_events import Released as Released
from .session_events import ReshardRequested as ReshardRequested
from .session_events import ResumeRequested as ResumeRequested
from .session_events import RunRequested as RunRequested
from .session_events import SessionClosed as SessionClosed
from .session_events import SessionOpened as SessionOpened
from .session_events import SliceReleased as SliceReleased
from .session_events import SliceRequested as SliceRequested
from .session_events import SuspendRequested as SuspendRequested
from .session_events import UnregistrationRequested as UnregistrationRequested
from .session_events import ViewMade as ViewMade
from .session_events import ViewsDeleted as ViewsDeleted
from .session_events import WaitRequested as WaitRequested
from .share_records import Policy
from .tenant_events import Death as Death
from .tenant_events import DeathsRestored as DeathsRestored
from .tenant_events import ProgramAllowed as ProgramAllowed
from .tenant_events import TenantRemoved as TenantRemoved
from .tenant_events import TenantSet as TenantSet
from .tenant_records import TenantName


class IslandPosition(NamedTuple):
    """A position in the order of an island."""

    island: IslandName
    epoch: Epoch
    sequence: Sequence


@dataclass(frozen=True, slots=True)
class TraceRequested:
    """A tool asks for the trace of a run, 0 = the last one that was granted; `request_id` is the shell's own number.

    `tenant`: whose run it has to be; None: anybody's. `session`: asked for is what it launched behind these positions.
    """

    request_id: int
    execution_id: int
    tenant: TenantName | None = None
    session: int = 0
    after: tuple[IslandPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceCollected:
    """`payload` is a serialized workers.proto TraceCollected."""

    host: HostName
    trace_id: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class LeaksRequested:
    """A tool asks what is held without an owner; `request_id` is the shell's own number."""

    request_id: int


@dataclass(frozen=True, slots=True)
class ProgramsRestored:
    """What an earlier life of the controller was told to keep; once, before anything else."""

    programs: tuple[RegisteredProgram, ...]


@dataclass(frozen=True, slots=True)
class PolicySet:
    """An administrator chose how an island orders its work, until the controller ends."""

    island: IslandName
    policy: Policy


@dataclass(frozen=True, slots=True)
class WindowDue:
    """The time of a WakeAt has come: by its estimate what runs on the island is nearly done."""

    island: IslandName


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A timer tick, about every 100 ms: deadlines are looked at."""


Event = (
    SessionOpened | SessionClosed | CompileRequested | ExecuteRequested | ArrayMade | ErrorArrayMade | ViewMade | CopyRequested
    | ReshardRequested
    | ViewsDeleted | Released | WaitRequested | FetchRequested | InspectRequested | CallbackReturned | FenceRequested
    | SliceRequested | SliceReleased | SuspendRequested | ResumeRequested
    | HostJoined | HostLost | CoordinatorStarted | EpochEntered | EpochRefused | ExecutorLost | ExecutableLoaded | NodeFailed
    | PrepareRefused | TransferLanded | ShardFetched | BecameReady | ExecutableInspected | CallbackCalled | OrderBroken
    | SequenceMissed | HostProgressed | TimePassed
    | DefinitionRequested | RunRequested | RegistrationRequested | OpeningRequested | UnregistrationRequested | CancelRequested
    | FusionRequested | TraceRequested | TraceCollected | ProgramsRestored | PolicySet | TenantSet | TenantRemoved
    | WindowDue | ArraySpilled | ArrayRestored | PlanLoaded | DeathsRestored | ProgramAllowed | LeaksRequested | HoldingsReported
    | HostPulsed | LinkEvent | MigrationRequested | DrainSet | EpochLeft
)  # fmt: skip
