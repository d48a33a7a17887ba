from pathways_proto.v1 import callbacks_pb2 as _callbacks_pb2
from pathways_proto.v1 import diagnosis_pb2 as _diagnosis_pb2
from pathways_proto.v1 import epochs_pb2 as _epochs_pb2
from pathways_proto.v1 import holdings_pb2 as _holdings_pb2
from pathways_proto.v1 import hosts_pb2 as _hosts_pb2
from pathways_proto.v1 import images_pb2 as _images_pb2
from pathways_proto.v1 import plans_pb2 as _plans_pb2
from pathways_proto.v1 import spilling_pb2 as _spilling_pb2
from pathways_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union
from pathways_proto.v1.callbacks_pb2 import CallbackCall as CallbackCall
from pathways_proto.v1.callbacks_pb2 import CallbackReply as CallbackReply
from pathways_proto.v1.callbacks_pb2 import CallbackAbort as CallbackAbort
from pathways_proto.v1.diagnosis_pb2 import DiagnoseHost as DiagnoseHost
from pathways_proto.v1.diagnosis_pb2 import HostDiagnosis as HostDiagnosis
from pathways_proto.v1.diagnosis_pb2 import ProcessDiagnosis as ProcessDiagnosis
from pathways_proto.v1.diagnosis_pb2 import ThreadDiagnosis as ThreadDiagnosis
from pathways_proto.v1.diagnosis_pb2 import DiagnoseRequest as DiagnoseRequest
from pathways_proto.v1.diagnosis_pb2 import DiagnoseResponse as DiagnoseResponse
from pathways_proto.v1.diagnosis_pb2 import IslandDiagnosis as IslandDiagnosis
from pathways_proto.v1.diagnosis_pb2 import HostCondition as HostCondition
from pathways_proto.v1.diagnosis_pb2 import GangCondition as GangCondition
from pathways_proto.v1.diagnosis_pb2 import GetStoryRequest as GetStoryRequest
from pathways_proto.v1.diagnosis_pb2 import GetStoryResponse as GetStoryResponse
from pathways_proto.v1.diagnosis_pb2 import StoryLine as StoryLine
from pathways_proto.v1.epochs_pb2 import StartCoordinator as StartCoordinator
from pathways_proto.v1.epochs_pb2 import EpochBegin as EpochBegin
from pathways_proto.v1.epochs_pb2 import EpochEnd as EpochEnd
from pathways_proto.v1.epochs_pb2 import Keep as Keep
from pathways_proto.v1.epochs_pb2 import EpochLeft as EpochLeft
from pathways_proto.v1.epochs_pb2 import CoordinatorReady as CoordinatorReady
from pathways_proto.v1.epochs_pb2 import EpochReady as EpochReady
from pathways_proto.v1.epochs_pb2 import EpochFailed as EpochFailed
from pathways_proto.v1.epochs_pb2 import Probe as Probe
from pathways_proto.v1.epochs_pb2 import Pulse as Pulse
from pathways_proto.v1.epochs_pb2 import ExecutorDied as ExecutorDied
from pathways_proto.v1.epochs_pb2 import ExecutorWait as ExecutorWait
from pathways_proto.v1.holdings_pb2 import ReportHoldings as ReportHoldings
from pathways_proto.v1.holdings_pb2 import Holdings as Holdings
from pathways_proto.v1.holdings_pb2 import HeldObjects as HeldObjects
from pathways_proto.v1.holdings_pb2 import HeldKind as HeldKind
from pathways_proto.v1.hosts_pb2 import Drain as Drain
from pathways_proto.v1.hosts_pb2 import Shutdown as Shutdown
from pathways_proto.v1.hosts_pb2 import OpenCell as OpenCell
from pathways_proto.v1.hosts_pb2 import CloseCell as CloseCell
from pathways_proto.v1.images_pb2 import ImageSource as ImageSource
from pathways_proto.v1.images_pb2 import OfferImage as OfferImage
from pathways_proto.v1.images_pb2 import KeptImage as KeptImage
from pathways_proto.v1.plans_pb2 import LoadPlan as LoadPlan
from pathways_proto.v1.plans_pb2 import PlanHost as PlanHost
from pathways_proto.v1.plans_pb2 import PlanSpec as PlanSpec
from pathways_proto.v1.plans_pb2 import PlanStep as PlanStep
from pathways_proto.v1.plans_pb2 import PlanLaunch as PlanLaunch
from pathways_proto.v1.plans_pb2 import PlanMove as PlanMove
from pathways_proto.v1.plans_pb2 import PlanFree as PlanFree
from pathways_proto.v1.plans_pb2 import GroupPlan as GroupPlan
from pathways_proto.v1.plans_pb2 import PlanGroup as PlanGroup
from pathways_proto.v1.plans_pb2 import UnloadPlan as UnloadPlan
from pathways_proto.v1.plans_pb2 import RunPlan as RunPlan
from pathways_proto.v1.plans_pb2 import GrantRun as GrantRun
from pathways_proto.v1.plans_pb2 import EndRun as EndRun
from pathways_proto.v1.plans_pb2 import PlanLoaded as PlanLoaded
from pathways_proto.v1.plans_pb2 import CollectTrace as CollectTrace
from pathways_proto.v1.plans_pb2 import TraceCollected as TraceCollected
from pathways_proto.v1.plans_pb2 import TracedExecutable as TracedExecutable
from pathways_proto.v1.plans_pb2 import TraceRow as TraceRow
from pathways_proto.v1.plans_pb2 import GangTime as GangTime
from pathways_proto.v1.spilling_pb2 import SpillArray as SpillArray
from pathways_proto.v1.spilling_pb2 import RestoreArray as RestoreArray
from pathways_proto.v1.spilling_pb2 import DropSpilled as DropSpilled
from pathways_proto.v1.spilling_pb2 import ArraySpilled as ArraySpilled
from pathways_proto.v1.spilling_pb2 import ArrayRestored as ArrayRestored
from pathways_proto.v1.spilling_pb2 import SpilledShard as SpilledShard
from pathways_proto.v1.spilling_pb2 import SpillOffered as SpillOffered
from pathways_proto.v1.spilling_pb2 import SpillDecided as SpillDecided
from pathways_proto.v1.spilling_pb2 import RestoreExpected as RestoreExpected
from pathways_proto.v1.spilling_pb2 import SpillDecision as SpillDecision

