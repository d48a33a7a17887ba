from pathways_proto.ifrt import status_pb2 as _status_pb2
from pathways_proto.ifrt import strides_pb2 as _strides_pb2
from pathways_proto.ifrt import values_pb2 as _values_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CheckFutureRequest(_message.Message):
    __slots__ = ("future_handle",)
    FUTURE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    future_handle: int
    def __init__(self, future_handle: _Optional[int] = ...) -> None: ...

class CheckFutureResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckValueReadyRequest(_message.Message):
    __slots__ = ("value_handles",)
    VALUE_HANDLES_FIELD_NUMBER: _ClassVar[int]
    value_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, value_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class CheckValueReadyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MakeArrayFromHostBufferRequest(_message.Message):
    __slots__ = ("dtype", "shape", "sharding", "host_buffer_handle", "byte_strides", "array_handle", "layout")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARDING_FIELD_NUMBER: _ClassVar[int]
    HOST_BUFFER_HANDLE_FIELD_NUMBER: _ClassVar[int]
    BYTE_STRIDES_FIELD_NUMBER: _ClassVar[int]
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    dtype: _values_pb2.DTypeProto
    shape: _values_pb2.ShapeProto
    sharding: _values_pb2.ShardingProto
    host_buffer_handle: int
    byte_strides: _strides_pb2.ByteStrides
    array_handle: int
    layout: _values_pb2.LayoutProto
    def __init__(self, dtype: _Optional[_Union[_values_pb2.DTypeProto, _Mapping]] = ..., shape: _Optional[_Union[_values_pb2.ShapeProto, _Mapping]] = ..., sharding: _Optional[_Union[_values_pb2.ShardingProto, _Mapping]] = ..., host_buffer_handle: _Optional[int] = ..., byte_strides: _Optional[_Union[_strides_pb2.ByteStrides, _Mapping]] = ..., array_handle: _Optional[int] = ..., layout: _Optional[_Union[_values_pb2.LayoutProto, _Mapping]] = ...) -> None: ...

class MakeArrayFromHostBufferResponse(_message.Message):
    __slots__ = ("array_handle",)
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    def __init__(self, array_handle: _Optional[int] = ...) -> None: ...

