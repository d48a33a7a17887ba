from pathways_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExecutorWait(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXECUTOR_WAIT_UNSPECIFIED: _ClassVar[ExecutorWait]
    EXECUTOR_WAIT_BYTES: _ClassVar[ExecutorWait]
EXECUTOR_WAIT_UNSPECIFIED: ExecutorWait
EXECUTOR_WAIT_BYTES: ExecutorWait

class StartCoordinator(_message.Message):
    __slots__ = ("epoch", "rank_count")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RANK_COUNT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    rank_count: int
    def __init__(self, epoch: _Optional[int] = ..., rank_count: _Optional[int] = ...) -> None: ...

class EpochBegin(_message.Message):
    __slots__ = ("epoch", "rank", "rank_count", "coordinator_address", "device_count")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    RANK_COUNT_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_COUNT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    rank: int
    rank_count: int
    coordinator_address: str
    device_count: int
    def __init__(self, epoch: _Optional[int] = ..., rank: _Optional[int] = ..., rank_count: _Optional[int] = ..., coordinator_address: _Optional[str] = ..., device_count: _Optional[int] = ...) -> None: ...

class EpochEnd(_message.Message):
    __slots__ = ("epoch", "keep", "timeout_ns")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    keep: _containers.RepeatedCompositeFieldContainer[Keep]
    timeout_ns: int
    def __init__(self, epoch: _Optional[int] = ..., keep: _Optional[_Iterable[_Union[Keep, _Mapping]]] = ..., timeout_ns: _Optional[int] = ...) -> None: ...

class Keep(_message.Message):
    __slots__ = ("buffer_id", "stored_id", "spill_number", "shards")
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    STORED_ID_FIELD_NUMBER: _ClassVar[int]
    SPILL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    buffer_id: int
    stored_id: int
    spill_number: int
    shards: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, buffer_id: _Optional[int] = ..., stored_id: _Optional[int] = ..., spill_number: _Optional[int] = ..., shards: _Optional[_Iterable[int]] = ...) -> None: ...

class EpochLeft(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class CoordinatorReady(_message.Message):
    __slots__ = ("epoch", "address", "failure")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    address: str
    failure: _types_pb2.Failure
    def __init__(self, epoch: _Optional[int] = ..., address: _Optional[str] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class EpochReady(_message.Message):
    __slots__ = ("epoch", "platform", "platform_version", "device_kind", "memory_kinds", "compiler")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_VERSION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_KIND_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KINDS_FIELD_NUMBER: _ClassVar[int]
    COMPILER_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    platform: str
    platform_version: str
    device_kind: str
    memory_kinds: _containers.RepeatedScalarFieldContainer[str]
    compiler: str
    def __init__(self, epoch: _Optional[int] = ..., platform: _Optional[str] = ..., platform_version: _Optional[str] = ..., device_kind: _Optional[str] = ..., memory_kinds: _Optional[_Iterable[str]] = ..., compiler: _Optional[str] = ...) -> None: ...

class EpochFailed(_message.Message):
    __slots__ = ("epoch", "failure")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    failure: _types_pb2.Failure
    def __init__(self, epoch: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class Probe(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class Pulse(_message.Message):
    __slots__ = ("number", "epoch", "entered_through", "entered_ago_ns", "finished_through", "silent_ns", "idle", "waits_for", "cpu_ns")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENTERED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    ENTERED_AGO_NS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    SILENT_NS_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    CPU_NS_FIELD_NUMBER: _ClassVar[int]
    number: int
    epoch: int
    entered_through: int
    entered_ago_ns: int
    finished_through: int
    silent_ns: int
    idle: bool
    waits_for: ExecutorWait
    cpu_ns: int
    def __init__(self, number: _Optional[int] = ..., epoch: _Optional[int] = ..., entered_through: _Optional[int] = ..., entered_ago_ns: _Optional[int] = ..., finished_through: _Optional[int] = ..., silent_ns: _Optional[int] = ..., idle: _Optional[bool] = ..., waits_for: _Optional[_Union[ExecutorWait, str]] = ..., cpu_ns: _Optional[int] = ...) -> None: ...

class ExecutorDied(_message.Message):
    __slots__ = ("epoch", "exit", "stderr_tail", "launched_through", "finished_through", "entered_through", "loading")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    STDERR_TAIL_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    FINISHED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    ENTERED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    LOADING_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    exit: str
    stderr_tail: str
    launched_through: int
    finished_through: int
    entered_through: int
    loading: int
    def __init__(self, epoch: _Optional[int] = ..., exit: _Optional[str] = ..., stderr_tail: _Optional[str] = ..., launched_through: _Optional[int] = ..., finished_through: _Optional[int] = ..., entered_through: _Optional[int] = ..., loading: _Optional[int] = ...) -> None: ...
