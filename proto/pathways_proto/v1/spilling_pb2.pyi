from pathways_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SpillDecision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SPILL_DECISION_UNSPECIFIED: _ClassVar[SpillDecision]
    SPILL_DECISION_SEND: _ClassVar[SpillDecision]
    SPILL_DECISION_FORGET: _ClassVar[SpillDecision]
    SPILL_DECISION_KEEP: _ClassVar[SpillDecision]
SPILL_DECISION_UNSPECIFIED: SpillDecision
SPILL_DECISION_SEND: SpillDecision
SPILL_DECISION_FORGET: SpillDecision
SPILL_DECISION_KEEP: SpillDecision

class SpillArray(_message.Message):
    __slots__ = ("buffer_id", "spill_number")
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    SPILL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    buffer_id: int
    spill_number: int
    def __init__(self, buffer_id: _Optional[int] = ..., spill_number: _Optional[int] = ...) -> None: ...

class RestoreArray(_message.Message):
    __slots__ = ("buffer_id", "shards", "spill_number")
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    SPILL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    buffer_id: int
    shards: _containers.RepeatedCompositeFieldContainer[SpilledShard]
    spill_number: int
    def __init__(self, buffer_id: _Optional[int] = ..., shards: _Optional[_Iterable[_Union[SpilledShard, _Mapping]]] = ..., spill_number: _Optional[int] = ...) -> None: ...

class DropSpilled(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ArraySpilled(_message.Message):
    __slots__ = ("buffer_id", "size_bytes", "failure", "spill_number")
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    SPILL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    buffer_id: int
    size_bytes: int
    failure: _types_pb2.Failure
    spill_number: int
    def __init__(self, buffer_id: _Optional[int] = ..., size_bytes: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., spill_number: _Optional[int] = ...) -> None: ...

class ArrayRestored(_message.Message):
    __slots__ = ("buffer_id", "failure", "spill_number")
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    SPILL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    buffer_id: int
    failure: _types_pb2.Failure
    spill_number: int
    def __init__(self, buffer_id: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., spill_number: _Optional[int] = ...) -> None: ...

class SpilledShard(_message.Message):
    __slots__ = ("local_device", "dtype", "shape", "memory_kind", "size_bytes")
    LOCAL_DEVICE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    local_device: int
    dtype: int
    shape: _containers.RepeatedScalarFieldContainer[int]
    memory_kind: str
    size_bytes: int
    def __init__(self, local_device: _Optional[int] = ..., dtype: _Optional[int] = ..., shape: _Optional[_Iterable[int]] = ..., memory_kind: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class SpillOffered(_message.Message):
    __slots__ = ("buffer_id", "shards")
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    buffer_id: int
    shards: _containers.RepeatedCompositeFieldContainer[SpilledShard]
    def __init__(self, buffer_id: _Optional[int] = ..., shards: _Optional[_Iterable[_Union[SpilledShard, _Mapping]]] = ...) -> None: ...

class SpillDecided(_message.Message):
    __slots__ = ("buffer_id", "decision")
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    buffer_id: int
    decision: SpillDecision
    def __init__(self, buffer_id: _Optional[int] = ..., decision: _Optional[_Union[SpillDecision, str]] = ...) -> None: ...

class RestoreExpected(_message.Message):
    __slots__ = ("buffer_id",)
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    buffer_id: int
    def __init__(self, buffer_id: _Optional[int] = ...) -> None: ...
