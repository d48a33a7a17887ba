from pathways_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hello(_message.Message):
    __slots__ = ("pathways_version", "jaxlib_version", "python_version", "session_id", "islands", "client", "plain", "tenant", "resumable", "term", "connection", "versions", "received_operations")
    PATHWAYS_VERSION_FIELD_NUMBER: _ClassVar[int]
    JAXLIB_VERSION_FIELD_NUMBER: _ClassVar[int]
    PYTHON_VERSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ISLANDS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    PLAIN_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    RESUMABLE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    pathways_version: str
    jaxlib_version: str
    python_version: str
    session_id: str
    islands: _containers.RepeatedScalarFieldContainer[str]
    client: str
    plain: bool
    tenant: str
    resumable: bool
    term: int
    connection: int
    versions: _types_pb2.Versions
    received_operations: int
    def __init__(self, pathways_version: _Optional[str] = ..., jaxlib_version: _Optional[str] = ..., python_version: _Optional[str] = ..., session_id: _Optional[str] = ..., islands: _Optional[_Iterable[str]] = ..., client: _Optional[str] = ..., plain: _Optional[bool] = ..., tenant: _Optional[str] = ..., resumable: _Optional[bool] = ..., term: _Optional[int] = ..., connection: _Optional[int] = ..., versions: _Optional[_Union[_types_pb2.Versions, _Mapping]] = ..., received_operations: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("session_id", "resumed", "devices", "platform", "platform_version", "server_version", "inline_bytes_max", "session_number", "lease_ns", "term", "versions", "orphan_ns")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    INLINE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    SESSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEASE_NS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    ORPHAN_NS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    resumed: bool
    devices: _containers.RepeatedCompositeFieldContainer[_types_pb2.Device]
    platform: str
    platform_version: str
    server_version: str
    inline_bytes_max: int
    session_number: int
    lease_ns: int
    term: int
    versions: _containers.RepeatedCompositeFieldContainer[_types_pb2.VersionRow]
    orphan_ns: int
    def __init__(self, session_id: _Optional[str] = ..., resumed: _Optional[bool] = ..., devices: _Optional[_Iterable[_Union[_types_pb2.Device, _Mapping]]] = ..., platform: _Optional[str] = ..., platform_version: _Optional[str] = ..., server_version: _Optional[str] = ..., inline_bytes_max: _Optional[int] = ..., session_number: _Optional[int] = ..., lease_ns: _Optional[int] = ..., term: _Optional[int] = ..., versions: _Optional[_Iterable[_Union[_types_pb2.VersionRow, _Mapping]]] = ..., orphan_ns: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("failure",)
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    failure: _types_pb2.Failure
    def __init__(self, failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...
