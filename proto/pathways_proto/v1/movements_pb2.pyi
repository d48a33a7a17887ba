from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class MigrateSliceRequest(_message.Message):
    __slots__ = ("session_number", "slice_id", "island")
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SLICE_ID_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    session_number: int
    slice_id: int
    island: str
    def __init__(self, session_number: _Optional[int] = ..., slice_id: _Optional[int] = ..., island: _Optional[str] = ...) -> None: ...

class MigrateSliceResponse(_message.Message):
    __slots__ = ("island", "hosts", "array_count", "size_bytes")
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    island: str
    hosts: _containers.RepeatedScalarFieldContainer[str]
    array_count: int
    size_bytes: int
    def __init__(self, island: _Optional[str] = ..., hosts: _Optional[_Iterable[str]] = ..., array_count: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class DrainHostRequest(_message.Message):
    __slots__ = ("host",)
    HOST_FIELD_NUMBER: _ClassVar[int]
    host: str
    def __init__(self, host: _Optional[str] = ...) -> None: ...

class DrainHostResponse(_message.Message):
    __slots__ = ("island", "state", "waits_for")
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    island: str
    state: str
    waits_for: str
    def __init__(self, island: _Optional[str] = ..., state: _Optional[str] = ..., waits_for: _Optional[str] = ...) -> None: ...

class UndrainHostRequest(_message.Message):
    __slots__ = ("host",)
    HOST_FIELD_NUMBER: _ClassVar[int]
    host: str
    def __init__(self, host: _Optional[str] = ...) -> None: ...

class UndrainHostResponse(_message.Message):
    __slots__ = ("island",)
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    island: str
    def __init__(self, island: _Optional[str] = ...) -> None: ...
