"""A sidecar as its executor sees it: a child process that runs one session's Python, and a socket pair to it.

Calls go out under one lock and come back in any order; a thread reads what comes. When the process ends, whatever was asked of it
fails with how it ended. It must be started by a thread that lives as long as it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pathways_common.model.failure import Reason
from pathways_proto.v1 import colocated_pb2

from pathways_worker.executor.failures import FailureMessage, make_failure
from pathways_worker.executor.frames import FrameReader, write_frame

# Between the end of its socket and its own end.
_EXIT_TIMEOUT_S = 5.0
COMMAND = (sys.executable, "-P", "-m", "pathways_worker.sidecar")


class Answer:
    """What a call will come to."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self.results: Sequence[Any] = ()
        self.failure: FailureMessage | None = None

    def settle(self, results: Sequence[Any], failure: FailureMessage | None) -> None:
        """Once."""
        self.results, self.failure = results, failure
        self._done.set()

    def wait(self, timeout_s: float) -> bool:
        """Whether it has come."""
        return self._done.wait(timeout_s)


class Sidecar:
    """`printed(text)` hears what the user's Python prints, on a thread of its own."""

    def __init__(self, what: str, device_count: int, printed: Callable[[str], None], command: Sequence[str] = COMMAND) -> None:
        ours, theirs = socket.socketpair()
        descriptor = theirs.fileno()
        options = ("--fd", str(descriptor), "--device-count", str(device_count))
        with theirs:
            self._process = subprocess.Popen(
                (*command, *options), pass_fds=(descriptor,), stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True
            )
        self._what = what
        self._channel = ours
        self._printed = printed
        self._lock = threading.Lock()
        self._last = 0
        self._calls: dict[int, Answer] = {}
        self._known: set[int] = set()
        self._forget: list[int] = []
        self._why = ""
        self.ended = False
        self._killed = False
        self._started = threading.Event()
        threading.Thread(target=self._read, name=f"sidecar {what}", daemon=True).start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def doomed(self) -> bool:
        """Whether it ends or has ended: nothing new is asked of it."""
        return self._killed or self.ended

    def await_start(self, timeout_s: float) -> None:
        """Returns when the process serves calls, or never will, or after so long."""
        self._started.wait(timeout_s)

    def call(self, executable_id: int, program: Any, arguments: Sequence[Sequence[bytes]], places: Sequence[int]) -> Answer:
        """Begins a call; `program` travels with the first one."""
        answer = Answer()
        command = colocated_pb2.SidecarCommand(executable_id=executable_id, local_devices=places)
        for shards in arguments:
            command.arguments.add(shards=shards)
        with self._lock:
            if self.ended:
                answer.settle((), self._gone())
                return answer
            self._last += 1
            command.call_id = self._last
            if executable_id not in self._known:
                self._known.add(executable_id)
                command.program.CopyFrom(program)
            self._take_forgotten(command)
            self._calls[self._last] = answer
            self._send(command)
        return answer

    def forget(self, executable_id: int) -> None:
        """Lets go of a function before the next call, or when `flush` is called."""
        with self._lock:
            if executable_id in self._known:
                self._known.discard(executable_id)
                self._forget.append(executable_id)

    def flush(self) -> None:
        """Sends what is to be forgotten if no call has."""
        with self._lock:
            if self._forget and not self.ended:
                command = colocated_pb2.SidecarCommand()
                self._take_forgotten(command)
                self._send(command)

    def kill(self, why: str) -> None:
        """Ends it now; calls under way fail with `why`."""
        self._why = self._why or why
        self._killed = True
        self._process.kill()

    def _take_forgotten(self, command: Any) -> None:
        command.forget.extend(self._forget)
        self._forget.clear()

    def _send(self, command: Any) -> None:
        with suppress(OSError):  # it is gone, and whoever reads from it says so
            write_frame(self._channel, command.SerializeToString())

    def _read(self) -> None:
        reader = FrameReader(self._channel)
        try:
            while (payload := reader.read()) is not None:
                report = colocated_pb2.SidecarReport.FromString(payload)
                self._started.set()
                if not report.call_id:
                    if report.printed:
                        self._printed(report.printed)
                    continue
                with self._lock:
                    answer = self._calls.pop(report.call_id, None)
                if answer is not None:
                    answer.settle(report.results, report.failure if report.HasField("failure") else None)
        except BrokenPipeError:
            os._exit(0)  # what it printed had nowhere to go: the daemon is gone
        except OSError as error:
            self._why = self._why or f"its channel broke ({error.strerror})"
        self._end()

    def _end(self) -> None:
        try:
            code = self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._started.set()
        with self._lock:
            self.ended = True
            self._why = self._why or (f"it was killed by signal {-code}" if code < 0 else f"it ended with exit code {code}")
            calls, self._calls = list(self._calls.values()), {}
        for answer in calls:
            answer.settle((), self._gone())
        self._channel.close()

    def _gone(self) -> FailureMessage:
        text = f"the process that ran this client's colocated Python on this host is gone: {self._why}; what it held is lost"
        return make_failure(Reason.USER_ERROR, text, sidecar=self._what)
