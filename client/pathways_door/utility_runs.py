"""Runs of requests of `pathwaysutils`. A reshard is moved like any other; for storage every host gets a program of its own.

Programs for storage go the way of colocated Python, so order, pending results, failures and time limits are those. Their hosts
compile them when the request is run, because only then the types of arguments are known: the client waits for a first run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pathways_common.model.colocated import MAGIC
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.model.sharding import layout_of
from pathways_proto.ifrt import programs_pb2, strides_pb2
from pathways_proto.v1 import colocated_pb2, sessions_pb2

from pathways_door.context import Context, Operation, failure_in
from pathways_door.executables import first_response
from pathways_door.futures import Future
from pathways_door.handles import NO_FORM, ArrayRecord, Form, Range, Value, form_of, merged, shards_of
from pathways_door.reshard import move_arrays
from pathways_door.sharding import Placement
from pathways_door.utility_texts import ReshardText, StorageText

_EXECUTED = "loaded_executable_execute_response"
_REUSE, _DONATE = strides_pb2.ARRAY_COPY_SEMANTICS_REUSE_INPUT, strides_pb2.ARRAY_COPY_SEMANTICS_DONATE_INPUT


@dataclass(slots=True)
class _Part:
    """What one host does: its devices, its program, and the arguments that are held for it."""

    devices: tuple[int, ...]
    executable_id: int
    arguments: list[Value] = field(default_factory=list)


class UtilityRuns:
    """Runs requests of one IFRT session, each by the handle of its program."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # What was compiled for requests that were run, by handle.
        self._compiled: dict[int, list[int]] = {}

    def run(
        self, operation: Operation, request: programs_pb2.LoadedExecutableExecuteRequest, text: ReshardText | StorageText
    ) -> None:
        """Answers the execution; what is wrong is kept under whatever the client has named already."""
        try:
            if isinstance(text, ReshardText):
                self._reshard(operation, request, text)
            else:
                self._store(operation, request, text)
        except Exception as error:
            self._fail(request, failure_in(error))
            raise

    def drop(self, handle: int) -> None:
        """The program is gone."""
        for executable_id in self._compiled.pop(handle, ()):
            self._context.upstream.release_executable(executable_id)

    # ---- reshards ---------------------------------------------------------------------------------------------------

    def _reshard(self, operation: Operation, request: programs_pb2.LoadedExecutableExecuteRequest, text: ReshardText) -> None:
        arrays, sources = self._context.arrays, request.args_handles
        handles: Sequence[int] = request.result_array_handle
        first = not handles
        if len(sources) != len(text.placements) or (handles and len(handles) != len(sources)):
            raise fail(
                Reason.INVALID_ARGUMENT, f"{len(sources)} arrays came for {len(text.placements)} places; pass one for each"
            )
        if first:  # what the client is told of the results now holds for later runs, too
            for source in sources:
                _usable(arrays.get(source))
            handles = [arrays.new_handle() for _ in sources]
        placements = [self._context.with_memory_kind(placement) for placement in text.placements]

        def move(index: int) -> tuple[int, int, Any]:
            return handles[index], sources[index], lambda form: form_of(form.dtype, form.shape, placements[index])

        move_arrays(self._context, [move(index) for index in range(len(handles))], _DONATE if text.donate else _REUSE)
        records = [arrays.get(handle) for handle in handles]
        status = self._status(request, records)
        if first:
            self._context.reply(operation, first_response([record.form for record in records], handles, status))
        else:
            self._context.reply_empty(operation, _EXECUTED)

    # ---- storage ----------------------------------------------------------------------------------------------------

    def _store(self, operation: Operation, request: programs_pb2.LoadedExecutableExecuteRequest, text: StorageText) -> None:
        program = request.loaded_executable_handle
        if program in self._compiled:
            raise fail(Reason.INVALID_ARGUMENT, "a request for storage is run once; make another one")
        if not self._context.upstream.may_run_python:
            sentence = "arrays are not written or read for clients without a token; use `pathways run` or pathways.connect()"
            raise fail(Reason.UNSUPPORTED, sentence)
        forms = self._forms(request, text)
        hosts = self._hosts(text.devices)
        upstream = self._context.upstream
        parts = [_Part(devices, upstream.new_ids()) for devices in hosts]
        self._compiled[program] = [part.executable_id for part in parts]
        if text.write:
            for handle in request.args_handles:
                self._hold(parts, self._context.arrays.get(handle))
        left, failures = len(parts), list[Failure]()

        def done(_answer: Any, failure: Failure | None) -> None:
            nonlocal left
            left -= 1
            failures.extend([failure] if failure is not None else [])
            if left:
                return
            if failures:
                self._fail(request, failures[0])
                self._context.refuse(operation, failures[0])
            else:
                self._launch(operation, request, text, forms, parts)
            for part in parts:
                self._context.arrays.let_go(part.arguments)

        for part in parts:
            message = sessions_pb2.Compile(
                executable_id=part.executable_id, program=_program(text, forms, part.devices), devices=part.devices
            )
            upstream.ask("compiled", part.executable_id, sessions_pb2.ClientOperation(compile=message), done)

    def _forms(self, request: programs_pb2.LoadedExecutableExecuteRequest, text: StorageText) -> list[Form]:
        """How the arrays of the request lie; raises PathwaysError if its arguments do not fit it."""
        count = len(text.arrays) if text.write else 0
        if len(request.args_handles) != count:
            raise fail(Reason.INVALID_ARGUMENT, f"{len(request.args_handles)} arrays came for {count} names; pass one for each")
        if not text.write:
            placements = [self._context.with_memory_kind(array.placement) for array in text.arrays]
            return [form_of(array.dtype, array.shape, lies) for array, lies in zip(text.arrays, placements, strict=True)]
        forms = []
        for handle, array in zip(request.args_handles, text.arrays, strict=True):
            form = _usable(self._context.arrays.get(handle)).form
            if form.shape != array.shape or form.placement.devices != array.placement.devices or form.is_string:
                raise fail(Reason.INVALID_ARGUMENT, f"the array for {array.path} is not the one of the request; make another one")
            forms.append(form)
        return forms

    def _hosts(self, devices: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The devices of each host. Where those of a slice lie is not known here, so each of them stands alone."""
        hosts: dict[str, list[int]] = {}
        for device in devices:
            known = self._context.upstream.welcome.devices[device]
            hosts.setdefault(f"{known.island}/{known.host}" if known.host else f"device {device}", []).append(device)
        return [tuple(found) for found in hosts.values()]

    def _hold(self, parts: Sequence[_Part], record: ArrayRecord) -> None:
        """Every part gets the shards on its devices, in its order."""
        arrays, shards = self._context.arrays, shards_of(record)
        lies = record.form.placement.devices
        for part in parts:
            handle = arrays.new_handle()
            here = arrays.add(handle, record.form, merged(shards[lies.index(device)] for device in part.devices))
            part.arguments.append(arrays.hold(here))
            arrays.destruct(handle)

    def _launch(
        self,
        operation: Operation,
        request: programs_pb2.LoadedExecutableExecuteRequest,
        text: StorageText,
        forms: Sequence[Form],
        parts: Sequence[_Part],
    ) -> None:
        context, count = self._context, 1 if text.write else len(forms)
        shards: list[dict[int, Range]] = [{} for _ in range(count)]
        for part in parts:
            execution_id = context.upstream.new_ids(1 + count)
            execute = sessions_pb2.Execute(
                execution_id=execution_id,
                executable_id=part.executable_id,
                arguments=[value.value_id for value in part.arguments],
                first_result_id=execution_id + 1,
                launch_id=request.execute_options.launch_id & 0xFFFFFFFF,
                stream=request.execute_options.execution_stream_id & 0xFFFFFFFFFFFFFFFF,
            )
            context.upstream.push(sessions_pb2.ClientOperation(execute=execute))
            for index, found in enumerate(shards):
                size = 0 if text.write else forms[index].shard_bytes * len(part.devices)
                value = Value(execution_id + 1 + index, len(part.devices), size)
                found.update((device, (value, position, 1)) for position, device in enumerate(part.devices))
        handles = [context.arrays.new_handle() for _ in shards]
        lie = [text.devices] if text.write else [form.placement.devices for form in forms]
        for index, (handle, found) in enumerate(zip(handles, shards, strict=True)):
            form = NO_FORM if text.write else forms[index]
            context.arrays.add(handle, form, merged(found[device] for device in lie[index]))
        status = self._status(request, [context.arrays.get(handle) for handle in handles])
        if text.write:
            context.arrays.destruct(handles[0])
        if not text.write or status:
            context.reply(operation, first_response([] if text.write else forms, [] if text.write else handles, status))
        else:
            context.reply_empty(operation, _EXECUTED)

    # ---- how it ended -----------------------------------------------------------------------------------------------

    def _status(self, request: programs_pb2.LoadedExecutableExecuteRequest, results: Sequence[ArrayRecord]) -> int:
        """Registers what tells the client that all results are there, if it wants to know."""
        if not request.execute_options.fill_status:
            return 0
        context = self._context
        handle = request.result_status_handle or context.arrays.new_handle()
        context.futures.add(Future(status_handle=handle), handle)
        failure = next((record.failure for record in results if record.failure is not None), None)
        if failure is not None:
            context.arrays.poison(handle, failure)
        else:
            context.arrays.add(handle, NO_FORM, tuple(found for record in results for found in record.ranges))
        return handle

    def _fail(self, request: programs_pb2.LoadedExecutableExecuteRequest, failure: Failure) -> None:
        self._context.poison(request.result_array_handle, failure)
        if request.result_status_handle:
            self._context.futures.add(Future(status_handle=request.result_status_handle), request.result_status_handle)
            self._context.arrays.poison(request.result_status_handle, failure)


def _usable(record: ArrayRecord) -> ArrayRecord:
    """The record; raises PathwaysError if it holds no value."""
    failure = record.problem()
    if failure is not None:
        raise PathwaysError(failure)
    return record


def _program(text: StorageText, forms: Sequence[Form], devices: tuple[int, ...]) -> bytes:
    """The bytes of what one host does."""
    what = "write" if text.write else "read"
    message = colocated_pb2.ColocatedProgram(name=f"{what} of {len(forms)} arrays", devices=devices)
    message.storage.write = text.write
    message.storage.timeout_ns = text.timeout_ns
    for array, form in zip(text.arrays, forms, strict=True):
        stored = message.storage.arrays.add(path=array.path, dtype=form.dtype, shape=form.shape, shard_shape=form.shard_shape)
        _add_shards(stored, form, devices)
        # To the host it is as if all of it were one shard of each device.
        here = Form(form.dtype, form.shard_shape, form.shard_shape, Placement(devices, b"", form.placement.memory_kind))
        (message.parameters if text.write else message.outputs).append(here.to_spec())
    data: bytes = MAGIC + message.SerializeToString(deterministic=True)
    return data


def _add_shards(stored: Any, form: Form, devices: tuple[int, ...]) -> None:
    layout = layout_of(form.placement.sharding, form.shape, len(form.placement.devices))
    for device in devices:
        position = form.placement.devices.index(device)
        tile = layout.tile_at[position]
        corner = [start for start, _ in layout.slices(tile)]
        stored.shards.add(start=corner, skip=layout.holders(tile)[0] != position)