class MakeArraysFromHostBufferShardsRequest(_message.Message):
    __slots__ = ("specs", "array_handles")
    class ShardIndices(_message.Message):
        __slots__ = ("indices",)
        INDICES_FIELD_NUMBER: _ClassVar[int]
        indices: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, indices: _Optional[_Iterable[int]] = ...) -> None: ...
    class HostBuffer(_message.Message):
        __slots__ = ("dtype", "shape", "host_buffer_handle", "byte_strides")
        DTYPE_FIELD_NUMBER: _ClassVar[int]
        SHAPE_FIELD_NUMBER: _ClassVar[int]
        HOST_BUFFER_HANDLE_FIELD_NUMBER: _ClassVar[int]
        BYTE_STRIDES_FIELD_NUMBER: _ClassVar[int]
        dtype: _values_pb2.DTypeProto
        shape: _values_pb2.ShapeProto
        host_buffer_handle: int
        byte_strides: _strides_pb2.ByteStrides
        def __init__(self, dtype: _Optional[_Union[_values_pb2.DTypeProto, _Mapping]] = ..., shape: _Optional[_Union[_values_pb2.ShapeProto, _Mapping]] = ..., host_buffer_handle: _Optional[int] = ..., byte_strides: _Optional[_Union[_strides_pb2.ByteStrides, _Mapping]] = ...) -> None: ...
    class MakeArraysFromHostBufferShardsSpec(_message.Message):
        __slots__ = ("addressable_shard_indices", "host_buffers", "array_spec")
        ADDRESSABLE_SHARD_INDICES_FIELD_NUMBER: _ClassVar[int]
        HOST_BUFFERS_FIELD_NUMBER: _ClassVar[int]
        ARRAY_SPEC_FIELD_NUMBER: _ClassVar[int]
        addressable_shard_indices: _containers.RepeatedCompositeFieldContainer[MakeArraysFromHostBufferShardsRequest.ShardIndices]
        host_buffers: _containers.RepeatedCompositeFieldContainer[MakeArraysFromHostBufferShardsRequest.HostBuffer]
        array_spec: _values_pb2.ArraySpecProto
        def __init__(self, addressable_shard_indices: _Optional[_Iterable[_Union[MakeArraysFromHostBufferShardsRequest.ShardIndices, _Mapping]]] = ..., host_buffers: _Optional[_Iterable[_Union[MakeArraysFromHostBufferShardsRequest.HostBuffer, _Mapping]]] = ..., array_spec: _Optional[_Union[_values_pb2.ArraySpecProto, _Mapping]] = ...) -> None: ...
    SPECS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    specs: _containers.RepeatedCompositeFieldContainer[MakeArraysFromHostBufferShardsRequest.MakeArraysFromHostBufferShardsSpec]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, specs: _Optional[_Iterable[_Union[MakeArraysFromHostBufferShardsRequest.MakeArraysFromHostBufferShardsSpec, _Mapping]]] = ..., array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class MakeArraysFromHostBufferShardsResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class MakeErrorArraysRequest(_message.Message):
    __slots__ = ("error", "array_specs", "array_handles")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ARRAY_SPECS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    error: _status_pb2.StatusProto
    array_specs: _containers.RepeatedCompositeFieldContainer[_values_pb2.ArraySpecProto]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, error: _Optional[_Union[_status_pb2.StatusProto, _Mapping]] = ..., array_specs: _Optional[_Iterable[_Union[_values_pb2.ArraySpecProto, _Mapping]]] = ..., array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class MakeErrorArraysResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class AssembleArrayFromSingleDeviceArraysRequest(_message.Message):
    __slots__ = ("shape", "sharding", "single_device_array_handles", "copy_semantics", "result_handle", "dtype")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARDING_FIELD_NUMBER: _ClassVar[int]
    SINGLE_DEVICE_ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    shape: _values_pb2.ShapeProto
    sharding: _values_pb2.ShardingProto
    single_device_array_handles: _containers.RepeatedScalarFieldContainer[int]
    copy_semantics: _strides_pb2.ArrayCopySemantics
    result_handle: int
    dtype: _values_pb2.DTypeProto
    def __init__(self, shape: _Optional[_Union[_values_pb2.ShapeProto, _Mapping]] = ..., sharding: _Optional[_Union[_values_pb2.ShardingProto, _Mapping]] = ..., single_device_array_handles: _Optional[_Iterable[int]] = ..., copy_semantics: _Optional[_Union[_strides_pb2.ArrayCopySemantics, str]] = ..., result_handle: _Optional[int] = ..., dtype: _Optional[_Union[_values_pb2.DTypeProto, _Mapping]] = ...) -> None: ...

class AssembleArrayFromSingleDeviceArraysResponse(_message.Message):
    __slots__ = ("array_handle",)
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    def __init__(self, array_handle: _Optional[int] = ...) -> None: ...

class RemapArraysRequest(_message.Message):
    __slots__ = ("plan", "array_handles", "copy_semantics", "result_handles")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    plan: _values_pb2.RemapPlanProto
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    copy_semantics: _strides_pb2.ArrayCopySemantics
    result_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, plan: _Optional[_Union[_values_pb2.RemapPlanProto, _Mapping]] = ..., array_handles: _Optional[_Iterable[int]] = ..., copy_semantics: _Optional[_Union[_strides_pb2.ArrayCopySemantics, str]] = ..., result_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class RemapArraysResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class BitcastArraysRequest(_message.Message):
    __slots__ = ("array_handles", "array_specs", "copy_semantics", "result_handles")
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    ARRAY_SPECS_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    array_specs: _containers.RepeatedCompositeFieldContainer[_values_pb2.ArraySpecProto]
    copy_semantics: _strides_pb2.ArrayCopySemantics
    result_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ..., array_specs: _Optional[_Iterable[_Union[_values_pb2.ArraySpecProto, _Mapping]]] = ..., copy_semantics: _Optional[_Union[_strides_pb2.ArrayCopySemantics, str]] = ..., result_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class BitcastArraysResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class ReshardArraysRequest(_message.Message):
    __slots__ = ("array_handles", "array_specs", "copy_semantics", "result_handles")
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    ARRAY_SPECS_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    array_specs: _containers.RepeatedCompositeFieldContainer[_values_pb2.ArraySpecProto]
    copy_semantics: _strides_pb2.ArrayCopySemantics
    result_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ..., array_specs: _Optional[_Iterable[_Union[_values_pb2.ArraySpecProto, _Mapping]]] = ..., copy_semantics: _Optional[_Union[_strides_pb2.ArrayCopySemantics, str]] = ..., result_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class ReshardArraysResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class CopyToHostBufferRequest(_message.Message):
    __slots__ = ("host_buffer_handle", "array_handle", "byte_strides")
    HOST_BUFFER_HANDLE_FIELD_NUMBER: _ClassVar[int]
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    BYTE_STRIDES_FIELD_NUMBER: _ClassVar[int]
    host_buffer_handle: int
    array_handle: int
    byte_strides: _strides_pb2.ByteStrides
    def __init__(self, host_buffer_handle: _Optional[int] = ..., array_handle: _Optional[int] = ..., byte_strides: _Optional[_Union[_strides_pb2.ByteStrides, _Mapping]] = ...) -> None: ...

class CopyToHostBufferResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DisassembleIntoSingleDeviceArraysRequest(_message.Message):
    __slots__ = ("array_handle", "copy_semantics", "result_handles")
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    copy_semantics: _strides_pb2.ArrayCopySemantics
    result_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handle: _Optional[int] = ..., copy_semantics: _Optional[_Union[_strides_pb2.ArrayCopySemantics, str]] = ..., result_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class DisassembleIntoSingleDeviceArraysResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class CopyArraysRequest(_message.Message):
    __slots__ = ("array_handles", "device_ids", "memory_kind", "copy_semantics", "result_handles")
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    memory_kind: str
    copy_semantics: _strides_pb2.ArrayCopySemantics
    result_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ..., device_ids: _Optional[_Iterable[int]] = ..., memory_kind: _Optional[str] = ..., copy_semantics: _Optional[_Union[_strides_pb2.ArrayCopySemantics, str]] = ..., result_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class CopyArraysResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class FullyReplicatedShardRequest(_message.Message):
    __slots__ = ("array_handle", "copy_semantics", "result_handle")
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    copy_semantics: _strides_pb2.ArrayCopySemantics
    result_handle: int
    def __init__(self, array_handle: _Optional[int] = ..., copy_semantics: _Optional[_Union[_strides_pb2.ArrayCopySemantics, str]] = ..., result_handle: _Optional[int] = ...) -> None: ...

class FullyReplicatedShardResponse(_message.Message):
    __slots__ = ("array_handle",)
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    def __init__(self, array_handle: _Optional[int] = ...) -> None: ...

class DeleteArrayRequest(_message.Message):
    __slots__ = ("array_handle",)
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handle: _Optional[_Iterable[int]] = ...) -> None: ...

class DeleteArrayResponse(_message.Message):
    __slots__ = ("deletion_future_handle",)
    DELETION_FUTURE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    deletion_future_handle: int
    def __init__(self, deletion_future_handle: _Optional[int] = ...) -> None: ...

class IsArrayDeletedRequest(_message.Message):
    __slots__ = ("array_handle",)
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    def __init__(self, array_handle: _Optional[int] = ...) -> None: ...

class IsArrayDeletedResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: _Optional[bool] = ...) -> None: ...

class DestructArrayRequest(_message.Message):
    __slots__ = ("array_handle",)
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handle: _Optional[_Iterable[int]] = ...) -> None: ...

class DestructArrayResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetDefaultLayoutRequest(_message.Message):
    __slots__ = ("dtype", "dims", "device_id", "memory_kind")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DIMS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    dtype: _values_pb2.DTypeProto
    dims: _containers.RepeatedScalarFieldContainer[int]
    device_id: int
    memory_kind: str
    def __init__(self, dtype: _Optional[_Union[_values_pb2.DTypeProto, _Mapping]] = ..., dims: _Optional[_Iterable[int]] = ..., device_id: _Optional[int] = ..., memory_kind: _Optional[str] = ...) -> None: ...

class GetDefaultLayoutResponse(_message.Message):
    __slots__ = ("serialized_pjrt_layout",)
    SERIALIZED_PJRT_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    serialized_pjrt_layout: bytes
    def __init__(self, serialized_pjrt_layout: _Optional[bytes] = ...) -> None: ...
