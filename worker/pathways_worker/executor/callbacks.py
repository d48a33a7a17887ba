"""A host callback never raises inside an executor: its stand-in returns zeros, and the failure travels beside the result.

A stand-in sends its operands over a socket pair of its own and waits there for the reply, with the interpreter lock released,
until the deadline; a client that is gone answers at once. Calls go one at a time: a device runs one program at a time, too.
Replies are read on a thread of its own, and so is what the daemon says past a dispatcher that may be stuck.
Why zeros: a callback that raised on one of two hosts left the other one blocked in the next all-reduce for good.
"""

from __future__ import annotations

import itertools
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pathways_common.model.bounds import CALLBACK_TIMEOUT_NS
from pathways_common.model.failure import Reason
from pathways_common.model.ids import GlobalId, session_of
from pathways_proto.v1 import types_pb2, workers_pb2

from pathways_worker.executor.completion import Lane
from pathways_worker.executor.element_types import NUMBERS, TOKEN, dtype_of
from pathways_worker.executor.failures import FailureMessage, failure_of, make_failure
from pathways_worker.executor.frames import FrameReader, write_frame

# Sessions that are over are remembered; a call of one that is forgotten is answered by the controller, a round trip later.
ABORTED_MAX = 4096


class CallbackChannel:
    """The executor's end of the callback socket pair: ExecutorReports out, ExecutorCommands in."""

    def __init__(self, channel: socket.socket, timeout_ns: int = CALLBACK_TIMEOUT_NS) -> None:
        self._channel = channel
        self._reader = FrameReader(channel)
        self._timeout_ns = timeout_ns
        self._lock = threading.Lock()
        # Of what follows, which the reading thread changes.
        self._changed = threading.Condition()
        self._aborted: dict[int, None] = {}
        self._awaited = 0
        self._reply: Any = None
        self._ended = False
        self._on_other: Callable[[Any], None] = _ignored
        Lane("callback replies").put(self._read)
        # Unique over restarts, so that a late reply to an earlier executor finds nobody.
        self._numbers = itertools.count(secrets.randbits(31) << 32 | 1)

    def take_others(self, on_other: Callable[[Any], None]) -> None:
        """From now on commands that are not about callbacks go there, on the reading thread."""
        self._on_other = on_other

    def call(self, executable_id: int, callback_id: int, operands: Sequence[Any]) -> tuple[list[Any], FailureMessage | None]:
        """Runs a callback in its client: its results as CallbackArray messages, or none and the failure."""
        with self._lock:
            return self._call(executable_id, callback_id, operands)

    def _call(self, executable_id: int, callback_id: int, operands: Sequence[Any]) -> tuple[list[Any], FailureMessage | None]:
        session = session_of(GlobalId(executable_id))
        if session in self._aborted:
            return [], self._client_gone()
        call_id = next(self._numbers)
        call = workers_pb2.CallbackCall(
            call_id=call_id,
            session_number=session,
            callback_id=callback_id,
            operands=types_pb2.CallbackArrays(arrays=operands),
            executable_id=executable_id,
            timeout_ns=self._timeout_ns,
        )
        report = workers_pb2.ExecutorReport(events=[workers_pb2.HostEvent(callback_call=call)])
        deadline_ns = time.monotonic_ns() + self._timeout_ns
        with self._changed:
            self._awaited, self._reply = call_id, None
        try:
            write_frame(self._channel, report.SerializeToString())
            return self._wait(session, deadline_ns)
        except OSError as error:
            return [], make_failure(Reason.UNAVAILABLE, f"the callback could not be sent to the client ({error.strerror})")

    def _wait(self, session: int, deadline_ns: int) -> tuple[list[Any], FailureMessage | None]:
        with self._changed:
            while self._reply is None:
                if self._ended or session in self._aborted:
                    return [], self._client_gone()
                left_s = (deadline_ns - time.monotonic_ns()) / 1e9
                if left_s <= 0:
                    self._awaited = 0
                    return [], self._too_late()
                self._changed.wait(left_s)
            reply, self._reply, self._awaited = self._reply, None, 0
        return list(reply.results.arrays), reply.failure if reply.HasField("failure") else None

    def _read(self) -> None:
        """On a thread of its own, to the end of the stream."""
        while (payload := self._reader.read()) is not None:
            for command in workers_pb2.ExecutorCommands.FromString(payload).commands:
                if command.HasField("callback_reply") or command.HasField("callback_abort"):
                    self._take(command)
                else:
                    self._on_other(command)
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _take(self, command: Any) -> None:
        """Remembers aborted sessions, and the reply that is waited for."""
        with self._changed:
            if command.HasField("callback_abort"):
                self._aborted[command.callback_abort.session_number] = None
                if len(self._aborted) > ABORTED_MAX:
                    del self._aborted[next(iter(self._aborted))]
            elif command.callback_reply.call_id == self._awaited:
                self._reply = command.callback_reply
            self._changed.notify_all()

    def _too_late(self) -> FailureMessage:
        seconds = self._timeout_ns / 1e9
        text = (
            f"the host callback did not answer within {seconds:g} s; it must not wait for work"
            " that its own process sends to the cluster later"
        )
        return make_failure(Reason.TIMED_OUT, text, timeout_s=f"{seconds:g}")

    def _client_gone(self) -> FailureMessage:
        return make_failure(Reason.CANCELLED, "the client whose host callback this program calls is gone")


class CallbackStandIn:
    """What XLA calls in place of a user's function. `failures` collects what went wrong until a launch takes it."""

    def __init__(self, channel: CallbackChannel, executable_id: int, callback_id: int, result_types: Sequence[Any]) -> None:
        self._channel = channel
        self._executable_id = executable_id
        self._callback_id = callback_id
        self._types = tuple(result_types)
        self.failures: list[FailureMessage] = []

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        try:
            messages = [_operand(value) for value in operands]
            results, failure = self._channel.call(self._executable_id, self._callback_id, messages)
            if failure is None:
                return self._results(results)
        except Exception as error:  # nothing may get out of here into XLA
            failure = failure_of(error, Reason.USER_ERROR)
        self.failures.append(failure)
        return self._zeros()

    def _zeros(self) -> tuple[Any, ...]:
        return tuple(None if kind.dtype == TOKEN else np.zeros(kind.shape, dtype_of(kind.dtype)) for kind in self._types)

    def _results(self, messages: Sequence[Any]) -> tuple[Any, ...]:
        """The reply in the shapes of the custom call; raises ValueError if it does not fit."""
        if len(messages) != len(self._types):
            raise ValueError(f"the host callback returned {len(messages)} values, the program expects {len(self._types)}")
        results: list[Any] = []
        for kind, message in zip(self._types, messages, strict=True):
            if kind.dtype == TOKEN:
                results.append(None)
                continue
            if message.dtype != kind.dtype or tuple(message.shape) != kind.shape:
                raise ValueError(
                    f"the host callback returned element type {message.dtype} and shape {tuple(message.shape)},"
                    f" the program expects {kind.dtype} and {kind.shape}"
                )
            results.append(np.frombuffer(message.data, dtype_of(kind.dtype)).reshape(kind.shape))
        return tuple(results)


def _ignored(_command: Any) -> None:
    """Nobody asked to hear of it."""


def _operand(value: Any) -> Any:
    if value is None:  # a token: it travels without bytes
        return types_pb2.CallbackArray(dtype=TOKEN)
    array = np.ascontiguousarray(value)
    return types_pb2.CallbackArray(dtype=NUMBERS[array.dtype], shape=np.shape(value), data=array.tobytes())
