from pathways_proto.v1 import hellos_pb2 as _hellos_pb2
from pathways_proto.v1 import programs_pb2 as _programs_pb2
from pathways_proto.v1 import slices_pb2 as _slices_pb2
from pathways_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union
from pathways_proto.v1.hellos_pb2 import Hello as Hello
from pathways_proto.v1.hellos_pb2 import Welcome as Welcome
from pathways_proto.v1.hellos_pb2 import Refused as Refused
from pathways_proto.v1.slices_pb2 import AddSlice as AddSlice
from pathways_proto.v1.slices_pb2 import ReleaseSlice as ReleaseSlice
from pathways_proto.v1.slices_pb2 import SliceAdded as SliceAdded
from pathways_proto.v1.slices_pb2 import SliceWaiting as SliceWaiting
from pathways_proto.v1.slices_pb2 import SuspendSlice as SuspendSlice
from pathways_proto.v1.slices_pb2 import ResumeSlice as ResumeSlice
from pathways_proto.v1.slices_pb2 import SliceSuspended as SliceSuspended
from pathways_proto.v1.slices_pb2 import SliceResumed as SliceResumed

DESCRIPTOR: _descriptor.FileDescriptor

class ClientFrame(_message.Message):
    __slots__ = ("sequence", "received", "operations", "hello")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    received: int
    operations: _containers.RepeatedCompositeFieldContainer[ClientOperation]
    hello: _hellos_pb2.Hello
    def __init__(self, sequence: _Optional[int] = ..., received: _Optional[int] = ..., operations: _Optional[_Iterable[_Union[ClientOperation, _Mapping]]] = ..., hello: _Optional[_Union[_hellos_pb2.Hello, _Mapping]] = ...) -> None: ...

class ServerFrame(_message.Message):
    __slots__ = ("sequence", "received", "durable", "operations", "welcome", "refused")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    received: int
    durable: int
    operations: _containers.RepeatedCompositeFieldContainer[ServerOperation]
    welcome: _hellos_pb2.Welcome
    refused: _hellos_pb2.Refused
    def __init__(self, sequence: _Optional[int] = ..., received: _Optional[int] = ..., durable: _Optional[int] = ..., operations: _Optional[_Iterable[_Union[ServerOperation, _Mapping]]] = ..., welcome: _Optional[_Union[_hellos_pb2.Welcome, _Mapping]] = ..., refused: _Optional[_Union[_hellos_pb2.Refused, _Mapping]] = ...) -> None: ...

