from pathways_proto.ifrt import arrays_pb2 as _arrays_pb2
from pathways_proto.ifrt import programs_pb2 as _programs_pb2
from pathways_proto.ifrt import status_pb2 as _status_pb2
from pathways_proto.ifrt import values_pb2 as _values_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IfrtRequest(_message.Message):
    __slots__ = ("request_metadata", "init_request", "check_future_request", "make_array_from_host_buffer_request", "assemble_array_from_single_device_arrays_request", "copy_to_host_buffer_request", "disassemble_into_single_device_arrays_request", "check_value_ready_request", "delete_array_request", "is_array_deleted_request", "destruct_array_request", "compile_request", "loaded_executable_metadata_request", "loaded_executable_execute_request", "loaded_executable_delete_request", "loaded_executable_is_deleted_request", "loaded_executable_destruct_request", "get_default_device_assignment_request", "fully_replicated_shard_request", "remap_arrays_request", "copy_arrays_request", "make_arrays_from_host_buffer_shards_request", "make_error_arrays_request", "get_default_layout_request", "loaded_executable_cost_analysis_request", "loaded_executable_human_readable_program_text_request", "loaded_executable_fetch_execute_result_request", "reshard_arrays_request", "bitcast_arrays_request")
    REQUEST_METADATA_FIELD_NUMBER: _ClassVar[int]
    INIT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CHECK_FUTURE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MAKE_ARRAY_FROM_HOST_BUFFER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    ASSEMBLE_ARRAY_FROM_SINGLE_DEVICE_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    COPY_TO_HOST_BUFFER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    DISASSEMBLE_INTO_SINGLE_DEVICE_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CHECK_VALUE_READY_REQUEST_FIELD_NUMBER: _ClassVar[int]
    DELETE_ARRAY_REQUEST_FIELD_NUMBER: _ClassVar[int]
    IS_ARRAY_DELETED_REQUEST_FIELD_NUMBER: _ClassVar[int]
    DESTRUCT_ARRAY_REQUEST_FIELD_NUMBER: _ClassVar[int]
    COMPILE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_METADATA_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_EXECUTE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_DELETE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_IS_DELETED_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_DESTRUCT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    GET_DEFAULT_DEVICE_ASSIGNMENT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    FULLY_REPLICATED_SHARD_REQUEST_FIELD_NUMBER: _ClassVar[int]
    REMAP_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    COPY_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MAKE_ARRAYS_FROM_HOST_BUFFER_SHARDS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MAKE_ERROR_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    GET_DEFAULT_LAYOUT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_COST_ANALYSIS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_HUMAN_READABLE_PROGRAM_TEXT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_FETCH_EXECUTE_RESULT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    RESHARD_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    BITCAST_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    request_metadata: RequestMetadata
    init_request: InitRequest
    check_future_request: _arrays_pb2.CheckFutureRequest
    make_array_from_host_buffer_request: _arrays_pb2.MakeArrayFromHostBufferRequest
    assemble_array_from_single_device_arrays_request: _arrays_pb2.AssembleArrayFromSingleDeviceArraysRequest
    copy_to_host_buffer_request: _arrays_pb2.CopyToHostBufferRequest
    disassemble_into_single_device_arrays_request: _arrays_pb2.DisassembleIntoSingleDeviceArraysRequest
    check_value_ready_request: _arrays_pb2.CheckValueReadyRequest
    delete_array_request: _arrays_pb2.DeleteArrayRequest
    is_array_deleted_request: _arrays_pb2.IsArrayDeletedRequest
    destruct_array_request: _arrays_pb2.DestructArrayRequest
    compile_request: _programs_pb2.CompileRequest
    loaded_executable_metadata_request: _programs_pb2.LoadedExecutableMetadataRequest
    loaded_executable_execute_request: _programs_pb2.LoadedExecutableExecuteRequest
    loaded_executable_delete_request: _programs_pb2.LoadedExecutableDeleteRequest
    loaded_executable_is_deleted_request: _programs_pb2.LoadedExecutableIsDeletedRequest
    loaded_executable_destruct_request: _programs_pb2.LoadedExecutableDestructRequest
    get_default_device_assignment_request: _programs_pb2.GetDefaultDeviceAssignmentRequest
    fully_replicated_shard_request: _arrays_pb2.FullyReplicatedShardRequest
    remap_arrays_request: _arrays_pb2.RemapArraysRequest
    copy_arrays_request: _arrays_pb2.CopyArraysRequest
    make_arrays_from_host_buffer_shards_request: _arrays_pb2.MakeArraysFromHostBufferShardsRequest
    make_error_arrays_request: _arrays_pb2.MakeErrorArraysRequest
    get_default_layout_request: _arrays_pb2.GetDefaultLayoutRequest
    loaded_executable_cost_analysis_request: _programs_pb2.LoadedExecutableCostAnalysisRequest
    loaded_executable_human_readable_program_text_request: _programs_pb2.LoadedExecutableHumanReadableProgramTextRequest
    loaded_executable_fetch_execute_result_request: _programs_pb2.LoadedExecutableFetchExecuteResultRequest
    reshard_arrays_request: _arrays_pb2.ReshardArraysRequest
    bitcast_arrays_request: _arrays_pb2.BitcastArraysRequest
    def __init__(self, request_metadata: _Optional[_Union[RequestMetadata, _Mapping]] = ..., init_request: _Optional[_Union[InitRequest, _Mapping]] = ..., check_future_request: _Optional[_Union[_arrays_pb2.CheckFutureRequest, _Mapping]] = ..., make_array_from_host_buffer_request: _Optional[_Union[_arrays_pb2.MakeArrayFromHostBufferRequest, _Mapping]] = ..., assemble_array_from_single_device_arrays_request: _Optional[_Union[_arrays_pb2.AssembleArrayFromSingleDeviceArraysRequest, _Mapping]] = ..., copy_to_host_buffer_request: _Optional[_Union[_arrays_pb2.CopyToHostBufferRequest, _Mapping]] = ..., disassemble_into_single_device_arrays_request: _Optional[_Union[_arrays_pb2.DisassembleIntoSingleDeviceArraysRequest, _Mapping]] = ..., check_value_ready_request: _Optional[_Union[_arrays_pb2.CheckValueReadyRequest, _Mapping]] = ..., delete_array_request: _Optional[_Union[_arrays_pb2.DeleteArrayRequest, _Mapping]] = ..., is_array_deleted_request: _Optional[_Union[_arrays_pb2.IsArrayDeletedRequest, _Mapping]] = ..., destruct_array_request: _Optional[_Union[_arrays_pb2.DestructArrayRequest, _Mapping]] = ..., compile_request: _Optional[_Union[_programs_pb2.CompileRequest, _Mapping]] = ..., loaded_executable_metadata_request: _Optional[_Union[_programs_pb2.LoadedExecutableMetadataRequest, _Mapping]] = ..., loaded_executable_execute_request: _Optional[_Union[_programs_pb2.LoadedExecutableExecuteRequest, _Mapping]] = ..., loaded_executable_delete_request: _Optional[_Union[_programs_pb2.LoadedExecutableDeleteRequest, _Mapping]] = ..., loaded_executable_is_deleted_request: _Optional[_Union[_programs_pb2.LoadedExecutableIsDeletedRequest, _Mapping]] = ..., loaded_executable_destruct_request: _Optional[_Union[_programs_pb2.LoadedExecutableDestructRequest, _Mapping]] = ..., get_default_device_assignment_request: _Optional[_Union[_programs_pb2.GetDefaultDeviceAssignmentRequest, _Mapping]] = ..., fully_replicated_shard_request: _Optional[_Union[_arrays_pb2.FullyReplicatedShardRequest, _Mapping]] = ..., remap_arrays_request: _Optional[_Union[_arrays_pb2.RemapArraysRequest, _Mapping]] = ..., copy_arrays_request: _Optional[_Union[_arrays_pb2.CopyArraysRequest, _Mapping]] = ..., make_arrays_from_host_buffer_shards_request: _Optional[_Union[_arrays_pb2.MakeArraysFromHostBufferShardsRequest, _Mapping]] = ..., make_error_arrays_request: _Optional[_Union[_arrays_pb2.MakeErrorArraysRequest, _Mapping]] = ..., get_default_layout_request: _Optional[_Union[_arrays_pb2.GetDefaultLayoutRequest, _Mapping]] = ..., loaded_executable_cost_analysis_request: _Optional[_Union[_programs_pb2.LoadedExecutableCostAnalysisRequest, _Mapping]] = ..., loaded_executable_human_readable_program_text_request: _Optional[_Union[_programs_pb2.LoadedExecutableHumanReadableProgramTextRequest, _Mapping]] = ..., loaded_executable_fetch_execute_result_request: _Optional[_Union[_programs_pb2.LoadedExecutableFetchExecuteResultRequest, _Mapping]] = ..., reshard_arrays_request: _Optional[_Union[_arrays_pb2.ReshardArraysRequest, _Mapping]] = ..., bitcast_arrays_request: _Optional[_Union[_arrays_pb2.BitcastArraysRequest, _Mapping]] = ...) -> None: ...

