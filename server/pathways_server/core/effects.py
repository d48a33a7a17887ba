"""What the core wants done. Imperatives; the shell encodes and sends them in the order given, and decides nothing.

`SendToHost` carries one command, `SendToSession` one reply. Commands and replies name what workers.proto and
sessions.proto name; ids towards a session are the door's own, ids towards a host are global.
"""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.array import ArraySpec, ExecutableFacts
from pathways_common.model.failure import Failure
from pathways_common.model.ids import (
    CallId,
    Epoch,
    FetchId,
    GlobalId,
    HostName,
    Sequence,
    SessionNumber,
    TransferId,
    WaitId,
)
from pathways_common.model.registered import RegisteredProgram

from .image_commands import ImageSource as ImageSource
from .image_commands import OfferImage as OfferImage
from .plan_commands import CollectTrace as CollectTrace
from .plan_commands import EndRun as EndRun
from .plan_commands import GrantRun as GrantRun
from .plan_commands import GroupPlan as GroupPlan
from .plan_commands import LoadPlan as LoadPlan
from .plan_commands import PlanFree as PlanFree
from .plan_commands import PlanGroup as PlanGroup
from .plan_commands import PlanHost as PlanHost
from .plan_commands import PlanLaunch as PlanLaunch
from .plan_commands import PlanMove as PlanMove
from .plan_commands import PlanSpec as PlanSpec
from .plan_commands import RunPlan as RunPlan
from .plan_commands import UnloadPlan as UnloadPlan
from .trace_effects import TracedNode as TracedNode
from .trace_effects import TracedPiece as TracedPiece
from .trace_effects import TraceReady as TraceReady

NO_TRANSFER = TransferId(0)

# ---- commands to a host ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepare:
    """`sequence` 0 = not granted yet. `arguments` name buffers or placed views on that host."""

    execution_id: GlobalId
    executable_id: GlobalId
    arguments: tuple[GlobalId, ...]
    first_result_id: GlobalId
    non_donatable: tuple[int, ...]
    launch_id: int
    sequence: Sequence
    previous: Sequence
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Grant:
    execution_id: GlobalId
    sequence: Sequence
    previous: Sequence
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Cancel:
    execution_id: GlobalId


@dataclass(frozen=True, slots=True)
class Free:
    ids: tuple[GlobalId, ...]


@dataclass(frozen=True, slots=True)
class Poison:
    ids: tuple[GlobalId, ...]
    failure: Failure


@dataclass(frozen=True, slots=True)
class LocalShard:
    """`local_index`: index among the shards of `id` that live on this host, in shard order."""

    id: GlobalId
    local_index: int


@dataclass(frozen=True, slots=True)
class LocalBox:
    """`shape` elements at `start` of a shard come from a transfer, or from `local_start` of a shard of this host."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    transfer_id: TransferId = NO_TRANSFER
    local: LocalShard | None = None
    local_start: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalPiece:
    """One local shard's source: one of inline, transfer_id (non-zero) and local; without any, its boxes among zeros."""

    local_device: int
    inline: bytes | None = None
    transfer_id: TransferId = NO_TRANSFER
    local: LocalShard | None = None
    boxes: tuple[LocalBox, ...] = ()


@dataclass(frozen=True, slots=True)
class PlaceArray:
    """`spec.devices` are epoch positions (rank * devices per host + local index) of all shards.

    `transfer_id`: not 0 if the host has to report when every piece is in its place.
    """

    buffer_id: GlobalId
    spec: ArraySpec
    pieces: tuple[LocalPiece, ...]
    transfer_id: TransferId = NO_TRANSFER


@dataclass(frozen=True, slots=True)
class PlaceView:
    view_id: GlobalId
    shards: tuple[LocalShard, ...]


