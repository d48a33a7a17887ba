from pathways_proto.ifrt import status_pb2 as _status_pb2
from pathways_proto.ifrt import values_pb2 as _values_pb2
from pathways_proto.ifrt import xla_data_pb2 as _xla_data_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CompileRequest(_message.Message):
    __slots__ = ("program", "compile_options", "host_callbacks")
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    COMPILE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    HOST_CALLBACKS_FIELD_NUMBER: _ClassVar[int]
    program: _values_pb2.Serialized
    compile_options: _values_pb2.Serialized
    host_callbacks: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, program: _Optional[_Union[_values_pb2.Serialized, _Mapping]] = ..., compile_options: _Optional[_Union[_values_pb2.Serialized, _Mapping]] = ..., host_callbacks: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CompileResponse(_message.Message):
    __slots__ = ("loaded_executable_handle", "name", "num_devices", "addressable_device_ids", "fingerprint_value", "fingerprint_error", "ready_future_handle", "device_ids")
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUM_DEVICES_FIELD_NUMBER: _ClassVar[int]
    ADDRESSABLE_DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_VALUE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_ERROR_FIELD_NUMBER: _ClassVar[int]
    READY_FUTURE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    name: str
    num_devices: int
    addressable_device_ids: _containers.RepeatedScalarFieldContainer[int]
    fingerprint_value: bytes
    fingerprint_error: _status_pb2.StatusProto
    ready_future_handle: int
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, loaded_executable_handle: _Optional[int] = ..., name: _Optional[str] = ..., num_devices: _Optional[int] = ..., addressable_device_ids: _Optional[_Iterable[int]] = ..., fingerprint_value: _Optional[bytes] = ..., fingerprint_error: _Optional[_Union[_status_pb2.StatusProto, _Mapping]] = ..., ready_future_handle: _Optional[int] = ..., device_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class LoadedExecutableMetadataRequest(_message.Message):
    __slots__ = ("loaded_executable_handle",)
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableMetadataResponse(_message.Message):
    __slots__ = ("parameter_shardings", "output_shardings", "output_memory_kinds", "parameter_layouts_list", "parameter_layouts_error", "output_layouts_list", "output_layouts_error", "donated_input_indices", "donated_input_indices_error", "compiled_memory_stats", "compiled_memory_stats_error", "size_of_generated_code_in_bytes")
    class ShardingList(_message.Message):
        __slots__ = ("shardings",)
        SHARDINGS_FIELD_NUMBER: _ClassVar[int]
        shardings: _containers.RepeatedCompositeFieldContainer[_xla_data_pb2.OpSharding]
        def __init__(self, shardings: _Optional[_Iterable[_Union[_xla_data_pb2.OpSharding, _Mapping]]] = ...) -> None: ...
    class LayoutList(_message.Message):
        __slots__ = ("layouts",)
        LAYOUTS_FIELD_NUMBER: _ClassVar[int]
        layouts: _containers.RepeatedCompositeFieldContainer[_xla_data_pb2.LayoutProto]
        def __init__(self, layouts: _Optional[_Iterable[_Union[_xla_data_pb2.LayoutProto, _Mapping]]] = ...) -> None: ...
    class MemoryKindList(_message.Message):
        __slots__ = ("memory_kinds",)
        MEMORY_KINDS_FIELD_NUMBER: _ClassVar[int]
        memory_kinds: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, memory_kinds: _Optional[_Iterable[str]] = ...) -> None: ...
    class OutputMemoryKind(_message.Message):
        __slots__ = ("status", "memory_kind_lists")
        STATUS_FIELD_NUMBER: _ClassVar[int]
        MEMORY_KIND_LISTS_FIELD_NUMBER: _ClassVar[int]
        status: _status_pb2.StatusProto
        memory_kind_lists: _containers.RepeatedCompositeFieldContainer[LoadedExecutableMetadataResponse.MemoryKindList]
        def __init__(self, status: _Optional[_Union[_status_pb2.StatusProto, _Mapping]] = ..., memory_kind_lists: _Optional[_Iterable[_Union[LoadedExecutableMetadataResponse.MemoryKindList, _Mapping]]] = ...) -> None: ...
    class DonatedInputIndices(_message.Message):
        __slots__ = ("donated_input_indices",)
        DONATED_INPUT_INDICES_FIELD_NUMBER: _ClassVar[int]
        donated_input_indices: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, donated_input_indices: _Optional[_Iterable[int]] = ...) -> None: ...
    PARAMETER_SHARDINGS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SHARDINGS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_MEMORY_KINDS_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_LAYOUTS_LIST_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_LAYOUTS_ERROR_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LAYOUTS_LIST_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LAYOUTS_ERROR_FIELD_NUMBER: _ClassVar[int]
    DONATED_INPUT_INDICES_FIELD_NUMBER: _ClassVar[int]
    DONATED_INPUT_INDICES_ERROR_FIELD_NUMBER: _ClassVar[int]
    COMPILED_MEMORY_STATS_FIELD_NUMBER: _ClassVar[int]
    COMPILED_MEMORY_STATS_ERROR_FIELD_NUMBER: _ClassVar[int]
    SIZE_OF_GENERATED_CODE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    parameter_shardings: LoadedExecutableMetadataResponse.ShardingList
    output_shardings: LoadedExecutableMetadataResponse.ShardingList
    output_memory_kinds: LoadedExecutableMetadataResponse.OutputMemoryKind
    parameter_layouts_list: LoadedExecutableMetadataResponse.LayoutList
    parameter_layouts_error: _status_pb2.StatusProto
    output_layouts_list: LoadedExecutableMetadataResponse.LayoutList
    output_layouts_error: _status_pb2.StatusProto
    donated_input_indices: LoadedExecutableMetadataResponse.DonatedInputIndices
    donated_input_indices_error: _status_pb2.StatusProto
    compiled_memory_stats: _xla_data_pb2.CompiledMemoryStatsProto
    compiled_memory_stats_error: _status_pb2.StatusProto
    size_of_generated_code_in_bytes: int
    def __init__(self, parameter_shardings: _Optional[_Union[LoadedExecutableMetadataResponse.ShardingList, _Mapping]] = ..., output_shardings: _Optional[_Union[LoadedExecutableMetadataResponse.ShardingList, _Mapping]] = ..., output_memory_kinds: _Optional[_Union[LoadedExecutableMetadataResponse.OutputMemoryKind, _Mapping]] = ..., parameter_layouts_list: _Optional[_Union[LoadedExecutableMetadataResponse.LayoutList, _Mapping]] = ..., parameter_layouts_error: _Optional[_Union[_status_pb2.StatusProto, _Mapping]] = ..., output_layouts_list: _Optional[_Union[LoadedExecutableMetadataResponse.LayoutList, _Mapping]] = ..., output_layouts_error: _Optional[_Union[_status_pb2.StatusProto, _Mapping]] = ..., donated_input_indices: _Optional[_Union[LoadedExecutableMetadataResponse.DonatedInputIndices, _Mapping]] = ..., donated_input_indices_error: _Optional[_Union[_status_pb2.StatusProto, _Mapping]] = ..., compiled_memory_stats: _Optional[_Union[_xla_data_pb2.CompiledMemoryStatsProto, _Mapping]] = ..., compiled_memory_stats_error: _Optional[_Union[_status_pb2.StatusProto, _Mapping]] = ..., size_of_generated_code_in_bytes: _Optional[int] = ...) -> None: ...

