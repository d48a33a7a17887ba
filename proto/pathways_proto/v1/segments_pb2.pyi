from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class SegmentUse(_message.Message):
    __slots__ = ("fetch_id", "transfer_id", "offset", "size_bytes", "stream", "push_id", "total_bytes")
    FETCH_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PUSH_ID_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    fetch_id: int
    transfer_id: int
    offset: int
    size_bytes: int
    stream: bool
    push_id: int
    total_bytes: int
    def __init__(self, fetch_id: _Optional[int] = ..., transfer_id: _Optional[int] = ..., offset: _Optional[int] = ..., size_bytes: _Optional[int] = ..., stream: _Optional[bool] = ..., push_id: _Optional[int] = ..., total_bytes: _Optional[int] = ...) -> None: ...
