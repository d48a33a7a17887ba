from pathways_proto.v1 import sessions_pb2 as _sessions_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

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
