from pathways_proto.v1 import diagnosis_pb2 as _diagnosis_pb2
from pathways_proto.v1 import types_pb2 as _types_pb2
from pathways_proto.v1 import workers_pb2 as _workers_pb2
from pathways_proto.v1 import callbacks_pb2 as _callbacks_pb2
from pathways_proto.v1 import diagnosis_pb2 as _diagnosis_pb2_1
from pathways_proto.v1 import epochs_pb2 as _epochs_pb2
from pathways_proto.v1 import holdings_pb2 as _holdings_pb2
from pathways_proto.v1 import hosts_pb2 as _hosts_pb2
from pathways_proto.v1 import images_pb2 as _images_pb2
from pathways_proto.v1 import plans_pb2 as _plans_pb2
from pathways_proto.v1 import spilling_pb2 as _spilling_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union
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

DESCRIPTOR: _descriptor.FileDescriptor

class FindLeaksRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FindLeaksResponse(_message.Message):
    __slots__ = ("leaks", "hosts", "late_hosts", "lost_hosts", "objects", "left_out")
    LEAKS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    LATE_HOSTS_FIELD_NUMBER: _ClassVar[int]
    LOST_HOSTS_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    leaks: _containers.RepeatedCompositeFieldContainer[Leak]
    hosts: _containers.RepeatedScalarFieldContainer[str]
    late_hosts: _containers.RepeatedScalarFieldContainer[str]
    lost_hosts: _containers.RepeatedScalarFieldContainer[str]
    objects: int
    left_out: int
    def __init__(self, leaks: _Optional[_Iterable[_Union[Leak, _Mapping]]] = ..., hosts: _Optional[_Iterable[str]] = ..., late_hosts: _Optional[_Iterable[str]] = ..., lost_hosts: _Optional[_Iterable[str]] = ..., objects: _Optional[int] = ..., left_out: _Optional[int] = ...) -> None: ...

class Leak(_message.Message):
    __slots__ = ("host", "kind", "id", "size_bytes", "session_number", "session_open", "tenant", "missing")
    HOST_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SESSION_OPEN_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    host: str
    kind: str
    id: int
    size_bytes: int
    session_number: int
    session_open: bool
    tenant: str
    missing: bool
    def __init__(self, host: _Optional[str] = ..., kind: _Optional[str] = ..., id: _Optional[int] = ..., size_bytes: _Optional[int] = ..., session_number: _Optional[int] = ..., session_open: _Optional[bool] = ..., tenant: _Optional[str] = ..., missing: _Optional[bool] = ...) -> None: ...

class ListWorkRequest(_message.Message):
    __slots__ = ("tenant", "limit")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    limit: int
    def __init__(self, tenant: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListWorkResponse(_message.Message):
    __slots__ = ("work", "left_out")
    WORK_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    work: _containers.RepeatedCompositeFieldContainer[Work]
    left_out: int
    def __init__(self, work: _Optional[_Iterable[_Union[Work, _Mapping]]] = ..., left_out: _Optional[int] = ...) -> None: ...

class Work(_message.Message):
    __slots__ = ("execution_id", "session_number", "tenant", "kind", "name", "islands", "state", "age_seconds", "steps", "steps_granted", "position", "waits_for", "device_ns", "finished_hosts", "unfinished_hosts")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ISLANDS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    AGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    STEPS_GRANTED_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    DEVICE_NS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_HOSTS_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_HOSTS_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    session_number: int
    tenant: str
    kind: str
    name: str
    islands: _containers.RepeatedScalarFieldContainer[str]
    state: str
    age_seconds: float
    steps: int
    steps_granted: int
    position: int
    waits_for: WaitReason
    device_ns: int
    finished_hosts: _containers.RepeatedScalarFieldContainer[str]
    unfinished_hosts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, execution_id: _Optional[int] = ..., session_number: _Optional[int] = ..., tenant: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., islands: _Optional[_Iterable[str]] = ..., state: _Optional[str] = ..., age_seconds: _Optional[float] = ..., steps: _Optional[int] = ..., steps_granted: _Optional[int] = ..., position: _Optional[int] = ..., waits_for: _Optional[_Union[WaitReason, _Mapping]] = ..., device_ns: _Optional[int] = ..., finished_hosts: _Optional[_Iterable[str]] = ..., unfinished_hosts: _Optional[_Iterable[str]] = ...) -> None: ...

class WaitReason(_message.Message):
    __slots__ = ("kind", "what", "holder", "waited_seconds", "deadline_seconds")
    KIND_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    WAITED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    what: str
    holder: str
    waited_seconds: float
    deadline_seconds: float
    def __init__(self, kind: _Optional[str] = ..., what: _Optional[str] = ..., holder: _Optional[str] = ..., waited_seconds: _Optional[float] = ..., deadline_seconds: _Optional[float] = ...) -> None: ...