class LoadedExecutableCostAnalysisRequest(_message.Message):
    __slots__ = ("loaded_executable_handle",)
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableCostAnalysisResponse(_message.Message):
    __slots__ = ("status", "attributes")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.StatusProto
    attributes: _values_pb2.AttributeMapProto
    def __init__(self, status: _Optional[_Union[_status_pb2.StatusProto, _Mapping]] = ..., attributes: _Optional[_Union[_values_pb2.AttributeMapProto, _Mapping]] = ...) -> None: ...

class LoadedExecutableHumanReadableProgramTextRequest(_message.Message):
    __slots__ = ("loaded_executable_handle",)
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableHumanReadableProgramTextResponse(_message.Message):
    __slots__ = ("status", "human_readable_program_text")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HUMAN_READABLE_PROGRAM_TEXT_FIELD_NUMBER: _ClassVar[int]
    status: _status_pb2.StatusProto
    human_readable_program_text: str
    def __init__(self, status: _Optional[_Union[_status_pb2.StatusProto, _Mapping]] = ..., human_readable_program_text: _Optional[str] = ...) -> None: ...

class LoadedExecutableExecuteRequest(_message.Message):
    __slots__ = ("loaded_executable_handle", "args_handles", "execute_options", "device_ids", "result_array_handle", "result_status_handle")
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    ARGS_HANDLES_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    RESULT_ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    RESULT_STATUS_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    args_handles: _containers.RepeatedScalarFieldContainer[int]
    execute_options: _values_pb2.ExecuteOptionsProto
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    result_array_handle: _containers.RepeatedScalarFieldContainer[int]
    result_status_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ..., args_handles: _Optional[_Iterable[int]] = ..., execute_options: _Optional[_Union[_values_pb2.ExecuteOptionsProto, _Mapping]] = ..., device_ids: _Optional[_Iterable[int]] = ..., result_array_handle: _Optional[_Iterable[int]] = ..., result_status_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableExecuteResponse(_message.Message):
    __slots__ = ("status_handle", "outputs")
    class Output(_message.Message):
        __slots__ = ("dtype", "shape", "sharding", "array_handle")
        DTYPE_FIELD_NUMBER: _ClassVar[int]
        SHAPE_FIELD_NUMBER: _ClassVar[int]
        SHARDING_FIELD_NUMBER: _ClassVar[int]
        ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
        dtype: _values_pb2.DTypeProto
        shape: _values_pb2.ShapeProto
        sharding: _values_pb2.ShardingProto
        array_handle: int
        def __init__(self, dtype: _Optional[_Union[_values_pb2.DTypeProto, _Mapping]] = ..., shape: _Optional[_Union[_values_pb2.ShapeProto, _Mapping]] = ..., sharding: _Optional[_Union[_values_pb2.ShardingProto, _Mapping]] = ..., array_handle: _Optional[int] = ...) -> None: ...
    STATUS_HANDLE_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    status_handle: int
    outputs: _containers.RepeatedCompositeFieldContainer[LoadedExecutableExecuteResponse.Output]
    def __init__(self, status_handle: _Optional[int] = ..., outputs: _Optional[_Iterable[_Union[LoadedExecutableExecuteResponse.Output, _Mapping]]] = ...) -> None: ...