@dataclass(frozen=True, slots=True)
class FetchShard:
    """`pull` is False for an inline answer; True: served under the ticket that the shell derives from `fetch_id`.

    `start` and `limit` name a part of the shard, in elements; empty: all of it.
    """

    fetch_id: FetchId
    shard: LocalShard
    pull: bool
    timeout_ns: int
    start: tuple[int, ...] = ()
    limit: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AwaitReady:
    wait_id: WaitId
    ids: tuple[GlobalId, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """The shell adds the bytes behind `program`. `devices` are epoch positions. `source` is for a host that lacks the image."""

    executable_id: GlobalId
    program: str
    devices: tuple[int, ...]
    callback_ids: tuple[int, ...]
    epoch: Epoch
    image_key: str = ""
    source: ImageSource | None = None


@dataclass(frozen=True, slots=True)
class Unload:
    executable_ids: tuple[GlobalId, ...]


@dataclass(frozen=True, slots=True)
class InspectExecutable:
    inspect_id: int
    executable_id: GlobalId
    kind: int


@dataclass(frozen=True, slots=True)
class StartCoordinator:
    epoch: Epoch
    rank_count: int


@dataclass(frozen=True, slots=True)
class EpochBegin:
    epoch: Epoch
    rank: int
    rank_count: int
    coordinator_address: str
    device_count: int


@dataclass(frozen=True, slots=True)
class EpochEnd:
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class ExpectUpload:
    """The ticket is derived by the shell from `transfer_id`."""

    transfer_id: TransferId
    size_bytes: int
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class PullShard:
    """Pull from `source` (a host) under the ticket of its FetchShard `fetch_id`, land as `transfer_id`."""

    transfer_id: TransferId
    source: HostName
    fetch_id: FetchId
    size_bytes: int
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class CancelTransfer:
    transfer_ids: tuple[TransferId, ...]


@dataclass(frozen=True, slots=True)
class CallbackReply:
    """Urgent. `call_id` is the host's own number; `results` a serialized CallbackArrays."""

    call_id: int
    results: bytes
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class CallbackAbort:
    """Urgent: callbacks of this session return zeros at once."""

    session: SessionNumber


@dataclass(frozen=True, slots=True)
class Shutdown:
    reason: str


HostCommand = (
    Prepare | Grant | Cancel | Free | Poison | PlaceArray | PlaceView | FetchShard | AwaitReady | Load | Unload
    | InspectExecutable | StartCoordinator | EpochBegin | EpochEnd | ExpectUpload | PullShard | CancelTransfer
    | CallbackReply | CallbackAbort | Shutdown | LoadPlan | UnloadPlan | GroupPlan | RunPlan | GrantRun | EndRun | CollectTrace
    | OfferImage
)  # fmt: skip

# ---- replies to a session -------------------------------------------------------------------------------------------


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


SessionReply = (
    WelcomeSession | RefuseSession | Compiled | UploadGrant | UploadWithdrawn | Fetched | FetchTicket | FetchFailed | Ready
    | Inspected | FenceReached | CallbackRequest | CallbackCancelled | Poisoned | Notice
    | SliceAdded | SliceWaiting | ProgramDefined | ProgramFused | ProgramRegistered | ProgramUnregistered
)  # fmt: skip

# ---- effects --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendToHost:
    host: HostName
    command: HostCommand
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class SendToSession:
    session: SessionNumber
    reply: SessionReply


@dataclass(frozen=True, slots=True)
class DropProgram:
    """No executable uses these bytes any more."""

    program: str


@dataclass(frozen=True, slots=True)
class KeepProgram:
    """To be written down, with the bytes that it is compiled from, before anything later is carried out."""

    program: RegisteredProgram


@dataclass(frozen=True, slots=True)
class ForgetProgram:
    tenant: str
    name: str
    version: int


@dataclass(frozen=True, slots=True)
class Log:
    """A lifecycle transition, for the log. Constant phrase, then fields."""

    phrase: str
    fields: tuple[tuple[str, str], ...]


Effect = SendToHost | SendToSession | DropProgram | KeepProgram | ForgetProgram | TraceReady | Log