class ListBuffersRequest(_message.Message):
    __slots__ = ("tenant", "session_number", "limit")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    session_number: int
    limit: int
    def __init__(self, tenant: _Optional[str] = ..., session_number: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class ListBuffersResponse(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionMemory]
    def __init__(self, sessions: _Optional[_Iterable[_Union[SessionMemory, _Mapping]]] = ...) -> None: ...

class SessionMemory(_message.Message):
    __slots__ = ("session_number", "tenant", "client", "buffers", "pending_buffers", "live_bytes", "spilled_bytes", "devices", "largest", "poisoned")
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    BUFFERS_FIELD_NUMBER: _ClassVar[int]
    PENDING_BUFFERS_FIELD_NUMBER: _ClassVar[int]
    LIVE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPILLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    LARGEST_FIELD_NUMBER: _ClassVar[int]
    POISONED_FIELD_NUMBER: _ClassVar[int]
    session_number: int
    tenant: str
    client: str
    buffers: int
    pending_buffers: int
    live_bytes: int
    spilled_bytes: int
    devices: _containers.RepeatedCompositeFieldContainer[DeviceMemory]
    largest: _containers.RepeatedCompositeFieldContainer[BufferRow]
    poisoned: _containers.RepeatedCompositeFieldContainer[PoisonedBuffers]
    def __init__(self, session_number: _Optional[int] = ..., tenant: _Optional[str] = ..., client: _Optional[str] = ..., buffers: _Optional[int] = ..., pending_buffers: _Optional[int] = ..., live_bytes: _Optional[int] = ..., spilled_bytes: _Optional[int] = ..., devices: _Optional[_Iterable[_Union[DeviceMemory, _Mapping]]] = ..., largest: _Optional[_Iterable[_Union[BufferRow, _Mapping]]] = ..., poisoned: _Optional[_Iterable[_Union[PoisonedBuffers, _Mapping]]] = ...) -> None: ...

class DeviceMemory(_message.Message):
    __slots__ = ("host", "device", "live_bytes")
    HOST_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    LIVE_BYTES_FIELD_NUMBER: _ClassVar[int]
    host: str
    device: int
    live_bytes: int
    def __init__(self, host: _Optional[str] = ..., device: _Optional[int] = ..., live_bytes: _Optional[int] = ...) -> None: ...

class BufferRow(_message.Message):
    __slots__ = ("buffer_id", "state", "size_bytes", "shards", "island")
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    buffer_id: int
    state: str
    size_bytes: int
    shards: int
    island: str
    def __init__(self, buffer_id: _Optional[int] = ..., state: _Optional[str] = ..., size_bytes: _Optional[int] = ..., shards: _Optional[int] = ..., island: _Optional[str] = ...) -> None: ...

class PoisonedBuffers(_message.Message):
    __slots__ = ("count", "failure")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    count: int
    failure: _types_pb2.Failure
    def __init__(self, count: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("session_number", "execution_id", "slice_id")
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    session_number: int
    execution_id: int
    slice_id: int
    def __init__(self, session_number: _Optional[int] = ..., execution_id: _Optional[int] = ..., slice_id: _Optional[int] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("sentences", "reasons", "work", "estimate_seconds")
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    sentences: _containers.RepeatedScalarFieldContainer[str]
    reasons: _containers.RepeatedCompositeFieldContainer[WaitReason]
    work: _containers.RepeatedCompositeFieldContainer[Work]
    estimate_seconds: float
    def __init__(self, sentences: _Optional[_Iterable[str]] = ..., reasons: _Optional[_Iterable[_Union[WaitReason, _Mapping]]] = ..., work: _Optional[_Iterable[_Union[Work, _Mapping]]] = ..., estimate_seconds: _Optional[float] = ...) -> None: ...

class GetTraceRequest(_message.Message):
    __slots__ = ("execution_id", "session_number", "after")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    session_number: int
    after: _containers.RepeatedCompositeFieldContainer[IslandPosition]
    def __init__(self, execution_id: _Optional[int] = ..., session_number: _Optional[int] = ..., after: _Optional[_Iterable[_Union[IslandPosition, _Mapping]]] = ...) -> None: ...

class IslandPosition(_message.Message):
    __slots__ = ("island", "epoch", "sequence")
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    island: str
    epoch: int
    sequence: int
    def __init__(self, island: _Optional[str] = ..., epoch: _Optional[int] = ..., sequence: _Optional[int] = ...) -> None: ...

class GetTraceResponse(_message.Message):
    __slots__ = ("execution_id", "session_number", "program", "nodes", "hosts", "failure", "requested_ns", "granted_ns", "pieces", "piece_count", "late_hosts", "lost_hosts")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_NS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_NS_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    PIECE_COUNT_FIELD_NUMBER: _ClassVar[int]
    LATE_HOSTS_FIELD_NUMBER: _ClassVar[int]
    LOST_HOSTS_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    session_number: int
    program: str
    nodes: _containers.RepeatedCompositeFieldContainer[TraceNode]
    hosts: _containers.RepeatedCompositeFieldContainer[TraceHost]
    failure: _types_pb2.Failure
    requested_ns: int
    granted_ns: int
    pieces: _containers.RepeatedCompositeFieldContainer[TracePiece]
    piece_count: int
    late_hosts: _containers.RepeatedScalarFieldContainer[str]
    lost_hosts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, execution_id: _Optional[int] = ..., session_number: _Optional[int] = ..., program: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[TraceNode, _Mapping]]] = ..., hosts: _Optional[_Iterable[_Union[TraceHost, _Mapping]]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., requested_ns: _Optional[int] = ..., granted_ns: _Optional[int] = ..., pieces: _Optional[_Iterable[_Union[TracePiece, _Mapping]]] = ..., piece_count: _Optional[int] = ..., late_hosts: _Optional[_Iterable[str]] = ..., lost_hosts: _Optional[_Iterable[str]] = ...) -> None: ...

class TracePiece(_message.Message):
    __slots__ = ("execution_id", "label")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    label: str
    def __init__(self, execution_id: _Optional[int] = ..., label: _Optional[str] = ...) -> None: ...

class TraceNode(_message.Message):
    __slots__ = ("node", "name", "source", "island", "execution_id")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    node: int
    name: str
    source: str
    island: str
    execution_id: int
    def __init__(self, node: _Optional[int] = ..., name: _Optional[str] = ..., source: _Optional[str] = ..., island: _Optional[str] = ..., execution_id: _Optional[int] = ...) -> None: ...

class TraceHost(_message.Message):
    __slots__ = ("host", "island", "trace")
    HOST_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    host: str
    island: str
    trace: _plans_pb2.TraceCollected
    def __init__(self, host: _Optional[str] = ..., island: _Optional[str] = ..., trace: _Optional[_Union[_plans_pb2.TraceCollected, _Mapping]] = ...) -> None: ...

class ListProgramsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListProgramsResponse(_message.Message):
    __slots__ = ("programs",)
    PROGRAMS_FIELD_NUMBER: _ClassVar[int]
    programs: _containers.RepeatedCompositeFieldContainer[RegisteredProgram]
    def __init__(self, programs: _Optional[_Iterable[_Union[RegisteredProgram, _Mapping]]] = ...) -> None: ...

class RegisteredProgram(_message.Message):
    __slots__ = ("name", "version", "device_count", "node_count", "arguments", "results", "tenant")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    device_count: int
    node_count: int
    arguments: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    results: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    tenant: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., device_count: _Optional[int] = ..., node_count: _Optional[int] = ..., arguments: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ..., tenant: _Optional[str] = ...) -> None: ...

class GetVersionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetVersionResponse(_message.Message):
    __slots__ = ("pathways_version", "protocol_version", "link_port", "versions")
    PATHWAYS_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    LINK_PORT_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    pathways_version: str
    protocol_version: str
    link_port: int
    versions: _types_pb2.Versions
    def __init__(self, pathways_version: _Optional[str] = ..., protocol_version: _Optional[str] = ..., link_port: _Optional[int] = ..., versions: _Optional[_Union[_types_pb2.Versions, _Mapping]] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("term", "pathways_version", "islands", "sessions", "uptime_seconds", "slices", "versions")
    TERM_FIELD_NUMBER: _ClassVar[int]
    PATHWAYS_VERSION_FIELD_NUMBER: _ClassVar[int]
    ISLANDS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    term: int
    pathways_version: str
    islands: _containers.RepeatedCompositeFieldContainer[IslandStatus]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionStatus]
    uptime_seconds: float
    slices: _containers.RepeatedCompositeFieldContainer[SliceStatus]
    versions: _types_pb2.Versions
    def __init__(self, term: _Optional[int] = ..., pathways_version: _Optional[str] = ..., islands: _Optional[_Iterable[_Union[IslandStatus, _Mapping]]] = ..., sessions: _Optional[_Iterable[_Union[SessionStatus, _Mapping]]] = ..., uptime_seconds: _Optional[float] = ..., slices: _Optional[_Iterable[_Union[SliceStatus, _Mapping]]] = ..., versions: _Optional[_Union[_types_pb2.Versions, _Mapping]] = ...) -> None: ...

