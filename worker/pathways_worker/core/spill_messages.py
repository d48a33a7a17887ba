"""Events and effects of the spill store, which `core.spilled` decides on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, TypeAlias

from pathways_common.model.failure import Failure
from pathways_common.model.ids import GlobalId

# Of this daemon's life; a buffer that is spilled again gets another.
CopyNumber = NewType("CopyNumber", int)
# Of one SpillArray or RestoreArray; what is said about it repeats it.
SpillNumber = NewType("SpillNumber", int)


@dataclass(frozen=True, slots=True)
class SpillWanted:
    """A SpillArray; `executor` says whether there is one to ask. `owed`: it is answered whatever becomes of the executor."""

    buffer_id: GlobalId
    number: SpillNumber
    executor: bool
    owed: bool = False


@dataclass(frozen=True, slots=True)
class Offered:
    """The executor has put the buffer aside, computed."""

    buffer_id: GlobalId
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ExecutorRefused:
    """The executor has told the controller why the buffer stays, or that it is gone."""

    buffer_id: GlobalId
    number: SpillNumber


@dataclass(frozen=True, slots=True)
class Arrived:
    """All bytes of a buffer that was taken are here, or `failure` says why they cannot be kept."""

    buffer_id: GlobalId
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A copy is on disk as well, or it could not be written."""

    copy: CopyNumber
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class RestoreWanted:
    """A RestoreArray; `executor` says whether there is one to have it."""

    buffer_id: GlobalId
    number: SpillNumber
    executor: bool


@dataclass(frozen=True, slots=True)
class RestoreExpected:
    """The executor has a place for the bytes."""

    buffer_id: GlobalId


@dataclass(frozen=True, slots=True)
class Restored:
    """The executor has told the controller how a restore ended; `lost`: the copy cannot be read."""

    buffer_id: GlobalId
    number: SpillNumber
    succeeded: bool
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """A DropSpilled."""

    buffer_ids: tuple[GlobalId, ...]


@dataclass(frozen=True, slots=True)
class ExecutorChanged:
    """Another executor, or none: what was to come from the one before does not."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The link to the controller is gone, and with it everything that it had spilled."""


Event: TypeAlias = (
    SpillWanted
    | Offered
    | ExecutorRefused
    | Arrived
    | Written
    | RestoreWanted
    | RestoreExpected
    | Restored
    | Dropped
    | ExecutorChanged
    | Closed
)


@dataclass(frozen=True, slots=True)
class Ask:
    """Pass the SpillArray on to the executor."""

    buffer_id: GlobalId
    number: SpillNumber


@dataclass(frozen=True, slots=True)
class Take:
    """Have the executor send the bytes, to memory or straight to disk."""

    buffer_id: GlobalId
    copy: CopyNumber
    on_disk: bool


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the controller that the buffer stays, after the executor has put it back if it had offered it."""

    buffer_id: GlobalId
    number: SpillNumber
    failure: Failure
    offered: bool


@dataclass(frozen=True, slots=True)
class Confirm:
    """Have the executor forget the buffer, and tell the controller that it is here."""

    buffer_id: GlobalId
    number: SpillNumber
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Write:
    """Write this copy to disk as well."""

    copy: CopyNumber


@dataclass(frozen=True, slots=True)
class Release:
    """The copy stays on disk: free its memory."""

    copy: CopyNumber


@dataclass(frozen=True, slots=True)
class Discard:
    """Nobody will want this copy: free its memory, remove its file."""

    copy: CopyNumber


@dataclass(frozen=True, slots=True)
class Admit:
    """Pass the RestoreArray on to the executor, with the shards of this copy."""

    buffer_id: GlobalId
    number: SpillNumber
    copy: CopyNumber


@dataclass(frozen=True, slots=True)
class Ship:
    """Send the bytes of this copy to the executor."""

    buffer_id: GlobalId
    copy: CopyNumber


@dataclass(frozen=True, slots=True)
class RefuseRestore:
    """Tell the controller why the buffer is not restored."""

    buffer_id: GlobalId
    number: SpillNumber
    failure: Failure


Effect: TypeAlias = Ask | Take | Refuse | Confirm | Write | Release | Discard | Admit | Ship | RefuseRestore