class ClientOperation(_message.Message):
    __slots__ = ("execute", "release", "make_view", "wait", "fetch", "make_array", "compile", "copy", "delete", "make_error_array", "inspect", "callback_result", "fence", "goodbye", "add_slice", "release_slice", "reshard", "define_program", "run_program", "register_program", "open_program", "unregister_program", "cancel", "fuse_program", "suspend_slice", "resume_slice")
    EXECUTE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    MAKE_VIEW_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    MAKE_ARRAY_FIELD_NUMBER: _ClassVar[int]
    COMPILE_FIELD_NUMBER: _ClassVar[int]
    COPY_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    MAKE_ERROR_ARRAY_FIELD_NUMBER: _ClassVar[int]
    INSPECT_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_RESULT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    ADD_SLICE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_SLICE_FIELD_NUMBER: _ClassVar[int]
    RESHARD_FIELD_NUMBER: _ClassVar[int]
    DEFINE_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    RUN_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    REGISTER_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    OPEN_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    FUSE_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_SLICE_FIELD_NUMBER: _ClassVar[int]
    RESUME_SLICE_FIELD_NUMBER: _ClassVar[int]
    execute: Execute
    release: Release
    make_view: MakeView
    wait: Wait
    fetch: Fetch
    make_array: MakeArray
    compile: Compile
    copy: Copy
    delete: Delete
    make_error_array: MakeErrorArray
    inspect: Inspect
    callback_result: CallbackResult
    fence: Fence
    goodbye: Goodbye
    add_slice: _slices_pb2.AddSlice
    release_slice: _slices_pb2.ReleaseSlice
    reshard: Reshard
    define_program: DefineProgram
    run_program: RunProgram
    register_program: RegisterProgram
    open_program: OpenProgram
    unregister_program: UnregisterProgram
    cancel: CancelWork
    fuse_program: FuseProgram
    suspend_slice: _slices_pb2.SuspendSlice
    resume_slice: _slices_pb2.ResumeSlice
    def __init__(self, execute: _Optional[_Union[Execute, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., make_view: _Optional[_Union[MakeView, _Mapping]] = ..., wait: _Optional[_Union[Wait, _Mapping]] = ..., fetch: _Optional[_Union[Fetch, _Mapping]] = ..., make_array: _Optional[_Union[MakeArray, _Mapping]] = ..., compile: _Optional[_Union[Compile, _Mapping]] = ..., copy: _Optional[_Union[Copy, _Mapping]] = ..., delete: _Optional[_Union[Delete, _Mapping]] = ..., make_error_array: _Optional[_Union[MakeErrorArray, _Mapping]] = ..., inspect: _Optional[_Union[Inspect, _Mapping]] = ..., callback_result: _Optional[_Union[CallbackResult, _Mapping]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., add_slice: _Optional[_Union[_slices_pb2.AddSlice, _Mapping]] = ..., release_slice: _Optional[_Union[_slices_pb2.ReleaseSlice, _Mapping]] = ..., reshard: _Optional[_Union[Reshard, _Mapping]] = ..., define_program: _Optional[_Union[DefineProgram, _Mapping]] = ..., run_program: _Optional[_Union[RunProgram, _Mapping]] = ..., register_program: _Optional[_Union[RegisterProgram, _Mapping]] = ..., open_program: _Optional[_Union[OpenProgram, _Mapping]] = ..., unregister_program: _Optional[_Union[UnregisterProgram, _Mapping]] = ..., cancel: _Optional[_Union[CancelWork, _Mapping]] = ..., fuse_program: _Optional[_Union[FuseProgram, _Mapping]] = ..., suspend_slice: _Optional[_Union[_slices_pb2.SuspendSlice, _Mapping]] = ..., resume_slice: _Optional[_Union[_slices_pb2.ResumeSlice, _Mapping]] = ...) -> None: ...

class Compile(_message.Message):
    __slots__ = ("executable_id", "program", "options", "devices", "callback_ids")
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_IDS_FIELD_NUMBER: _ClassVar[int]
    executable_id: int
    program: bytes
    options: bytes
    devices: _containers.RepeatedScalarFieldContainer[int]
    callback_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, executable_id: _Optional[int] = ..., program: _Optional[bytes] = ..., options: _Optional[bytes] = ..., devices: _Optional[_Iterable[int]] = ..., callback_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Execute(_message.Message):
    __slots__ = ("execution_id", "executable_id", "arguments", "first_result_id", "non_donatable", "launch_id", "stream")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    FIRST_RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    NON_DONATABLE_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    executable_id: int
    arguments: _containers.RepeatedScalarFieldContainer[int]
    first_result_id: int
    non_donatable: _containers.RepeatedScalarFieldContainer[int]
    launch_id: int
    stream: int
    def __init__(self, execution_id: _Optional[int] = ..., executable_id: _Optional[int] = ..., arguments: _Optional[_Iterable[int]] = ..., first_result_id: _Optional[int] = ..., non_donatable: _Optional[_Iterable[int]] = ..., launch_id: _Optional[int] = ..., stream: _Optional[int] = ...) -> None: ...

class MakeArray(_message.Message):
    __slots__ = ("buffer_id", "spec", "pieces")
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    buffer_id: int
    spec: _types_pb2.ArraySpec
    pieces: _containers.RepeatedCompositeFieldContainer[Piece]
    def __init__(self, buffer_id: _Optional[int] = ..., spec: _Optional[_Union[_types_pb2.ArraySpec, _Mapping]] = ..., pieces: _Optional[_Iterable[_Union[Piece, _Mapping]]] = ...) -> None: ...

class Piece(_message.Message):
    __slots__ = ("shards", "inline", "upload_id", "size_bytes")
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    INLINE_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedScalarFieldContainer[int]
    inline: bytes
    upload_id: int
    size_bytes: int
    def __init__(self, shards: _Optional[_Iterable[int]] = ..., inline: _Optional[bytes] = ..., upload_id: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class MakeErrorArray(_message.Message):
    __slots__ = ("buffer_id", "failure")
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    buffer_id: int
    failure: _types_pb2.Failure
    def __init__(self, buffer_id: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class MakeView(_message.Message):
    __slots__ = ("view_id", "ranges", "copies")
    VIEW_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    view_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[ShardRange]
    copies: _containers.RepeatedCompositeFieldContainer[ShardRange]
    def __init__(self, view_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[ShardRange, _Mapping]]] = ..., copies: _Optional[_Iterable[_Union[ShardRange, _Mapping]]] = ...) -> None: ...

class ShardRange(_message.Message):
    __slots__ = ("view_id", "start", "count")
    VIEW_ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    view_id: int
    start: int
    count: int
    def __init__(self, view_id: _Optional[int] = ..., start: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class Copy(_message.Message):
    __slots__ = ("result_ids", "views", "specs")
    RESULT_IDS_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    SPECS_FIELD_NUMBER: _ClassVar[int]
    result_ids: _containers.RepeatedScalarFieldContainer[int]
    views: _containers.RepeatedScalarFieldContainer[int]
    specs: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    def __init__(self, result_ids: _Optional[_Iterable[int]] = ..., views: _Optional[_Iterable[int]] = ..., specs: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ...) -> None: ...

class Delete(_message.Message):
    __slots__ = ("views",)
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    views: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, views: _Optional[_Iterable[int]] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("views", "executables", "programs")
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLES_FIELD_NUMBER: _ClassVar[int]
    PROGRAMS_FIELD_NUMBER: _ClassVar[int]
    views: _containers.RepeatedScalarFieldContainer[int]
    executables: _containers.RepeatedScalarFieldContainer[int]
    programs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, views: _Optional[_Iterable[int]] = ..., executables: _Optional[_Iterable[int]] = ..., programs: _Optional[_Iterable[int]] = ...) -> None: ...

class Wait(_message.Message):
    __slots__ = ("wait_id", "views")
    WAIT_ID_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    wait_id: int
    views: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, wait_id: _Optional[int] = ..., views: _Optional[_Iterable[int]] = ...) -> None: ...

class Fetch(_message.Message):
    __slots__ = ("fetch_id", "view_id", "shard", "size_bytes", "held")
    FETCH_ID_FIELD_NUMBER: _ClassVar[int]
    VIEW_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    fetch_id: int
    view_id: int
    shard: int
    size_bytes: int
    held: bool
    def __init__(self, fetch_id: _Optional[int] = ..., view_id: _Optional[int] = ..., shard: _Optional[int] = ..., size_bytes: _Optional[int] = ..., held: _Optional[bool] = ...) -> None: ...

class Inspect(_message.Message):
    __slots__ = ("inspect_id", "executable_id", "kind")
    INSPECT_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    inspect_id: int
    executable_id: int
    kind: _types_pb2.InspectKind
    def __init__(self, inspect_id: _Optional[int] = ..., executable_id: _Optional[int] = ..., kind: _Optional[_Union[_types_pb2.InspectKind, str]] = ...) -> None: ...

class CallbackResult(_message.Message):
    __slots__ = ("call_id", "results", "failure")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    results: _types_pb2.CallbackArrays
    failure: _types_pb2.Failure
    def __init__(self, call_id: _Optional[int] = ..., results: _Optional[_Union[_types_pb2.CallbackArrays, _Mapping]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class Fence(_message.Message):
    __slots__ = ("fence_id",)
    FENCE_ID_FIELD_NUMBER: _ClassVar[int]
    fence_id: int
    def __init__(self, fence_id: _Optional[int] = ...) -> None: ...

class Reshard(_message.Message):
    __slots__ = ("result_ids", "views", "sources", "destinations", "donate")
    RESULT_IDS_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    DESTINATIONS_FIELD_NUMBER: _ClassVar[int]
    DONATE_FIELD_NUMBER: _ClassVar[int]
    result_ids: _containers.RepeatedScalarFieldContainer[int]
    views: _containers.RepeatedScalarFieldContainer[int]
    sources: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    destinations: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    donate: bool
    def __init__(self, result_ids: _Optional[_Iterable[int]] = ..., views: _Optional[_Iterable[int]] = ..., sources: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ..., destinations: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ..., donate: _Optional[bool] = ...) -> None: ...

class DefineProgram(_message.Message):
    __slots__ = ("program_id", "program")
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    program_id: int
    program: _programs_pb2.Program
    def __init__(self, program_id: _Optional[int] = ..., program: _Optional[_Union[_programs_pb2.Program, _Mapping]] = ...) -> None: ...

class FuseProgram(_message.Message):
    __slots__ = ("program_id", "groups")
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    program_id: int
    groups: _containers.RepeatedCompositeFieldContainer[_programs_pb2.FusedGroup]
    def __init__(self, program_id: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[_programs_pb2.FusedGroup, _Mapping]]] = ...) -> None: ...

class RunProgram(_message.Message):
    __slots__ = ("run_id", "program_id", "arguments", "first_result_id", "donated", "launch_id")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    FIRST_RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    DONATED_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: int
    program_id: int
    arguments: _containers.RepeatedScalarFieldContainer[int]
    first_result_id: int
    donated: _containers.RepeatedScalarFieldContainer[int]
    launch_id: int
    def __init__(self, run_id: _Optional[int] = ..., program_id: _Optional[int] = ..., arguments: _Optional[_Iterable[int]] = ..., first_result_id: _Optional[int] = ..., donated: _Optional[_Iterable[int]] = ..., launch_id: _Optional[int] = ...) -> None: ...

class RegisterProgram(_message.Message):
    __slots__ = ("program_id", "name", "replace")
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    program_id: int
    name: str
    replace: bool
    def __init__(self, program_id: _Optional[int] = ..., name: _Optional[str] = ..., replace: _Optional[bool] = ...) -> None: ...

class OpenProgram(_message.Message):
    __slots__ = ("program_id", "name", "version", "devices")
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    program_id: int
    name: str
    version: int
    devices: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, program_id: _Optional[int] = ..., name: _Optional[str] = ..., version: _Optional[int] = ..., devices: _Optional[_Iterable[int]] = ...) -> None: ...

class UnregisterProgram(_message.Message):
    __slots__ = ("request_id", "name", "version")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    name: str
    version: int
    def __init__(self, request_id: _Optional[int] = ..., name: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class CancelWork(_message.Message):
    __slots__ = ("views",)
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    views: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, views: _Optional[_Iterable[int]] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class ServerOperation(_message.Message):
    __slots__ = ("ready", "fetched", "fetch_ticket", "fetch_failed", "upload_grant", "upload_withdrawn", "compiled", "inspected", "fence_reached", "callback_request", "callback_cancelled", "poisoned", "notice", "session_lost", "slice_added", "slice_waiting", "program_defined", "program_registered", "program_unregistered", "program_fused", "slice_suspended", "slice_resumed")
    READY_FIELD_NUMBER: _ClassVar[int]
    FETCHED_FIELD_NUMBER: _ClassVar[int]
    FETCH_TICKET_FIELD_NUMBER: _ClassVar[int]
    FETCH_FAILED_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_GRANT_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    COMPILED_FIELD_NUMBER: _ClassVar[int]
    INSPECTED_FIELD_NUMBER: _ClassVar[int]
    FENCE_REACHED_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    POISONED_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    SESSION_LOST_FIELD_NUMBER: _ClassVar[int]
    SLICE_ADDED_FIELD_NUMBER: _ClassVar[int]
    SLICE_WAITING_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_DEFINED_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_REGISTERED_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_UNREGISTERED_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FUSED_FIELD_NUMBER: _ClassVar[int]
    SLICE_SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    SLICE_RESUMED_FIELD_NUMBER: _ClassVar[int]
    ready: Ready
    fetched: Fetched
    fetch_ticket: FetchTicket
    fetch_failed: FetchFailed
    upload_grant: UploadGrant
    upload_withdrawn: UploadWithdrawn
    compiled: Compiled
    inspected: Inspected
    fence_reached: FenceReached
    callback_request: CallbackRequest
    callback_cancelled: CallbackCancelled
    poisoned: Poisoned
    notice: Notice
    session_lost: SessionLost
    slice_added: _slices_pb2.SliceAdded
    slice_waiting: _slices_pb2.SliceWaiting
    program_defined: ProgramDefined
    program_registered: ProgramRegistered
    program_unregistered: ProgramUnregistered
    program_fused: ProgramFused
    slice_suspended: _slices_pb2.SliceSuspended
    slice_resumed: _slices_pb2.SliceResumed
    def __init__(self, ready: _Optional[_Union[Ready, _Mapping]] = ..., fetched: _Optional[_Union[Fetched, _Mapping]] = ..., fetch_ticket: _Optional[_Union[FetchTicket, _Mapping]] = ..., fetch_failed: _Optional[_Union[FetchFailed, _Mapping]] = ..., upload_grant: _Optional[_Union[UploadGrant, _Mapping]] = ..., upload_withdrawn: _Optional[_Union[UploadWithdrawn, _Mapping]] = ..., compiled: _Optional[_Union[Compiled, _Mapping]] = ..., inspected: _Optional[_Union[Inspected, _Mapping]] = ..., fence_reached: _Optional[_Union[FenceReached, _Mapping]] = ..., callback_request: _Optional[_Union[CallbackRequest, _Mapping]] = ..., callback_cancelled: _Optional[_Union[CallbackCancelled, _Mapping]] = ..., poisoned: _Optional[_Union[Poisoned, _Mapping]] = ..., notice: _Optional[_Union[Notice, _Mapping]] = ..., session_lost: _Optional[_Union[SessionLost, _Mapping]] = ..., slice_added: _Optional[_Union[_slices_pb2.SliceAdded, _Mapping]] = ..., slice_waiting: _Optional[_Union[_slices_pb2.SliceWaiting, _Mapping]] = ..., program_defined: _Optional[_Union[ProgramDefined, _Mapping]] = ..., program_registered: _Optional[_Union[ProgramRegistered, _Mapping]] = ..., program_unregistered: _Optional[_Union[ProgramUnregistered, _Mapping]] = ..., program_fused: _Optional[_Union[ProgramFused, _Mapping]] = ..., slice_suspended: _Optional[_Union[_slices_pb2.SliceSuspended, _Mapping]] = ..., slice_resumed: _Optional[_Union[_slices_pb2.SliceResumed, _Mapping]] = ...) -> None: ...

class Compiled(_message.Message):
    __slots__ = ("executable_id", "info", "failure")
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    executable_id: int
    info: _types_pb2.ExecutableInfo
    failure: _types_pb2.Failure
    def __init__(self, executable_id: _Optional[int] = ..., info: _Optional[_Union[_types_pb2.ExecutableInfo, _Mapping]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class UploadGrant(_message.Message):
    __slots__ = ("upload_id", "targets")
    UPLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    upload_id: int
    targets: _containers.RepeatedCompositeFieldContainer[DataTicket]
    def __init__(self, upload_id: _Optional[int] = ..., targets: _Optional[_Iterable[_Union[DataTicket, _Mapping]]] = ...) -> None: ...

class DataTicket(_message.Message):
    __slots__ = ("address", "ticket", "host")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    address: str
    ticket: str
    host: str
    def __init__(self, address: _Optional[str] = ..., ticket: _Optional[str] = ..., host: _Optional[str] = ...) -> None: ...

class UploadWithdrawn(_message.Message):
    __slots__ = ("upload_id", "failure")
    UPLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    upload_id: int
    failure: _types_pb2.Failure
    def __init__(self, upload_id: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class Fetched(_message.Message):
    __slots__ = ("fetch_id", "data")
    FETCH_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    fetch_id: int
    data: bytes
    def __init__(self, fetch_id: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class FetchTicket(_message.Message):
    __slots__ = ("fetch_id", "source", "size_bytes")
    FETCH_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    fetch_id: int
    source: DataTicket
    size_bytes: int
    def __init__(self, fetch_id: _Optional[int] = ..., source: _Optional[_Union[DataTicket, _Mapping]] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class FetchFailed(_message.Message):
    __slots__ = ("fetch_id", "failure")
    FETCH_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    fetch_id: int
    failure: _types_pb2.Failure
    def __init__(self, fetch_id: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ("wait_id", "failure")
    WAIT_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    wait_id: int
    failure: _types_pb2.Failure
    def __init__(self, wait_id: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class Inspected(_message.Message):
    __slots__ = ("inspect_id", "inspection", "failure")
    INSPECT_ID_FIELD_NUMBER: _ClassVar[int]
    INSPECTION_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    inspect_id: int
    inspection: _types_pb2.Inspection
    failure: _types_pb2.Failure
    def __init__(self, inspect_id: _Optional[int] = ..., inspection: _Optional[_Union[_types_pb2.Inspection, _Mapping]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class FenceReached(_message.Message):
    __slots__ = ("fence_id",)
    FENCE_ID_FIELD_NUMBER: _ClassVar[int]
    fence_id: int
    def __init__(self, fence_id: _Optional[int] = ...) -> None: ...

class CallbackRequest(_message.Message):
    __slots__ = ("call_id", "callback_id", "operands", "timeout_ns")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_ID_FIELD_NUMBER: _ClassVar[int]
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    callback_id: int
    operands: _types_pb2.CallbackArrays
    timeout_ns: int
    def __init__(self, call_id: _Optional[int] = ..., callback_id: _Optional[int] = ..., operands: _Optional[_Union[_types_pb2.CallbackArrays, _Mapping]] = ..., timeout_ns: _Optional[int] = ...) -> None: ...

class CallbackCancelled(_message.Message):
    __slots__ = ("call_id",)
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    def __init__(self, call_id: _Optional[int] = ...) -> None: ...

class Poisoned(_message.Message):
    __slots__ = ("buffer_ids", "failure")
    BUFFER_IDS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    buffer_ids: _containers.RepeatedScalarFieldContainer[int]
    failure: _types_pb2.Failure
    def __init__(self, buffer_ids: _Optional[_Iterable[int]] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("host", "text")
    HOST_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    host: str
    text: str
    def __init__(self, host: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ProgramDefined(_message.Message):
    __slots__ = ("program_id", "arguments", "results", "name", "version", "failure")
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    program_id: int
    arguments: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    results: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    name: str
    version: int
    failure: _types_pb2.Failure
    def __init__(self, program_id: _Optional[int] = ..., arguments: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ..., name: _Optional[str] = ..., version: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class ProgramRegistered(_message.Message):
    __slots__ = ("program_id", "name", "version", "failure")
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    program_id: int
    name: str
    version: int
    failure: _types_pb2.Failure
    def __init__(self, program_id: _Optional[int] = ..., name: _Optional[str] = ..., version: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class ProgramFused(_message.Message):
    __slots__ = ("program_id", "group_count", "failure")
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    program_id: int
    group_count: int
    failure: _types_pb2.Failure
    def __init__(self, program_id: _Optional[int] = ..., group_count: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class ProgramUnregistered(_message.Message):
    __slots__ = ("request_id", "failure")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    failure: _types_pb2.Failure
    def __init__(self, request_id: _Optional[int] = ..., failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...

class SessionLost(_message.Message):
    __slots__ = ("failure",)
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    failure: _types_pb2.Failure
    def __init__(self, failure: _Optional[_Union[_types_pb2.Failure, _Mapping]] = ...) -> None: ...
