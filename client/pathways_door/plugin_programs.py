"""Plugin programs: whole traced programs, the feeds that bring their arguments, names for them, fences and cancellations.

A traced program compiles when the controller has taken its definition; the small ones compile here alone. Each is executed
in the client's order and answered at once. The first execution of a program comes without result handles, as for executables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, assert_never

from pathways_common.model.failure import Failure, Reason, fail
from pathways_proto.ifrt import programs_pb2, session_pb2
from pathways_proto.v1 import sessions_pb2

from pathways_door.bulk import Calls
from pathways_door.context import Context, Operation, failure_in
from pathways_door.envelope import serialized
from pathways_door.errors import status_of
from pathways_door.executables import first_response, result_form
from pathways_door.futures import Future
from pathways_door.handles import form_of
from pathways_door.plugin_texts import (
    CancelText,
    FeedText,
    FenceText,
    FetchText,
    FuseText,
    ProgramText,
    PutText,
    RegisterText,
    read_text,
)
from pathways_door.program_runs import Feeds, RunnableProgram, Runs
from pathways_door.sharding import Placement
from pathways_door.utility_runs import UtilityRuns
from pathways_door.utility_texts import ReshardText, StorageText

_Known: TypeAlias = (
    RunnableProgram
    | FeedText
    | FenceText
    | CancelText
    | FetchText
    | PutText
    | RegisterText
    | FuseText
    | ReshardText
    | StorageText
)
_EXECUTED = "loaded_executable_execute_response"
NOT_KNOWN = Failure(
    Reason.UNSUPPORTED, "a plugin program has no layouts, costs or text of its own; look at the functions that it calls"
)


class PluginPrograms:
    """The plugin programs of one IFRT session by handle."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._upstream = context.upstream
        self._feeds = Feeds(context.arrays, context.spawn)
        self._runs = Runs(context.arrays, context.upstream, self._feeds)
        self._utilities = UtilityRuns(context)
        self._programs: dict[int, _Known] = {}
        self._metadata = _metadata_response()  # a refusal would end the program for the client

    def __contains__(self, handle: int) -> bool:
        return handle in self._programs

    # ---- compiling --------------------------------------------------------------------------------------------------

    def compile(self, operation: Operation, request: programs_pb2.CompileRequest) -> None:
        """Answers the compile request; raises PathwaysError for a text that makes no sense."""
        text = read_text(request.program, self._context.device_count)
        match text:
            case FenceText():
                self._compiled(operation, text, f"pathways-fence-{text.number}", (0,))
            case FeedText():
                self._compiled(operation, text, f"pathways-feed-{text.shard_count}", tuple(range(text.shard_count)))
            case CancelText():
                self._compiled(operation, text, f"pathways-cancel-{text.shard_count}", tuple(range(text.shard_count)))
            case FetchText():
                self._compiled(operation, text, "pathways-fetch", tuple(range(text.shard_count)))
            case PutText():
                self._compiled(operation, text, "pathways-put", (0,))
            case ProgramText():
                self._define(operation, text)
            case RegisterText():
                self._register(operation, text)
            case FuseText():
                self._fuse(operation, text)
            case ReshardText() | StorageText():
                self._compiled(operation, text, "pathwaysutils-request", text.devices)
            case _:
                assert_never(text)

    def _define(self, operation: Operation, text: ProgramText) -> None:
        program_id = self._upstream.new_ids()
        name = text.program.name or "pathways-program"

        def done(answer: Any, failure: Failure | None) -> None:
            if failure is not None:
                self._context.refuse(operation, failure)
                return
            try:
                forms = tuple(result_form(self._context, tuple(spec.devices), spec) for spec in answer.results)
                program = RunnableProgram(program_id, name, text.groups, text.donated, forms)
            except Exception as error:
                self._upstream.release_program(program_id)
                self._context.refuse(operation, failure_in(error))
                return
            self._compiled(operation, program, name, text.devices, b"pathways-program %d" % program_id)

        message = sessions_pb2.DefineProgram(program_id=program_id, program=text.program)
        self._upstream.ask("program_defined", program_id, sessions_pb2.ClientOperation(define_program=message), done)

    def _register(self, operation: Operation, text: RegisterText) -> None:
        def done(answer: Any, failure: Failure | None) -> None:
            if failure is not None:
                self._context.refuse(operation, failure)
            else:
                self._compiled(operation, text, text.name, (0,), b"pathways-registered %d" % answer.version)

        register = sessions_pb2.RegisterProgram(program_id=text.program_id, name=text.name, replace=text.replace)
        operation_up = sessions_pb2.ClientOperation(register_program=register)
        self._upstream.ask("program_registered", text.program_id, operation_up, done)

    def _fuse(self, operation: Operation, text: FuseText) -> None:
        def done(answer: Any, failure: Failure | None) -> None:
            if failure is not None:
                self._context.refuse(operation, failure)
            else:
                self._compiled(operation, text, "pathways-fuse", (0,), b"pathways-fused %d" % answer.group_count)

        fuse = sessions_pb2.FuseProgram(program_id=text.program_id, groups=text.groups)
        operation_up = sessions_pb2.ClientOperation(fuse_program=fuse)
        self._upstream.ask("program_fused", text.program_id, operation_up, done)

    def _compiled(
        self,
        operation: Operation,
        program: _Known,
        name: str,
        devices: tuple[int, ...],
        fingerprint: bytes = b"",
    ) -> None:
        handle = self._context.arrays.new_handle()
        self._programs[handle] = program
        response = programs_pb2.CompileResponse(
            loaded_executable_handle=handle,
            name=name,
            num_devices=len(devices),
            device_ids=devices,
            addressable_device_ids=devices,
            fingerprint_value=fingerprint,
            ready_future_handle=self._context.futures.add(Future()),
        )
        self._context.reply(operation, serialized(session_pb2.IfrtResponse(compile_response=response)))

    def metadata_response(self, handle: int) -> bytes:
        """The answer to the metadata request. All that is known of a plugin program is which arguments a reshard consumes."""
        program = self._programs.get(handle)
        if isinstance(program, ReshardText) and program.donate:
            return _metadata_response(range(len(program.placements)))
        return self._metadata

    # ---- executing --------------------------------------------------------------------------------------------------

    def execute(self, operation: Operation, request: programs_pb2.LoadedExecutableExecuteRequest) -> bool:
        """Answers the execution of a plugin program; False (and nothing happens) if the handle is none."""
        program = self._programs.get(request.loaded_executable_handle)
        if isinstance(program, RunnableProgram):
            self._run(operation, request, program)
        elif program is None:
            return False
        elif isinstance(program, ReshardText | StorageText):
            self._utilities.run(operation, request, program)
        elif isinstance(program, PutText):
            self._put(operation, request, program)
        elif request.execute_options.fill_status or request.result_array_handle:
            self._refuse(
                operation,
                request,
                "a feed, a fence, a fetch or a cancellation gives nothing, not even tokens; execute it without",
            )
        elif isinstance(program, FeedText):
            self._feeds.park(_launch_id(request), program.shard_count, request.args_handles)
            self._context.reply_empty(operation, _EXECUTED)
        elif isinstance(program, CancelText):
            self._cancel(request.args_handles)
            self._context.reply_empty(operation, _EXECUTED)
        elif isinstance(program, FetchText):
            self._bulk_calls().read(self._context, program.number, request.args_handles)
            self._context.reply_empty(operation, _EXECUTED)
        elif isinstance(program, RegisterText | FuseText):
            what = "registration of a name" if isinstance(program, RegisterText) else "fusion of a program"
            raise fail(Reason.INVALID_ARGUMENT, f"the {what} is not executed; it is done")
        elif request.args_handles:
            raise fail(Reason.INVALID_ARGUMENT, "a fence takes no arguments")
        else:
            self._upstream.fences.passed(program.number)
            self._context.reply_empty(operation, _EXECUTED)
        return True

    def _bulk_calls(self) -> Calls:
        calls = self._context.bulk.calls
        if calls is None:
            raise fail(Reason.UNSUPPORTED, "only the door beside a client moves arrays through shared memory")
        return calls

    def _put(self, operation: Operation, request: programs_pb2.LoadedExecutableExecuteRequest, text: PutText) -> None:
        """Is executed once, so it comes without result handles."""
        if request.execute_options.fill_status or request.result_array_handle or request.args_handles:
            raise fail(Reason.INVALID_ARGUMENT, "a put is executed once, without arguments and tokens")
        context = self._context
        placements = [
            context.with_memory_kind(Placement(tuple(spec.devices), spec.sharding, spec.memory_kind)) for spec in text.specs
        ]
        forms = [form_of(spec.dtype, tuple(spec.shape), lies) for spec, lies in zip(text.specs, placements, strict=True)]
        handles = [context.arrays.new_handle() for _ in forms]
        self._bulk_calls().put(context, text.number, forms, handles)
        context.reply(operation, first_response(forms, handles, 0))

    def _cancel(self, handles: Sequence[int]) -> None:
        """Asks to end what makes these arrays; those that have failed or are deleted need nothing."""
        records = [record for handle in handles if (record := self._context.arrays.get(handle)).problem() is None]
        views = dict.fromkeys(value.value_id for record in records for value in record.values())
        if views:
            self._upstream.push(sessions_pb2.ClientOperation(cancel=sessions_pb2.CancelWork(views=list(views))))

    def _run(self, operation: Operation, request: programs_pb2.LoadedExecutableExecuteRequest, program: RunnableProgram) -> None:
        context = self._context
        launch_id = _launch_id(request)
        handles = request.result_array_handle
        if request.execute_options.fill_status or (handles and len(handles) != len(program.forms)):
            self._runs.drop_feeds(program, launch_id)
            if request.execute_options.fill_status:
                sentence = f"program {program.name} has no tokens; execute it without them"
            else:
                sentence = f"{len(handles)} result handles do not fit the {len(program.forms)} results of program {program.name}"
            self._refuse(operation, request, sentence)
        elif handles:
            self._runs.run(program, launch_id, request.args_handles, handles)
            context.reply_empty(operation, _EXECUTED)
        else:
            made = [context.arrays.new_handle() for _ in program.forms]
            self._runs.run(program, launch_id, request.args_handles, made)
            context.reply(operation, first_response(program.forms, made, 0))

    def _refuse(self, operation: Operation, request: programs_pb2.LoadedExecutableExecuteRequest, sentence: str) -> None:
        """Refuses an execution, and keeps that under whatever the client has named already."""
        failure = Failure(Reason.INVALID_ARGUMENT, sentence)
        self._context.poison(request.result_array_handle, failure)
        if request.result_status_handle:
            self._context.futures.add(Future(status_handle=request.result_status_handle), request.result_status_handle)
            self._context.arrays.poison(request.result_status_handle, failure)
        self._context.refuse(operation, failure)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def drop(self, handle: int) -> None:
        """Forgets a plugin program; nothing happens if the handle is none."""
        program = self._programs.pop(handle, None)
        if isinstance(program, RunnableProgram):
            self._upstream.release_program(program.program_id)
        self._utilities.drop(handle)


def _launch_id(request: programs_pb2.LoadedExecutableExecuteRequest) -> int:
    return int(request.execute_options.launch_id) & 0xFFFFFFFF


def _metadata_response(donated: Sequence[int] = ()) -> bytes:
    not_known = status_of(NOT_KNOWN)
    out = programs_pb2.LoadedExecutableMetadataResponse(
        parameter_layouts_error=not_known, output_layouts_error=not_known, compiled_memory_stats_error=not_known
    )
    out.output_memory_kinds.SetInParent()
    out.donated_input_indices.donated_input_indices.extend(donated)
    out.donated_input_indices.SetInParent()
    return serialized(session_pb2.IfrtResponse(loaded_executable_metadata_response=out))