class LoadedExecutableFetchExecuteResultRequest(_message.Message):
    __slots__ = ("result_status_handle",)
    RESULT_STATUS_HANDLE_FIELD_NUMBER: _ClassVar[int]
    result_status_handle: int
    def __init__(self, result_status_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableFetchExecuteResultResponse(_message.Message):
    __slots__ = ("device_time",)
    class DeviceTimeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    DEVICE_TIME_FIELD_NUMBER: _ClassVar[int]
    device_time: _containers.ScalarMap[str, float]
    def __init__(self, device_time: _Optional[_Mapping[str, float]] = ...) -> None: ...

class LoadedExecutableDeleteRequest(_message.Message):
    __slots__ = ("loaded_executable_handle",)
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableDeleteResponse(_message.Message):
    __slots__ = ("future_handle",)
    FUTURE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    future_handle: int
    def __init__(self, future_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableIsDeletedRequest(_message.Message):
    __slots__ = ("loaded_executable_handle",)
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableIsDeletedResponse(_message.Message):
    __slots__ = ("is_deleted",)
    IS_DELETED_FIELD_NUMBER: _ClassVar[int]
    is_deleted: bool
    def __init__(self, is_deleted: _Optional[bool] = ...) -> None: ...

class LoadedExecutableDestructRequest(_message.Message):
    __slots__ = ("loaded_executable_handle",)
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableDestructResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetDefaultDeviceAssignmentRequest(_message.Message):
    __slots__ = ("num_replicas", "num_partitions")
    NUM_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    NUM_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    num_replicas: int
    num_partitions: int
    def __init__(self, num_replicas: _Optional[int] = ..., num_partitions: _Optional[int] = ...) -> None: ...

class GetDefaultDeviceAssignmentResponse(_message.Message):
    __slots__ = ("device_assignment",)
    DEVICE_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    device_assignment: _xla_data_pb2.DeviceAssignmentProto
    def __init__(self, device_assignment: _Optional[_Union[_xla_data_pb2.DeviceAssignmentProto, _Mapping]] = ...) -> None: ...
