from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DiagnoseHost(_message.Message):
    __slots__ = ("request_id", "timeout_ns")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    timeout_ns: int
    def __init__(self, request_id: _Optional[int] = ..., timeout_ns: _Optional[int] = ...) -> None: ...

class HostDiagnosis(_message.Message):
    __slots__ = ("request_id", "epoch", "launched_through", "finished_through", "processes", "memory_bytes", "memory_available_bytes", "loop_late_seconds", "live_bytes", "buffers", "output", "loading")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    FINISHED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_AVAILABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOOP_LATE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LIVE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BUFFERS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    LOADING_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    epoch: int
    launched_through: int
    finished_through: int
    processes: _containers.RepeatedCompositeFieldContainer[ProcessDiagnosis]
    memory_bytes: int
    memory_available_bytes: int
    loop_late_seconds: float
    live_bytes: int
    buffers: int
    output: _containers.RepeatedScalarFieldContainer[str]
    loading: int
    def __init__(self, request_id: _Optional[int] = ..., epoch: _Optional[int] = ..., launched_through: _Optional[int] = ..., finished_through: _Optional[int] = ..., processes: _Optional[_Iterable[_Union[ProcessDiagnosis, _Mapping]]] = ..., memory_bytes: _Optional[int] = ..., memory_available_bytes: _Optional[int] = ..., loop_late_seconds: _Optional[float] = ..., live_bytes: _Optional[int] = ..., buffers: _Optional[int] = ..., output: _Optional[_Iterable[str]] = ..., loading: _Optional[int] = ...) -> None: ...

class ProcessDiagnosis(_message.Message):
    __slots__ = ("role", "pid", "state", "resident_bytes", "cpu_seconds", "cpu_share", "threads", "thread_count", "stacks", "silence")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CPU_SHARE_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    THREAD_COUNT_FIELD_NUMBER: _ClassVar[int]
    STACKS_FIELD_NUMBER: _ClassVar[int]
    SILENCE_FIELD_NUMBER: _ClassVar[int]
    role: str
    pid: int
    state: str
    resident_bytes: int
    cpu_seconds: float
    cpu_share: float
    threads: _containers.RepeatedCompositeFieldContainer[ThreadDiagnosis]
    thread_count: int
    stacks: _containers.RepeatedScalarFieldContainer[str]
    silence: str
    def __init__(self, role: _Optional[str] = ..., pid: _Optional[int] = ..., state: _Optional[str] = ..., resident_bytes: _Optional[int] = ..., cpu_seconds: _Optional[float] = ..., cpu_share: _Optional[float] = ..., threads: _Optional[_Iterable[_Union[ThreadDiagnosis, _Mapping]]] = ..., thread_count: _Optional[int] = ..., stacks: _Optional[_Iterable[str]] = ..., silence: _Optional[str] = ...) -> None: ...

class ThreadDiagnosis(_message.Message):
    __slots__ = ("thread_id", "name", "state", "waits_in", "cpu_seconds")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WAITS_IN_FIELD_NUMBER: _ClassVar[int]
    CPU_SECONDS_FIELD_NUMBER: _ClassVar[int]
    thread_id: int
    name: str
    state: str
    waits_in: str
    cpu_seconds: float
    def __init__(self, thread_id: _Optional[int] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., waits_in: _Optional[str] = ..., cpu_seconds: _Optional[float] = ...) -> None: ...

class DiagnoseRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DiagnoseResponse(_message.Message):
    __slots__ = ("verdict", "time_ns", "term", "pathways_version", "uptime_seconds", "islands", "hosts", "controller", "recent", "open_sessions")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    PATHWAYS_VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ISLANDS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    RECENT_FIELD_NUMBER: _ClassVar[int]
    OPEN_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    verdict: _containers.RepeatedScalarFieldContainer[str]
    time_ns: int
    term: int
    pathways_version: str
    uptime_seconds: float
    islands: _containers.RepeatedCompositeFieldContainer[IslandDiagnosis]
    hosts: _containers.RepeatedCompositeFieldContainer[HostCondition]
    controller: ProcessDiagnosis
    recent: _containers.RepeatedCompositeFieldContainer[StoryLine]
    open_sessions: int
    def __init__(self, verdict: _Optional[_Iterable[str]] = ..., time_ns: _Optional[int] = ..., term: _Optional[int] = ..., pathways_version: _Optional[str] = ..., uptime_seconds: _Optional[float] = ..., islands: _Optional[_Iterable[_Union[IslandDiagnosis, _Mapping]]] = ..., hosts: _Optional[_Iterable[_Union[HostCondition, _Mapping]]] = ..., controller: _Optional[_Union[ProcessDiagnosis, _Mapping]] = ..., recent: _Optional[_Iterable[_Union[StoryLine, _Mapping]]] = ..., open_sessions: _Optional[int] = ...) -> None: ...

