from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HeldKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HELD_KIND_UNSPECIFIED: _ClassVar[HeldKind]
    HELD_KIND_VALUE: _ClassVar[HeldKind]
    HELD_KIND_FAILED: _ClassVar[HeldKind]
    HELD_KIND_PENDING: _ClassVar[HeldKind]
    HELD_KIND_EXECUTABLE: _ClassVar[HeldKind]
    HELD_KIND_PLAN: _ClassVar[HeldKind]
    HELD_KIND_RUN: _ClassVar[HeldKind]
    HELD_KIND_EXECUTION: _ClassVar[HeldKind]
    HELD_KIND_TRANSFER: _ClassVar[HeldKind]
    HELD_KIND_TICKET: _ClassVar[HeldKind]
    HELD_KIND_SPILLED: _ClassVar[HeldKind]
HELD_KIND_UNSPECIFIED: HeldKind
HELD_KIND_VALUE: HeldKind
HELD_KIND_FAILED: HeldKind
HELD_KIND_PENDING: HeldKind
HELD_KIND_EXECUTABLE: HeldKind
HELD_KIND_PLAN: HeldKind
HELD_KIND_RUN: HeldKind
HELD_KIND_EXECUTION: HeldKind
HELD_KIND_TRANSFER: HeldKind
HELD_KIND_TICKET: HeldKind
HELD_KIND_SPILLED: HeldKind

class ReportHoldings(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    def __init__(self, request_id: _Optional[int] = ...) -> None: ...

class Holdings(_message.Message):
    __slots__ = ("request_id", "daemon", "epoch", "launched_through", "objects", "more", "left_out")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DAEMON_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    daemon: bool
    epoch: int
    launched_through: int
    objects: _containers.RepeatedCompositeFieldContainer[HeldObjects]
    more: bool
    left_out: int
    def __init__(self, request_id: _Optional[int] = ..., daemon: _Optional[bool] = ..., epoch: _Optional[int] = ..., launched_through: _Optional[int] = ..., objects: _Optional[_Iterable[_Union[HeldObjects, _Mapping]]] = ..., more: _Optional[bool] = ..., left_out: _Optional[int] = ...) -> None: ...

class HeldObjects(_message.Message):
    __slots__ = ("kind", "ids", "size_bytes", "sessions")
    KIND_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    kind: HeldKind
    ids: _containers.RepeatedScalarFieldContainer[int]
    size_bytes: _containers.RepeatedScalarFieldContainer[int]
    sessions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, kind: _Optional[_Union[HeldKind, str]] = ..., ids: _Optional[_Iterable[int]] = ..., size_bytes: _Optional[_Iterable[int]] = ..., sessions: _Optional[_Iterable[int]] = ...) -> None: ...
