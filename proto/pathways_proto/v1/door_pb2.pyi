from pathways_proto.v1 import programs_pb2 as _programs_pb2
from pathways_proto.v1 import sessions_pb2 as _sessions_pb2
from pathways_proto.v1 import hellos_pb2 as _hellos_pb2
from pathways_proto.v1 import slices_pb2 as _slices_pb2
from pathways_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ChangeSliceRequest(_message.Message):
    __slots__ = ("slice_id", "fence")
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    slice_id: int
    fence: int
    def __init__(self, slice_id: _Optional[int] = ..., fence: _Optional[int] = ...) -> None: ...

class ReleaseSliceRequest(_message.Message):
    __slots__ = ("slice_id", "fence")
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    slice_id: int
    fence: int
    def __init__(self, slice_id: _Optional[int] = ..., fence: _Optional[int] = ...) -> None: ...

class ReleaseSliceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PluginProgram(_message.Message):
    __slots__ = ("program", "groups", "donated")
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    DONATED_FIELD_NUMBER: _ClassVar[int]
    program: _programs_pb2.Program
    groups: _containers.RepeatedCompositeFieldContainer[PluginGroup]
    donated: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, program: _Optional[_Union[_programs_pb2.Program, _Mapping]] = ..., groups: _Optional[_Iterable[_Union[PluginGroup, _Mapping]]] = ..., donated: _Optional[_Iterable[int]] = ...) -> None: ...

class PluginGroup(_message.Message):
    __slots__ = ("shard_count", "arguments")
    SHARD_COUNT_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    shard_count: int
    arguments: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, shard_count: _Optional[int] = ..., arguments: _Optional[_Iterable[int]] = ...) -> None: ...

class PluginFusion(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[_programs_pb2.FusedGroup]
    def __init__(self, groups: _Optional[_Iterable[_Union[_programs_pb2.FusedGroup, _Mapping]]] = ...) -> None: ...

class BulkCall(_message.Message):
    __slots__ = ("secret", "number")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    secret: str
    number: int
    def __init__(self, secret: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class BulkSegment(_message.Message):
    __slots__ = ("position", "size_bytes", "filled_bytes")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FILLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    position: int
    size_bytes: int
    filled_bytes: int
    def __init__(self, position: _Optional[int] = ..., size_bytes: _Optional[int] = ..., filled_bytes: _Optional[int] = ...) -> None: ...

class BulkAnswer(_message.Message):
    __slots__ = ("position", "failure", "shards", "opened", "answered")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    position: int
    failure: _types_pb2.Failure
    shards: _containers.RepeatedCompositeFieldContainer[BulkShard]
    opened: bool
    answered: bool
    def __init__(self, position: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., shards: _Optional[_Iterable[_Union[BulkShard, _Mapping]]] = ..., opened: _Optional[bool] = ..., answered: _Optional[bool] = ...) -> None: ...

class BulkShard(_message.Message):
    __slots__ = ("start", "shape", "offset")
    START_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    start: _containers.RepeatedScalarFieldContainer[int]
    shape: _containers.RepeatedScalarFieldContainer[int]
    offset: int
    def __init__(self, start: _Optional[_Iterable[int]] = ..., shape: _Optional[_Iterable[int]] = ..., offset: _Optional[int] = ...) -> None: ...

class PluginPut(_message.Message):
    __slots__ = ("specs",)
    SPECS_FIELD_NUMBER: _ClassVar[int]
    specs: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    def __init__(self, specs: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ...) -> None: ...
