from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    PRIORITY_LOW: _ClassVar[Priority]
    PRIORITY_NORMAL: _ClassVar[Priority]
    PRIORITY_HIGH: _ClassVar[Priority]

class Over(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVER_UNSPECIFIED: _ClassVar[Over]
    OVER_WAIT: _ClassVar[Over]
    OVER_FAIL: _ClassVar[Over]

class Isolation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ISOLATION_UNSPECIFIED: _ClassVar[Isolation]
    ISOLATION_SHARED: _ClassVar[Isolation]
    ISOLATION_PROCESS: _ClassVar[Isolation]

class Policy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POLICY_UNSPECIFIED: _ClassVar[Policy]
    POLICY_FIFO: _ClassVar[Policy]
    POLICY_PROPORTIONAL_SHARE: _ClassVar[Policy]
    POLICY_PRIORITY: _ClassVar[Policy]
PRIORITY_UNSPECIFIED: Priority
PRIORITY_LOW: Priority
PRIORITY_NORMAL: Priority
PRIORITY_HIGH: Priority
OVER_UNSPECIFIED: Over
OVER_WAIT: Over
OVER_FAIL: Over
ISOLATION_UNSPECIFIED: Isolation
ISOLATION_SHARED: Isolation
ISOLATION_PROCESS: Isolation
POLICY_UNSPECIFIED: Policy
POLICY_FIFO: Policy
POLICY_PROPORTIONAL_SHARE: Policy
POLICY_PRIORITY: Policy

class ListTenantsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTenantsResponse(_message.Message):
    __slots__ = ("tenants",)
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    tenants: _containers.RepeatedCompositeFieldContainer[TenantStatus]
    def __init__(self, tenants: _Optional[_Iterable[_Union[TenantStatus, _Mapping]]] = ...) -> None: ...

class TenantStatus(_message.Message):
    __slots__ = ("name", "settings", "origins", "has_token", "sessions", "devices", "held_bytes", "programs_running", "programs_waiting", "device_seconds", "byte_seconds")
    class OriginsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    HAS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_FIELD_NUMBER: _ClassVar[int]
    PROGRAMS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    PROGRAMS_WAITING_FIELD_NUMBER: _ClassVar[int]
    DEVICE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BYTE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    settings: TenantSettings
    origins: _containers.ScalarMap[str, str]
    has_token: bool
    sessions: int
    devices: int
    held_bytes: int
    programs_running: int
    programs_waiting: int
    device_seconds: float
    byte_seconds: float
    def __init__(self, name: _Optional[str] = ..., settings: _Optional[_Union[TenantSettings, _Mapping]] = ..., origins: _Optional[_Mapping[str, str]] = ..., has_token: _Optional[bool] = ..., sessions: _Optional[int] = ..., devices: _Optional[int] = ..., held_bytes: _Optional[int] = ..., programs_running: _Optional[int] = ..., programs_waiting: _Optional[int] = ..., device_seconds: _Optional[float] = ..., byte_seconds: _Optional[float] = ...) -> None: ...

class TenantSettings(_message.Message):
    __slots__ = ("weight", "priority", "devices_max", "memory_bytes_max", "sessions_max", "programs_max", "over", "isolation")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DEVICES_MAX_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_MAX_FIELD_NUMBER: _ClassVar[int]
    PROGRAMS_MAX_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    weight: int
    priority: Priority
    devices_max: int
    memory_bytes_max: int
    sessions_max: int
    programs_max: int
    over: Over
    isolation: Isolation
    def __init__(self, weight: _Optional[int] = ..., priority: _Optional[_Union[Priority, str]] = ..., devices_max: _Optional[int] = ..., memory_bytes_max: _Optional[int] = ..., sessions_max: _Optional[int] = ..., programs_max: _Optional[int] = ..., over: _Optional[_Union[Over, str]] = ..., isolation: _Optional[_Union[Isolation, str]] = ...) -> None: ...

class AddTenantRequest(_message.Message):
    __slots__ = ("request_id", "name", "settings")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    name: str
    settings: TenantSettings
    def __init__(self, request_id: _Optional[str] = ..., name: _Optional[str] = ..., settings: _Optional[_Union[TenantSettings, _Mapping]] = ...) -> None: ...

class AddTenantResponse(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class ReplaceTokenRequest(_message.Message):
    __slots__ = ("request_id", "name")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    name: str
    def __init__(self, request_id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ReplaceTokenResponse(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class SetTenantRequest(_message.Message):
    __slots__ = ("request_id", "name", "settings", "cleared")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    name: str
    settings: TenantSettings
    cleared: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., name: _Optional[str] = ..., settings: _Optional[_Union[TenantSettings, _Mapping]] = ..., cleared: _Optional[_Iterable[str]] = ...) -> None: ...

class SetTenantResponse(_message.Message):
    __slots__ = ("settings",)
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    settings: TenantSettings
    def __init__(self, settings: _Optional[_Union[TenantSettings, _Mapping]] = ...) -> None: ...

class RemoveTenantRequest(_message.Message):
    __slots__ = ("request_id", "name", "end_sessions")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    END_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    name: str
    end_sessions: bool
    def __init__(self, request_id: _Optional[str] = ..., name: _Optional[str] = ..., end_sessions: _Optional[bool] = ...) -> None: ...

class RemoveTenantResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetUsageRequest(_message.Message):
    __slots__ = ("day",)
    DAY_FIELD_NUMBER: _ClassVar[int]
    day: str
    def __init__(self, day: _Optional[str] = ...) -> None: ...

class GetUsageResponse(_message.Message):
    __slots__ = ("usage",)
    USAGE_FIELD_NUMBER: _ClassVar[int]
    usage: _containers.RepeatedCompositeFieldContainer[TenantUsage]
    def __init__(self, usage: _Optional[_Iterable[_Union[TenantUsage, _Mapping]]] = ...) -> None: ...

class TenantUsage(_message.Message):
    __slots__ = ("day", "tenant", "device_seconds", "byte_seconds")
    DAY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BYTE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    day: str
    tenant: str
    device_seconds: float
    byte_seconds: float
    def __init__(self, day: _Optional[str] = ..., tenant: _Optional[str] = ..., device_seconds: _Optional[float] = ..., byte_seconds: _Optional[float] = ...) -> None: ...

class ListAuditRequest(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class ListAuditResponse(_message.Message):
    __slots__ = ("lines",)
    LINES_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[AuditLine]
    def __init__(self, lines: _Optional[_Iterable[_Union[AuditLine, _Mapping]]] = ...) -> None: ...

class AuditLine(_message.Message):
    __slots__ = ("number", "time_ns", "tenant", "peer", "action", "subject", "before", "after")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    number: int
    time_ns: int
    tenant: str
    peer: str
    action: str
    subject: str
    before: str
    after: str
    def __init__(self, number: _Optional[int] = ..., time_ns: _Optional[int] = ..., tenant: _Optional[str] = ..., peer: _Optional[str] = ..., action: _Optional[str] = ..., subject: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class ListQuarantineRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListQuarantineResponse(_message.Message):
    __slots__ = ("programs",)
    PROGRAMS_FIELD_NUMBER: _ClassVar[int]
    programs: _containers.RepeatedCompositeFieldContainer[QuarantinedProgram]
    def __init__(self, programs: _Optional[_Iterable[_Union[QuarantinedProgram, _Mapping]]] = ...) -> None: ...

class QuarantinedProgram(_message.Message):
    __slots__ = ("program", "name", "tenant", "deaths")
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    DEATHS_FIELD_NUMBER: _ClassVar[int]
    program: str
    name: str
    tenant: str
    deaths: _containers.RepeatedCompositeFieldContainer[ExecutorDeath]
    def __init__(self, program: _Optional[str] = ..., name: _Optional[str] = ..., tenant: _Optional[str] = ..., deaths: _Optional[_Iterable[_Union[ExecutorDeath, _Mapping]]] = ...) -> None: ...

class ExecutorDeath(_message.Message):
    __slots__ = ("time_ns", "host", "signal")
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    time_ns: int
    host: str
    signal: str
    def __init__(self, time_ns: _Optional[int] = ..., host: _Optional[str] = ..., signal: _Optional[str] = ...) -> None: ...

class AllowProgramRequest(_message.Message):
    __slots__ = ("request_id", "program")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    program: str
    def __init__(self, request_id: _Optional[str] = ..., program: _Optional[str] = ...) -> None: ...

class AllowProgramResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetPolicyRequest(_message.Message):
    __slots__ = ("request_id", "island", "policy")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    island: str
    policy: Policy
    def __init__(self, request_id: _Optional[str] = ..., island: _Optional[str] = ..., policy: _Optional[_Union[Policy, str]] = ...) -> None: ...

class SetPolicyResponse(_message.Message):
    __slots__ = ("islands",)
    ISLANDS_FIELD_NUMBER: _ClassVar[int]
    islands: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, islands: _Optional[_Iterable[str]] = ...) -> None: ...
