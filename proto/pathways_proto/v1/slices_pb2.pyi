from pathways_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AddSlice(_message.Message):
    __slots__ = ("slice_id", "device_count", "mesh_shape", "kind", "island", "exclusive", "with_slices", "apart_from_slices", "wait", "timeout_ns")
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    DEVICE_COUNT_FIELD_NUMBER: _ClassVar[int]
    MESH_SHAPE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    WITH_SLICES_FIELD_NUMBER: _ClassVar[int]
    APART_FROM_SLICES_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    slice_id: int
    device_count: int
    mesh_shape: _containers.RepeatedScalarFieldContainer[int]
    kind: str
    island: str
    exclusive: bool
    with_slices: _containers.RepeatedScalarFieldContainer[int]
    apart_from_slices: _containers.RepeatedScalarFieldContainer[int]
    wait: bool
    timeout_ns: int
    def __init__(self, slice_id: _Optional[int] = ..., device_count: _Optional[int] = ..., mesh_shape: _Optional[_Iterable[int]] = ..., kind: _Optional[str] = ..., island: _Optional[str] = ..., exclusive: _Optional[bool] = ..., with_slices: _Optional[_Iterable[int]] = ..., apart_from_slices: _Optional[_Iterable[int]] = ..., wait: _Optional[bool] = ..., timeout_ns: _Optional[int] = ...) -> None: ...

class ReleaseSlice(_message.Message):
    __slots__ = ("slice_id",)
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    slice_id: int
    def __init__(self, slice_id: _Optional[int] = ...) -> None: ...

class SliceAdded(_message.Message):
    __slots__ = ("slice_id", "devices", "island", "hosts", "failure", "kind")
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    slice_id: int
    devices: _containers.RepeatedScalarFieldContainer[int]
    island: str
    hosts: _containers.RepeatedScalarFieldContainer[str]
    failure: _types_pb2.Failure
    kind: str
    def __init__(self, slice_id: _Optional[int] = ..., devices: _Optional[_Iterable[int]] = ..., island: _Optional[str] = ..., hosts: _Optional[_Iterable[str]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., kind: _Optional[str] = ...) -> None: ...

class SliceWaiting(_message.Message):
    __slots__ = ("slice_id", "text")
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    slice_id: int
    text: str
    def __init__(self, slice_id: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class SuspendSlice(_message.Message):
    __slots__ = ("slice_id",)
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    slice_id: int
    def __init__(self, slice_id: _Optional[int] = ...) -> None: ...

class ResumeSlice(_message.Message):
    __slots__ = ("slice_id",)
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    slice_id: int
    def __init__(self, slice_id: _Optional[int] = ...) -> None: ...

class SliceSuspended(_message.Message):
    __slots__ = ("slice_id", "failure")
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    slice_id: int
    failure: _types_pb2.Failure
    def __init__(self, slice_id: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class SliceResumed(_message.Message):
    __slots__ = ("slice_id", "island", "hosts", "failure")
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    slice_id: int
    island: str
    hosts: _containers.RepeatedScalarFieldContainer[str]
    failure: _types_pb2.Failure
    def __init__(self, slice_id: _Optional[int] = ..., island: _Optional[str] = ..., hosts: _Optional[_Iterable[str]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...