class IslandStatus(_message.Message):
    __slots__ = ("name", "state", "epoch", "hosts", "granted_through", "queued_executions", "lacks", "topology", "device_kind", "tenant", "skew_seconds")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    QUEUED_EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    LACKS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_KIND_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SKEW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    epoch: int
    hosts: _containers.RepeatedCompositeFieldContainer[HostStatus]
    granted_through: int
    queued_executions: int
    lacks: str
    topology: _containers.RepeatedScalarFieldContainer[int]
    device_kind: str
    tenant: str
    skew_seconds: float
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., epoch: _Optional[int] = ..., hosts: _Optional[_Iterable[_Union[HostStatus, _Mapping]]] = ..., granted_through: _Optional[int] = ..., queued_executions: _Optional[int] = ..., lacks: _Optional[str] = ..., topology: _Optional[_Iterable[int]] = ..., device_kind: _Optional[str] = ..., tenant: _Optional[str] = ..., skew_seconds: _Optional[float] = ...) -> None: ...

class HostStatus(_message.Message):
    __slots__ = ("name", "state", "incarnation", "device_count", "data_address", "pid", "gangs_granted", "acknowledged_frames", "live_bytes", "log_tail", "run_frames", "executables_compiled", "executables_reused", "coordinates", "late_seconds", "versions", "executables_loaded", "executables_unloaded")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_COUNT_FIELD_NUMBER: _ClassVar[int]
    DATA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    GANGS_GRANTED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FRAMES_FIELD_NUMBER: _ClassVar[int]
    LIVE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOG_TAIL_FIELD_NUMBER: _ClassVar[int]
    RUN_FRAMES_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLES_COMPILED_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLES_REUSED_FIELD_NUMBER: _ClassVar[int]
    COORDINATES_FIELD_NUMBER: _ClassVar[int]
    LATE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLES_LOADED_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLES_UNLOADED_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    incarnation: int
    device_count: int
    data_address: str
    pid: int
    gangs_granted: int
    acknowledged_frames: int
    live_bytes: int
    log_tail: _containers.RepeatedScalarFieldContainer[str]
    run_frames: int
    executables_compiled: int
    executables_reused: int
    coordinates: _containers.RepeatedScalarFieldContainer[int]
    late_seconds: float
    versions: _types_pb2.Versions
    executables_loaded: int
    executables_unloaded: int
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., incarnation: _Optional[int] = ..., device_count: _Optional[int] = ..., data_address: _Optional[str] = ..., pid: _Optional[int] = ..., gangs_granted: _Optional[int] = ..., acknowledged_frames: _Optional[int] = ..., live_bytes: _Optional[int] = ..., log_tail: _Optional[_Iterable[str]] = ..., run_frames: _Optional[int] = ..., executables_compiled: _Optional[int] = ..., executables_reused: _Optional[int] = ..., coordinates: _Optional[_Iterable[int]] = ..., late_seconds: _Optional[float] = ..., versions: _Optional[_Union[_types_pb2.Versions, _Mapping]] = ..., executables_loaded: _Optional[int] = ..., executables_unloaded: _Optional[int] = ...) -> None: ...

class SessionStatus(_message.Message):
    __slots__ = ("session_number", "client", "islands", "device_count", "programs", "buffers", "live_bytes", "executions", "age_seconds", "tenant")
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    ISLANDS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_COUNT_FIELD_NUMBER: _ClassVar[int]
    PROGRAMS_FIELD_NUMBER: _ClassVar[int]
    BUFFERS_FIELD_NUMBER: _ClassVar[int]
    LIVE_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    AGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    session_number: int
    client: str
    islands: _containers.RepeatedScalarFieldContainer[str]
    device_count: int
    programs: int
    buffers: int
    live_bytes: int
    executions: int
    age_seconds: float
    tenant: str
    def __init__(self, session_number: _Optional[int] = ..., client: _Optional[str] = ..., islands: _Optional[_Iterable[str]] = ..., device_count: _Optional[int] = ..., programs: _Optional[int] = ..., buffers: _Optional[int] = ..., live_bytes: _Optional[int] = ..., executions: _Optional[int] = ..., age_seconds: _Optional[float] = ..., tenant: _Optional[str] = ...) -> None: ...

class SliceStatus(_message.Message):
    __slots__ = ("session_number", "slice_id", "state", "island", "hosts", "positions", "device_count", "exclusive", "waits_for", "tenant")
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_COUNT_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    session_number: int
    slice_id: int
    state: str
    island: str
    hosts: _containers.RepeatedScalarFieldContainer[str]
    positions: _containers.RepeatedScalarFieldContainer[int]
    device_count: int
    exclusive: bool
    waits_for: str
    tenant: str
    def __init__(self, session_number: _Optional[int] = ..., slice_id: _Optional[int] = ..., state: _Optional[str] = ..., island: _Optional[str] = ..., hosts: _Optional[_Iterable[str]] = ..., positions: _Optional[_Iterable[int]] = ..., device_count: _Optional[int] = ..., exclusive: _Optional[bool] = ..., waits_for: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...
