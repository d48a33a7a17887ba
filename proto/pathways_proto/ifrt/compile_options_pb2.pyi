from pathways_proto.ifrt import xla_data_pb2 as _xla_data_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CompileOptionsProto(_message.Message):
    __slots__ = ("executable_build_options", "env_option_overrides")
    class EnvOptionOverridesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: OptionOverrideProto
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[OptionOverrideProto, _Mapping]] = ...) -> None: ...
    EXECUTABLE_BUILD_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ENV_OPTION_OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    executable_build_options: ExecutableBuildOptionsProto
    env_option_overrides: _containers.MessageMap[str, OptionOverrideProto]
    def __init__(self, executable_build_options: _Optional[_Union[ExecutableBuildOptionsProto, _Mapping]] = ..., env_option_overrides: _Optional[_Mapping[str, OptionOverrideProto]] = ...) -> None: ...

class ExecutableBuildOptionsProto(_message.Message):
    __slots__ = ("debug_options", "num_replicas", "num_partitions", "device_assignment")
    DEBUG_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    NUM_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    debug_options: DebugOptions
    num_replicas: int
    num_partitions: int
    device_assignment: _xla_data_pb2.DeviceAssignmentProto
    def __init__(self, debug_options: _Optional[_Union[DebugOptions, _Mapping]] = ..., num_replicas: _Optional[int] = ..., num_partitions: _Optional[int] = ..., device_assignment: _Optional[_Union[_xla_data_pb2.DeviceAssignmentProto, _Mapping]] = ...) -> None: ...

class DebugOptions(_message.Message):
    __slots__ = ("xla_gpu_analytical_latency_estimator_options", "xla_backend_extra_options")
    class XlaGpuAnalyticalLatencyEstimatorOptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class XlaBackendExtraOptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    XLA_GPU_ANALYTICAL_LATENCY_ESTIMATOR_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    XLA_BACKEND_EXTRA_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    xla_gpu_analytical_latency_estimator_options: _containers.ScalarMap[str, str]
    xla_backend_extra_options: _containers.ScalarMap[str, str]
    def __init__(self, xla_gpu_analytical_latency_estimator_options: _Optional[_Mapping[str, str]] = ..., xla_backend_extra_options: _Optional[_Mapping[str, str]] = ...) -> None: ...

class OptionOverrideProto(_message.Message):
    __slots__ = ("string_field", "bool_field", "int_field", "double_field")
    STRING_FIELD_FIELD_NUMBER: _ClassVar[int]
    BOOL_FIELD_FIELD_NUMBER: _ClassVar[int]
    INT_FIELD_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_FIELD_FIELD_NUMBER: _ClassVar[int]
    string_field: str
    bool_field: bool
    int_field: int
    double_field: float
    def __init__(self, string_field: _Optional[str] = ..., bool_field: _Optional[bool] = ..., int_field: _Optional[int] = ..., double_field: _Optional[float] = ...) -> None: ...
