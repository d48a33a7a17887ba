"""Requests that are answered when something has happened: values computed, bytes fetched, futures done.

Others go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pathways_common.model.colocated import string_contents
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_proto.ifrt import arrays_pb2, programs_pb2
from pathways_proto.v1 import sessions_pb2

from pathways_door.context import Context, Handler, Operation, failure_in
from pathways_door.futures import Future
from pathways_door.handles import Form, Value
from pathways_door.hostbuffers import Data, to_strided
from pathways_door.late_hosts import is_late, name_late_hosts
from pathways_door.pending import Continuation
from pathways_door.tickets import ASKED_MAX, ReadTicket, helps_to_ask_again


class Waits:
    """Handlers of waiting requests, by the request's member name."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def handlers(self) -> dict[str, Handler]:
        """Member of IfrtRequest -> handler."""
        return {
            "check_value_ready_request": self._check_values,
            "check_future_request": self._check_future,
            "copy_to_host_buffer_request": self._fetch,
            "loaded_executable_fetch_execute_result_request": self._execute_result,
        }

    def _wait(self, values: list[Value], continuation: Continuation) -> None:
        upstream = self._context.upstream
        number = upstream.pending.number("ready")
        wait = sessions_pb2.Wait(wait_id=number, views=[value.value_id for value in values])
        done = self._of_several(values, continuation) if len(values) > 1 else continuation
        upstream.ask("ready", number, sessions_pb2.ClientOperation(wait=wait), done)

    def _of_several(self, values: list[Value], continuation: Continuation) -> Continuation:
        """Holds the values until it is called, since hosts that are late are found by them."""
        arrays = self._context.arrays
        for value in values:
            value.references += 1

        def end(failure: Failure) -> None:
            arrays.let_go(values)
            continuation(None, failure)

        def done(message: Any, failure: Failure | None) -> None:
            if failure is not None and is_late(failure):
                name_late_hosts(self._context, values, failure, end)
                return
            arrays.let_go(values)
            continuation(message, failure)

        return done

    def _answer_empty(self, operation: Operation, name: str, counted: bool = True) -> Continuation:
        def done(_message: Any, failure: Failure | None) -> None:
            if failure is None:
                self._context.reply_empty(operation, name, counted)
            else:
                self._context.refuse(operation, failure)

        return done

    def _check_values(self, operation: Operation, request: arrays_pb2.CheckValueReadyRequest) -> None:
        values: dict[int, Value] = {}
        for handle in request.value_handles:
            record = self._context.arrays.get(handle)
            failure = record.problem()
            if failure is not None:
                self._context.refuse(operation, failure)
                return
            for value in record.values():
                values[value.value_id] = value
        if values:
            self._wait(list(values.values()), self._answer_empty(operation, "check_value_ready_response"))
        else:
            self._context.reply_empty(operation, "check_value_ready_response")

    def _resolve(self, future: Future, continuation: Continuation) -> None:
        if not future.status_handle:
            continuation(None, None)
            return
        record = self._context.arrays.get(future.status_handle)
        # Not `problem()`: a result that was donated meanwhile still tells how its execution ended.
        if record.failure is not None:
            continuation(None, record.failure)
        else:
            self._wait(record.values(), continuation)
        self._context.arrays.destruct(future.status_handle)

    def _check_future(self, operation: Operation, request: arrays_pb2.CheckFutureRequest) -> None:
        future = self._context.futures.pop(request.future_handle)
        if future is None:
            self._context.refuse(operation, _no_future(request.future_handle))
            return
        self._resolve(future, self._answer_empty(operation, "check_future_response", future.counted))

    def _execute_result(self, operation: Operation, request: programs_pb2.LoadedExecutableFetchExecuteResultRequest) -> None:
        future = self._context.futures.pop(request.result_status_handle)
        if future is None:
            self._context.refuse(operation, _no_future(request.result_status_handle))
            return
        self._resolve(future, self._answer_empty(operation, "loaded_executable_fetch_execute_result_response"))

    def _fetch(self, operation: Operation, request: arrays_pb2.CopyToHostBufferRequest) -> None:
        record = self._context.arrays.get(request.array_handle)
        failure = record.problem()
        strides = tuple(request.byte_strides.strides) if request.HasField("byte_strides") else None
        if failure is not None:
            self._context.refuse(operation, failure)
            return
        try:
            size_bytes = record.form.shard_bytes
        except PathwaysError as error:
            self._context.refuse(operation, error.failure)
            return
        value, shard, _ = record.ranges[0]
        form = record.form

        asked = 0

        def ask() -> None:
            """Once more, under another ticket, if a call that broke has used one up."""
            nonlocal asked
            asked += 1
            number = upstream.pending.number("fetched")
            fetch = sessions_pb2.Fetch(fetch_id=number, view_id=value.value_id, shard=shard, size_bytes=size_bytes)
            upstream.ask("fetched", number, sessions_pb2.ClientOperation(fetch=fetch), done)

        def done(message: Any, failed: Failure | None) -> None:
            if failed is not None:
                self._context.refuse(operation, failed)
            elif isinstance(message, sessions_pb2.FetchTicket):
                again = ask if asked < ASKED_MAX else None
                ticket = ReadTicket(upstream.pending, message)
                pull = self._pull(operation, request.host_buffer_handle, form, strides, ticket, again)
                self._context.spawn(f"fetch-{message.fetch_id}", pull)
            else:
                data = message.data if isinstance(message, sessions_pb2.Fetched) else b""
                self._land(operation, request.host_buffer_handle, form, strides, data)

        if size_bytes == 0:
            self._wait([value], done)
            return
        upstream = self._context.upstream
        ask()

    async def _pull(
        self,
        operation: Operation,
        buffer: int,
        form: Form,
        strides: tuple[int, ...] | None,
        ticket: ReadTicket,
        ask: Callable[[], None] | None,
    ) -> None:
        try:
            data = await ticket.while_good(self._context.bulk.pull(ticket.source, ticket.size_bytes))
        except PathwaysError as error:
            if ask is not None and helps_to_ask_again(error):
                ask()
            else:
                self._context.refuse(operation, error.failure)
            return
        except Exception as error:
            self._context.refuse(operation, failure_in(error))
            return
        self._land(operation, buffer, form, strides, data)

    def _land(self, operation: Operation, buffer: int, form: Form, strides: tuple[int, ...] | None, data: Data) -> None:
        if len(data) != form.shard_bytes:
            sentence = f"{len(data)} bytes arrived for a shard of {form.shard_bytes}"
            self._context.refuse(operation, Failure(Reason.INTERNAL, sentence))
            return
        try:
            laid = string_contents(data) if form.is_string else to_strided(data, form.shard_shape, form.item_bytes, strides)
        except Exception as error:  # strides and strings are what the client says
            self._context.refuse(operation, failure_in(error))
            return
        self._context.buffers.put(buffer, laid)
        self._context.reply_empty(operation, "copy_to_host_buffer_response")


def _no_future(handle: int) -> Failure:
    return Failure(Reason.INVALID_ARGUMENT, f"future {handle} is unknown to the door; futures are asked about once")
