"""Requests about programs.

Compiling is answered when the cluster has answered; every execution is answered at once by the door alone. The first
execution of an executable comes without result handles: the door makes them and says what the outputs are. What goes wrong
with an execution is kept under its results. Plugin programs go to plugin_programs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pathways_common.model.bounds import PROGRAM_BYTES_MAX
from pathways_common.model.colocated import MAGIC
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_proto.ifrt import arrays_pb2, programs_pb2, xla_data_pb2
from pathways_proto.v1 import sessions_pb2, types_pb2

from pathways_door.colocated import PROGRAM_TYPE as PYTHON_TYPE
from pathways_door.colocated import ColocatedExecutable, ReadProgram, unreadable
from pathways_door.context import Context, Handler, Operation, failure_in
from pathways_door.errors import status_of
from pathways_door.executables import Executable, first_response
from pathways_door.futures import Future
from pathways_door.handles import NO_FORM, Value
from pathways_door.options import read_options
from pathways_door.plugin_programs import NOT_KNOWN, PluginPrograms
from pathways_door.plugin_texts import PLUGIN_TYPE
from pathways_door.sharding import checked_devices

_PROGRAM_TYPE = "xla::ifrt::XlaProgram"


class Programs:
    """Handlers of program requests, by the request's member name."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._upstream = context.upstream
        self._executables: dict[int, Executable] = {}
        # What the last call of colocated Python gives, or tells that it is over.
        self._last_called: Value | None = None
        self._plugins = PluginPrograms(context)

    def handlers(self) -> dict[str, Handler]:
        """Member of IfrtRequest -> handler."""
        return {
            "compile_request": self._compile,
            "loaded_executable_metadata_request": self._metadata,
            "loaded_executable_execute_request": self._execute,
            "loaded_executable_cost_analysis_request": self._costs,
            "loaded_executable_human_readable_program_text_request": self._text,
            "loaded_executable_delete_request": self._delete,
            "loaded_executable_is_deleted_request": self._is_deleted,
            "loaded_executable_destruct_request": self._destruct,
            "get_default_device_assignment_request": self._assignment,
            "get_default_layout_request": self._layout,
        }

    # ---- compiling --------------------------------------------------------------------------------------------------

    def _compile(self, operation: Operation, request: programs_pb2.CompileRequest) -> None:
        program = request.program
        if program.type_name == PLUGIN_TYPE:
            self._plugins.compile(operation, request)
            return
        if program.type_name == PYTHON_TYPE:
            self._compile_python(operation, program.data)
            return
        if program.type_name != _PROGRAM_TYPE:
            raise fail(Reason.UNSUPPORTED, f"programs of type {program.type_name} are not supported by the Pathways door")
        if program.data.startswith(MAGIC):
            # Hosts go by these bytes: it would be run as what is refused above to clients without a token.
            raise fail(
                Reason.UNSUPPORTED, "the program begins like colocated Python and says that it is XLA's; send it as what it is"
            )
        if len(program.data) > PROGRAM_BYTES_MAX:
            sentence = (
                f"the program has {len(program.data)} bytes, the limit is {PROGRAM_BYTES_MAX}; pass large constants as arguments"
            )
            raise fail(Reason.RESOURCE_EXHAUSTED, sentence)
        options = read_options(request.compile_options)
        checked_devices(options.devices, self._context.device_count)
        executable_id = self._upstream.new_ids()
        message = sessions_pb2.Compile(
            executable_id=executable_id,
            program=program.data,
            options=options.options,
            devices=options.devices,
            callback_ids=options.callback_ids,
        )

        self._ask(operation, message, lambda info: Executable(self._context, executable_id, options.devices, info))

    def _compile_python(self, operation: Operation, data: bytes) -> None:
        if not self._upstream.may_run_python:
            sentence = "colocated Python is not run for clients without a token; use `pathways run` or pathways.connect()"
            raise fail(Reason.UNSUPPORTED, sentence)
        program = ReadProgram(self._context, data)
        if sentence := unreadable(self._upstream.versions, self._upstream.welcome, program.devices):
            raise fail(Reason.VERSION_MISMATCH, sentence)
        executable_id = self._upstream.new_ids()
        message = sessions_pb2.Compile(executable_id=executable_id, program=program.program, devices=program.devices)
        self._ask(operation, message, lambda info: ColocatedExecutable(self._context, executable_id, program, info))

    def _ask(
        self, operation: Operation, message: sessions_pb2.Compile, make: Callable[[types_pb2.ExecutableInfo], Executable]
    ) -> None:
        """Sends a program; `make` gives what the client may use once the cluster has answered."""
        executable_id = message.executable_id

        def done(answer: Any, failure: Failure | None) -> None:
            if failure is not None:
                self._context.refuse(operation, failure)
                return
            try:
                executable = make(answer.info)
            except Exception as error:
                self._upstream.release_executable(executable_id)
                self._context.refuse(operation, failure_in(error))
                return
            handle = self._context.arrays.new_handle()
            self._executables[handle] = executable
            self._context.reply(operation, executable.compile_response(handle, self._context.futures.add(Future())))

        self._upstream.ask("compiled", executable_id, sessions_pb2.ClientOperation(compile=message), done)

    def _get(self, handle: int) -> Executable:
        executable = self._executables.get(handle)
        if executable is None and handle in self._plugins:
            raise PathwaysError(NOT_KNOWN)
        if executable is None:
            raise fail(
                Reason.INVALID_ARGUMENT, f"executable handle {handle} is unknown to the door; it was destructed or never made"
            )
        return executable

    def _metadata(self, operation: Operation, request: programs_pb2.LoadedExecutableMetadataRequest) -> None:
        handle = request.loaded_executable_handle
        known = self._plugins.metadata_response(handle) if handle in self._plugins else self._get(handle).metadata_response()
        self._context.reply(operation, known)

    # ---- executing --------------------------------------------------------------------------------------------------

    def _execute(self, operation: Operation, request: programs_pb2.LoadedExecutableExecuteRequest) -> None:
        context = self._context
        executable = self._executables.get(request.loaded_executable_handle)
        handles: Sequence[int] = request.result_array_handle
        if executable is None:
            if self._plugins.execute(operation, request):
                return
            failure = Failure(
                Reason.INVALID_ARGUMENT, f"executable handle {request.loaded_executable_handle} is unknown to the door"
            )
            context.poison(handles, failure)
            context.refuse(operation, failure)
            return
        fill_status = request.execute_options.fill_status
        first = not handles
        if first:
            handles = [context.arrays.new_handle() for _ in executable.forms]
        elif len(handles) != len(executable.forms):
            failure = Failure(
                Reason.INVALID_ARGUMENT, f"{len(handles)} result handles do not fit {len(executable.forms)} outputs"
            )
            context.poison(handles, failure)
            context.refuse(operation, failure)
            return
        status_handle = 0
        if fill_status:
            status_handle = request.result_status_handle or context.arrays.new_handle()
            context.futures.add(Future(status_handle=status_handle), status_handle)
        self._launch(executable, request, handles, status_handle)
        if first and (handles or status_handle):
            context.reply(operation, first_response(executable.forms, handles, status_handle))
        else:
            context.reply_empty(operation, "loaded_executable_execute_response", awaited=first)

    def _launch(
        self,
        executable: Executable,
        request: programs_pb2.LoadedExecutableExecuteRequest,
        handles: Sequence[int],
        status_handle: int,
    ) -> None:
        """Sends the execution and registers its results, and under the status handle (if any) what tells how it ended."""
        arrays = self._context.arrays
        arguments: list[int] = []
        donated: list[Value] = []
        temporary: list[int] = []
        python = executable if isinstance(executable, ColocatedExecutable) else None
        options = request.execute_options
        non_donatable = options.non_donatable_input_indices
        for index, handle in enumerate(request.args_handles):
            record = arrays.get(handle)
            failure = record.problem()
            if failure is not None:
                for result, form in zip(handles, executable.forms, strict=True):
                    arrays.poison(result, failure, form)
                if status_handle:
                    arrays.poison(status_handle, failure)
                return
            if python is not None:
                record = python.argument(arrays, record, temporary)
            arguments.append(arrays.view_of(record))
            if index in executable.donated and index not in non_donatable:
                donated.extend(record.values())
        # A program without outputs has one result without bytes, which tells how it ended.
        count = max(1, len(executable.forms))
        execution_id = self._upstream.new_ids(1 + count)
        execute = sessions_pb2.Execute(
            execution_id=execution_id,
            executable_id=executable.executable_id,
            arguments=arguments,
            first_result_id=execution_id + 1,
            launch_id=options.launch_id & 0xFFFFFFFF,
        )
        if non_donatable:
            execute.non_donatable.extend(non_donatable)
        if python is not None:
            execute.stream = options.execution_stream_id & 0xFFFFFFFFFFFFFFFF
        self._upstream.push(sessions_pb2.ClientOperation(execute=execute))
        for handle in temporary:
            arrays.destruct(handle)
        arrays.donated(donated)
        shard_count = len(executable.devices)
        for index, handle in enumerate(handles):
            value = Value(execution_id + 1 + index, shard_count, executable.size_bytes[index])
            ranges = ((value, 0, shard_count),) if python is None else python.results(index, value)
            arrays.add(handle, executable.forms[index], ranges)
        if status_handle:
            told = arrays.get(handles[0]).ranges if handles else ((Value(execution_id + 1, shard_count, 0), 0, shard_count),)
            arrays.add(status_handle, NO_FORM, told)
        elif not handles:
            self._upstream.release(execution_id + 1, 0)
        if python is not None:
            known = (*handles, status_handle) if status_handle else handles
            self._last_called = arrays.get(known[0]).ranges[0][0] if known else None

    # ---- inspecting -------------------------------------------------------------------------------------------------

    def _inspect(self, handle: int, kind: types_pb2.InspectKind, done: Callable[[Any, Failure | None], None]) -> None:
        try:
            executable = self._get(handle)
        except Exception as error:
            done(None, failure_in(error))
            return
        number = self._upstream.pending.number("inspected")
        message = sessions_pb2.Inspect(inspect_id=number, executable_id=executable.executable_id, kind=kind)
        self._upstream.ask("inspected", number, sessions_pb2.ClientOperation(inspect=message), done)

    def _costs(self, operation: Operation, request: programs_pb2.LoadedExecutableCostAnalysisRequest) -> None:
        """Always answered with a member: the client reads one that is not there otherwise."""

        def done(answer: Any, failure: Failure | None) -> None:
            response = programs_pb2.LoadedExecutableCostAnalysisResponse()
            if failure is not None:
                response.status.CopyFrom(status_of(failure))
            else:
                response.attributes.SetInParent()
                for name, value in answer.inspection.costs.items():
                    response.attributes.attributes[name].float_value = value
            self._context.reply_with(operation, loaded_executable_cost_analysis_response=response)

        self._inspect(request.loaded_executable_handle, types_pb2.INSPECT_KIND_COST_ANALYSIS, done)

    def _text(self, operation: Operation, request: programs_pb2.LoadedExecutableHumanReadableProgramTextRequest) -> None:
        def done(answer: Any, failure: Failure | None) -> None:
            response = programs_pb2.LoadedExecutableHumanReadableProgramTextResponse()
            if failure is not None:
                response.status.CopyFrom(status_of(failure))
            else:
                response.human_readable_program_text = answer.inspection.text
            self._context.reply_with(operation, loaded_executable_human_readable_program_text_response=response)

        self._inspect(request.loaded_executable_handle, types_pb2.INSPECT_KIND_PROGRAM_TEXT, done)

    # ---- the end and defaults ---------------------------------------------------------------------------------------

    def _drop(self, handle: int) -> None:
        executable = self._executables.pop(handle, None)
        self._plugins.drop(handle)
        if executable is None:
            return
        executable_id, last = executable.executable_id, self._last_called
        if last is None or not last.references or not isinstance(executable, ColocatedExecutable):
            self._upstream.release_executable(executable_id)
            return
        # JAX lets go of the function that made an object as soon as another one that uses it was called.: that ends first.
        wait = sessions_pb2.Wait(wait_id=self._upstream.pending.number("ready"), views=[last.value_id])
        operation = sessions_pb2.ClientOperation(wait=wait)
        self._upstream.ask(
            "ready", wait.wait_id, operation, lambda _answer, _failure: self._upstream.release_executable(executable_id)
        )

    def _destruct(self, operation: Operation, request: programs_pb2.LoadedExecutableDestructRequest) -> None:
        self._drop(request.loaded_executable_handle)
        self._context.reply_empty(operation, "loaded_executable_destruct_response")

    def _delete(self, operation: Operation, request: programs_pb2.LoadedExecutableDeleteRequest) -> None:
        self._drop(request.loaded_executable_handle)
        member = programs_pb2.LoadedExecutableDeleteResponse(future_handle=self._context.futures.add(Future()))
        self._context.reply_with(operation, loaded_executable_delete_response=member)

    def _is_deleted(self, operation: Operation, request: programs_pb2.LoadedExecutableIsDeletedRequest) -> None:
        handle = request.loaded_executable_handle
        deleted = handle not in self._executables and handle not in self._plugins
        member = programs_pb2.LoadedExecutableIsDeletedResponse(is_deleted=deleted)
        self._context.reply_with(operation, loaded_executable_is_deleted_response=member)

    def _assignment(self, operation: Operation, request: programs_pb2.GetDefaultDeviceAssignmentRequest) -> None:
        replicas, partitions = request.num_replicas, request.num_partitions
        if not 0 < replicas * partitions <= self._context.primary_count:
            sentence = f"{replicas} x {partitions} devices were asked for; this session has {self._context.primary_count}"
            raise fail(Reason.INVALID_ARGUMENT, sentence)
        computations = [
            xla_data_pb2.DeviceAssignmentProto.ComputationDevice(
                replica_device_ids=[replica * partitions + partition for replica in range(replicas)]
            )
            for partition in range(partitions)
        ]
        assignment = xla_data_pb2.DeviceAssignmentProto(
            replica_count=replicas, computation_count=partitions, computation_devices=computations
        )
        member = programs_pb2.GetDefaultDeviceAssignmentResponse(device_assignment=assignment)
        self._context.reply_with(operation, get_default_device_assignment_response=member)

    def _layout(self, operation: Operation, request: arrays_pb2.GetDefaultLayoutRequest) -> None:
        """Row-major, as text: minor to major."""
        text = "{" + ",".join(str(dimension) for dimension in reversed(range(len(request.dims)))) + "}"
        member = arrays_pb2.GetDefaultLayoutResponse(serialized_pjrt_layout=text.encode())
        self._context.reply_with(operation, get_default_layout_response=member)
