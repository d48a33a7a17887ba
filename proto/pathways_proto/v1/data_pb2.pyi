from pathways_proto.v1 import types_pb2 as _types_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PushRequest(_message.Message):
    __slots__ = ("ticket", "data")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ticket: str
    data: bytes
    def __init__(self, ticket: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class PushResponse(_message.Message):
    __slots__ = ("received_bytes",)
    RECEIVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    received_bytes: int
    def __init__(self, received_bytes: _Optional[int] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("ticket", "again")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    ticket: str
    again: bool
    def __init__(self, ticket: _Optional[str] = ..., again: _Optional[bool] = ...) -> None: ...

class PullResponse(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class LocateRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LocateResponse(_message.Message):
    __slots__ = ("near",)
    NEAR_FIELD_NUMBER: _ClassVar[int]
    near: str
    def __init__(self, near: _Optional[str] = ...) -> None: ...

class NearTransfer(_message.Message):
    __slots__ = ("ticket", "offset", "size_bytes", "push")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    ticket: str
    offset: int
    size_bytes: int
    push: bool
    def __init__(self, ticket: _Optional[str] = ..., offset: _Optional[int] = ..., size_bytes: _Optional[int] = ..., push: _Optional[bool] = ...) -> None: ...

class NearFilled(_message.Message):
    __slots__ = ("filled_bytes",)
    FILLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    filled_bytes: int
    def __init__(self, filled_bytes: _Optional[int] = ...) -> None: ...

class NearAnswer(_message.Message):
    __slots__ = ("failure", "answered")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    failure: _types_pb2.Failure
    answered: bool
    def __init__(self, failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ..., answered: _Optional[bool] = ...) -> None: ...
