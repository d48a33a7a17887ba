from pathways_proto.ifrt import compile_options_pb2 as _compile_options_pb2
from pathways_proto.ifrt import xla_data_pb2 as _xla_data_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DTypeProto(_message.Message):
    __slots__ = ("kind", "version_number")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[DTypeProto.Kind]
        KIND_PRED: _ClassVar[DTypeProto.Kind]
        KIND_S8: _ClassVar[DTypeProto.Kind]
        KIND_S16: _ClassVar[DTypeProto.Kind]
        KIND_S32: _ClassVar[DTypeProto.Kind]
        KIND_S64: _ClassVar[DTypeProto.Kind]
        KIND_U8: _ClassVar[DTypeProto.Kind]
        KIND_U16: _ClassVar[DTypeProto.Kind]
        KIND_U32: _ClassVar[DTypeProto.Kind]
        KIND_U64: _ClassVar[DTypeProto.Kind]
        KIND_F16: _ClassVar[DTypeProto.Kind]
        KIND_F32: _ClassVar[DTypeProto.Kind]
        KIND_F64: _ClassVar[DTypeProto.Kind]
        KIND_OPAQUE: _ClassVar[DTypeProto.Kind]
        KIND_C64: _ClassVar[DTypeProto.Kind]
        KIND_BF16: _ClassVar[DTypeProto.Kind]
        KIND_TOKEN: _ClassVar[DTypeProto.Kind]
        KIND_C128: _ClassVar[DTypeProto.Kind]
        KIND_F8E5M2: _ClassVar[DTypeProto.Kind]
        KIND_F8E4M3FN: _ClassVar[DTypeProto.Kind]
        KIND_S4: _ClassVar[DTypeProto.Kind]
        KIND_U4: _ClassVar[DTypeProto.Kind]
        KIND_F8E4M3B11FNUZ: _ClassVar[DTypeProto.Kind]
        KIND_F8E5M2FNUZ: _ClassVar[DTypeProto.Kind]
        KIND_F8E4M3FNUZ: _ClassVar[DTypeProto.Kind]
        KIND_S2: _ClassVar[DTypeProto.Kind]
        KIND_U2: _ClassVar[DTypeProto.Kind]
        KIND_F8E4M3: _ClassVar[DTypeProto.Kind]
        KIND_F8E3M4: _ClassVar[DTypeProto.Kind]
        KIND_F4E2M1FN: _ClassVar[DTypeProto.Kind]
        KIND_F8E8M0FNU: _ClassVar[DTypeProto.Kind]
        KIND_S1: _ClassVar[DTypeProto.Kind]
        KIND_U1: _ClassVar[DTypeProto.Kind]
        KIND_STRING: _ClassVar[DTypeProto.Kind]
    KIND_UNSPECIFIED: DTypeProto.Kind
    KIND_PRED: DTypeProto.Kind
    KIND_S8: DTypeProto.Kind
    KIND_S16: DTypeProto.Kind
    KIND_S32: DTypeProto.Kind
    KIND_S64: DTypeProto.Kind
    KIND_U8: DTypeProto.Kind
    KIND_U16: DTypeProto.Kind
    KIND_U32: DTypeProto.Kind
    KIND_U64: DTypeProto.Kind
    KIND_F16: DTypeProto.Kind
    KIND_F32: DTypeProto.Kind
    KIND_F64: DTypeProto.Kind
    KIND_OPAQUE: DTypeProto.Kind
    KIND_C64: DTypeProto.Kind
    KIND_BF16: DTypeProto.Kind
    KIND_TOKEN: DTypeProto.Kind
    KIND_C128: DTypeProto.Kind
    KIND_F8E5M2: DTypeProto.Kind
    KIND_F8E4M3FN: DTypeProto.Kind
    KIND_S4: DTypeProto.Kind
    KIND_U4: DTypeProto.Kind
    KIND_F8E4M3B11FNUZ: DTypeProto.Kind
    KIND_F8E5M2FNUZ: DTypeProto.Kind
    KIND_F8E4M3FNUZ: DTypeProto.Kind
    KIND_S2: DTypeProto.Kind
    KIND_U2: DTypeProto.Kind
    KIND_F8E4M3: DTypeProto.Kind
    KIND_F8E3M4: DTypeProto.Kind
    KIND_F4E2M1FN: DTypeProto.Kind
    KIND_F8E8M0FNU: DTypeProto.Kind
    KIND_S1: DTypeProto.Kind
    KIND_U1: DTypeProto.Kind
    KIND_STRING: DTypeProto.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    kind: DTypeProto.Kind
    version_number: int
    def __init__(self, kind: _Optional[_Union[DTypeProto.Kind, str]] = ..., version_number: _Optional[int] = ...) -> None: ...

