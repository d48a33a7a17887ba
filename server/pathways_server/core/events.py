"""What the core is told. Past participles; frozen; made by the shells from messages that they checked for form.

Ids inside events are global (`ids.global_id`). Whatever a client or worker can get wrong (unknown ids, wrong counts)
is answered by the core with a failure and never with an assertion.
"""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.array import ArraySpec, ExecutableFacts
from pathways_common.model.failure import Failure
from pathways_common.model.graph import FusedGroup, Program
from pathways_common.model.ids import (
    CallId,
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
from pathways_common.model.image import KeptImage
from pathways_common.model.registered import RegisteredProgram

_NONE = Sequence(0)

# ---- sessions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A client said hello. `islands`: () = one, the least loaded; ("*",) = all; else names."""

    session: SessionNumber
    islands: tuple[str, ...]
    client: str


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """The stream ended, with or without a goodbye: everything the session owns goes."""

    session: SessionNumber
    reason: str


@dataclass(frozen=True, slots=True)
class CompileRequested:
    """`program` names bytes that the shell keeps (program and options, content-addressed)."""

    session: SessionNumber
    executable_id: GlobalId
    program: str
    devices: tuple[int, ...]
    callback_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExecuteRequested:
    session: SessionNumber
    execution_id: GlobalId
    executable_id: GlobalId
    arguments: tuple[GlobalId, ...]
    first_result_id: GlobalId
    non_donatable: tuple[int, ...]
    launch_id: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of one distinct shard: `inline`, or pending under the door's `upload_id`."""

    shards: tuple[int, ...]
    size_bytes: int
    inline: bytes | None
    upload_id: int


@dataclass(frozen=True, slots=True)
class ArrayMade:
    session: SessionNumber
    buffer_id: GlobalId
    spec: ArraySpec
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class ErrorArrayMade:
    session: SessionNumber
    buffer_id: GlobalId
    failure: Failure


@dataclass(frozen=True, slots=True)
class ViewMade:
    """`ranges` are (view or buffer, start shard, shard count)."""

    session: SessionNumber
    view_id: GlobalId
    ranges: tuple[tuple[GlobalId, int, int], ...]


@dataclass(frozen=True, slots=True)
class CopyRequested:
    session: SessionNumber
    result_ids: tuple[GlobalId, ...]
    views: tuple[GlobalId, ...]
    specs: tuple[ArraySpec, ...]


@dataclass(frozen=True, slots=True)
class ReshardRequested:
    """`sources` say how the arrays lie, `destinations` how they shall lie. `donate`: the sources end when they were read."""

    session: SessionNumber
    result_ids: tuple[GlobalId, ...]
    views: tuple[GlobalId, ...]
    sources: tuple[ArraySpec, ...]
    destinations: tuple[ArraySpec, ...]
    donate: bool


@dataclass(frozen=True, slots=True)
class ViewsDeleted:
    session: SessionNumber
    views: tuple[GlobalId, ...]


@dataclass(frozen=True, slots=True)
class Released:
    session: SessionNumber
    views: tuple[GlobalId, ...]
    executables: tuple[GlobalId, ...]
    programs: tuple[GlobalId, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitRequested:
    """`wait_id` is the door's own number."""

    session: SessionNumber
    wait_id: int
    views: tuple[GlobalId, ...]


@dataclass(frozen=True, slots=True)
class FetchRequested:
    session: SessionNumber
    fetch_id: int
    view_id: GlobalId
    shard: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class InspectRequested:
    """`kind` is the number of workers.proto's InspectKind."""

    session: SessionNumber
    inspect_id: int
    executable_id: GlobalId
    kind: int


@dataclass(frozen=True, slots=True)
class CallbackReturned:
    """`results` is a serialized CallbackArrays, untouched."""

    session: SessionNumber
    call_id: CallId
    results: bytes
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class DefinitionRequested:
    """A program made of executables of the session."""

    session: SessionNumber
    program_id: GlobalId
    program: Program


@dataclass(frozen=True, slots=True)
class FusionRequested:
    """Executables of the session that may run in place of several nodes of a program."""

    session: SessionNumber
    program_id: GlobalId
    groups: tuple[FusedGroup, ...]


@dataclass(frozen=True, slots=True)
class RunRequested:
    """`donated`: positions of arguments that end with the run."""

    session: SessionNumber
    run_id: GlobalId
    program_id: GlobalId
    arguments: tuple[GlobalId, ...]
    first_result_id: GlobalId
    donated: tuple[int, ...]
    launch_id: int


@dataclass(frozen=True, slots=True)
class RegistrationRequested:
    session: SessionNumber
    program_id: GlobalId
    name: str
    replace: bool


@dataclass(frozen=True, slots=True)
class OpeningRequested:
    """`version` 0 = the latest; `devices` () = the first ones of the session."""

    session: SessionNumber
    program_id: GlobalId
    name: str
    version: int
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UnregistrationRequested:
    """`version` 0 = all of them."""

    session: SessionNumber
    request_id: int
    name: str
    version: int


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """What makes these values and is not granted ends with CANCELLED."""

    session: SessionNumber
    views: tuple[GlobalId, ...]


@dataclass(frozen=True, slots=True)
class FenceRequested:
    session: SessionNumber
    fence_id: int


@dataclass(frozen=True, slots=True)
class SliceRequested:
    """`slice_id` is the door's own number; so are those of `with_slices` and `apart_from_slices`."""

    session: SessionNumber
    slice_id: int
    device_count: int
    mesh_shape: tuple[int, ...] = ()
    kind: str = ""
    island: str = ""
    exclusive: bool = False
    with_slices: tuple[int, ...] = ()
    apart_from_slices: tuple[int, ...] = ()
    wait: bool = False
    timeout_ns: int = 0


@dataclass(frozen=True, slots=True)
class SliceReleased:
    session: SessionNumber
    slice_id: int


# ---- hosts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HostJoined:
    """`incarnation` is given by the shell from a counter that never goes back.

    `coordinates`: one per device, in the island's `topology`; `device_kind`: what to call them. Empty where not declared.
    """

    host: HostName
    island: IslandName
    incarnation: int
    device_count: int
    data_address: str
    pid: int
    device_memory_bytes: int
    topology: tuple[int, ...] = ()
    coordinates: tuple[tuple[int, ...], ...] = ()
    device_kind: str = ""


@dataclass(frozen=True, slots=True)
class HostLost:
    """The stream of this incarnation ended."""

    host: HostName
    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class CoordinatorStarted:
    """`address` is empty when it could not be started."""

    host: HostName
    epoch: Epoch
    address: str
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class EpochEntered:
    host: HostName
    epoch: Epoch
    platform: str
    platform_version: str
    device_kind: str
    memory_kinds: tuple[str, ...]
    compiler: str = ""


@dataclass(frozen=True, slots=True)
class EpochRefused:
    host: HostName
    epoch: Epoch
    failure: Failure


@dataclass(frozen=True, slots=True)
class ExecutorLost:
    """The daemon of `host` lives; its executor of `epoch` does not."""

    host: HostName
    epoch: Epoch
    exit: str
    stderr_tail: str
    launched_through: Sequence = _NONE
    finished_through: Sequence = _NONE


@dataclass(frozen=True, slots=True)
class ExecutableLoaded:
    host: HostName
    epoch: Epoch
    executable_id: GlobalId
    facts: ExecutableFacts | None
    failure: Failure | None
    reused: bool = False
    kept: KeptImage | None = None


@dataclass(frozen=True, slots=True)
class NodeFailed:
    host: HostName
    execution_id: GlobalId
    sequence: Sequence
    failure: Failure


@dataclass(frozen=True, slots=True)
class PrepareRefused:
    host: HostName
    execution_id: GlobalId
    failure: Failure


@dataclass(frozen=True, slots=True)
class TransferLanded:
    """Bytes of an upload or a pull are in the executor of `host`. `failure` is set if they will never be."""

    host: HostName
    transfer_id: TransferId
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ShardFetched:
    host: HostName
    fetch_id: FetchId
    data: bytes
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class BecameReady:
    host: HostName
    wait_id: WaitId
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ExecutableInspected:
    """`inspection` is a serialized Inspection, untouched."""

    host: HostName
    inspect_id: int
    inspection: bytes
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class CallbackCalled:
    """`operands` is a serialized CallbackArrays. `call_id` is unique on its host only."""

    host: HostName
    call_id: int
    session: SessionNumber
    callback_id: int
    operands: bytes
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class OrderBroken:
    """A host refused a launch because the order contradicts what it launched."""

    host: HostName
    epoch: Epoch
    sequence: Sequence
    text: str


@dataclass(frozen=True, slots=True)
class SequenceMissed:
    """A host asks for a grant that it never got."""

    host: HostName
    epoch: Epoch
    sequence: Sequence


@dataclass(frozen=True, slots=True)
class HostProgressed:
    """Cumulative: the executor of `epoch` finished every gang up to this sequence."""

    host: HostName
    epoch: Epoch
    finished_through: Sequence
    launched_through: Sequence = _NONE


@dataclass(frozen=True, slots=True)
class TraceRequested:
    """A tool asks for the trace of a run, 0 = the last one that was granted; `request_id` is the shell's own number."""

    request_id: int
    execution_id: int


@dataclass(frozen=True, slots=True)
class TraceCollected:
    """`payload` is a serialized workers.proto TraceCollected."""

    host: HostName
    trace_id: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class ProgramsRestored:
    """What an earlier life of the controller was told to keep; once, before anything else."""

    programs: tuple[RegisteredProgram, ...]


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A timer tick, about every 100 ms: deadlines are looked at."""


Event = (
    SessionOpened | SessionClosed | CompileRequested | ExecuteRequested | ArrayMade | ErrorArrayMade | ViewMade | CopyRequested
    | ReshardRequested
    | ViewsDeleted | Released | WaitRequested | FetchRequested | InspectRequested | CallbackReturned | FenceRequested
    | SliceRequested | SliceReleased
    | HostJoined | HostLost | CoordinatorStarted | EpochEntered | EpochRefused | ExecutorLost | ExecutableLoaded | NodeFailed
    | PrepareRefused | TransferLanded | ShardFetched | BecameReady | ExecutableInspected | CallbackCalled | OrderBroken
    | SequenceMissed | HostProgressed | TimePassed
    | DefinitionRequested | RunRequested | RegistrationRequested | OpeningRequested | UnregistrationRequested | CancelRequested
    | FusionRequested | TraceRequested | TraceCollected | ProgramsRestored
)  # fmt: skip
