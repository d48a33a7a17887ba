"""What the core remembers of a migration: whose devices move from where to where, what is held back, and what was copied."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from pathways_common.model.failure import Failure
from pathways_common.model.ids import HostName, IslandName, SessionNumber

from .session_events import (
    ArrayMade,
    CancelRequested,
    CompileRequested,
    CopyRequested,
    DefinitionRequested,
    ErrorArrayMade,
    ExecuteRequested,
    FenceRequested,
    FetchRequested,
    FusionRequested,
    InspectRequested,
    OpeningRequested,
    RegistrationRequested,
    Released,
    ReshardRequested,
    ResumeRequested,
    RunRequested,
    SliceReleased,
    SliceRequested,
    SuspendRequested,
    UnregistrationRequested,
    ViewMade,
    ViewsDeleted,
    WaitRequested,
)
from .transitions import MigrationState

if TYPE_CHECKING:
    from .records import Buffer, Island, Session

HeldBack = (
    CompileRequested | ExecuteRequested | ArrayMade | ErrorArrayMade | ViewMade | CopyRequested | ViewsDeleted | Released
    | ReshardRequested | WaitRequested | FetchRequested | InspectRequested | FenceRequested | SliceRequested | SliceReleased
    | DefinitionRequested | RunRequested | RegistrationRequested | OpeningRequested | UnregistrationRequested | FusionRequested
    | CancelRequested | SuspendRequested | ResumeRequested
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MigrationRequested:
    """A tool asks to move a slice of a session to another island; `tenant` is set if only its own may be moved."""

    request_id: int
    session: SessionNumber
    slice_id: int
    island: str
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class DrainSet:
    """An administrator wants a host empty, or takes it back. `island` is known of one that may not have joined yet."""

    host: HostName
    on: bool
    island: IslandName | None = None


@dataclass(frozen=True, slots=True)
class MigrationEnded:
    """The answer: where it lies now, and what was moved; with a failure everything is where it was."""

    request_id: int
    island: IslandName
    hosts: tuple[HostName, ...]
    array_count: int
    size_bytes: int
    failure: Failure | None


class Purpose(Enum):
    """Why devices change."""

    MIGRATE = "MIGRATE"
    SUSPEND = "SUSPEND"  # to none
    RESUME = "RESUME"  # from none
    REGROUP = "REGROUP"  # to the same ones, while their island forms again without a host


@dataclass(slots=True, eq=False)
class Migration:
    """Devices of one slice, or (`owner` 0) the primary ones of a session on an island, or (None) all of both, go elsewhere.

    `places` says for each old position the new one. `closed`: what the session asks for is held back, in `held_back`. `copies`
    are by the arrays that they shall stand for. `obstacle`: what it waited for when it was last looked at.
    """

    number: int
    session: Session
    owner: int | None
    origin: Island
    target: Island
    places: dict[int, int]
    deadline_ns: int
    purpose: Purpose = Purpose.MIGRATE
    request_ids: list[int] = field(default_factory=list)
    state: MigrationState = MigrationState.GATHERING
    closed: bool = False
    held_back: list[HeldBack] = field(default_factory=list)
    copies: dict[Buffer, Buffer] = field(default_factory=dict)
    obstacle: str = ""
    failure: Failure | None = None  # why it ended without having moved anything
