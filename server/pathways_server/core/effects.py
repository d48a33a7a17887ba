"""What the core wants done. Imperatives; the shell encodes and sends them in the order given, and decides nothing.

`SendToHost` carries one command, `SendToSession` one reply. Commands and replies name what workers.proto and
sessions.proto name; ids towards a session are the door's own, ids towards a host are global.
"""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure
from pathways_common.model.ids import (
    Epoch,
    FetchId,
    GlobalId,
    HostName,
    IslandName,
    Sequence,
    SessionNumber,
    TransferId,
    WaitId,
)
from pathways_common.model.registered import RegisteredProgram

from .image_commands import ImageSource as ImageSource
from .image_commands import OfferImage as OfferImage
from .leak_records import HeldKind as HeldKind
from .leak_records import HeldObjects as HeldObjects
from .leak_records import Leak as Leak
from .leak_records import LeaksFound as LeaksFound
from .leak_records import ReportHoldings as ReportHoldings
from .migration_records import MigrationEnded as MigrationEnded
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
from .session_replies import CallbackCancelled as CallbackCancelled
from .session_replies import CallbackRequest as CallbackRequest
from .session_replies import Compiled as Compiled
from .session_replies import FenceReached as FenceReached
from .session_replies import Fetched as Fetched
from .session_replies import FetchFailed as FetchFailed
from .session_replies import FetchTicket as FetchTicket
from .session_replies import Inspected as Inspected
from .session_replies import Notice as Notice
from .session_replies import Poisoned as Poisoned
from .session_replies import ProgramDefined as ProgramDefined
from .session_replies import ProgramFused as ProgramFused
from .session_replies import ProgramRegistered as ProgramRegistered
from .session_replies import ProgramUnregistered as ProgramUnregistered
from .session_replies import Ready as Ready
from .session_replies import RefuseSession as RefuseSession
from .session_replies import SessionDevice as SessionDevice
from .session_replies import SessionReply as SessionReply
from .session_replies import SliceAdded as SliceAdded
from .session_replies import SliceResumed as SliceResumed
from .session_replies import SliceSuspended as SliceSuspended
from .session_replies import SliceWaiting as SliceWaiting
from .session_replies import UploadGrant as UploadGrant
from .session_replies import UploadWithdrawn as UploadWithdrawn
from .session_replies import WelcomeSession as WelcomeSession
from .tenant_events import Death
from .trace_effects import TracedNode as TracedNode
from .trace_effects import TracedPiece as TracedPiece
from .trace_effects import TraceReady as TraceReady

NO_TRANSFER = TransferId(0)

# ---- commands to a host ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepare:
    """`sequence` 0 = not granted yet. `arguments` name buffers or placed views on that host. `timed`: tell when it ran.

    Of colocated Python, `stream` is the client's thread, and `landings` are the transfers by which the host tells of results.
    """

    execution_id: GlobalId
    executable_id: GlobalId
    arguments: tuple[GlobalId, ...]
    first_result_id: GlobalId
    non_donatable: tuple[int, ...]
    launch_id: int
    sequence: Sequence
    previous: Sequence
    epoch: Epoch
    timed: bool = False
    stream: int = 0
    landings: tuple[TransferId, ...] = ()


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

    `start` and `limit` name a part of the shard, in elements; empty: all of it. `held`: the bytes stay in the array until the
    host is told where they go.
    """

    fetch_id: FetchId
    shard: LocalShard
    pull: bool
    timeout_ns: int
    start: tuple[int, ...] = ()
    limit: tuple[int, ...] = ()
    held: bool = False


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
class Keep:
    """Local shards of a buffer go to the daemon's store under `stored_id`; answered as SpillArray is.

    `shards`: their local indices, in the order in which they lie there; empty: all.
    """

    buffer_id: GlobalId
    stored_id: GlobalId
    spill_number: int
    shards: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The executor ends once what it is to keep is in the store, after `timeout_ns` at the latest, and at once with nothing."""

    epoch: Epoch
    keep: tuple[Keep, ...] = ()
    timeout_ns: int = 0


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
    """`session`: not 0 if it is over; nobody will pull what was read for it."""

    transfer_ids: tuple[TransferId, ...]
    session: int = 0


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
class SpillArray:
    """Behind what was launched before: the local shards go to the daemon's store and are forgotten by the executor."""

    buffer_id: GlobalId
    spill_number: int  # repeated by the answer, as in RestoreArray


@dataclass(frozen=True, slots=True)
class RestoreArray:
    """Back under the same id, with the same shards on the same local devices; the store's copy goes once they are there."""

    buffer_id: GlobalId
    spill_number: int


@dataclass(frozen=True, slots=True)
class DropSpilled:
    ids: tuple[GlobalId, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """Urgent: nothing has been heard of the host's work for a while; how far is its executor?"""

    number: int


@dataclass(frozen=True, slots=True)
class OpenCell:
    """Start executors for this tenant alone, which join under the names of its cell. One that is there stays."""

    tenant: str


@dataclass(frozen=True, slots=True)
class CloseCell:
    """The executors of the cell end, and its host leaves."""

    tenant: str


@dataclass(frozen=True, slots=True)
class Shutdown:
    """`refused`: the host cannot join as it is."""

    reason: str
    refused: bool = False


HostCommand = (
    Prepare | Grant | Cancel | Free | Poison | PlaceArray | PlaceView | FetchShard | AwaitReady | Load | Unload
    | InspectExecutable | StartCoordinator | EpochBegin | EpochEnd | ExpectUpload | PullShard | CancelTransfer
    | CallbackReply | CallbackAbort | Shutdown | LoadPlan | UnloadPlan | GroupPlan | RunPlan | GrantRun | EndRun | CollectTrace
    | OfferImage | SpillArray | RestoreArray | DropSpilled | ReportHoldings | Probe | OpenCell | CloseCell
)  # fmt: skip
# ---- effects --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendToHost:
    host: HostName
    command: HostCommand
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class DropHost:
    """The host does not answer and counts as lost: its connection is ended, so that it has to join again."""

    host: HostName


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
class KeepDeath:
    """A program ended an executor: to be written down."""

    death: Death


@dataclass(frozen=True, slots=True)
class ForgetProgram:
    tenant: str
    name: str
    version: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """The core wants a WindowDue of the island at this time (monotonic)."""

    island: IslandName
    at_ns: int


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """The session is closed, because its client did not come back; who comes late is told so."""

    session: SessionNumber
    failure: Failure


@dataclass(frozen=True, slots=True)
class HostGivenUp:
    """The host is lost, because this incarnation did not come back; if it does, it has to join anew."""

    host: HostName
    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Log:
    """A lifecycle transition, for the log. Constant phrase, then fields."""

    phrase: str
    fields: tuple[tuple[str, str], ...]


Effect = (
    SendToHost | DropHost | SendToSession | DropProgram | KeepProgram | ForgetProgram | KeepDeath | TraceReady | LeaksFound
    | WakeAt | Log | LeaseEnded | HostGivenUp | MigrationEnded
)  # fmt: skip