class IslandDiagnosis(_message.Message):
    __slots__ = ("name", "state", "epoch", "lacks", "granted_through", "queued_executions", "unfinished_gangs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LACKS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    QUEUED_EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_GANGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    epoch: int
    lacks: str
    granted_through: int
    queued_executions: int
    unfinished_gangs: int
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., epoch: _Optional[int] = ..., lacks: _Optional[str] = ..., granted_through: _Optional[int] = ..., queued_executions: _Optional[int] = ..., unfinished_gangs: _Optional[int] = ...) -> None: ...

class HostCondition(_message.Message):
    __slots__ = ("host", "island", "state", "incarnation", "finished", "running", "queue", "silence", "diagnosis", "items_waiting", "frames_unacknowledged", "pid")
    HOST_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SILENCE_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSIS_FIELD_NUMBER: _ClassVar[int]
    ITEMS_WAITING_FIELD_NUMBER: _ClassVar[int]
    FRAMES_UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    host: str
    island: str
    state: str
    incarnation: int
    finished: GangCondition
    running: GangCondition
    queue: int
    silence: str
    diagnosis: HostDiagnosis
    items_waiting: int
    frames_unacknowledged: int
    pid: int
    def __init__(self, host: _Optional[str] = ..., island: _Optional[str] = ..., state: _Optional[str] = ..., incarnation: _Optional[int] = ..., finished: _Optional[_Union[GangCondition, _Mapping]] = ..., running: _Optional[_Union[GangCondition, _Mapping]] = ..., queue: _Optional[int] = ..., silence: _Optional[str] = ..., diagnosis: _Optional[_Union[HostDiagnosis, _Mapping]] = ..., items_waiting: _Optional[int] = ..., frames_unacknowledged: _Optional[int] = ..., pid: _Optional[int] = ...) -> None: ...

class GangCondition(_message.Message):
    __slots__ = ("sequence", "execution_id", "tenant", "program", "node", "node_name", "source", "since_seconds", "members", "missing_hosts", "unfinished_hosts", "unreported")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SINCE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    MISSING_HOSTS_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_HOSTS_FIELD_NUMBER: _ClassVar[int]
    UNREPORTED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    execution_id: int
    tenant: str
    program: str
    node: int
    node_name: str
    source: str
    since_seconds: float
    members: _containers.RepeatedScalarFieldContainer[str]
    missing_hosts: _containers.RepeatedScalarFieldContainer[str]
    unfinished_hosts: _containers.RepeatedScalarFieldContainer[str]
    unreported: bool
    def __init__(self, sequence: _Optional[int] = ..., execution_id: _Optional[int] = ..., tenant: _Optional[str] = ..., program: _Optional[str] = ..., node: _Optional[int] = ..., node_name: _Optional[str] = ..., source: _Optional[str] = ..., since_seconds: _Optional[float] = ..., members: _Optional[_Iterable[str]] = ..., missing_hosts: _Optional[_Iterable[str]] = ..., unfinished_hosts: _Optional[_Iterable[str]] = ..., unreported: _Optional[bool] = ...) -> None: ...

class GetStoryRequest(_message.Message):
    __slots__ = ("kind", "number", "name")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    kind: str
    number: int
    name: str
    def __init__(self, kind: _Optional[str] = ..., number: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class GetStoryResponse(_message.Message):
    __slots__ = ("lines", "remembered_seconds")
    LINES_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[StoryLine]
    remembered_seconds: float
    def __init__(self, lines: _Optional[_Iterable[_Union[StoryLine, _Mapping]]] = ..., remembered_seconds: _Optional[float] = ...) -> None: ...

class StoryLine(_message.Message):
    __slots__ = ("time_ns", "subject", "text")
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    time_ns: int
    subject: str
    text: str
    def __init__(self, time_ns: _Optional[int] = ..., subject: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...
