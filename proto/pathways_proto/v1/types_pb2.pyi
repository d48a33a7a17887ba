from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InspectKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INSPECT_KIND_UNSPECIFIED: _ClassVar[InspectKind]
    INSPECT_KIND_COST_ANALYSIS: _ClassVar[InspectKind]
    INSPECT_KIND_PROGRAM_TEXT: _ClassVar[InspectKind]
INSPECT_KIND_UNSPECIFIED: InspectKind
INSPECT_KIND_COST_ANALYSIS: InspectKind
INSPECT_KIND_PROGRAM_TEXT: InspectKind

class ArraySpec(_message.Message):
    __slots__ = ("dtype", "shape", "sharding", "shard_shape", "devices", "memory_kind")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARDING_FIELD_NUMBER: _ClassVar[int]
    SHARD_SHAPE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    dtype: int
    shape: _containers.RepeatedScalarFieldContainer[int]
    sharding: bytes
    shard_shape: _containers.RepeatedScalarFieldContainer[int]
    devices: _containers.RepeatedScalarFieldContainer[int]
    memory_kind: str
    def __init__(self, dtype: _Optional[int] = ..., shape: _Optional[_Iterable[int]] = ..., sharding: _Optional[bytes] = ..., shard_shape: _Optional[_Iterable[int]] = ..., devices: _Optional[_Iterable[int]] = ..., memory_kind: _Optional[str] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("reason", "message", "host", "id", "metadata", "retryable")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    host: str
    id: str
    metadata: _containers.ScalarMap[str, str]
    retryable: bool
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ..., host: _Optional[str] = ..., id: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., retryable: _Optional[bool] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("device_id", "slice_index", "island", "host", "local_index", "platform", "device_kind", "memory_kinds", "pool")
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    SLICE_INDEX_FIELD_NUMBER: _ClassVar[int]
    ISLAND_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    LOCAL_INDEX_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    DEVICE_KIND_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KINDS_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    device_id: int
    slice_index: int
    island: str
    host: str
    local_index: int
    platform: str
    device_kind: str
    memory_kinds: _containers.RepeatedScalarFieldContainer[str]
    pool: bool
    def __init__(self, device_id: _Optional[int] = ..., slice_index: _Optional[int] = ..., island: _Optional[str] = ..., host: _Optional[str] = ..., local_index: _Optional[int] = ..., platform: _Optional[str] = ..., device_kind: _Optional[str] = ..., memory_kinds: _Optional[_Iterable[str]] = ..., pool: _Optional[bool] = ...) -> None: ...

class ExecutableInfo(_message.Message):
    __slots__ = ("name", "digest", "outputs", "parameter_shardings", "parameter_shardings_known", "parameter_layouts", "parameter_layouts_error", "output_layouts", "output_layouts_error", "donated_parameters", "memory", "code_bytes", "fallible", "parameter_count", "fields", "python", "stateless")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_SHARDINGS_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_SHARDINGS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_LAYOUTS_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_LAYOUTS_ERROR_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LAYOUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LAYOUTS_ERROR_FIELD_NUMBER: _ClassVar[int]
    DONATED_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    CODE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FALLIBLE_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    STATELESS_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: bytes
    outputs: _containers.RepeatedCompositeFieldContainer[ArraySpec]
    parameter_shardings: _containers.RepeatedScalarFieldContainer[bytes]
    parameter_shardings_known: bool
    parameter_layouts: _containers.RepeatedScalarFieldContainer[bytes]
    parameter_layouts_error: str
    output_layouts: _containers.RepeatedScalarFieldContainer[bytes]
    output_layouts_error: str
    donated_parameters: _containers.RepeatedScalarFieldContainer[int]
    memory: MemoryStats
    code_bytes: int
    fallible: bool
    parameter_count: int
    fields: _containers.RepeatedCompositeFieldContainer[FieldDigest]
    python: bool
    stateless: bool
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[bytes] = ..., outputs: _Optional[_Iterable[_Union[ArraySpec, _Mapping]]] = ..., parameter_shardings: _Optional[_Iterable[bytes]] = ..., parameter_shardings_known: _Optional[bool] = ..., parameter_layouts: _Optional[_Iterable[bytes]] = ..., parameter_layouts_error: _Optional[str] = ..., output_layouts: _Optional[_Iterable[bytes]] = ..., output_layouts_error: _Optional[str] = ..., donated_parameters: _Optional[_Iterable[int]] = ..., memory: _Optional[_Union[MemoryStats, _Mapping]] = ..., code_bytes: _Optional[int] = ..., fallible: _Optional[bool] = ..., parameter_count: _Optional[int] = ..., fields: _Optional[_Iterable[_Union[FieldDigest, _Mapping]]] = ..., python: _Optional[bool] = ..., stateless: _Optional[bool] = ...) -> None: ...

class FieldDigest(_message.Message):
    __slots__ = ("name", "digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: bytes
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[bytes] = ...) -> None: ...

class MemoryStats(_message.Message):
    __slots__ = ("argument_bytes", "output_bytes", "alias_bytes", "temporary_bytes", "generated_code_bytes")
    ARGUMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    ALIAS_BYTES_FIELD_NUMBER: _ClassVar[int]
    TEMPORARY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GENERATED_CODE_BYTES_FIELD_NUMBER: _ClassVar[int]
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temporary_bytes: int
    generated_code_bytes: int
    def __init__(self, argument_bytes: _Optional[int] = ..., output_bytes: _Optional[int] = ..., alias_bytes: _Optional[int] = ..., temporary_bytes: _Optional[int] = ..., generated_code_bytes: _Optional[int] = ...) -> None: ...

class Inspection(_message.Message):
    __slots__ = ("costs", "text")
    class CostsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    COSTS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    costs: _containers.ScalarMap[str, float]
    text: str
    def __init__(self, costs: _Optional[_Mapping[str, float]] = ..., text: _Optional[str] = ...) -> None: ...

class CallbackArrays(_message.Message):
    __slots__ = ("arrays",)
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    arrays: _containers.RepeatedCompositeFieldContainer[CallbackArray]
    def __init__(self, arrays: _Optional[_Iterable[_Union[CallbackArray, _Mapping]]] = ...) -> None: ...

class CallbackArray(_message.Message):
    __slots__ = ("dtype", "shape", "data")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    dtype: int
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, dtype: _Optional[int] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class Versions(_message.Message):
    __slots__ = ("pathways", "protocol_level", "oldest_protocol_level", "python", "jax", "jaxlib")
    PATHWAYS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_LEVEL_FIELD_NUMBER: _ClassVar[int]
    OLDEST_PROTOCOL_LEVEL_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    JAX_FIELD_NUMBER: _ClassVar[int]
    JAXLIB_FIELD_NUMBER: _ClassVar[int]
    pathways: str
    protocol_level: int
    oldest_protocol_level: int
    python: str
    jax: str
    jaxlib: str
    def __init__(self, pathways: _Optional[str] = ..., protocol_level: _Optional[int] = ..., oldest_protocol_level: _Optional[int] = ..., python: _Optional[str] = ..., jax: _Optional[str] = ..., jaxlib: _Optional[str] = ...) -> None: ...

class VersionRow(_message.Message):
    __slots__ = ("processes", "versions")
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    processes: _containers.RepeatedScalarFieldContainer[str]
    versions: Versions
    def __init__(self, processes: _Optional[_Iterable[str]] = ..., versions: _Optional[_Union[Versions, _Mapping]] = ...) -> None: ...