DESCRIPTOR: _descriptor.FileDescriptor
EXECUTOR_WAIT_UNSPECIFIED: _epochs_pb2.ExecutorWait
EXECUTOR_WAIT_BYTES: _epochs_pb2.ExecutorWait
HELD_KIND_UNSPECIFIED: _holdings_pb2.HeldKind
HELD_KIND_VALUE: _holdings_pb2.HeldKind
HELD_KIND_FAILED: _holdings_pb2.HeldKind
HELD_KIND_PENDING: _holdings_pb2.HeldKind
HELD_KIND_EXECUTABLE: _holdings_pb2.HeldKind
HELD_KIND_PLAN: _holdings_pb2.HeldKind
HELD_KIND_RUN: _holdings_pb2.HeldKind
HELD_KIND_EXECUTION: _holdings_pb2.HeldKind
HELD_KIND_TRANSFER: _holdings_pb2.HeldKind
HELD_KIND_TICKET: _holdings_pb2.HeldKind
HELD_KIND_SPILLED: _holdings_pb2.HeldKind
SPILL_DECISION_UNSPECIFIED: _spilling_pb2.SpillDecision
SPILL_DECISION_SEND: _spilling_pb2.SpillDecision
SPILL_DECISION_FORGET: _spilling_pb2.SpillDecision
SPILL_DECISION_KEEP: _spilling_pb2.SpillDecision

class ControllerFrame(_message.Message):
    __slots__ = ("sequence", "received", "term", "commands", "urgent", "welcome", "refused")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    received: int
    term: int
    commands: _containers.RepeatedCompositeFieldContainer[HostCommand]
    urgent: bool
    welcome: WorkerWelcome
    refused: WorkerRefused
    def __init__(self, sequence: _Optional[int] = ..., received: _Optional[int] = ..., term: _Optional[int] = ..., commands: _Optional[_Iterable[_Union[HostCommand, _Mapping]]] = ..., urgent: _Optional[bool] = ..., welcome: _Optional[_Union[WorkerWelcome, _Mapping]] = ..., refused: _Optional[_Union[WorkerRefused, _Mapping]] = ...) -> None: ...

class WorkerFrame(_message.Message):
    __slots__ = ("sequence", "acknowledged", "incarnation", "finished_through", "events", "hello", "launched_through", "busy_ns", "times")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FINISHED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    BUSY_NS_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    acknowledged: int
    incarnation: int
    finished_through: int
    events: _containers.RepeatedCompositeFieldContainer[HostEvent]
    hello: WorkerHello
    launched_through: int
    busy_ns: int
    times: _containers.RepeatedCompositeFieldContainer[_plans_pb2.GangTime]
    def __init__(self, sequence: _Optional[int] = ..., acknowledged: _Optional[int] = ..., incarnation: _Optional[int] = ..., finished_through: _Optional[int] = ..., events: _Optional[_Iterable[_Union[HostEvent, _Mapping]]] = ..., hello: _Optional[_Union[WorkerHello, _Mapping]] = ..., launched_through: _Optional[int] = ..., busy_ns: _Optional[int] = ..., times: _Optional[_Iterable[_Union[_plans_pb2.GangTime, _Mapping]]] = ...) -> None: ...