class ShapeProto(_message.Message):
    __slots__ = ("dims", "version_number")
    DIMS_FIELD_NUMBER: _ClassVar[int]
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    dims: _containers.RepeatedScalarFieldContainer[int]
    version_number: int
    def __init__(self, dims: _Optional[_Iterable[int]] = ..., version_number: _Optional[int] = ...) -> None: ...

class DeviceListProto(_message.Message):
    __slots__ = ("device_ids", "version_number")
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    version_number: int
    def __init__(self, device_ids: _Optional[_Iterable[int]] = ..., version_number: _Optional[int] = ...) -> None: ...

class Serialized(_message.Message):
    __slots__ = ("type_name", "data")
    TYPE_NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    type_name: str
    data: bytes
    def __init__(self, type_name: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class ShardingProto(_message.Message):
    __slots__ = ("serialized_sharding",)
    SERIALIZED_SHARDING_FIELD_NUMBER: _ClassVar[int]
    serialized_sharding: Serialized
    def __init__(self, serialized_sharding: _Optional[_Union[Serialized, _Mapping]] = ...) -> None: ...

class LayoutProto(_message.Message):
    __slots__ = ("serialized_layout",)
    SERIALIZED_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    serialized_layout: Serialized
    def __init__(self, serialized_layout: _Optional[_Union[Serialized, _Mapping]] = ...) -> None: ...

class ArraySpecProto(_message.Message):
    __slots__ = ("dtype", "shape", "sharding", "layout", "version_number")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARDING_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    dtype: DTypeProto
    shape: ShapeProto
    sharding: ShardingProto
    layout: bytes
    version_number: int
    def __init__(self, dtype: _Optional[_Union[DTypeProto, _Mapping]] = ..., shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., sharding: _Optional[_Union[ShardingProto, _Mapping]] = ..., layout: _Optional[bytes] = ..., version_number: _Optional[int] = ...) -> None: ...

class AttributeMapProto(_message.Message):
    __slots__ = ("attributes", "version_number")
    class Value(_message.Message):
        __slots__ = ("string_value", "bool_value", "int64_value", "int64_list_value", "float_value")
        class Int64List(_message.Message):
            __slots__ = ("elements",)
            ELEMENTS_FIELD_NUMBER: _ClassVar[int]
            elements: _containers.RepeatedScalarFieldContainer[int]
            def __init__(self, elements: _Optional[_Iterable[int]] = ...) -> None: ...
        STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
        BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
        INT64_VALUE_FIELD_NUMBER: _ClassVar[int]
        INT64_LIST_VALUE_FIELD_NUMBER: _ClassVar[int]
        FLOAT_VALUE_FIELD_NUMBER: _ClassVar[int]
        string_value: bytes
        bool_value: bool
        int64_value: int
        int64_list_value: AttributeMapProto.Value.Int64List
        float_value: float
        def __init__(self, string_value: _Optional[bytes] = ..., bool_value: _Optional[bool] = ..., int64_value: _Optional[int] = ..., int64_list_value: _Optional[_Union[AttributeMapProto.Value.Int64List, _Mapping]] = ..., float_value: _Optional[float] = ...) -> None: ...
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AttributeMapProto.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AttributeMapProto.Value, _Mapping]] = ...) -> None: ...
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    attributes: _containers.MessageMap[str, AttributeMapProto.Value]
    version_number: int
    def __init__(self, attributes: _Optional[_Mapping[str, AttributeMapProto.Value]] = ..., version_number: _Optional[int] = ...) -> None: ...

class SingleDeviceShardingProto(_message.Message):
    __slots__ = ("device_id", "memory_kind", "version_number")
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    device_id: int
    memory_kind: str
    version_number: int
    def __init__(self, device_id: _Optional[int] = ..., memory_kind: _Optional[str] = ..., version_number: _Optional[int] = ...) -> None: ...

class HloShardingProto(_message.Message):
    __slots__ = ("devices", "xla_op_sharding", "memory_kind", "version_number")
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    XLA_OP_SHARDING_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    devices: DeviceListProto
    xla_op_sharding: _xla_data_pb2.OpSharding
    memory_kind: str
    version_number: int
    def __init__(self, devices: _Optional[_Union[DeviceListProto, _Mapping]] = ..., xla_op_sharding: _Optional[_Union[_xla_data_pb2.OpSharding, _Mapping]] = ..., memory_kind: _Optional[str] = ..., version_number: _Optional[int] = ...) -> None: ...

