from pathways_proto.v1 import types_pb2 as _types_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CallbackCall(_message.Message):
    __slots__ = ("call_id", "session_number", "callback_id", "operands", "executable_id", "timeout_ns")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_ID_FIELD_NUMBER: _ClassVar[int]
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    session_number: int
    callback_id: int
    operands: _types_pb2.CallbackArrays
    executable_id: int
    timeout_ns: int
    def __init__(self, call_id: _Optional[int] = ..., session_number: _Optional[int] = ..., callback_id: _Optional[int] = ..., operands: _Optional[_Union[_types_pb2.CallbackArrays, _Mapping]] = ..., executable_id: _Optional[int] = ..., timeout_ns: _Optional[int] = ...) -> None: ...

class CallbackReply(_message.Message):
    __slots__ = ("call_id", "results", "failure")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    results: _types_pb2.CallbackArrays
    failure: _types_pb2.Failure
    def __init__(self, call_id: _Optional[int] = ..., results: _Optional[_Union[_types_pb2.CallbackArrays, _Mapping]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class CallbackAbort(_message.Message):
    __slots__ = ("session_number",)
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    session_number: int
    def __init__(self, session_number: _Optional[int] = ...) -> None: ...