class WorkerHello(_message.Message):
    __slots__ = ("host", "island", "pathways_version", "jaxlib_version", "device_count", "data_address", "pid", "device_memory_bytes", "last_term", "launched_through", "topology", "coordinates", "device_kind", "incarnation", "resume", "resumable", "connection", "versions", "received_frames", "received_commands", "received_urgent_commands")
    HOST_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    PATHWAYS_VERSION_FIELD_NUMBER: _ClassVar[int]
    JAXLIB_VERSION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_COUNT_FIELD_NUMBER: _ClassVar[int]
    DATA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    DEVICE_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    COORDINATES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_KIND_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    RESUMABLE_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FRAMES_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_COMMANDS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_URGENT_COMMANDS_FIELD_NUMBER: _ClassVar[int]
    host: str
    island: str
    pathways_version: str
    jaxlib_version: str
    device_count: int
    data_address: str
    pid: int
    device_memory_bytes: int
    last_term: int
    launched_through: int
    topology: _containers.RepeatedScalarFieldContainer[int]
    coordinates: _containers.RepeatedScalarFieldContainer[int]
    device_kind: str
    incarnation: int
    resume: bool
    resumable: bool
    connection: int
    versions: _types_pb2.Versions
    received_frames: int
    received_commands: int
    received_urgent_commands: int
    def __init__(self, host: _Optional[str] = ..., island: _Optional[str] = ..., pathways_version: _Optional[str] = ..., jaxlib_version: _Optional[str] = ..., device_count: _Optional[int] = ..., data_address: _Optional[str] = ..., pid: _Optional[int] = ..., device_memory_bytes: _Optional[int] = ..., last_term: _Optional[int] = ..., launched_through: _Optional[int] = ..., topology: _Optional[_Iterable[int]] = ..., coordinates: _Optional[_Iterable[int]] = ..., device_kind: _Optional[str] = ..., incarnation: _Optional[int] = ..., resume: _Optional[bool] = ..., resumable: _Optional[bool] = ..., connection: _Optional[int] = ..., versions: _Optional[_Union[_types_pb2.Versions, _Mapping]] = ..., received_frames: _Optional[int] = ..., received_commands: _Optional[int] = ..., received_urgent_commands: _Optional[int] = ...) -> None: ...

class WorkerWelcome(_message.Message):
    __slots__ = ("incarnation", "resumed", "grace_ns", "orphan_ns")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    GRACE_NS_FIELD_NUMBER: _ClassVar[int]
    ORPHAN_NS_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    resumed: bool
    grace_ns: int
    orphan_ns: int
    def __init__(self, incarnation: _Optional[int] = ..., resumed: _Optional[bool] = ..., grace_ns: _Optional[int] = ..., orphan_ns: _Optional[int] = ...) -> None: ...

class WorkerRefused(_message.Message):
    __slots__ = ("failure", "join_again")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    JOIN_AGAIN_FIELD_NUMBER: _ClassVar[int]
    failure: _types_pb2.Failure
    join_again: bool
    def __init__(self, failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., join_again: _Optional[bool] = ...) -> None: ...

