from pathways_proto.ifrt import error_codes_pb2 as _error_codes_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StatusProto(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: _error_codes_pb2.Code
    message: str
    def __init__(self, code: _Optional[_Union[_error_codes_pb2.Code, str]] = ..., message: _Optional[str] = ...) -> None: ...
