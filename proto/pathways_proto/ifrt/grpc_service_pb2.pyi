from pathways_proto.ifrt import session_pb2 as _session_pb2
from pathways_proto.ifrt import values_pb2 as _values_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IfrtProxyVersion(_message.Message):
    __slots__ = ("protocol_version", "ifrt_serdes_version_number")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    IFRT_SERDES_VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    ifrt_serdes_version_number: int
    def __init__(self, protocol_version: _Optional[int] = ..., ifrt_serdes_version_number: _Optional[int] = ...) -> None: ...

class GrpcGetVersionRequest(_message.Message):
    __slots__ = ("min_version", "max_version")
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_VERSION_FIELD_NUMBER: _ClassVar[int]
    min_version: IfrtProxyVersion
    max_version: IfrtProxyVersion
    def __init__(self, min_version: _Optional[_Union[IfrtProxyVersion, _Mapping]] = ..., max_version: _Optional[_Union[IfrtProxyVersion, _Mapping]] = ...) -> None: ...

class GrpcGetVersionResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: IfrtProxyVersion
    def __init__(self, version: _Optional[_Union[IfrtProxyVersion, _Mapping]] = ...) -> None: ...

class GrpcIfrtSessionMetadata(_message.Message):
    __slots__ = ("version", "initialization_data")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INITIALIZATION_DATA_FIELD_NUMBER: _ClassVar[int]
    version: IfrtProxyVersion
    initialization_data: _values_pb2.AttributeMapProto
    def __init__(self, version: _Optional[_Union[IfrtProxyVersion, _Mapping]] = ..., initialization_data: _Optional[_Union[_values_pb2.AttributeMapProto, _Mapping]] = ...) -> None: ...

class GrpcHostBufferStoreMetadata(_message.Message):
    __slots__ = ("session_id", "handle", "buffer_size")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    BUFFER_SIZE_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    handle: int
    buffer_size: int
    def __init__(self, session_id: _Optional[int] = ..., handle: _Optional[int] = ..., buffer_size: _Optional[int] = ...) -> None: ...

class GrpcHostBufferStoreRequest(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class GrpcHostBufferStoreResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GrpcHostBufferReadFromDiskRequest(_message.Message):
    __slots__ = ("metadata",)
    METADATA_FIELD_NUMBER: _ClassVar[int]
    metadata: GrpcHostBufferStoreMetadata
    def __init__(self, metadata: _Optional[_Union[GrpcHostBufferStoreMetadata, _Mapping]] = ...) -> None: ...

class GrpcHostBufferReadFromDiskResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GrpcHostBufferLookupRequest(_message.Message):
    __slots__ = ("session_id", "handle")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    handle: int
    def __init__(self, session_id: _Optional[int] = ..., handle: _Optional[int] = ...) -> None: ...

class GrpcHostBufferLookupResponse(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class GrpcHostBufferDeleteRequest(_message.Message):
    __slots__ = ("session_id", "handle")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    handle: int
    def __init__(self, session_id: _Optional[int] = ..., handle: _Optional[int] = ...) -> None: ...

class GrpcHostBufferDeleteResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
