from pathways_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ColocatedProgram(_message.Message):
    __slots__ = ("name", "text", "parameters", "outputs", "devices", "storage")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: bytes
    parameters: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    outputs: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    devices: _containers.RepeatedScalarFieldContainer[int]
    storage: Storage
    def __init__(self, name: _Optional[str] = ..., text: _Optional[bytes] = ..., parameters: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ..., devices: _Optional[_Iterable[int]] = ..., storage: _Optional[_Union[Storage, _Mapping]] = ...) -> None: ...

class Storage(_message.Message):
    __slots__ = ("write", "arrays", "timeout_ns")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    write: bool
    arrays: _containers.RepeatedCompositeFieldContainer[StoredArray]
    timeout_ns: int
    def __init__(self, write: _Optional[bool] = ..., arrays: _Optional[_Iterable[_Union[StoredArray, _Mapping]]] = ..., timeout_ns: _Optional[int] = ...) -> None: ...

class StoredArray(_message.Message):
    __slots__ = ("path", "dtype", "shape", "shard_shape", "shards")
    PATH_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARD_SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    path: str
    dtype: int
    shape: _containers.RepeatedScalarFieldContainer[int]
    shard_shape: _containers.RepeatedScalarFieldContainer[int]
    shards: _containers.RepeatedCompositeFieldContainer[StoredShard]
    def __init__(self, path: _Optional[str] = ..., dtype: _Optional[int] = ..., shape: _Optional[_Iterable[int]] = ..., shard_shape: _Optional[_Iterable[int]] = ..., shards: _Optional[_Iterable[_Union[StoredShard, _Mapping]]] = ...) -> None: ...

class StoredShard(_message.Message):
    __slots__ = ("start", "skip")
    START_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    start: _containers.RepeatedScalarFieldContainer[int]
    skip: bool
    def __init__(self, start: _Optional[_Iterable[int]] = ..., skip: _Optional[bool] = ...) -> None: ...

class HostShards(_message.Message):
    __slots__ = ("shards",)
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, shards: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SidecarCommand(_message.Message):
    __slots__ = ("call_id", "executable_id", "program", "arguments", "local_devices", "forget")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    LOCAL_DEVICES_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    executable_id: int
    program: ColocatedProgram
    arguments: _containers.RepeatedCompositeFieldContainer[HostShards]
    local_devices: _containers.RepeatedScalarFieldContainer[int]
    forget: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, call_id: _Optional[int] = ..., executable_id: _Optional[int] = ..., program: _Optional[_Union[ColocatedProgram, _Mapping]] = ..., arguments: _Optional[_Iterable[_Union[HostShards, _Mapping]]] = ..., local_devices: _Optional[_Iterable[int]] = ..., forget: _Optional[_Iterable[int]] = ...) -> None: ...

class SidecarReport(_message.Message):
    __slots__ = ("call_id", "results", "failure", "printed")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    PRINTED_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    results: _containers.RepeatedCompositeFieldContainer[HostShards]
    failure: _types_pb2.Failure
    printed: str
    def __init__(self, call_id: _Optional[int] = ..., results: _Optional[_Iterable[_Union[HostShards, _Mapping]]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., printed: _Optional[str] = ...) -> None: ...
