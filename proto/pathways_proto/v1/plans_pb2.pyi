from pathways_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LoadPlan(_message.Message):
    __slots__ = ("plan_id", "hosts", "specs", "steps", "argument_count", "slot_count", "results", "name")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    SPECS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    SLOT_COUNT_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    plan_id: int
    hosts: _containers.RepeatedCompositeFieldContainer[PlanHost]
    specs: _containers.RepeatedCompositeFieldContainer[PlanSpec]
    steps: _containers.RepeatedCompositeFieldContainer[PlanStep]
    argument_count: int
    slot_count: int
    results: _containers.RepeatedScalarFieldContainer[int]
    name: str
    def __init__(self, plan_id: _Optional[int] = ..., hosts: _Optional[_Iterable[_Union[PlanHost, _Mapping]]] = ..., specs: _Optional[_Iterable[_Union[PlanSpec, _Mapping]]] = ..., steps: _Optional[_Iterable[_Union[PlanStep, _Mapping]]] = ..., argument_count: _Optional[int] = ..., slot_count: _Optional[int] = ..., results: _Optional[_Iterable[int]] = ..., name: _Optional[str] = ...) -> None: ...

class PlanHost(_message.Message):
    __slots__ = ("name", "island", "epoch", "data_address")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DATA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    name: str
    island: str
    epoch: int
    data_address: str
    def __init__(self, name: _Optional[str] = ..., island: _Optional[str] = ..., epoch: _Optional[int] = ..., data_address: _Optional[str] = ...) -> None: ...

class PlanSpec(_message.Message):
    __slots__ = ("spec", "hosts", "local_devices")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    LOCAL_DEVICES_FIELD_NUMBER: _ClassVar[int]
    spec: _types_pb2.ArraySpec
    hosts: _containers.RepeatedScalarFieldContainer[int]
    local_devices: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, spec: _Optional[_Union[_types_pb2.ArraySpec, _Mapping]] = ..., hosts: _Optional[_Iterable[int]] = ..., local_devices: _Optional[_Iterable[int]] = ...) -> None: ...

class PlanStep(_message.Message):
    __slots__ = ("launch", "move", "free")
    LAUNCH_FIELD_NUMBER: _ClassVar[int]
    MOVE_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    launch: PlanLaunch
    move: PlanMove
    free: PlanFree
    def __init__(self, launch: _Optional[_Union[PlanLaunch, _Mapping]] = ..., move: _Optional[_Union[PlanMove, _Mapping]] = ..., free: _Optional[_Union[PlanFree, _Mapping]] = ...) -> None: ...

class PlanLaunch(_message.Message):
    __slots__ = ("node", "executable_id", "arguments", "results", "non_donatable", "hosts")
    NODE_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    NON_DONATABLE_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    node: int
    executable_id: int
    arguments: _containers.RepeatedScalarFieldContainer[int]
    results: _containers.RepeatedScalarFieldContainer[int]
    non_donatable: _containers.RepeatedScalarFieldContainer[int]
    hosts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node: _Optional[int] = ..., executable_id: _Optional[int] = ..., arguments: _Optional[_Iterable[int]] = ..., results: _Optional[_Iterable[int]] = ..., non_donatable: _Optional[_Iterable[int]] = ..., hosts: _Optional[_Iterable[int]] = ...) -> None: ...

class PlanMove(_message.Message):
    __slots__ = ("source", "destination", "source_spec", "destination_spec")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_SPEC_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_SPEC_FIELD_NUMBER: _ClassVar[int]
    source: int
    destination: int
    source_spec: int
    destination_spec: int
    def __init__(self, source: _Optional[int] = ..., destination: _Optional[int] = ..., source_spec: _Optional[int] = ..., destination_spec: _Optional[int] = ...) -> None: ...

class PlanFree(_message.Message):
    __slots__ = ("slots",)
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, slots: _Optional[_Iterable[int]] = ...) -> None: ...

class GroupPlan(_message.Message):
    __slots__ = ("plan_id", "groups")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    plan_id: int
    groups: _containers.RepeatedCompositeFieldContainer[PlanGroup]
    def __init__(self, plan_id: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[PlanGroup, _Mapping]]] = ...) -> None: ...

class PlanGroup(_message.Message):
    __slots__ = ("first_step", "end_step", "launch", "last_node")
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    END_STEP_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FIELD_NUMBER: _ClassVar[int]
    LAST_NODE_FIELD_NUMBER: _ClassVar[int]
    first_step: int
    end_step: int
    launch: PlanLaunch
    last_node: int
    def __init__(self, first_step: _Optional[int] = ..., end_step: _Optional[int] = ..., launch: _Optional[_Union[PlanLaunch, _Mapping]] = ..., last_node: _Optional[int] = ...) -> None: ...