class IfrtResponse(_message.Message):
    __slots__ = ("response_metadata", "init_response", "check_future_response", "make_array_from_host_buffer_response", "assemble_array_from_single_device_arrays_response", "copy_to_host_buffer_response", "disassemble_into_single_device_arrays_response", "check_value_ready_response", "delete_array_response", "is_array_deleted_response", "destruct_array_response", "compile_response", "loaded_executable_metadata_response", "loaded_executable_execute_response", "loaded_executable_delete_response", "loaded_executable_is_deleted_response", "loaded_executable_destruct_response", "get_default_device_assignment_response", "fully_replicated_shard_response", "remap_arrays_response", "copy_arrays_response", "make_arrays_from_host_buffer_shards_response", "make_error_arrays_response", "get_default_layout_response", "loaded_executable_cost_analysis_response", "loaded_executable_human_readable_program_text_response", "loaded_executable_fetch_execute_result_response", "reshard_arrays_response", "bitcast_arrays_response")
    RESPONSE_METADATA_FIELD_NUMBER: _ClassVar[int]
    INIT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    CHECK_FUTURE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    MAKE_ARRAY_FROM_HOST_BUFFER_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ASSEMBLE_ARRAY_FROM_SINGLE_DEVICE_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    COPY_TO_HOST_BUFFER_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    DISASSEMBLE_INTO_SINGLE_DEVICE_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    CHECK_VALUE_READY_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    DELETE_ARRAY_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    IS_ARRAY_DELETED_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    DESTRUCT_ARRAY_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    COMPILE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_METADATA_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_EXECUTE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_DELETE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_IS_DELETED_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_DESTRUCT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    GET_DEFAULT_DEVICE_ASSIGNMENT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    FULLY_REPLICATED_SHARD_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    REMAP_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    COPY_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    MAKE_ARRAYS_FROM_HOST_BUFFER_SHARDS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    MAKE_ERROR_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    GET_DEFAULT_LAYOUT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_COST_ANALYSIS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_HUMAN_READABLE_PROGRAM_TEXT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_FETCH_EXECUTE_RESULT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    RESHARD_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    BITCAST_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response_metadata: ResponseMetadata
    init_response: InitResponse
    check_future_response: _arrays_pb2.CheckFutureResponse
    make_array_from_host_buffer_response: _arrays_pb2.MakeArrayFromHostBufferResponse
    assemble_array_from_single_device_arrays_response: _arrays_pb2.AssembleArrayFromSingleDeviceArraysResponse
    copy_to_host_buffer_response: _arrays_pb2.CopyToHostBufferResponse
    disassemble_into_single_device_arrays_response: _arrays_pb2.DisassembleIntoSingleDeviceArraysResponse
    check_value_ready_response: _arrays_pb2.CheckValueReadyResponse
    delete_array_response: _arrays_pb2.DeleteArrayResponse
    is_array_deleted_response: _arrays_pb2.IsArrayDeletedResponse
    destruct_array_response: _arrays_pb2.DestructArrayResponse
    compile_response: _programs_pb2.CompileResponse
    loaded_executable_metadata_response: _programs_pb2.LoadedExecutableMetadataResponse
    loaded_executable_execute_response: _programs_pb2.LoadedExecutableExecuteResponse
    loaded_executable_delete_response: _programs_pb2.LoadedExecutableDeleteResponse
    loaded_executable_is_deleted_response: _programs_pb2.LoadedExecutableIsDeletedResponse
    loaded_executable_destruct_response: _programs_pb2.LoadedExecutableDestructResponse
    get_default_device_assignment_response: _programs_pb2.GetDefaultDeviceAssignmentResponse
    fully_replicated_shard_response: _arrays_pb2.FullyReplicatedShardResponse
    remap_arrays_response: _arrays_pb2.RemapArraysResponse
    copy_arrays_response: _arrays_pb2.CopyArraysResponse
    make_arrays_from_host_buffer_shards_response: _arrays_pb2.MakeArraysFromHostBufferShardsResponse
    make_error_arrays_response: _arrays_pb2.MakeErrorArraysResponse
    get_default_layout_response: _arrays_pb2.GetDefaultLayoutResponse
    loaded_executable_cost_analysis_response: _programs_pb2.LoadedExecutableCostAnalysisResponse
    loaded_executable_human_readable_program_text_response: _programs_pb2.LoadedExecutableHumanReadableProgramTextResponse
    loaded_executable_fetch_execute_result_response: _programs_pb2.LoadedExecutableFetchExecuteResultResponse
    reshard_arrays_response: _arrays_pb2.ReshardArraysResponse
    bitcast_arrays_response: _arrays_pb2.BitcastArraysResponse
    def __init__(self, response_metadata: _Optional[_Union[ResponseMetadata, _Mapping]] = ..., init_response: _Optional[_Union[InitResponse, _Mapping]] = ..., check_future_response: _Optional[_Union[_arrays_pb2.CheckFutureResponse, _Mapping]] = ..., make_array_from_host_buffer_response: _Optional[_Union[_arrays_pb2.MakeArrayFromHostBufferResponse, _Mapping]] = ..., assemble_array_from_single_device_arrays_response: _Optional[_Union[_arrays_pb2.AssembleArrayFromSingleDeviceArraysResponse, _Mapping]] = ..., copy_to_host_buffer_response: _Optional[_Union[_arrays_pb2.CopyToHostBufferResponse, _Mapping]] = ..., disassemble_into_single_device_arrays_response: _Optional[_Union[_arrays_pb2.DisassembleIntoSingleDeviceArraysResponse, _Mapping]] = ..., check_value_ready_response: _Optional[_Union[_arrays_pb2.CheckValueReadyResponse, _Mapping]] = ..., delete_array_response: _Optional[_Union[_arrays_pb2.DeleteArrayResponse, _Mapping]] = ..., is_array_deleted_response: _Optional[_Union[_arrays_pb2.IsArrayDeletedResponse, _Mapping]] = ..., destruct_array_response: _Optional[_Union[_arrays_pb2.DestructArrayResponse, _Mapping]] = ..., compile_response: _Optional[_Union[_programs_pb2.CompileResponse, _Mapping]] = ..., loaded_executable_metadata_response: _Optional[_Union[_programs_pb2.LoadedExecutableMetadataResponse, _Mapping]] = ..., loaded_executable_execute_response: _Optional[_Union[_programs_pb2.LoadedExecutableExecuteResponse, _Mapping]] = ..., loaded_executable_delete_response: _Optional[_Union[_programs_pb2.LoadedExecutableDeleteResponse, _Mapping]] = ..., loaded_executable_is_deleted_response: _Optional[_Union[_programs_pb2.LoadedExecutableIsDeletedResponse, _Mapping]] = ..., loaded_executable_destruct_response: _Optional[_Union[_programs_pb2.LoadedExecutableDestructResponse, _Mapping]] = ..., get_default_device_assignment_response: _Optional[_Union[_programs_pb2.GetDefaultDeviceAssignmentResponse, _Mapping]] = ..., fully_replicated_shard_response: _Optional[_Union[_arrays_pb2.FullyReplicatedShardResponse, _Mapping]] = ..., remap_arrays_response: _Optional[_Union[_arrays_pb2.RemapArraysResponse, _Mapping]] = ..., copy_arrays_response: _Optional[_Union[_arrays_pb2.CopyArraysResponse, _Mapping]] = ..., make_arrays_from_host_buffer_shards_response: _Optional[_Union[_arrays_pb2.MakeArraysFromHostBufferShardsResponse, _Mapping]] = ..., make_error_arrays_response: _Optional[_Union[_arrays_pb2.MakeErrorArraysResponse, _Mapping]] = ..., get_default_layout_response: _Optional[_Union[_arrays_pb2.GetDefaultLayoutResponse, _Mapping]] = ..., loaded_executable_cost_analysis_response: _Optional[_Union[_programs_pb2.LoadedExecutableCostAnalysisResponse, _Mapping]] = ..., loaded_executable_human_readable_program_text_response: _Optional[_Union[_programs_pb2.LoadedExecutableHumanReadableProgramTextResponse, _Mapping]] = ..., loaded_executable_fetch_execute_result_response: _Optional[_Union[_programs_pb2.LoadedExecutableFetchExecuteResultResponse, _Mapping]] = ..., reshard_arrays_response: _Optional[_Union[_arrays_pb2.ReshardArraysResponse, _Mapping]] = ..., bitcast_arrays_response: _Optional[_Union[_arrays_pb2.BitcastArraysResponse, _Mapping]] = ...) -> None: ...

