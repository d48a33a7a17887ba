"""Serves host callbacks: one stream to the door, one thread that reads it, a few that run the user's functions.

Never on the thread that reads: a callback may use arrays of the cluster itself and wait for them. Order needs no care here:
an executor asks for the next callback of a computation only after the answer to the one before.
A callback never raises towards the door; its exception travels as a failure with type, text and the user's line.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import MappingProxyType
from typing import Any

import grpc
from pathways_common.model.bounds import FAILURE_MESSAGE_BYTES_MAX
from pathways_common.model.failure import Failure, Reason
from pathways_common.rpc.convert import failure_to_proto
from pathways_proto.v1 import door_pb2_grpc, sessions_pb2

from pathways import _jax
from pathways._arrays import from_numpy, to_numpy

# One executor waits for one callback at a time, so this many executors are served at once; further ones wait their turn.
THREADS_MAX = 32
_READY_TIMEOUT_S = 10.0
_TEXT_MAX = 1024
_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
_LOG = logging.getLogger("pathways")

Find = Callable[[int], Callable[..., Any] | None]


class CallbackStream:
    """Serves until closed, or until the door goes away (`broken`)."""

    def __init__(self, door_address: str, secret: str, find: Find) -> None:
        self._find = find
        self._results: queue.SimpleQueue[sessions_pb2.CallbackResult | None] = queue.SimpleQueue()
        self._threads = _Threads(THREADS_MAX)
        self._serving = threading.Event()
        self._closing = False
        self.broken = False
        self._channel = grpc.insecure_channel(door_address, options=_OPTIONS)
        try:
            grpc.channel_ready_future(self._channel).result(timeout=_READY_TIMEOUT_S)
        except grpc.FutureTimeoutError:
            # The compilation that follows meets the same dead door and says so.
            self.broken = True
            self._channel.close()
            return
        stub = door_pb2_grpc.CallbacksStub(self._channel)
        self._call = stub.Serve(self._outgoing(), metadata=(("pathways-door-secret", secret),))
        threading.Thread(target=self._read, name="pathways-callbacks", daemon=True).start()
        # A program must not run before its callbacks can: the door answers when requests will reach this stream.
        if not self._serving.wait(timeout=_READY_TIMEOUT_S):
            self.broken = True

    def close(self) -> None:
        """Ends the stream; callbacks that run are left to finish, their results go nowhere."""
        self._closing = True
        self._results.put(None)
        self._threads.close()
        self._channel.close()

    def _outgoing(self) -> Iterator[sessions_pb2.CallbackResult]:
        while (result := self._results.get()) is not None:
            yield result

    def _serve_one(self, request: sessions_pb2.CallbackRequest) -> None:
        self._results.put(answer(request, self._find))

    def _read(self) -> None:
        try:
            self._call.initial_metadata()
            self._serving.set()
            for request in self._call:
                self._threads.submit(partial(self._serve_one, request))
        except grpc.RpcError as error:
            if not self._closing:
                # Whoever waits for a callback learns of it by the deadline; a broken door is felt by every other call.
                _LOG.debug("callback stream ended: %s", error.details())
        finally:
            self.broken = True
            self._serving.set()
            self._results.put(None)


def answer(request: sessions_pb2.CallbackRequest, find: Find) -> sessions_pb2.CallbackResult:
    """Runs one callback. Never raises."""
    result = sessions_pb2.CallbackResult(call_id=request.call_id)
    function = find(request.callback_id)
    try:
        if function is None:
            raise LookupError(f"callback {request.callback_id} belongs to no program that this process still holds")
        result.results.CopyFrom(from_numpy(function(*to_numpy(request.operands))))
    except BaseException as error:  # also SystemExit: there is no caller here whom it could reach
        result.ClearField("results")
        result.failure.CopyFrom(failure_to_proto(failure_of(error)))
    return result


def failure_of(error: BaseException) -> Failure:
    """A user's exception as data: its type, its text as it is, and the line of the user's that raised it."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:
        text = "(its text could not be had)"
    values = {"type": kind, "text": text[:_TEXT_MAX]}
    message = f"{kind}: {text}" if text else kind
    place = _jax.user_line(error)
    if place is not None:
        file, line, function = place
        values |= {"file": file[-_TEXT_MAX:], "line": str(line), "function": function[:_TEXT_MAX]}
        where = f" (raised by a host callback, {file}:{line}, in {function})"
    else:
        where = " (raised by a host callback)"
    room = FAILURE_MESSAGE_BYTES_MAX // 4 - len(where)  # a character takes up to four bytes
    return Failure(Reason.USER_ERROR, message[:room] + where, metadata=MappingProxyType(values))


class _Threads:
    """Daemon threads, started when there is work for them: a callback that hangs must not keep the interpreter from ending."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._count = 0
        self._idle = 0
        self._waiting = 0

    def submit(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._waiting += 1
            if self._waiting > self._idle and self._count < self._count_max:
                self._count += 1
                threading.Thread(target=self._serve, name=f"pathways-callback-{self._count}", daemon=True).start()
        self._work.put(work)

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            work = self._work.get()
            with self._lock:
                self._idle -= 1
                self._waiting -= 1
            if work is None:
                return
            work()

    def close(self) -> None:
        with self._lock:
            self._waiting += self._count
            for _ in range(self._count):
                self._work.put(None)
