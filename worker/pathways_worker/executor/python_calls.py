"""Calls of colocated Python: arguments go to the session's sidecar, results come back into the store, and no launch waits.

A call has been launched when it is in line for its thread; its results are pending until they are there, which is told one
by one. Calls of one thread of the client run one after the other, those of several threads side by side. One that takes too
long ends with its sidecar, since nothing else ends a thread of Python. Requests for storage say how long they may take, and end
by themselves: only a sidecar that does not say so in time is ended.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from pathways_common.model.colocated import CALL_TIMEOUT_NS, LATE, PRINT_CALLBACK_ID, PYTHON_TIMEOUT_S
from pathways_common.model.failure import Reason
from pathways_common.model.ids import GlobalId, SessionNumber, global_id, session_of
from pathways_proto.v1 import types_pb2

from pathways_worker.executor import runtime
from pathways_worker.executor.callbacks import CallbackChannel
from pathways_worker.executor.colocated import PythonProgram
from pathways_worker.executor.completion import Lane
from pathways_worker.executor.device_memory import DeviceMemory
from pathways_worker.executor.failures import FailureMessage, make_failure, read_failure
from pathways_worker.executor.objects import Objects, Pending, Waiter
from pathways_worker.executor.sidecar_process import Sidecar

# A request for storage that its sidecar does not end in time is late so long after that.
STORAGE_GRACE_S = 0.5


@dataclass(slots=True)
class _Call:
    executable_id: int
    program: PythonProgram
    arguments: list[runtime.Array]
    results: list[tuple[int, Pending]]
    sidecar: Sidecar
    deadline_s: float


class PythonCalls:
    """`landed(transfer_id)` and `failed(transfer_id, failure)` tell of results; `host` is how people know this host."""

    def __init__(
        self,
        machine: runtime.Runtime,
        objects: Objects,
        callbacks: CallbackChannel,
        landed: Callable[[int], None],
        failed: Callable[[int, FailureMessage], None],
        host: str = "",
        memory: DeviceMemory | None = None,
        timeout_ns: int = 0,
    ) -> None:
        self._machine = machine
        self._objects = objects
        self._callbacks = callbacks
        self._landed = landed
        self._failed = failed
        self._host = host or "this host"
        self._memory = memory
        self._timeout_s = timeout_ns / 1e9 or float(os.environ.get(PYTHON_TIMEOUT_S) or CALL_TIMEOUT_NS / 1e9)
        self._sidecars: dict[int, Sidecar] = {}
        self._lines: dict[tuple[int, int], deque[_Call]] = {}
        self._lock = threading.Lock()
        self._forgetting = Lane("sidecars")

    # ---- on the dispatcher's thread --------------------------------------------------------------------------------

    def begin(self, prepare: Any, program: PythonProgram) -> None:
        """Puts a call in line. Never raises for what the program or its arguments are."""
        results = []
        landings = list(prepare.landings) or [0] * program.result_count
        for index, landing in enumerate(landings[: program.result_count]):
            identifier = prepare.first_result_id + index
            pending = self._objects.begin(identifier, len(program.places), self._teller(landing))
            results.append((identifier, pending))
        failure = self._room(results, program)
        arguments = []
        for identifier in prepare.arguments:
            array = self._objects.arrays.get(identifier)
            if array is None:
                failure = failure or self._objects.failure(identifier) or _late(identifier)
            else:
                arguments.append(array)
        if failure is not None:
            self._give_up(results, failure)
            return
        for array in arguments:
            self._objects.pin(array)
        session = session_of(GlobalId(prepare.executable_id))
        deadline_s = time.monotonic() + self._limit_s(program)
        call = _Call(prepare.executable_id, program, arguments, results, self._sidecar(session), deadline_s)
        with self._lock:
            line = self._lines.get((session, prepare.stream))
            if line is not None:
                line.append(call)
                return
            self._lines[session, prepare.stream] = deque([call])
        name = f"python of session {session}"
        threading.Thread(target=self._serve, args=((session, prepare.stream),), name=name, daemon=True).start()

    def unloaded(self, executable_ids: Iterable[int]) -> None:
        """These functions will not be called again."""
        for identifier in executable_ids:
            sidecar = self._sidecars.get(session_of(GlobalId(identifier)))
            if sidecar is not None:
                sidecar.forget(identifier)
                self._forgetting.put(sidecar.flush)

    def end_session(self, session: int) -> None:
        """The client is gone, and its Python with it."""
        sidecar = self._sidecars.pop(session, None)
        if sidecar is not None:
            sidecar.kill("its session is over")

    def _limit_s(self, program: PythonProgram) -> float:
        """How long a call may take, its wait in line included."""
        return CALL_TIMEOUT_NS / 1e9 if _is_storage(program) else self._timeout_s

    def _sidecar(self, session: int) -> Sidecar:
        sidecar = self._sidecars.get(session)
        if sidecar is None or sidecar.doomed:
            count = len(self._machine.local_devices)
            sidecar = self._sidecars[session] = Sidecar(f"of session {session}", count, partial(self._print, session))
        return sidecar

    def _room(self, results: Sequence[tuple[int, Pending]], program: PythonProgram) -> FailureMessage | None:
        if self._memory is None:
            return None
        for (identifier, _), size_bytes in zip(results, program.result_bytes, strict=False):
            failure = self._memory.admit(identifier, [(place, size_bytes) for place in program.places])
            if failure is not None:
                return failure
        return None

    def _teller(self, landing: int) -> Waiter:
        def tell(array: runtime.Array | None, failure: FailureMessage | None) -> None:
            if landing:
                if array is not None:
                    self._landed(landing)
                else:
                    self._failed(landing, failure)

        return tell

    # ---- on a thread per thread of the client ----------------------------------------------------------------------

    def _serve(self, key: tuple[int, int]) -> None:
        line = self._lines[key]
        while True:
            try:
                self._run(line[0])
            except Exception as error:  # which nobody foresaw: it ends one call, and those behind it go on
                text = f"colocated Python {line[0].program.name} could not be called on host {self._host}: {error}"
                self._give_up(line[0].results, make_failure(Reason.INTERNAL, text))
            with self._lock:
                line.popleft()
                if not line:
                    del self._lines[key]
                    return

    def _run(self, call: _Call) -> None:
        arguments, failure = self._read(call)
        if failure is not None:
            self._give_up(call.results, failure)
            return
        sidecar, left_s, allowed_s = call.sidecar, call.deadline_s - time.monotonic(), self._limit_s(call.program)
        if left_s <= 0:  # nothing is wrong with the process, which holds what others need
            text = (
                f"colocated Python {call.program.name} was not begun within {allowed_s:g} s on host {self._host}: the calls"
                " before it in its thread, or its arguments, took as long; wait for results of some before calling more"
            )
            self._give_up(call.results, _timed_out(call.program.name, text, allowed_s))
            return
        if _is_storage(call.program):  # whose time begins when there is a process
            sidecar.await_start(left_s)
            allowed_s = min(allowed_s, call.program.message.storage.timeout_ns / 1e9)
            left_s = min(call.deadline_s - time.monotonic(), allowed_s + STORAGE_GRACE_S)
        answer = sidecar.call(call.executable_id, call.program.message, arguments, call.program.places)
        if not answer.wait(left_s):
            text = (
                f"colocated Python {call.program.name} did not return within {allowed_s:g} s on host {self._host};"
                " the process that ran this client's Python there was ended, and what it held is lost"
            )
            # First, so that whoever hears of it and calls again gets another one.
            sidecar.kill(f"{call.program.name} did not return in time")
            self._give_up(call.results, _timed_out(call.program.name, text, allowed_s))
        elif answer.failure is not None:
            answer.failure.message = answer.failure.message.replace("this host", f"host {self._host}")
            self._give_up(call.results, answer.failure)
        else:
            self._place(call, answer.results)

    def _read(self, call: _Call) -> tuple[list[list[bytes]], FailureMessage | None]:
        """The bytes of all arguments, as soon as they are computed."""
        found: list[list[bytes]] = []
        failure = None
        for array in call.arguments:
            try:
                shards = [runtime.local_shard(array, index) for index in range(runtime.shard_count(array))]
                for shard in shards:
                    shard.block_until_ready()
                found.append([runtime.host_copy(shard).tobytes() for shard in shards])
            except Exception as error:
                failure = failure or read_failure(array, error)
        for array in call.arguments:
            self._objects.unpin(array)
        call.arguments = []
        return found, failure

    def _place(self, call: _Call, results: Sequence[Any]) -> None:
        program = call.program
        counts = [len(result.shards) for result in results]
        if counts != [len(program.devices)] * len(program.outputs):
            text = (
                f"colocated Python {program.name} gave {counts} shards of its results on host {self._host}, promised were"
                f" {len(program.devices)} of each of {len(program.outputs)}"
            )
            self._give_up(call.results, make_failure(Reason.USER_ERROR, text))
            return
        if not program.outputs:
            for identifier, pending in call.results:
                for index, device in enumerate(program.devices):
                    nothing = np.zeros((0,), np.bool_)
                    self._objects.fill(identifier, pending, index, partial(self._machine.place, [nothing], [device], ""))
            return
        for (identifier, pending), (dtype, shape, kind), result in zip(call.results, program.outputs, results, strict=True):
            for index, (device, data) in enumerate(zip(program.devices, result.shards, strict=True)):

                def make(
                    data: bytes = data, dtype: Any = dtype, shape: Any = shape, device: Any = device, kind: str = kind
                ) -> runtime.Array:
                    return self._machine.place([np.frombuffer(data, dtype).reshape(shape)], [device], kind)

                self._objects.fill(identifier, pending, index, make)

    def _give_up(self, results: Sequence[tuple[int, Pending]], failure: FailureMessage) -> None:
        for identifier, _ in results:
            self._objects.give_up(identifier, failure)

    def _print(self, session: int, text: str) -> None:
        """Shown by the client, with the name of the host. Nobody is told if there is no client to show it."""
        line = f"[{self._host}] {text}".encode()
        operand = types_pb2.CallbackArray(dtype=6, shape=[len(line)], data=line)
        self._callbacks.call(global_id(SessionNumber(session), 1), PRINT_CALLBACK_ID, [operand])


def _is_storage(program: PythonProgram) -> bool:
    """Whether it says itself how long it may take once it has begun."""
    return program.message is not None and bool(program.message.HasField("storage"))


def _timed_out(name: str, text: str, allowed_s: float) -> FailureMessage:
    return make_failure(Reason.TIMED_OUT, text, timeout_s=f"{allowed_s:g}", **{LATE: name})


def _late(identifier: int) -> FailureMessage:
    return make_failure(Reason.INTERNAL, f"the bytes of buffer {identifier:#x} did not reach this host in time")