class ConcreteEvenShardingProto(_message.Message):
    __slots__ = ("devices", "shape", "shard_shape", "memory_kind", "is_fully_replicated", "version_number")
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARD_SHAPE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    IS_FULLY_REPLICATED_FIELD_NUMBER: _ClassVar[int]
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    devices: DeviceListProto
    shape: ShapeProto
    shard_shape: ShapeProto
    memory_kind: str
    is_fully_replicated: bool
    version_number: int
    def __init__(self, devices: _Optional[_Union[DeviceListProto, _Mapping]] = ..., shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., shard_shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., memory_kind: _Optional[str] = ..., is_fully_replicated: _Optional[bool] = ..., version_number: _Optional[int] = ...) -> None: ...

class ExecuteOptionsProto(_message.Message):
    __slots__ = ("launch_id", "non_donatable_input_indices", "fill_status", "execution_stream_id", "version_number")
    LAUNCH_ID_FIELD_NUMBER: _ClassVar[int]
    NON_DONATABLE_INPUT_INDICES_FIELD_NUMBER: _ClassVar[int]
    FILL_STATUS_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    launch_id: int
    non_donatable_input_indices: _containers.RepeatedScalarFieldContainer[int]
    fill_status: bool
    execution_stream_id: int
    version_number: int
    def __init__(self, launch_id: _Optional[int] = ..., non_donatable_input_indices: _Optional[_Iterable[int]] = ..., fill_status: _Optional[bool] = ..., execution_stream_id: _Optional[int] = ..., version_number: _Optional[int] = ...) -> None: ...

class RemapPlanProto(_message.Message):
    __slots__ = ("input_specs", "output_specs", "mappings", "version_number")
    class MappingProto(_message.Message):
        __slots__ = ("in_array", "out_array", "from_start", "from_end", "from_step", "to_start", "to_end", "to_step")
        IN_ARRAY_FIELD_NUMBER: _ClassVar[int]
        OUT_ARRAY_FIELD_NUMBER: _ClassVar[int]
        FROM_START_FIELD_NUMBER: _ClassVar[int]
        FROM_END_FIELD_NUMBER: _ClassVar[int]
        FROM_STEP_FIELD_NUMBER: _ClassVar[int]
        TO_START_FIELD_NUMBER: _ClassVar[int]
        TO_END_FIELD_NUMBER: _ClassVar[int]
        TO_STEP_FIELD_NUMBER: _ClassVar[int]
        in_array: int
        out_array: int
        from_start: _containers.RepeatedScalarFieldContainer[int]
        from_end: _containers.RepeatedScalarFieldContainer[int]
        from_step: _containers.RepeatedScalarFieldContainer[int]
        to_start: _containers.RepeatedScalarFieldContainer[int]
        to_end: _containers.RepeatedScalarFieldContainer[int]
        to_step: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, in_array: _Optional[int] = ..., out_array: _Optional[int] = ..., from_start: _Optional[_Iterable[int]] = ..., from_end: _Optional[_Iterable[int]] = ..., from_step: _Optional[_Iterable[int]] = ..., to_start: _Optional[_Iterable[int]] = ..., to_end: _Optional[_Iterable[int]] = ..., to_step: _Optional[_Iterable[int]] = ...) -> None: ...
    INPUT_SPECS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SPECS_FIELD_NUMBER: _ClassVar[int]
    MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    input_specs: _containers.RepeatedCompositeFieldContainer[ArraySpecProto]
    output_specs: _containers.RepeatedCompositeFieldContainer[ArraySpecProto]
    mappings: _containers.RepeatedCompositeFieldContainer[RemapPlanProto.MappingProto]
    version_number: int
    def __init__(self, input_specs: _Optional[_Iterable[_Union[ArraySpecProto, _Mapping]]] = ..., output_specs: _Optional[_Iterable[_Union[ArraySpecProto, _Mapping]]] = ..., mappings: _Optional[_Iterable[_Union[RemapPlanProto.MappingProto, _Mapping]]] = ..., version_number: _Optional[int] = ...) -> None: ...

class XlaCompileOptionsProto(_message.Message):
    __slots__ = ("compile_options",)
    COMPILE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    compile_options: _compile_options_pb2.CompileOptionsProto
    def __init__(self, compile_options: _Optional[_Union[_compile_options_pb2.CompileOptionsProto, _Mapping]] = ...) -> None: ...
