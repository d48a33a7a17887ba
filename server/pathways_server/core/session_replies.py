"""What a session is answered, message by message of sessions.proto; ids are the door's own."""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.array import ArraySpec, ExecutableFacts
from pathways_common.model.failure import Failure
from pathways_common.model.ids import CallId, FetchId, HostName, TransferId


@dataclass(frozen=True, slots=True)
class SessionDevice:
    device_id: int
    slice_index: int
    island: str
    host: str
    local_index: int
    platform: str
    device_kind: str
    memory_kinds: tuple[str, ...]
    pool: bool = False


@dataclass(frozen=True, slots=True)
class WelcomeSession:
    devices: tuple[SessionDevice, ...]
    platform: str
    platform_version: str


@dataclass(frozen=True, slots=True)
class RefuseSession:
    """The shell sends it and ends the stream; the core knows the session no more."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Compiled:
    executable_id: int
    facts: ExecutableFacts | None
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class UploadGrant:
    """Push to each of `targets` = (host, transfer)."""

    upload_id: int
    targets: tuple[tuple[HostName, TransferId], ...]


@dataclass(frozen=True, slots=True)
class UploadWithdrawn:
    upload_id: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Fetched:
    fetch_id: int
    data: bytes


@dataclass(frozen=True, slots=True)
class FetchTicket:
    """`source_fetch` is the FetchId in the FetchShard command that went to `source`."""

    fetch_id: int
    source: HostName
    source_fetch: FetchId
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FetchFailed:
    fetch_id: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Ready:
    wait_id: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Inspected:
    inspect_id: int
    inspection: bytes
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class FenceReached:
    fence_id: int


@dataclass(frozen=True, slots=True)
class CallbackRequest:
    call_id: CallId
    callback_id: int
    operands: bytes
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class CallbackCancelled:
    call_id: CallId


@dataclass(frozen=True, slots=True)
class Poisoned:
    buffer_ids: tuple[int, ...]
    failure: Failure


@dataclass(frozen=True, slots=True)
class SliceAdded:
    """`devices` are virtual ids, row-major over the wanted shape; `hosts` in their order."""

    slice_id: int
    devices: tuple[int, ...]
    island: str
    hosts: tuple[str, ...]
    failure: Failure | None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class SliceWaiting:
    slice_id: int
    text: str


@dataclass(frozen=True, slots=True)
class ProgramDefined:
    """`version` is not 0 for a program that was opened by name. Specs name virtual devices of the session."""

    program_id: int
    arguments: tuple[ArraySpec, ...]
    results: tuple[ArraySpec, ...]
    name: str
    version: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ProgramFused:
    program_id: int
    group_count: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ProgramRegistered:
    program_id: int
    name: str
    version: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ProgramUnregistered:
    request_id: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Notice:
    host: str
    text: str


@dataclass(frozen=True, slots=True)
class SliceSuspended:
    slice_id: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class SliceResumed:
    """`hosts` are in the order of its devices."""

    slice_id: int
    island: str
    hosts: tuple[HostName, ...]
    failure: Failure | None


SessionReply = (
    WelcomeSession | RefuseSession | Compiled | UploadGrant | UploadWithdrawn | Fetched | FetchTicket | FetchFailed | Ready
    | Inspected | FenceReached | CallbackRequest | CallbackCancelled | Poisoned | Notice
    | SliceAdded | SliceWaiting
    | SliceSuspended | SliceResumed | ProgramDefined | ProgramFused | ProgramRegistered | ProgramUnregistered
)  # fmt: skip