class RequestMetadata(_message.Message):
    __slots__ = ("op_id", "user_context_id")
    OP_ID_FIELD_NUMBER: _ClassVar[int]
    USER_CONTEXT_ID_FIELD_NUMBER: _ClassVar[int]
    op_id: int
    user_context_id: int
    def __init__(self, op_id: _Optional[int] = ..., user_context_id: _Optional[int] = ...) -> None: ...

class ResponseMetadata(_message.Message):
    __slots__ = ("op_id", "status", "seq_num", "destroyed_user_context_ids")
    OP_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_NUM_FIELD_NUMBER: _ClassVar[int]
    DESTROYED_USER_CONTEXT_IDS_FIELD_NUMBER: _ClassVar[int]
    op_id: int
    status: _status_pb2.StatusProto
    seq_num: int
    destroyed_user_context_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, op_id: _Optional[int] = ..., status: _Optional[_Union[_status_pb2.StatusProto, _Mapping]] = ..., seq_num: _Optional[int] = ..., destroyed_user_context_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class InitRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InitResponse(_message.Message):
    __slots__ = ("platform_name", "platform_version", "platform_id", "process_index", "runtime_type", "all_devices", "addressable_device_ids", "session_id", "memories", "primary_device_ids", "client_attributes")
    class Device(_message.Message):
        __slots__ = ("id", "local_hardware_id", "device_kind", "debug_string", "to_string", "default_memory_id", "memory_ids", "local_device_id", "attributes", "platform_name")
        ID_FIELD_NUMBER: _ClassVar[int]
        LOCAL_HARDWARE_ID_FIELD_NUMBER: _ClassVar[int]
        DEVICE_KIND_FIELD_NUMBER: _ClassVar[int]
        DEBUG_STRING_FIELD_NUMBER: _ClassVar[int]
        TO_STRING_FIELD_NUMBER: _ClassVar[int]
        DEFAULT_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
        MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
        LOCAL_DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
        ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
        PLATFORM_NAME_FIELD_NUMBER: _ClassVar[int]
        id: int
        local_hardware_id: int
        device_kind: str
        debug_string: str
        to_string: str
        default_memory_id: int
        memory_ids: _containers.RepeatedScalarFieldContainer[int]
        local_device_id: int
        attributes: _values_pb2.AttributeMapProto
        platform_name: str
        def __init__(self, id: _Optional[int] = ..., local_hardware_id: _Optional[int] = ..., device_kind: _Optional[str] = ..., debug_string: _Optional[str] = ..., to_string: _Optional[str] = ..., default_memory_id: _Optional[int] = ..., memory_ids: _Optional[_Iterable[int]] = ..., local_device_id: _Optional[int] = ..., attributes: _Optional[_Union[_values_pb2.AttributeMapProto, _Mapping]] = ..., platform_name: _Optional[str] = ...) -> None: ...
    class Memory(_message.Message):
        __slots__ = ("id", "memory_space_kind", "device_ids", "debug_string", "to_string", "kind_id")
        ID_FIELD_NUMBER: _ClassVar[int]
        MEMORY_SPACE_KIND_FIELD_NUMBER: _ClassVar[int]
        DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
        DEBUG_STRING_FIELD_NUMBER: _ClassVar[int]
        TO_STRING_FIELD_NUMBER: _ClassVar[int]
        KIND_ID_FIELD_NUMBER: _ClassVar[int]
        id: int
        memory_space_kind: str
        device_ids: _containers.RepeatedScalarFieldContainer[int]
        debug_string: str
        to_string: str
        kind_id: int
        def __init__(self, id: _Optional[int] = ..., memory_space_kind: _Optional[str] = ..., device_ids: _Optional[_Iterable[int]] = ..., debug_string: _Optional[str] = ..., to_string: _Optional[str] = ..., kind_id: _Optional[int] = ...) -> None: ...
    PLATFORM_NAME_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_VERSION_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_ID_FIELD_NUMBER: _ClassVar[int]
    PROCESS_INDEX_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    ALL_DEVICES_FIELD_NUMBER: _ClassVar[int]
    ADDRESSABLE_DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    platform_name: str
    platform_version: str
    platform_id: int
    process_index: int
    runtime_type: str
    all_devices: _containers.RepeatedCompositeFieldContainer[InitResponse.Device]
    addressable_device_ids: _containers.RepeatedScalarFieldContainer[int]
    session_id: int
    memories: _containers.RepeatedCompositeFieldContainer[InitResponse.Memory]
    primary_device_ids: _containers.RepeatedScalarFieldContainer[int]
    client_attributes: _values_pb2.AttributeMapProto
    def __init__(self, platform_name: _Optional[str] = ..., platform_version: _Optional[str] = ..., platform_id: _Optional[int] = ..., process_index: _Optional[int] = ..., runtime_type: _Optional[str] = ..., all_devices: _Optional[_Iterable[_Union[InitResponse.Device, _Mapping]]] = ..., addressable_device_ids: _Optional[_Iterable[int]] = ..., session_id: _Optional[int] = ..., memories: _Optional[_Iterable[_Union[InitResponse.Memory, _Mapping]]] = ..., primary_device_ids: _Optional[_Iterable[int]] = ..., client_attributes: _Optional[_Union[_values_pb2.AttributeMapProto, _Mapping]] = ...) -> None: ...