class UnloadPlan(_message.Message):
    __slots__ = ("plan_ids",)
    PLAN_IDS_FIELD_NUMBER: _ClassVar[int]
    plan_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, plan_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class RunPlan(_message.Message):
    __slots__ = ("execution_id", "plan_id", "arguments", "first_result_id", "first_value_id", "donated", "ticket_key", "number", "timeout_ns", "end_step", "sequence", "previous", "epoch", "fused", "timed")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    FIRST_RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_VALUE_ID_FIELD_NUMBER: _ClassVar[int]
    DONATED_FIELD_NUMBER: _ClassVar[int]
    TICKET_KEY_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    END_STEP_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FUSED_FIELD_NUMBER: _ClassVar[int]
    TIMED_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    plan_id: int
    arguments: _containers.RepeatedScalarFieldContainer[int]
    first_result_id: int
    first_value_id: int
    donated: _containers.RepeatedScalarFieldContainer[int]
    ticket_key: bytes
    number: int
    timeout_ns: int
    end_step: int
    sequence: int
    previous: int
    epoch: int
    fused: bool
    timed: bool
    def __init__(self, execution_id: _Optional[int] = ..., plan_id: _Optional[int] = ..., arguments: _Optional[_Iterable[int]] = ..., first_result_id: _Optional[int] = ..., first_value_id: _Optional[int] = ..., donated: _Optional[_Iterable[int]] = ..., ticket_key: _Optional[bytes] = ..., number: _Optional[int] = ..., timeout_ns: _Optional[int] = ..., end_step: _Optional[int] = ..., sequence: _Optional[int] = ..., previous: _Optional[int] = ..., epoch: _Optional[int] = ..., fused: _Optional[bool] = ..., timed: _Optional[bool] = ...) -> None: ...

class GrantRun(_message.Message):
    __slots__ = ("execution_id", "first_step", "end_step", "sequence", "previous", "epoch", "fused", "timed")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    END_STEP_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FUSED_FIELD_NUMBER: _ClassVar[int]
    TIMED_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    first_step: int
    end_step: int
    sequence: int
    previous: int
    epoch: int
    fused: bool
    timed: bool
    def __init__(self, execution_id: _Optional[int] = ..., first_step: _Optional[int] = ..., end_step: _Optional[int] = ..., sequence: _Optional[int] = ..., previous: _Optional[int] = ..., epoch: _Optional[int] = ..., fused: _Optional[bool] = ..., timed: _Optional[bool] = ...) -> None: ...

class EndRun(_message.Message):
    __slots__ = ("execution_id", "failure")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    failure: _types_pb2.Failure
    def __init__(self, execution_id: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class PlanLoaded(_message.Message):
    __slots__ = ("plan_id", "epoch", "fields", "failure")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    plan_id: int
    epoch: int
    fields: _containers.RepeatedCompositeFieldContainer[_types_pb2.FieldDigest]
    failure: _types_pb2.Failure
    def __init__(self, plan_id: _Optional[int] = ..., epoch: _Optional[int] = ..., fields: _Optional[_Iterable[_Union[_types_pb2.FieldDigest, _Mapping]]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class CollectTrace(_message.Message):
    __slots__ = ("trace_id", "execution_id", "session_number", "after_sequence", "rows_max")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROWS_MAX_FIELD_NUMBER: _ClassVar[int]
    trace_id: int
    execution_id: int
    session_number: int
    after_sequence: int
    rows_max: int
    def __init__(self, trace_id: _Optional[int] = ..., execution_id: _Optional[int] = ..., session_number: _Optional[int] = ..., after_sequence: _Optional[int] = ..., rows_max: _Optional[int] = ...) -> None: ...

class TraceCollected(_message.Message):
    __slots__ = ("trace_id", "execution_id", "received_ns", "prepared_ns", "rows", "forgotten", "epoch", "executables")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    PREPARED_NS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLES_FIELD_NUMBER: _ClassVar[int]
    trace_id: int
    execution_id: int
    received_ns: int
    prepared_ns: int
    rows: _containers.RepeatedCompositeFieldContainer[TraceRow]
    forgotten: bool
    epoch: int
    executables: _containers.RepeatedCompositeFieldContainer[TracedExecutable]
    def __init__(self, trace_id: _Optional[int] = ..., execution_id: _Optional[int] = ..., received_ns: _Optional[int] = ..., prepared_ns: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[TraceRow, _Mapping]]] = ..., forgotten: _Optional[bool] = ..., epoch: _Optional[int] = ..., executables: _Optional[_Iterable[_Union[TracedExecutable, _Mapping]]] = ...) -> None: ...

class TracedExecutable(_message.Message):
    __slots__ = ("executable_id", "name")
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    executable_id: int
    name: str
    def __init__(self, executable_id: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class TraceRow(_message.Message):
    __slots__ = ("step", "node", "granted_ns", "launched_ns", "enqueued_ns", "started_ns", "finished_ns", "pulled_bytes", "copied_bytes", "sequence", "last_node", "execution_id", "executable_id")
    STEP_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    GRANTED_NS_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_NS_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_NS_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_NS_FIELD_NUMBER: _ClassVar[int]
    PULLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    COPIED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_NODE_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    step: int
    node: int
    granted_ns: int
    launched_ns: int
    enqueued_ns: int
    started_ns: int
    finished_ns: int
    pulled_bytes: int
    copied_bytes: int
    sequence: int
    last_node: int
    execution_id: int
    executable_id: int
    def __init__(self, step: _Optional[int] = ..., node: _Optional[int] = ..., granted_ns: _Optional[int] = ..., launched_ns: _Optional[int] = ..., enqueued_ns: _Optional[int] = ..., started_ns: _Optional[int] = ..., finished_ns: _Optional[int] = ..., pulled_bytes: _Optional[int] = ..., copied_bytes: _Optional[int] = ..., sequence: _Optional[int] = ..., last_node: _Optional[int] = ..., execution_id: _Optional[int] = ..., executable_id: _Optional[int] = ...) -> None: ...

class GangTime(_message.Message):
    __slots__ = ("sequence", "started_ns", "ended_ns")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    ENDED_NS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    started_ns: int
    ended_ns: int
    def __init__(self, sequence: _Optional[int] = ..., started_ns: _Optional[int] = ..., ended_ns: _Optional[int] = ...) -> None: ...