class HostCommand(_message.Message):
    __slots__ = ("prepare", "grant", "free", "fetch_shard", "await_ready", "place_array", "place_view", "poison", "load", "unload", "inspect", "start_coordinator", "epoch_begin", "epoch_end", "expect_upload", "pull_shard", "cancel_transfer", "callback_reply", "callback_abort", "drain", "shutdown", "cancel", "load_plan", "unload_plan", "run_plan", "grant_run", "end_run", "collect_trace", "offer_image", "group_plan", "spill_array", "restore_array", "drop_spilled", "spill_decided", "report_holdings", "probe", "diagnose_host", "open_cell", "close_cell")
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    FETCH_SHARD_FIELD_NUMBER: _ClassVar[int]
    AWAIT_READY_FIELD_NUMBER: _ClassVar[int]
    PLACE_ARRAY_FIELD_NUMBER: _ClassVar[int]
    PLACE_VIEW_FIELD_NUMBER: _ClassVar[int]
    POISON_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    UNLOAD_FIELD_NUMBER: _ClassVar[int]
    INSPECT_FIELD_NUMBER: _ClassVar[int]
    START_COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    EPOCH_BEGIN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_END_FIELD_NUMBER: _ClassVar[int]
    EXPECT_UPLOAD_FIELD_NUMBER: _ClassVar[int]
    PULL_SHARD_FIELD_NUMBER: _ClassVar[int]
    CANCEL_TRANSFER_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_REPLY_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_ABORT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    SHUTDOWN_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    LOAD_PLAN_FIELD_NUMBER: _ClassVar[int]
    UNLOAD_PLAN_FIELD_NUMBER: _ClassVar[int]
    RUN_PLAN_FIELD_NUMBER: _ClassVar[int]
    GRANT_RUN_FIELD_NUMBER: _ClassVar[int]
    END_RUN_FIELD_NUMBER: _ClassVar[int]
    COLLECT_TRACE_FIELD_NUMBER: _ClassVar[int]
    OFFER_IMAGE_FIELD_NUMBER: _ClassVar[int]
    GROUP_PLAN_FIELD_NUMBER: _ClassVar[int]
    SPILL_ARRAY_FIELD_NUMBER: _ClassVar[int]
    RESTORE_ARRAY_FIELD_NUMBER: _ClassVar[int]
    DROP_SPILLED_FIELD_NUMBER: _ClassVar[int]
    SPILL_DECIDED_FIELD_NUMBER: _ClassVar[int]
    REPORT_HOLDINGS_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSE_HOST_FIELD_NUMBER: _ClassVar[int]
    OPEN_CELL_FIELD_NUMBER: _ClassVar[int]
    CLOSE_CELL_FIELD_NUMBER: _ClassVar[int]
    prepare: Prepare
    grant: Grant
    free: Free
    fetch_shard: FetchShard
    await_ready: AwaitReady
    place_array: PlaceArray
    place_view: PlaceView
    poison: Poison
    load: Load
    unload: Unload
    inspect: InspectExecutable
    start_coordinator: _epochs_pb2.StartCoordinator
    epoch_begin: _epochs_pb2.EpochBegin
    epoch_end: _epochs_pb2.EpochEnd
    expect_upload: ExpectUpload
    pull_shard: PullShard
    cancel_transfer: CancelTransfer
    callback_reply: _callbacks_pb2.CallbackReply
    callback_abort: _callbacks_pb2.CallbackAbort
    drain: _hosts_pb2.Drain
    shutdown: _hosts_pb2.Shutdown
    cancel: Cancel
    load_plan: _plans_pb2.LoadPlan
    unload_plan: _plans_pb2.UnloadPlan
    run_plan: _plans_pb2.RunPlan
    grant_run: _plans_pb2.GrantRun
    end_run: _plans_pb2.EndRun
    collect_trace: _plans_pb2.CollectTrace
    offer_image: _images_pb2.OfferImage
    group_plan: _plans_pb2.GroupPlan
    spill_array: _spilling_pb2.SpillArray
    restore_array: _spilling_pb2.RestoreArray
    drop_spilled: _spilling_pb2.DropSpilled
    spill_decided: _spilling_pb2.SpillDecided
    report_holdings: _holdings_pb2.ReportHoldings
    probe: _epochs_pb2.Probe
    diagnose_host: _diagnosis_pb2.DiagnoseHost
    open_cell: _hosts_pb2.OpenCell
    close_cell: _hosts_pb2.CloseCell
    def __init__(self, prepare: _Optional[_Union[Prepare, _Mapping]] = ..., grant: _Optional[_Union[Grant, _Mapping]] = ..., free: _Optional[_Union[Free, _Mapping]] = ..., fetch_shard: _Optional[_Union[FetchShard, _Mapping]] = ..., await_ready: _Optional[_Union[AwaitReady, _Mapping]] = ..., place_array: _Optional[_Union[PlaceArray, _Mapping]] = ..., place_view: _Optional[_Union[PlaceView, _Mapping]] = ..., poison: _Optional[_Union[Poison, _Mapping]] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., unload: _Optional[_Union[Unload, _Mapping]] = ..., inspect: _Optional[_Union[InspectExecutable, _Mapping]] = ..., start_coordinator: _Optional[_Union[_epochs_pb2.StartCoordinator, _Mapping]] = ..., epoch_begin: _Optional[_Union[_epochs_pb2.EpochBegin, _Mapping]] = ..., epoch_end: _Optional[_Union[_epochs_pb2.EpochEnd, _Mapping]] = ..., expect_upload: _Optional[_Union[ExpectUpload, _Mapping]] = ..., pull_shard: _Optional[_Union[PullShard, _Mapping]] = ..., cancel_transfer: _Optional[_Union[CancelTransfer, _Mapping]] = ..., callback_reply: _Optional[_Union[_callbacks_pb2.CallbackReply, _Mapping]] = ..., callback_abort: _Optional[_Union[_callbacks_pb2.CallbackAbort, _Mapping]] = ..., drain: _Optional[_Union[_hosts_pb2.Drain, _Mapping]] = ..., shutdown: _Optional[_Union[_hosts_pb2.Shutdown, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., load_plan: _Optional[_Union[_plans_pb2.LoadPlan, _Mapping]] = ..., unload_plan: _Optional[_Union[_plans_pb2.UnloadPlan, _Mapping]] = ..., run_plan: _Optional[_Union[_plans_pb2.RunPlan, _Mapping]] = ..., grant_run: _Optional[_Union[_plans_pb2.GrantRun, _Mapping]] = ..., end_run: _Optional[_Union[_plans_pb2.EndRun, _Mapping]] = ..., collect_trace: _Optional[_Union[_plans_pb2.CollectTrace, _Mapping]] = ..., offer_image: _Optional[_Union[_images_pb2.OfferImage, _Mapping]] = ..., group_plan: _Optional[_Union[_plans_pb2.GroupPlan, _Mapping]] = ..., spill_array: _Optional[_Union[_spilling_pb2.SpillArray, _Mapping]] = ..., restore_array: _Optional[_Union[_spilling_pb2.RestoreArray, _Mapping]] = ..., drop_spilled: _Optional[_Union[_spilling_pb2.DropSpilled, _Mapping]] = ..., spill_decided: _Optional[_Union[_spilling_pb2.SpillDecided, _Mapping]] = ..., report_holdings: _Optional[_Union[_holdings_pb2.ReportHoldings, _Mapping]] = ..., probe: _Optional[_Union[_epochs_pb2.Probe, _Mapping]] = ..., diagnose_host: _Optional[_Union[_diagnosis_pb2.DiagnoseHost, _Mapping]] = ..., open_cell: _Optional[_Union[_hosts_pb2.OpenCell, _Mapping]] = ..., close_cell: _Optional[_Union[_hosts_pb2.CloseCell, _Mapping]] = ...) -> None: ...

class Prepare(_message.Message):
    __slots__ = ("execution_id", "executable_id", "arguments", "first_result_id", "non_donatable", "launch_id", "sequence", "previous", "epoch", "timed", "stream", "landings")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    FIRST_RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    NON_DONATABLE_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TIMED_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    LANDINGS_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    executable_id: int
    arguments: _containers.RepeatedScalarFieldContainer[int]
    first_result_id: int
    non_donatable: _containers.RepeatedScalarFieldContainer[int]
    launch_id: int
    sequence: int
    previous: int
    epoch: int
    timed: bool
    stream: int
    landings: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, execution_id: _Optional[int] = ..., executable_id: _Optional[int] = ..., arguments: _Optional[_Iterable[int]] = ..., first_result_id: _Optional[int] = ..., non_donatable: _Optional[_Iterable[int]] = ..., launch_id: _Optional[int] = ..., sequence: _Optional[int] = ..., previous: _Optional[int] = ..., epoch: _Optional[int] = ..., timed: _Optional[bool] = ..., stream: _Optional[int] = ..., landings: _Optional[_Iterable[int]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("execution_id", "sequence", "previous", "epoch")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    sequence: int
    previous: int
    epoch: int
    def __init__(self, execution_id: _Optional[int] = ..., sequence: _Optional[int] = ..., previous: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("execution_id",)
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    def __init__(self, execution_id: _Optional[int] = ...) -> None: ...

class Free(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Poison(_message.Message):
    __slots__ = ("ids", "failure")
    IDS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    failure: _types_pb2.Failure
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class PlaceArray(_message.Message):
    __slots__ = ("buffer_id", "spec", "pieces", "transfer_id")
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    buffer_id: int
    spec: _types_pb2.ArraySpec
    pieces: _containers.RepeatedCompositeFieldContainer[LocalPiece]
    transfer_id: int
    def __init__(self, buffer_id: _Optional[int] = ..., spec: _Optional[_Union[_types_pb2.ArraySpec, _Mapping]] = ..., pieces: _Optional[_Iterable[_Union[LocalPiece, _Mapping]]] = ..., transfer_id: _Optional[int] = ...) -> None: ...

class LocalPiece(_message.Message):
    __slots__ = ("local_device", "inline", "transfer_id", "local", "boxes")
    LOCAL_DEVICE_FIELD_NUMBER: _ClassVar[int]
    INLINE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    BOXES_FIELD_NUMBER: _ClassVar[int]
    local_device: int
    inline: bytes
    transfer_id: int
    local: LocalShard
    boxes: _containers.RepeatedCompositeFieldContainer[LocalBox]
    def __init__(self, local_device: _Optional[int] = ..., inline: _Optional[bytes] = ..., transfer_id: _Optional[int] = ..., local: _Optional[_Union[LocalShard, _Mapping]] = ..., boxes: _Optional[_Iterable[_Union[LocalBox, _Mapping]]] = ...) -> None: ...

class LocalBox(_message.Message):
    __slots__ = ("start", "shape", "transfer_id", "local", "local_start")
    START_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    LOCAL_START_FIELD_NUMBER: _ClassVar[int]
    start: _containers.RepeatedScalarFieldContainer[int]
    shape: _containers.RepeatedScalarFieldContainer[int]
    transfer_id: int
    local: LocalShard
    local_start: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, start: _Optional[_Iterable[int]] = ..., shape: _Optional[_Iterable[int]] = ..., transfer_id: _Optional[int] = ..., local: _Optional[_Union[LocalShard, _Mapping]] = ..., local_start: _Optional[_Iterable[int]] = ...) -> None: ...

class LocalShard(_message.Message):
    __slots__ = ("id", "local_index")
    ID_FIELD_NUMBER: _ClassVar[int]
    LOCAL_INDEX_FIELD_NUMBER: _ClassVar[int]
    id: int
    local_index: int
    def __init__(self, id: _Optional[int] = ..., local_index: _Optional[int] = ...) -> None: ...

class PlaceView(_message.Message):
    __slots__ = ("view_id", "shards")
    VIEW_ID_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    view_id: int
    shards: _containers.RepeatedCompositeFieldContainer[LocalShard]
    def __init__(self, view_id: _Optional[int] = ..., shards: _Optional[_Iterable[_Union[LocalShard, _Mapping]]] = ...) -> None: ...

class FetchShard(_message.Message):
    __slots__ = ("fetch_id", "shard", "ticket", "timeout_ns", "start", "limit", "held")
    FETCH_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    fetch_id: int
    shard: LocalShard
    ticket: str
    timeout_ns: int
    start: _containers.RepeatedScalarFieldContainer[int]
    limit: _containers.RepeatedScalarFieldContainer[int]
    held: bool
    def __init__(self, fetch_id: _Optional[int] = ..., shard: _Optional[_Union[LocalShard, _Mapping]] = ..., ticket: _Optional[str] = ..., timeout_ns: _Optional[int] = ..., start: _Optional[_Iterable[int]] = ..., limit: _Optional[_Iterable[int]] = ..., held: _Optional[bool] = ...) -> None: ...

class AwaitReady(_message.Message):
    __slots__ = ("wait_id", "ids")
    WAIT_ID_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    wait_id: int
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, wait_id: _Optional[int] = ..., ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Load(_message.Message):
    __slots__ = ("executable_id", "program", "options", "devices", "callback_ids", "epoch", "image_key", "source", "image")
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_IDS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    IMAGE_KEY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    executable_id: int
    program: bytes
    options: bytes
    devices: _containers.RepeatedScalarFieldContainer[int]
    callback_ids: _containers.RepeatedScalarFieldContainer[int]
    epoch: int
    image_key: str
    source: _images_pb2.ImageSource
    image: bytes
    def __init__(self, executable_id: _Optional[int] = ..., program: _Optional[bytes] = ..., options: _Optional[bytes] = ..., devices: _Optional[_Iterable[int]] = ..., callback_ids: _Optional[_Iterable[int]] = ..., epoch: _Optional[int] = ..., image_key: _Optional[str] = ..., source: _Optional[_Union[_images_pb2.ImageSource, _Mapping]] = ..., image: _Optional[bytes] = ...) -> None: ...

class Unload(_message.Message):
    __slots__ = ("executable_ids",)
    EXECUTABLE_IDS_FIELD_NUMBER: _ClassVar[int]
    executable_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, executable_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class InspectExecutable(_message.Message):
    __slots__ = ("inspect_id", "executable_id", "kind")
    INSPECT_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    inspect_id: int
    executable_id: int
    kind: _types_pb2.InspectKind
    def __init__(self, inspect_id: _Optional[int] = ..., executable_id: _Optional[int] = ..., kind: _Optional[_Union[_types_pb2.InspectKind, str]] = ...) -> None: ...

class ExpectUpload(_message.Message):
    __slots__ = ("transfer_id", "ticket", "size_bytes", "timeout_ns")
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    transfer_id: int
    ticket: str
    size_bytes: int
    timeout_ns: int
    def __init__(self, transfer_id: _Optional[int] = ..., ticket: _Optional[str] = ..., size_bytes: _Optional[int] = ..., timeout_ns: _Optional[int] = ...) -> None: ...

class PullShard(_message.Message):
    __slots__ = ("transfer_id", "address", "ticket", "size_bytes", "timeout_ns")
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    transfer_id: int
    address: str
    ticket: str
    size_bytes: int
    timeout_ns: int
    def __init__(self, transfer_id: _Optional[int] = ..., address: _Optional[str] = ..., ticket: _Optional[str] = ..., size_bytes: _Optional[int] = ..., timeout_ns: _Optional[int] = ...) -> None: ...

class CancelTransfer(_message.Message):
    __slots__ = ("transfer_ids", "session_number")
    TRANSFER_IDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    transfer_ids: _containers.RepeatedScalarFieldContainer[int]
    session_number: int
    def __init__(self, transfer_ids: _Optional[_Iterable[int]] = ..., session_number: _Optional[int] = ...) -> None: ...

class HostEvent(_message.Message):
    __slots__ = ("shard_fetched", "became_ready", "fetch_failed", "node_failed", "landed", "transfer_failed", "loaded", "inspected", "callback_call", "coordinator_ready", "epoch_ready", "epoch_failed", "executor_died", "missing", "contradiction", "prepare_refused", "memory", "log", "trace_collected", "array_spilled", "array_restored", "spill_offered", "restore_expected", "plan_loaded", "holdings", "epoch_left", "pulse", "host_diagnosis")
    SHARD_FETCHED_FIELD_NUMBER: _ClassVar[int]
    BECAME_READY_FIELD_NUMBER: _ClassVar[int]
    FETCH_FAILED_FIELD_NUMBER: _ClassVar[int]
    NODE_FAILED_FIELD_NUMBER: _ClassVar[int]
    LANDED_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FAILED_FIELD_NUMBER: _ClassVar[int]
    LOADED_FIELD_NUMBER: _ClassVar[int]
    INSPECTED_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_CALL_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_READY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_READY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FAILED_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_DIED_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    CONTRADICTION_FIELD_NUMBER: _ClassVar[int]
    PREPARE_REFUSED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    TRACE_COLLECTED_FIELD_NUMBER: _ClassVar[int]
    ARRAY_SPILLED_FIELD_NUMBER: _ClassVar[int]
    ARRAY_RESTORED_FIELD_NUMBER: _ClassVar[int]
    SPILL_OFFERED_FIELD_NUMBER: _ClassVar[int]
    RESTORE_EXPECTED_FIELD_NUMBER: _ClassVar[int]
    PLAN_LOADED_FIELD_NUMBER: _ClassVar[int]
    HOLDINGS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_LEFT_FIELD_NUMBER: _ClassVar[int]
    PULSE_FIELD_NUMBER: _ClassVar[int]
    HOST_DIAGNOSIS_FIELD_NUMBER: _ClassVar[int]
    shard_fetched: ShardFetched
    became_ready: BecameReady
    fetch_failed: FetchFailedOnHost
    node_failed: NodeFailed
    landed: Landed
    transfer_failed: TransferFailed
    loaded: Loaded
    inspected: InspectedExecutable
    callback_call: _callbacks_pb2.CallbackCall
    coordinator_ready: _epochs_pb2.CoordinatorReady
    epoch_ready: _epochs_pb2.EpochReady
    epoch_failed: _epochs_pb2.EpochFailed
    executor_died: _epochs_pb2.ExecutorDied
    missing: Missing
    contradiction: Contradiction
    prepare_refused: PrepareRefused
    memory: Memory
    log: Log
    trace_collected: _plans_pb2.TraceCollected
    array_spilled: _spilling_pb2.ArraySpilled
    array_restored: _spilling_pb2.ArrayRestored
    spill_offered: _spilling_pb2.SpillOffered
    restore_expected: _spilling_pb2.RestoreExpected
    plan_loaded: _plans_pb2.PlanLoaded
    holdings: _holdings_pb2.Holdings
    epoch_left: _epochs_pb2.EpochLeft
    pulse: _epochs_pb2.Pulse
    host_diagnosis: _diagnosis_pb2.HostDiagnosis
    def __init__(self, shard_fetched: _Optional[_Union[ShardFetched, _Mapping]] = ..., became_ready: _Optional[_Union[BecameReady, _Mapping]] = ..., fetch_failed: _Optional[_Union[FetchFailedOnHost, _Mapping]] = ..., node_failed: _Optional[_Union[NodeFailed, _Mapping]] = ..., landed: _Optional[_Union[Landed, _Mapping]] = ..., transfer_failed: _Optional[_Union[TransferFailed, _Mapping]] = ..., loaded: _Optional[_Union[Loaded, _Mapping]] = ..., inspected: _Optional[_Union[InspectedExecutable, _Mapping]] = ..., callback_call: _Optional[_Union[_callbacks_pb2.CallbackCall, _Mapping]] = ..., coordinator_ready: _Optional[_Union[_epochs_pb2.CoordinatorReady, _Mapping]] = ..., epoch_ready: _Optional[_Union[_epochs_pb2.EpochReady, _Mapping]] = ..., epoch_failed: _Optional[_Union[_epochs_pb2.EpochFailed, _Mapping]] = ..., executor_died: _Optional[_Union[_epochs_pb2.ExecutorDied, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ..., contradiction: _Optional[_Union[Contradiction, _Mapping]] = ..., prepare_refused: _Optional[_Union[PrepareRefused, _Mapping]] = ..., memory: _Optional[_Union[Memory, _Mapping]] = ..., log: _Optional[_Union[Log, _Mapping]] = ..., trace_collected: _Optional[_Union[_plans_pb2.TraceCollected, _Mapping]] = ..., array_spilled: _Optional[_Union[_spilling_pb2.ArraySpilled, _Mapping]] = ..., array_restored: _Optional[_Union[_spilling_pb2.ArrayRestored, _Mapping]] = ..., spill_offered: _Optional[_Union[_spilling_pb2.SpillOffered, _Mapping]] = ..., restore_expected: _Optional[_Union[_spilling_pb2.RestoreExpected, _Mapping]] = ..., plan_loaded: _Optional[_Union[_plans_pb2.PlanLoaded, _Mapping]] = ..., holdings: _Optional[_Union[_holdings_pb2.Holdings, _Mapping]] = ..., epoch_left: _Optional[_Union[_epochs_pb2.EpochLeft, _Mapping]] = ..., pulse: _Optional[_Union[_epochs_pb2.Pulse, _Mapping]] = ..., host_diagnosis: _Optional[_Union[_diagnosis_pb2.HostDiagnosis, _Mapping]] = ...) -> None: ...

class ShardFetched(_message.Message):
    __slots__ = ("fetch_id", "data")
    FETCH_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    fetch_id: int
    data: bytes
    def __init__(self, fetch_id: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class FetchFailedOnHost(_message.Message):
    __slots__ = ("fetch_id", "failure")
    FETCH_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    fetch_id: int
    failure: _types_pb2.Failure
    def __init__(self, fetch_id: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class BecameReady(_message.Message):
    __slots__ = ("wait_id", "failure")
    WAIT_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    wait_id: int
    failure: _types_pb2.Failure
    def __init__(self, wait_id: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class NodeFailed(_message.Message):
    __slots__ = ("execution_id", "sequence", "failure", "launched_with_zeros")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_WITH_ZEROS_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    sequence: int
    failure: _types_pb2.Failure
    launched_with_zeros: bool
    def __init__(self, execution_id: _Optional[int] = ..., sequence: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., launched_with_zeros: _Optional[bool] = ...) -> None: ...

class Landed(_message.Message):
    __slots__ = ("transfer_id",)
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    transfer_id: int
    def __init__(self, transfer_id: _Optional[int] = ...) -> None: ...

class TransferFailed(_message.Message):
    __slots__ = ("transfer_id", "failure")
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    transfer_id: int
    failure: _types_pb2.Failure
    def __init__(self, transfer_id: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class Loaded(_message.Message):
    __slots__ = ("executable_id", "epoch", "info", "failure", "reused", "image", "kept")
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REUSED_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    executable_id: int
    epoch: int
    info: _types_pb2.ExecutableInfo
    failure: _types_pb2.Failure
    reused: bool
    image: bytes
    kept: _images_pb2.KeptImage
    def __init__(self, executable_id: _Optional[int] = ..., epoch: _Optional[int] = ..., info: _Optional[_Union[_types_pb2.ExecutableInfo, _Mapping]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., reused: _Optional[bool] = ..., image: _Optional[bytes] = ..., kept: _Optional[_Union[_images_pb2.KeptImage, _Mapping]] = ...) -> None: ...

class InspectedExecutable(_message.Message):
    __slots__ = ("inspect_id", "inspection", "failure")
    INSPECT_ID_FIELD_NUMBER: _ClassVar[int]
    INSPECTION_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    inspect_id: int
    inspection: _types_pb2.Inspection
    failure: _types_pb2.Failure
    def __init__(self, inspect_id: _Optional[int] = ..., inspection: _Optional[_Union[_types_pb2.Inspection, _Mapping]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class Missing(_message.Message):
    __slots__ = ("sequence", "epoch")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    epoch: int
    def __init__(self, sequence: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Contradiction(_message.Message):
    __slots__ = ("epoch", "sequence", "text")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    sequence: int
    text: str
    def __init__(self, epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class PrepareRefused(_message.Message):
    __slots__ = ("execution_id", "failure")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    failure: _types_pb2.Failure
    def __init__(self, execution_id: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class Memory(_message.Message):
    __slots__ = ("live_bytes", "buffer_count", "launched_gangs", "device_peak_bytes", "spilled_bytes", "spilled_disk_bytes")
    LIVE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BUFFER_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_GANGS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPILLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPILLED_DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    live_bytes: int
    buffer_count: int
    launched_gangs: int
    device_peak_bytes: int
    spilled_bytes: int
    spilled_disk_bytes: int
    def __init__(self, live_bytes: _Optional[int] = ..., buffer_count: _Optional[int] = ..., launched_gangs: _Optional[int] = ..., device_peak_bytes: _Optional[int] = ..., spilled_bytes: _Optional[int] = ..., spilled_disk_bytes: _Optional[int] = ...) -> None: ...

class Log(_message.Message):
    __slots__ = ("lines",)
    LINES_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, lines: _Optional[_Iterable[str]] = ...) -> None: ...

class ExecutorCommands(_message.Message):
    __slots__ = ("frame", "commands")
    FRAME_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    frame: int
    commands: _containers.RepeatedCompositeFieldContainer[HostCommand]
    def __init__(self, frame: _Optional[int] = ..., commands: _Optional[_Iterable[_Union[HostCommand, _Mapping]]] = ...) -> None: ...

class ExecutorReport(_message.Message):
    __slots__ = ("acknowledged_frame", "finished_through", "events", "launched_through", "busy_ns", "times")
    ACKNOWLEDGED_FRAME_FIELD_NUMBER: _ClassVar[int]
    FINISHED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    BUSY_NS_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    acknowledged_frame: int
    finished_through: int
    events: _containers.RepeatedCompositeFieldContainer[HostEvent]
    launched_through: int
    busy_ns: int
    times: _containers.RepeatedCompositeFieldContainer[_plans_pb2.GangTime]
    def __init__(self, acknowledged_frame: _Optional[int] = ..., finished_through: _Optional[int] = ..., events: _Optional[_Iterable[_Union[HostEvent, _Mapping]]] = ..., launched_through: _Optional[int] = ..., busy_ns: _Optional[int] = ..., times: _Optional[_Iterable[_Union[_plans_pb2.GangTime, _Mapping]]] = ...) -> None: ...

class ExecutorDataHeader(_message.Message):
    __slots__ = ("transfer_id", "fetch_id", "size_bytes", "failure", "buffer_id", "held", "written", "push_id")
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    FETCH_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    PUSH_ID_FIELD_NUMBER: _ClassVar[int]
    transfer_id: int
    fetch_id: int
    size_bytes: int
    failure: _types_pb2.Failure
    buffer_id: int
    held: bool
    written: bool
    push_id: int
    def __init__(self, transfer_id: _Optional[int] = ..., fetch_id: _Optional[int] = ..., size_bytes: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., buffer_id: _Optional[int] = ..., held: _Optional[bool] = ..., written: _Optional[bool] = ..., push_id: _Optional[int] = ...) -> None: ...
